"""Process functions: results, side outputs, event times, timers, state; on one input and on two."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from actors.keys.hashes import key_groups
from actors.operators.contract.operator import Operator
from actors.operators.functions.co_process import CoProcessOperator, CoRowOperator
from actors.operators.functions.process import ProcessOperator
from actors.operators.registry import create_operator
from actors.protocol.elements import Watermark
from actors.state.keyed.options import StateOptions
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError, TypeMismatchError, UserFunctionError
from flinkray.functions.interfaces import (
    CheckpointedFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OnTimerContext,
    ProcessContext,
    ProcessFunction,
    RuntimeContext,
    TimeDomain,
)
from flinkray.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkray.transformations.operator_factories import CoFlatMapFactory, CoMapFactory, CoProcessFactory, ProcessFactory
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import MIN_TIMESTAMP, OutputTag
from graphs.key_groups import key_group_ranges
from tests.support.operators import FakeContext, OperatorHarness, code, scalar
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from

KEY = ColumnKey(("key",))
LATE = OutputTag("late")


def harness_of(operator: Operator, *keys: Any, **settings: Any) -> OperatorHarness:
    return OperatorHarness(operator, keys=keys or (None,), **settings)


def process(function: Any, key: Any = None, restored: Any = None, **settings: Any) -> OperatorHarness:
    operator = ProcessOperator(code(ProcessFactory(function, settings.pop("output_type", None)), key))
    return harness_of(operator, key, restored=restored, **settings)


# -- results


def test_a_plain_function_yields_results_with_the_event_time_of_its_row() -> None:
    def twice(value: int, ctx: ProcessContext) -> Iterator[tuple[int, int | None]]:
        yield value, ctx.timestamp()
        yield -value, ctx.timestamp()

    harness = process(twice)
    harness.push([1, 2], [10, 20])
    assert harness.output.rows == [(1, 10), (-1, 10), (2, 20), (-2, 20)]
    assert harness.output.timestamps == [10, 10, 20, 20]
    assert len(harness.output.batches) == 1


def test_rows_without_event_time_give_results_without_it() -> None:
    harness = process(lambda value, ctx: [(value, ctx.timestamp())])
    harness.push([1])
    assert harness.output.rows == [(1, None)]
    assert harness.output.batches[0].timestamps is None


def test_yielding_a_tag_and_a_value_goes_to_the_side_output_and_no_other_tuple_does() -> None:
    def pairs(value: int, _ctx: ProcessContext) -> Iterator[Any]:
        yield LATE, value
        yield LATE.name, value

    harness = process(pairs)
    harness.push([1, 2], [5, 6])
    assert harness.output.side("late") == [1, 2]
    assert harness.output.rows == [("late", 1), ("late", 2)]
    (side,) = [element for element in harness.output.elements if isinstance(element, tuple)]
    assert side[1].timestamps.to_pylist() == [5, 6]


def test_the_type_of_a_side_output_is_its_tags() -> None:
    tag = OutputTag("small", pa.int8())

    def tagged(value: int, _ctx: ProcessContext) -> Iterator[Any]:
        yield tag, value

    harness = process(tagged)
    harness.push([1])
    ((_, batch),) = harness.output.elements
    assert batch.data.schema.field(0).type == pa.int8()


def test_a_function_may_return_none_or_a_list_or_one_side_result() -> None:
    answers: list[Any] = [None, [], [1, 2], (LATE, 9)]
    harness = process(lambda value, _ctx: answers[value])
    harness.push([0, 1, 2, 3])
    assert harness.output.rows == [1, 2]
    assert harness.output.side("late") == [9]


@pytest.mark.parametrize("answer", [1, "text", {"a": 1}])
def test_returning_a_value_instead_of_yielding_it_is_an_error_that_says_so(answer: Any) -> None:
    harness = process(lambda _value, _ctx: answer)
    with pytest.raises(TypeMismatchError, match=r"'op' \(subtask 1 of 1\).*must yield"):
        harness.push([1])


def test_results_are_cut_at_the_batch_size_and_keep_their_order() -> None:
    harness = process(lambda value, _ctx: [value] * 3, batch_rows=4)
    harness.push(list(range(6)), list(range(6)))
    assert max(batch.num_rows for batch in harness.output.batches) <= 4
    assert harness.output.rows == [value for value in range(6) for _ in range(3)]
    assert harness.output.timestamps == harness.output.rows


def test_the_declared_type_is_the_type_of_the_results() -> None:
    harness = process(lambda value, _ctx: [value], output_type=scalar(pa.int32()))
    harness.push([1])
    assert harness.output.batches[0].data.schema.field(0).type == pa.int32()


def test_an_error_of_the_users_code_names_operator_subtask_and_value() -> None:
    def fail(value: int, _ctx: ProcessContext) -> Iterator[int]:
        yield 1 // (value - 7)

    with pytest.raises(UserFunctionError, match=r"'op' \(subtask 1 of 1\): ZeroDivisionError.*the value was 7"):
        process(fail).push([6, 7])


def test_ending_the_thread_in_a_timer_is_an_error_of_the_function() -> None:
    class Stopping(Recorder):
        def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any]:
            raise SystemExit("no")

    harness = process(Stopping(), KEY)
    harness.push(rows(("a", 10, None)), [1])
    with pytest.raises(UserFunctionError, match=r"'op' \(subtask 1 of 1\): SystemExit: no.*timer 10 of key 'a'"):
        harness.watermark(20)


def test_functions_are_opened_and_closed_once() -> None:
    class Counted(ProcessFunction):
        calls: tuple[str, ...] = ()

        def open(self, runtime_context: RuntimeContext) -> None:
            self.calls += ("open", runtime_context.get_task_name_with_subtasks())

        def process_element(self, value: Any, ctx: ProcessContext) -> None:
            self.calls += ("row",)

        def close(self) -> None:
            self.calls += ("close",)

    function = Counted()
    with process(function) as harness:
        harness.push([1])
    assert function.calls == ("open", "op (1/1)", "row", "close")


# -- without keys


class Timed(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        ctx.timer_service().register_event_time_timer(1)


def test_a_timer_without_a_key_is_an_error_that_says_to_key() -> None:
    with pytest.raises(InvalidProgramError, match=r"op \(1/1\).*key_by"):
        process(Timed()).push([1])


def test_times_are_readable_without_a_key_but_the_key_is_not() -> None:
    seen = []

    def look(_value: Any, ctx: ProcessContext) -> None:
        seen.append((ctx.timer_service().current_watermark(), ctx.timer_service().current_processing_time()))
        ctx.get_current_key()

    harness = process(look, context=FakeContext())
    harness.context.clock.now = 77
    with pytest.raises(InvalidProgramError, match="no current key"):
        harness.push([1])
    assert seen == [(MIN_TIMESTAMP, 77)]


class ReadsIn(KeyedProcessFunction):
    """Reads its state, or sets a timer, where there is no key."""

    def __init__(self, method: str) -> None:
        self.method = method

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.read("open")

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        self.timers = ctx.timer_service()

    def close(self) -> None:
        self.read("close")
        if self.method == "timer":
            self.timers.register_event_time_timer(1)

    def read(self, method: str) -> None:
        if method == self.method:
            self.count.value()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_keyed_state_read_in_open_or_close_is_an_error_that_names_the_operator(backend: str) -> None:
    message = r"operator 'op' \(subtask 1 of 1\): there is no current key here"
    with pytest.raises(InvalidProgramError, match=message):
        process(ReadsIn("open"), KEY, state_options=StateOptions(backend))
    driver = process(ReadsIn("close"), KEY, state_options=StateOptions(backend))
    with pytest.raises(InvalidProgramError, match=message):
        driver.operator.close()


def test_a_timer_set_in_close_is_an_error_that_names_the_operator() -> None:
    driver = process(ReadsIn("timer"), KEY)
    driver.push(rows(("a", None, None)), [1])
    with pytest.raises(InvalidProgramError, match=r"'op \(1/1\)': there is no current key here, so no timer"):
        driver.operator.close()


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1])
def test_a_timer_for_a_time_beyond_64_bits_is_an_error(timestamp: int) -> None:
    class Far(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: ProcessContext) -> None:
            ctx.timer_service().register_event_time_timer(timestamp)

    driver = process(Far(), KEY)
    with pytest.raises(InvalidProgramError, match=f"fits 64 bits; {timestamp} does not"):
        driver.push(rows(("a", None, None)), [1])


def test_a_keyed_function_on_a_stream_without_keys_is_an_error() -> None:
    with pytest.raises(InvalidProgramError, match=r"Recorder is a function for keyed streams.*key_by"):
        process(Recorder())


# -- keyed


class Recorder(KeyedProcessFunction):
    """Counts per key, sets the timers that rows ask for, and tells all that it sees."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        if value.event is not None:
            ctx.timer_service().register_event_time_timer(value.event)
        if value.processing is not None:
            ctx.timer_service().register_processing_time_timer(value.processing)
        yield f"{ctx.get_current_key()}{self.count.value()}"

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any]:
        domain = "event" if ctx.time_domain() == TimeDomain.EVENT_TIME else "processing"
        yield f"{domain} {timestamp} {ctx.get_current_key()}{self.count.value()} {ctx.timestamp()}"


