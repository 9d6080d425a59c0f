"""Harnesses as users use them: functions and transformations, event and processing time, state, errors."""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flinkray import (
    CheckpointedFunction,
    CoMapFunction,
    Count,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    ListStateDescriptor,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    Row,
    RuntimeContext,
    StateTtlConfig,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flinkray.errors import CheckpointError, InvalidProgramError, TypeMismatchError, UserFunctionError
from flinkray.testing import (
    Active,
    Idle,
    KeyedHarness,
    KeyedTwoInputHarness,
    ManualClock,
    OneInputHarness,
    TwoInputHarness,
    Watermark,
)
from flinkray.types.records import MAX_TIMESTAMP

LATE = OutputTag("late")
END = Watermark(MAX_TIMESTAMP)


class Double(MapFunction):
    def map(self, value: Any) -> Any:
        return value * 2


class Words(FlatMapFunction):
    def flat_map(self, value: str) -> Iterator[str]:
        yield from value.split()


class Even(FilterFunction):
    def filter(self, value: int) -> bool:
        return value % 2 == 0


class Larger(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)


class Timeout(KeyedProcessFunction):
    """Counts per key; ten event-time milliseconds after a row it tells the count so far, or in processing time."""

    def __init__(self, uses_processing_time: bool = False, ttl: StateTtlConfig | None = None) -> None:
        self.uses_processing_time = uses_processing_time
        self.ttl = ttl
        self.is_closed = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", pa.int64(), ttl=self.ttl))

    def close(self) -> None:
        self.is_closed = True

    def process_element(self, value: Any, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        timers = ctx.timer_service()
        if self.uses_processing_time:
            timers.register_processing_time_timer(timers.current_processing_time() + 10)
        else:
            timers.register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, int | None]]:
        yield ctx.get_current_key(), self.count.value()


# -- one input


def test_results_of_a_function_come_in_order_with_their_event_time() -> None:
    with OneInputHarness(Words()) as harness:
        harness.process("to be", timestamp=5)
        harness.process("or not")
        assert harness.results() == ["to", "be", "or", "not"]
        assert harness.results_with_timestamps() == [("to", 5), ("be", 5), ("or", None), ("not", None)]


@pytest.mark.parametrize(("function", "expected"), [(Double(), [2, 4, 6]), (Even(), [2])])
def test_a_function_is_used_as_what_its_class_says(function: Any, expected: list[int]) -> None:
    with OneInputHarness(function) as harness:
        harness.process_batch([1, 2, 3])
        assert harness.results() == expected


def test_a_plain_callable_has_to_be_applied_by_the_test() -> None:
    with pytest.raises(InvalidProgramError, match=r"say how it is applied, as in OneInputHarness\.of"):
        OneInputHarness(lambda value: value)
    with OneInputHarness.of(
        lambda stream: stream.map(lambda value: value + 1).filter(lambda value: value > 2)
    ) as harness:
        harness.process_batch([1, 2])
        assert harness.results() == [3]


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"a": [1, 2]}),
        pa.record_batch({"a": [1, 2]}),
        pd.DataFrame({"a": [1, 2]}, index=[3, 7]),
        [{"a": 1}, {"a": 2}],
        [Row(a=1), Row(a=2)],
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_a_batch_is_a_list_or_a_table_or_a_data_frame(rows: Any) -> None:
    with OneInputHarness.of(lambda stream: stream.map(lambda row: row.a * 2)) as harness:
        harness.process_batch(rows, timestamps=[7, None])
        assert harness.results_with_timestamps() == [(2, 7), (4, None)]


def test_an_empty_batch_is_nothing() -> None:
    with OneInputHarness(Double()) as harness:
        harness.process_batch([])
        harness.process_batch(pa.table({"a": pa.array([], pa.int64())}))
        assert harness.output() == []


def test_watermarks_and_idleness_stand_between_the_results() -> None:
    with OneInputHarness(Double()) as harness:
        harness.process(1)
        harness.watermark(5)
        harness.watermark(4)
        harness.idle()
        harness.active()
        harness.process(2)
        harness.end_input()
        assert harness.output() == [2, Watermark(5), Idle, Active, 4, END]
        assert harness.watermark_out() == MAX_TIMESTAMP
        harness.clear_output()
        assert (harness.output(), harness.watermark_out()) == ([], None)


def test_side_outputs_are_kept_whether_anybody_reads_them_or_not() -> None:
    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            yield (LATE, value) if value < 0 else value

    def build(stream: DataStream) -> DataStream:
        return stream.process(Split()).map(lambda value: value * 10)

    with OneInputHarness.of(build) as harness:
        harness.process_batch([1, -1, 2])
        assert (harness.results(), harness.side_output(LATE)) == ([10, 20], [-1])
    with OneInputHarness.of(lambda stream: stream.process(Split()).get_side_output(LATE)) as harness:
        harness.process_batch([1, -1, 2])
        assert harness.results() == [-1]


