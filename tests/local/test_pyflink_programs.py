"""What PyFlink's programs may do and flinkray's own do not: whole jobs of `flinkray.pyflink`."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from flinkray import Count, InvalidProgramError, JobExecutionError, col
from flinkray.pyflink.common import Configuration, Row, TimestampAssigner, Types, WatermarkStrategy
from flinkray.pyflink.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    MapFunction,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeWindow,
    WindowAssigner,
)
from flinkray.pyflink.datastream.state import ValueStateDescriptor
from flinkray.pyflink.datastream.window import EventTimeTrigger, TimeWindowSerializer
from flinkray.testing import KeyedHarness, OneInputHarness
from tests.support.whole_jobs import ONE_ROW_BATCHES


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"}))
    return environment.set_parallelism(2)


def collected(stream: Any) -> list[Any]:
    with stream.execute_and_collect() as rows:
        return list(rows)


# -- older versions


def test_programs_of_older_versions_read_the_lines_of_files(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes("ä\nb\n".encode("latin-1"))
    lines = env.read_text_file(str(tmp_path / "lines"), "ISO-8859-1")
    assert lines.get_type() == Types.STRING()
    assert collected(lines) == ["ä", "b"]


# -- keys


class Color(enum.Enum):
    RED = 1


KEYS = [1, "a", None, Color.RED, frozenset({"x", "y"}), (1, "a"), (1, 2, 3), 2**70, 2.5, Row(a=1)]


class CountsPerKey(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


@pytest.mark.parametrize("backend", [HashMapStateBackend(), EmbeddedRocksDBStateBackend()], ids=["heap", "rocksdb"])
def test_any_hashable_object_is_a_key(env: StreamExecutionEnvironment, backend: Any) -> None:
    env.set_state_backend(backend)
    found = collected(env.from_collection(KEYS * 2).key_by(lambda value: value).process(CountsPerKey()))
    assert sorted(found, key=repr) == sorted([(key, count) for key in KEYS for count in (1, 2)], key=repr)


@pytest.mark.parametrize("mode", RuntimeExecutionMode)
def test_keys_may_change_their_type_from_batch_to_batch(
    env: StreamExecutionEnvironment, mode: RuntimeExecutionMode
) -> None:
    for option, value in ONE_ROW_BATCHES.items():
        env.configure({option: value})
    env.set_runtime_mode(mode)
    pairs = env.from_collection([(key, 1) for key in KEYS * 2]).rebalance()
    found = collected(pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])))
    for key in KEYS:
        assert (key, 2) in found


PEOPLE = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.LONG()])


@pytest.mark.parametrize(
    "aggregated",
    [lambda keyed: keyed.aggregate(rows=Count()), lambda keyed: keyed.count_window(1).aggregate(rows=Count())],
    ids=["running", "in windows"],
)
def test_aggregates_of_flinkray_have_columns_of_the_types_that_keys_have(env, aggregated):
    stream = env.from_collection([Row("x", 1), Row("y", 2)], PEOPLE)

    by_name = aggregated(stream.key_by(lambda row: row.name))
    by_both = aggregated(stream.key_by(lambda row: (row.name, row.n)))

    assert by_name.where(col("key") == "x").select("key", "rows").to_arrow().to_pylist() == [{"key": "x", "rows": 1}]
    both = by_both.select("key_0", "key_1", "rows").to_arrow().to_pylist()
    assert sorted(both, key=str) == [
        {"key_0": "x", "key_1": 1, "rows": 1},
        {"key_0": "y", "key_1": 2, "rows": 1},
    ]


# -- functions


class SumsAndCounts(ReduceFunction):
    def open(self, runtime_context: Any) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], value1[1] + value2[1], self.calls.value()


VALUES = [("a", 1, 0), ("b", 5, 0), ("a", 2, 0), ("a", 3, 0), ("b", 1, 0)]


def test_a_reduce_function_has_state_of_the_key(env: StreamExecutionEnvironment) -> None:
    found = collected(env.from_collection(VALUES).key_by(lambda value: value[0]).reduce(SumsAndCounts()))
    assert sorted(found) == [("a", 1, 0), ("a", 3, 1), ("a", 6, 2), ("b", 5, 0), ("b", 6, 1)]


def test_a_reduce_function_has_state_of_the_key_in_batch_mode(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    found = collected(env.from_collection(VALUES).key_by(lambda value: value[0]).reduce(SumsAndCounts()))
    assert sorted(found) == [("a", 6, 2), ("b", 6, 1)]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_state_of_a_reduce_function_is_in_its_snapshots(backend: str) -> None:
    options = {"state.backend.type": backend}
    with KeyedHarness(SumsAndCounts(), lambda value: value[0], options=options) as harness:
        harness.process_batch(VALUES[:3])
        snapshot = harness.snapshot()
    with KeyedHarness(SumsAndCounts(), lambda value: value[0], options=options, restore_from=snapshot) as harness:
        harness.process_batch(VALUES[3:])
        assert harness.results() == [("a", 6, 2), ("b", 6, 1)]


class Shifted(Partitioner):
    def open(self, runtime_context: Any) -> None:
        self.shift = runtime_context.get_number_of_parallel_subtasks() - 1

    def partition(self, key: Any, num_partitions: int) -> int:
        return (key + self.shift) % num_partitions  # type: ignore[no-any-return]


class WithSubtask(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> Any:
        return value, self.subtask


def test_a_partitioner_is_opened_before_its_first_key(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([0, 1, 2]).map(lambda value: value).set_parallelism(2)
    found = collected(stream.partition_custom(Shifted(), lambda value: value).map(WithSubtask()))
    assert sorted(found) == [(0, 1), (1, 0), (2, 1)]


CLOSED: list[str] = []


class Noted(Shifted):
    def close(self) -> None:
        CLOSED.append("partitioner")


def test_a_partitioner_is_closed_once(env: StreamExecutionEnvironment) -> None:
    CLOSED.clear()
    collected(env.from_collection([1]).partition_custom(Noted(), lambda value: value).map(WithSubtask()))
    assert CLOSED == ["partitioner"]


def test_a_harness_opens_a_partitioner_too() -> None:
    def spread(stream: Any) -> Any:
        return stream.partition_custom(Shifted(), lambda value: value).map(lambda value: value + 1)

    with OneInputHarness.of(spread) as harness:
        harness.process(1)
        assert harness.results() == [2]


class FirstTen(WindowAssigner):
    """An assigner as PyFlink has it: the environment is a required argument, and it needs no event time."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
        return [TimeWindow(0, 10)]

    def get_default_trigger(self, env: Any) -> EventTimeTrigger:
        assert env.get_parallelism() == 2
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