def rows(*timers: tuple[str, int | None, int | None]) -> dict[str, Any]:
    keys, event, processing = zip(*timers, strict=True)
    return {
        "key": pa.array(keys, pa.string()),
        "event": pa.array(event, pa.int64()),
        "processing": pa.array(processing, pa.int64()),
    }


def test_state_is_per_key_and_rows_of_one_key_keep_their_order() -> None:
    harness = process(Recorder(), KEY)
    harness.push(rows(("a", None, None), ("b", None, None), ("a", None, None), (None, None, None)), [1, 2, 3, 4])
    assert harness.output.rows == ["a1", "b1", "a2", "None1"]


def test_due_event_time_timers_fire_in_order_before_the_watermark_goes_on() -> None:
    harness = process(Recorder(), KEY)
    harness.push(rows(("a", 10, None), ("b", 5, None), ("a", 10, None), ("b", 30, None)), [1, 2, 3, 4])
    harness.output.clear()
    harness.watermark(20)
    assert harness.output.rows == ["event 5 b2 5", "event 10 a2 10"]
    assert harness.output.timestamps == [5, 10]
    assert harness.output.elements[-1] == Watermark(20)


def test_processing_time_timers_fire_by_the_clock_and_their_results_have_no_event_time() -> None:
    harness = process(Recorder(), KEY)
    harness.push(rows(("a", None, 50)), [1])
    harness.output.clear()
    harness.advance(49)
    assert harness.output.rows == []
    harness.advance(1)
    assert harness.output.rows == ["processing 50 a1 50"]
    assert harness.output.batches[0].timestamps is None