def test_the_type_of_the_values_can_be_declared() -> None:
    with (
        OneInputHarness(Double(), type_info=pa.int64()) as harness,
        pytest.raises(TypeMismatchError, match="type_info"),
    ):
        harness.process("text")


def test_a_union_waits_for_the_watermark_of_every_branch() -> None:
    def build(stream: DataStream) -> DataStream:
        own_time = WatermarkStrategy.for_monotonous_timestamps()
        return stream.union(stream.assign_timestamps_and_watermarks(own_time))

    with OneInputHarness.of(build) as harness:
        harness.process(1, timestamp=10)
        harness.watermark(5)
        assert harness.output() == [1, 1]
        harness.advance_time(200)
        assert harness.output() == [1, 1, Watermark(5)]


def test_only_the_harness_feeds_the_transformation() -> None:
    with pytest.raises(InvalidProgramError, match="drives its own inputs only"):
        OneInputHarness.of(lambda stream: stream.union(stream._environment.from_collection([1])))
    with pytest.raises(InvalidProgramError, match="gives a DataStream"):
        OneInputHarness.of(lambda stream: stream.print())  # type: ignore[arg-type,return-value]


def test_the_function_is_opened_and_closed_and_not_a_copy() -> None:
    function = Timeout()
    with KeyedHarness(function, key=lambda value: value) as harness:
        harness.process("a", 1)
        assert function.count is not None
        assert not function.is_closed
    assert function.is_closed


# -- keys, timers, processing time


@pytest.mark.parametrize("key", ["user", ("user", "page"), lambda row: row.user])
def test_event_time_timers_fire_per_key_at_the_watermark(key: Any) -> None:
    with KeyedHarness(Timeout(), key=key) as harness:
        for user, at in (("ann", 1), ("bob", 2), ("ann", 3)):
            harness.process({"user": user, "page": "/"}, timestamp=at)
        assert (harness.num_keyed_state_entries(), harness.num_event_time_timers()) == (2, 3)
        assert harness.num_processing_time_timers() == 0
        harness.watermark(12)
        counts = [(at, count) for (_, count), at in harness.results_with_timestamps()]
        assert counts == [(11, 2), (12, 1)]
        assert harness.num_event_time_timers() == 1
        assert harness.output()[-1] == Watermark(12)


def test_processing_time_timers_fire_while_time_is_advanced() -> None:
    clock = ManualClock(now_ms=1_000)
    with KeyedHarness(Timeout(uses_processing_time=True), key=lambda value: value, clock=clock) as harness:
        harness.process("a")
        harness.advance_time(9)
        assert (harness.results(), harness.num_processing_time_timers()) == ([], 1)
        harness.advance_time(timedelta(milliseconds=1))
        assert (harness.results(), harness.num_processing_time_timers()) == ([("a", 1)], 0)
        harness.advance_time("1 s")
    assert clock.now_ms() == 2_010


def test_no_timer_fires_behind_the_end() -> None:
    with KeyedHarness(Timeout(uses_processing_time=True), key=lambda value: value) as harness:
        harness.process("a")
        harness.end_input()
        harness.advance_time(1_000)
        assert harness.output() == [END]


def test_a_hundred_thousand_rows_with_timers_per_row() -> None:
    with KeyedHarness(Timeout(), key=lambda value: value % 1_000) as harness:
        for start in range(0, 100_000, 5_000):
            harness.process_batch(range(start, start + 5_000), range(start, start + 5_000))
            harness.watermark(start)
        harness.end_input()
        assert len(harness.results()) == 100_000
        assert harness.num_keyed_state_entries() == 1_000


# -- windows


def per_ten(stream: KeyedStream) -> DataStream:
    windows = stream.window(TumblingEventTimeWindows.of(10)).side_output_late_data(LATE)
    return windows.aggregate(rows=Count())


def test_windows_fire_and_late_rows_go_to_their_output() -> None:
    with KeyedHarness.of(per_ten, key="user") as harness:
        harness.process_batch([{"user": "ann"}] * 3, timestamps=[1, 9, 11])
        harness.watermark(9)
        assert harness.results_with_timestamps() == [(Row(user="ann", window_start=0, window_end=10, rows=2), 9)]
        harness.process({"user": "ann"}, timestamp=3)
        assert harness.side_output(LATE) == [Row(user="ann")]


def test_processing_time_windows_fire_while_time_is_advanced() -> None:
    def build(stream: KeyedStream) -> DataStream:
        return stream.window(TumblingProcessingTimeWindows.of(10)).reduce(lambda one, two: one + two)

    with KeyedHarness.of(build, key=lambda value: value % 2) as harness:
        harness.process_batch([1, 3, 2])
        harness.advance_time(10)
        assert sorted(harness.results()) == [2, 4]