@pytest.mark.parametrize("has_trigger", [True, False])
def test_an_assigner_is_asked_for_its_trigger_with_the_environment(
    env: StreamExecutionEnvironment, has_trigger: bool
) -> None:
    windows = env.from_collection([("a", 1), ("a", 2)]).key_by(lambda value: value[0]).window(FirstTen())
    if has_trigger:
        windows = windows.trigger(EventTimeTrigger.create())
    assert collected(windows.reduce(lambda a, b: (a[0], a[1] + b[1]))) == [("a", 3)]


# -- types


NAMED = Types.ROW_NAMED(["n", "any"], [Types.INT(), Types.PICKLED_BYTE_ARRAY()])


def test_a_row_with_a_pickled_field_keeps_its_names(env: StreamExecutionEnvironment) -> None:
    rows = env.from_collection([1, 2]).map(lambda n: Row(n, {n}), NAMED)
    assert rows.get_type() == NAMED
    by_name = rows.key_by(lambda row: row.n).map(lambda row: (row.n, row.any, row))
    assert sorted(collected(by_name), key=repr) == [(1, {1}, Row(n=1, any={1})), (2, {2}, Row(n=2, any={2}))]
    assert max(collected(rows.key_by(lambda _: 0).sum("n").map(lambda row: row.n))) == 3


def test_pickled_values_are_within_tuples_and_lists_too(env: StreamExecutionEnvironment) -> None:
    anything = Types.PICKLED_BYTE_ARRAY()
    value = (1, {2}, [frozenset({3}), None])
    stream = env.from_collection([value], Types.TUPLE([Types.INT(), anything, Types.LIST(anything)]))
    assert collected(stream.rebalance()) == [value]


def test_event_times_are_cut_to_whole_milliseconds(env: StreamExecutionEnvironment) -> None:
    class At(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return value  # type: ignore[no-any-return]

    class Times(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            yield ctx.timestamp()

    strategy = WatermarkStrategy.for_monotonous_timestamps()
    rows = [-1500.7, -0.5, 3, 1500.7]
    for assigner in (At(), lambda value, _: value):
        timed = strategy.with_timestamp_assigner(assigner)
        stream = env.from_collection(rows).assign_timestamps_and_watermarks(timed)
        assert sorted(collected(stream.process(Times()))) == [-1500, 0, 3, 1500]
        stream = env.from_collection(rows, watermark_strategy=timed)
        assert sorted(collected(stream.process(Times()))) == [-1500, 0, 3, 1500]
    timed = strategy.with_timestamp_assigner(lambda value, _: value)
    with pytest.raises(JobExecutionError, match="must return epoch milliseconds as an int64, not nan"):
        collected(env.from_collection([float("nan")]).assign_timestamps_and_watermarks(timed))
    with pytest.raises(InvalidProgramError, match="a watermark strategy is needed"):
        env.from_collection(rows).assign_timestamps_and_watermarks(None)  # type: ignore[arg-type]