def test_no_timer_fires_after_close() -> None:
    with process(Recorder(), KEY) as harness:
        harness.push(rows(("a", None, 50)), [1])
        harness.output.clear()
    harness.advance(100)
    assert harness.output.elements == []


def test_there_is_no_current_key_between_rows() -> None:
    harness = process(Recorder(), KEY)
    harness.push(rows(("a", None, None)), [1])
    function = harness.operator._function  # type: ignore[attr-defined]
    with pytest.raises(InvalidProgramError, match="no current key"):
        function.count.value()


class CountAndFire(KeyedProcessFunction):
    """How often the key came, and that again for each timer; a row's time is that of its timer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1000)
        yield str(value.key), self.count.value()

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        yield f"timer of {ctx.get_current_key()}", self.count.value()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("key", [KEY, ColumnKey(("key", "other"))])
def test_every_nan_is_one_key_and_both_zeros_are_also_after_a_change_of_parallelism(backend: str, key: Any) -> None:
    def batch(*keys: float) -> dict[str, Any]:
        return {"key": list(keys), "other": [-0.0] * len(keys)}

    nan, negative_nan = float("nan"), float("-nan")

    def make() -> Operator:
        return create_operator([code(ProcessFactory(CountAndFire()), key)], ["op"])

    subtasks = Subtasks(make, [key], state_options=StateOptions(backend))
    subtasks.push(batch(nan, 0.0, nan), [1, 2, 3])
    for parallelism in (3, 2):
        subtasks.take()
        subtasks = subtasks.rescaled(parallelism, lambda former: former.push(batch(nan, 0.0), [1, 2]))
        subtasks.push(batch(negative_nan, -0.0, nan), [1, 2, 3])
    counts = {name: count for (name, count), _ in subtasks.take()}
    assert counts == {"nan": 6, "-0.0": 3}
    subtasks.watermark(1000)
    fired = sorted(count for (_, count), _ in subtasks.take())
    assert fired == [3, 6], "each key has one timer"


@pytest.mark.parametrize("key", [lambda row: ((row.key, 1), 2), lambda row: (1, (2, (row.key,)))])
def test_a_nan_within_a_nested_key_is_that_key_each_time(key: Any) -> None:
    nested = FunctionKey(key)
    operator = create_operator([code(ProcessFactory(CountAndFire()), nested)], ["op"])
    harness = OperatorHarness(operator, keys=[nested])
    harness.push({"key": [float("nan"), 1.0, float("-nan")]}, [1, 2, 3])
    harness.push({"key": [float("nan")]}, [4])
    assert [count for _, count in harness.output.rows] == [1, 1, 2, 3]


def test_a_key_function_is_not_called_again() -> None:
    harness = process(lambda _value, ctx: [ctx.get_current_key()], FunctionKey(lambda _value: 1 // 0))
    values = pa.record_batch({"value": [1, 2]})
    harness.operator.process_batch(Batch(values, keys=pa.record_batch({"key": ["x", "y"]})))
    assert harness.output.rows == ["x", "y"]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_restored_operator_has_its_state_and_timers(backend: str) -> None:
    options = StateOptions(backend)
    with process(Recorder(), KEY, state_options=options) as first:
        first.push(rows(("a", 10, 50), ("b", None, None)), [1, 2])
        saved = first.snapshot()
        first.push(rows(("a", 20, None), ("b", 30, None)), [1, 2])
        with process(Recorder(), KEY, restored=restored_from([saved], range(128)), state_options=options) as second:
            second.push(rows(("b", None, None)), [3])
            second.watermark(10)
            second.advance(50)
            assert second.output.rows == ["b2", "event 10 a1 10", "processing 50 a1 50"]


@pytest.mark.parametrize("seed", range(5))
def test_state_and_timers_follow_their_keys_to_other_subtasks(seed: int) -> None:
    """Counts per key and fires all timers at the end: the same as one subtask without a restore."""
    chance = random.Random(seed)
    keys = [f"key {number}" for number in range(40)]
    batches = [[chance.choice(keys) for _ in range(50)] for _ in range(4)]
    subtasks = [process(Recorder(), KEY)]
    for batch, parallelism in zip(batches, (4, 2, 3, 1), strict=True):
        groups = key_groups(pa.record_batch({"key": batch}), 128).tolist()
        for subtask in subtasks:
            owned = subtask.context.key_group_range
            mine = [(key, 1000, 2000) for key, group in zip(batch, groups, strict=True) if group in owned]
            if mine:
                subtask.push(rows(*mine), [0] * len(mine))
        saved = [subtask.snapshot() for subtask in subtasks]
        ranges = key_group_ranges(parallelism, 128)
        subtasks = [
            process(
                Recorder(),
                KEY,
                restored_from(saved, owned, index, parallelism),
                subtask_index=index,
                parallelism=parallelism,
            )
            for index, owned in enumerate(ranges)
        ]
    (last,) = subtasks
    last.watermark(1000)
    last.advance(2000)
    counts = Counter(key for batch in batches for key in batch)
    events = {f"event 1000 {key}{count} 1000" for key, count in counts.items()}
    processing = {f"processing 2000 {key}{count} 2000" for key, count in counts.items()}
    assert len(last.output.rows) == 2 * len(counts)
    assert set(last.output.rows) == events | processing


class Buffering(ProcessFunction, CheckpointedFunction):
    """Keeps every row in a list of its own."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.rows = context.get_list_state(ListStateDescriptor("rows"))
        self.total = context.get_union_list_state(ListStateDescriptor("totals"))
        self.seen = context.get_broadcast_state(MapStateDescriptor("seen"))
        self.buffer = list(self.rows.get())
        self.was_restored = context.is_restored

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        self.buffer.append(value)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.rows.update(self.buffer)
        self.total.update([len(self.buffer)])
        self.seen.put("checkpoint", context.checkpoint_id)