# -- snapshots


def restored_from(snapshot: bytes, **settings: Any) -> KeyedHarness:
    return KeyedHarness(Timeout(**settings), key=lambda value: value, restore_from=snapshot)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_and_timers_survive_a_snapshot_whatever_backend_goes_on(backend: str) -> None:
    options = {"state.backend.type": backend}
    with KeyedHarness(Timeout(), key=lambda value: value, options=options) as harness:
        harness.process("a", 1)
        snapshot = harness.snapshot()
        harness.process("a", 2)
    with restored_from(snapshot) as harness:
        assert (harness.num_keyed_state_entries(), harness.num_event_time_timers()) == (1, 1)
        harness.process("a", 3)
        harness.watermark(11)
        assert harness.results() == [("a", 2)]


def test_processing_time_timers_of_a_snapshot_fire_where_the_clock_goes_on() -> None:
    with KeyedHarness(Timeout(True), key=lambda value: value, clock=ManualClock(100)) as harness:
        harness.process("a")
        snapshot = harness.snapshot()
    function = Timeout(True)
    with KeyedHarness(function, key=lambda value: value, clock=ManualClock(500), restore_from=snapshot) as harness:
        harness.advance_time(0)
        assert harness.results() == [("a", 1)]


def test_time_to_live_goes_on_across_a_snapshot() -> None:
    ttl = StateTtlConfig.new_builder(timedelta(seconds=1)).build()

    def harness_at(now_ms: int, snapshot: bytes | None) -> KeyedHarness:
        settings: Any = {} if snapshot is None else {"restore_from": snapshot}
        return KeyedHarness(Timeout(ttl=ttl), key=lambda value: value, clock=ManualClock(now_ms), **settings)

    with harness_at(0, None) as harness:
        harness.process("a", 1)
        snapshot = harness.snapshot()
    for now_ms, expected in ((999, 1), (1_000, None)):
        with harness_at(now_ms, snapshot) as harness:
            assert harness.num_keyed_state_entries() == (1 if expected else 0)
            harness.watermark(11)
            assert harness.results() == [("a", expected)]


def test_open_windows_survive_a_snapshot() -> None:
    with KeyedHarness.of(per_ten, key="user") as harness:
        harness.process({"user": "ann"}, timestamp=1)
        assert harness.num_keyed_state_entries() > 0
        snapshot = harness.snapshot()
    with KeyedHarness.of(per_ten, key="user", restore_from=snapshot) as harness:
        harness.process({"user": "ann"}, timestamp=2)
        harness.end_input()
        assert [row.rows for row in harness.results()] == [2]


class Buffer(MapFunction, CheckpointedFunction):
    """Gives every value together with those before it."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_list_state(ListStateDescriptor("seen", pa.int64()))
        self.seen = list(self.state.get())

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.seen)

    def map(self, value: int) -> list[int]:
        self.seen.append(value)
        return list(self.seen)


def test_operator_state_of_functions_survives_a_snapshot() -> None:
    with OneInputHarness(Buffer()) as harness:
        harness.process(1)
        snapshot = harness.snapshot()
    with OneInputHarness(Buffer(), restore_from=snapshot) as harness:
        harness.process(2)
        assert harness.results() == [[1, 2]]


def test_a_snapshot_of_another_transformation_is_an_error_and_a_uid_finds_its_operator() -> None:
    def build(is_longer: bool) -> Any:
        def built(stream: DataStream) -> DataStream:
            before = stream.map(Double()).rebalance() if is_longer else stream
            return before.key_by(lambda value: value).process(Timeout()).uid("timeout")

        return built

    with KeyedHarness(Timeout(), key=lambda value: value) as harness:
        harness.process("a", 1)
        snapshot = harness.snapshot()
    with pytest.raises(CheckpointError, match=r"state of 1 operator\(s\) that this harness has not"):
        OneInputHarness.of(build(False), restore_from=snapshot)
    with OneInputHarness.of(build(False)) as harness:
        harness.process("aa", 1)
        snapshot = harness.snapshot()
    with OneInputHarness.of(build(True), restore_from=snapshot) as harness:
        harness.process("a", 2)
        harness.watermark(11)
        assert harness.results() == [("aa", 2)]


@pytest.mark.parametrize("seed", range(10))
def test_a_harness_that_goes_on_from_a_snapshot_gives_what_one_without_it_gives(seed: int) -> None:
    chance = random.Random(seed)
    actions = [
        ("row", chance.choice("abc"), index + chance.randrange(5)) if chance.random() < 0.7 else ("mark", "", index)
        for index in range(60)
    ]

    def act(harness: KeyedHarness, action: tuple[str, str, int]) -> None:
        if action[0] == "row":
            harness.process(action[1], action[2])
        else:
            harness.watermark(action[2])

    with KeyedHarness(Timeout(), key=lambda value: value) as whole:
        for action in actions:
            act(whole, action)
        expected = whole.results_with_timestamps()
    found: list[Any] = []
    snapshot = None
    for start in range(0, 60, 12):
        settings: Any = {} if snapshot is None else {"restore_from": snapshot}
        with KeyedHarness(Timeout(), key=lambda value: value, **settings) as harness:
            for action in actions[start : start + 12]:
                act(harness, action)
            snapshot = harness.snapshot()
            found += harness.results_with_timestamps()

    def by_time_and_key(results: list[Any]) -> list[Any]:
        """Timers of several keys for the same time fire in no particular order."""
        return sorted(results, key=lambda result: (result[1], result[0][0]))

    assert by_time_and_key(found) == by_time_and_key(expected)


# -- two inputs


class Merge(CoMapFunction):
    def map1(self, value: int) -> str:
        return f"number {value}"

    def map2(self, value: str) -> str:
        return f"text {value}"


def test_two_inputs_have_types_and_watermarks_of_their_own() -> None:
    with TwoInputHarness(Merge(), type_info=(pa.int64(), pa.string())) as harness:
        harness.first.process(1)
        harness.second.process("a")
        harness.first.watermark(5)
        harness.second.watermark(3)
        harness.second.idle()
        assert harness.output() == ["number 1", "text a", Watermark(3), Watermark(5)]
        harness.second.active()
        harness.watermark(9)
        harness.first.end_input()
        harness.second.end_input()
        assert harness.output()[-2:] == [Watermark(9), END]


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", pa.string()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[str]:
        return self._match(value.name)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[str]:
        return self._match(value.name)

    def _match(self, name: str) -> Iterator[str]:
        waiting = self.waiting.value()
        if waiting is None:
            self.waiting.update(name)
        else:
            self.waiting.clear()
            yield f"{waiting}-{name}"


def test_two_keyed_inputs_share_state_that_survives_a_snapshot() -> None:
    with KeyedTwoInputHarness(Match(), key1="id", key2="ref") as harness:
        harness.first.process({"id": 1, "name": "order"})
        snapshot = harness.snapshot()
    with KeyedTwoInputHarness(Match(), key1="id", key2="ref", restore_from=snapshot) as harness:
        harness.second.process({"ref": 2, "name": "other"})
        harness.second.process({"ref": 1, "name": "payment"})
        assert harness.results() == ["order-payment"]
        assert harness.num_keyed_state_entries() == 1


def test_a_join_of_two_streams_is_a_transformation_too() -> None:
    def build(one: DataStream, two: DataStream) -> DataStream:
        joined = one.join(two).where("id").equal_to("id").window(TumblingEventTimeWindows.of(10))
        return joined.apply(lambda left, right: left.a + right.b)

    with TwoInputHarness.of(build) as harness:
        harness.first.process({"id": 1, "a": 10}, timestamp=1)
        harness.second.process({"id": 1, "b": 5}, timestamp=9)
        harness.end_input()
        assert harness.results() == [15]


# -- errors


class Fails(MapFunction):
    def __init__(self, where: str) -> None:
        self.where = where

    def open(self, runtime_context: RuntimeContext) -> None:
        if self.where == "open":
            raise KeyError("no such model")

    def map(self, value: int) -> float:
        return 1 / value


def test_an_error_comes_at_the_row_with_the_users_line_and_cause() -> None:
    with OneInputHarness(Fails("map")) as harness:
        harness.process(1)
        with pytest.raises(UserFunctionError, match="return 1 / value") as caught:
            harness.process(0)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert "the value was 0" in str(caught.value)
        assert traceback.extract_tb(caught.value.__cause__.__traceback__)[-1].name == "map"
        assert harness.results() == [1.0]


def test_an_error_of_open_comes_from_the_constructor() -> None:
    with pytest.raises(UserFunctionError, match="no such model"):
        OneInputHarness(Fails("open"))


def test_a_timer_that_fails_shows_the_users_line() -> None:
    class FailsLater(Timeout):
        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            raise ValueError(f"at {timestamp}")
            yield

    with KeyedHarness(FailsLater(), key=lambda value: value) as harness:
        harness.process("a", 1)
        with pytest.raises(UserFunctionError, match='raise ValueError\\(f"at'):
            harness.watermark(11)


def test_an_argument_that_no_harness_takes_is_refused() -> None:
    unknown: dict[str, Any] = {"option": {"parallelism.default": 1}}
    for harness in (OneInputHarness, TwoInputHarness):
        with pytest.raises(TypeError, match=r"no argument 'option'; did you mean 'options'\?.*takes type_info"):
            harness.of(lambda *streams: streams[0], **unknown)