def test_a_function_without_a_key_keeps_lists_and_maps_of_its_own() -> None:
    functions = [Buffering(), Buffering()]
    first = [process(f, subtask_index=index, parallelism=2) for index, f in enumerate(functions)]
    assert not functions[0].was_restored
    first[0].push([1, 2, 3])
    first[1].push([4, 5])
    saved = [harness.snapshot(checkpoint_id=7) for harness in first]
    first[0].push([9])
    again = Buffering()
    process(again, restored=restored_from(saved, range(128), 1, 2), subtask_index=1, parallelism=2)
    assert again.was_restored
    assert (again.buffer, list(again.total.get()), dict(again.seen.items())) == ([4, 5], [3, 2], {"checkpoint": 7})
    alone = Buffering()
    process(alone, restored=restored_from(saved, range(128)))
    assert (sorted(alone.buffer), list(alone.total.get())) == ([1, 2, 3, 4, 5], [3, 2])


def test_what_a_function_raises_at_a_snapshot_names_the_operator() -> None:
    class Failing(Buffering):
        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            raise ValueError("not now")

    with pytest.raises(UserFunctionError, match=r"'op' \(subtask 1 of 1\): ValueError: not now"):
        process(Failing()).snapshot()


def test_a_checkpointed_function_that_nobody_saves_is_an_error() -> None:
    functions = UserFunctions(FakeContext(), [Buffering()])
    with pytest.raises(InvalidProgramError, match=r"'op' \(subtask 1 of 1\): Buffering is a CheckpointedFunction.*use"):
        functions.open(TaskRuntimeContext(FakeContext()))


# -- two inputs


class Both(CoMapFunction):
    def map1(self, value: Any) -> str:
        return f"first {value}"

    def map2(self, value: Any) -> str:
        return f"second {value}"


class Flat(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterable[Any]:
        return [value] * value

    def flat_map2(self, value: Any) -> Iterable[Any]:
        yield LATE, value


class Shared(KeyedCoProcessFunction):
    """The second input reads what the first has left for the key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element1(self, value: Any, ctx: ProcessContext) -> None:
        self.last.update(value.left)
        ctx.timer_service().register_event_time_timer(10)

    def process_element2(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
        yield value.right, self.last.value(), ctx.timestamp()

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any]:
        yield f"timer of {ctx.get_current_key()}", self.last.value(), timestamp


def test_co_map_gives_one_result_per_row_of_either_input() -> None:
    harness = harness_of(CoRowOperator(code(CoMapFactory(Both()), None, None)), None, None)
    harness.push([1], [5], input_index=0)
    harness.push(["x"], [6], input_index=1)
    assert harness.output.rows == ["first 1", "second x"]
    assert harness.output.timestamps == [5, 6]


def test_co_flat_map_gives_any_number() -> None:
    harness = harness_of(CoRowOperator(code(CoFlatMapFactory(Flat()), None, None)), None, None)
    harness.push([2, 0], [5, 6], input_index=0)
    harness.push(["x"], [7], input_index=1)
    assert harness.output.rows == [2, 2]
    assert harness.output.side("late") == ["x"]


def test_both_inputs_of_a_keyed_co_process_share_state_and_timers_per_key() -> None:
    factory = CoProcessFactory(Shared())
    keys = (ColumnKey(("id",)), ColumnKey(("user",)))
    harness = harness_of(CoProcessOperator(code(factory, *keys)), *keys)
    harness.push({"id": [1, 2], "left": ["a", "b"]}, [1, 2], input_index=0)
    harness.push({"user": [2, 3], "right": ["x", "y"]}, [3, 4], input_index=1)
    assert harness.output.rows == [("x", "b", 3), ("y", None, 4)]
    harness.output.clear()
    harness.watermark(20, input_index=0)
    assert harness.output.elements == []  # the second input has not come so far
    harness.watermark(15, input_index=1)
    assert harness.output.rows == [("timer of 1", "a", 10), ("timer of 2", "b", 10)]
    assert harness.output.watermarks == [15]


def test_one_keyed_input_alone_is_an_error() -> None:
    with pytest.raises(InvalidProgramError, match="key_by both"):
        harness_of(CoProcessOperator(code(CoProcessFactory(Shared()), KEY, None)), KEY, None)


def test_a_co_process_function_without_keys_works() -> None:
    class Plain(CoProcessFunction):
        def process_element1(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
            yield value + 1

        def process_element2(self, value: Any, ctx: ProcessContext) -> Iterable[Any]:
            yield value - 1

    harness = harness_of(CoProcessOperator(code(CoProcessFactory(Plain()), None, None)), None, None)
    harness.push([1], input_index=0)
    harness.push([1], input_index=1)
    assert harness.output.rows == [2, 0]


def test_a_result_is_what_it_was_when_it_was_given_also_where_the_function_goes_on_changing_it() -> None:
    kept: list[int] = []

    def grow(value: int, _ctx: ProcessContext) -> Iterator[Any]:
        kept.append(value)
        yield kept
        yield LATE, kept

    harness = process(grow)
    harness.push([1, 2])
    harness.push([3])
    assert harness.output.rows == harness.output.side("late") == [[1], [1, 2], [1, 2, 3]]
