"""Keyed state is found by keys of the types that it has: a program with others is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.operators.registry import create_operator
from flinkray import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Count,
    CountTrigger,
    DataStream,
    EventTimeSessionWindows,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    Sum,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
)
from flinkray.errors import IncompatibleStateError
from flinkray.testing import Harness, OneInputHarness, TwoInputHarness
from flinkray.transformations.operator_factories import ProcessFactory
from flinkray.types.keys import ColumnKey
from tests.support.operators import code
from tests.support.rescaling import Subtasks
from tests.support.state import write_snapshot

MINUTE = TumblingEventTimeWindows.of("1 min")
TYPES = Types.ROW_NAMED(
    ["text", "other_text", "small", "large", "double", "row", "other_row"],
    [
        Types.STRING(),
        Types.STRING(),
        Types.INT(),
        Types.LONG(),
        Types.DOUBLE(),
        Types.ROW_NAMED(["a"], [Types.LONG()]),
        Types.ROW_NAMED(["b"], [Types.LONG()]),
    ],
)
ROW = Row(text="7", other_text="7", small=7, large=7, double=7.0, row=Row(a=7), other_row=Row(b=7))


class Added(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, accumulator_a: int, accumulator_b: int) -> int:
        return accumulator_a + accumulator_b


class Counting(KeyedProcessFunction, KeyedCoProcessFunction):
    """Counts the rows of a key in one kind of state."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def open(self, runtime_context: Any) -> None:
        match self.kind:
            case "value":
                self.state = runtime_context.get_state(ValueStateDescriptor("n"))
            case "list":
                self.state = runtime_context.get_list_state(ListStateDescriptor("n"))
            case "map":
                self.state = runtime_context.get_map_state(MapStateDescriptor("n"))
            case "reducing":
                descriptor = ReducingStateDescriptor("n", function=lambda one, other: one + other)
                self.state = runtime_context.get_reducing_state(descriptor)
            case "aggregating":
                self.state = runtime_context.get_aggregating_state(AggregatingStateDescriptor("n", function=Added()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.count()

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.count()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.count()

    def count(self) -> int:
        match self.kind:
            case "value":
                self.state.update((self.state.value() or 0) + 1)
                return int(self.state.value())
            case "list":
                self.state.add(1)
                return len(list(self.state))
            case "map":
                self.state[len(list(self.state))] = 1
                return len(list(self.state))
            case _:
                self.state.add(1)
                return int(self.state.get())


class Timing(KeyedProcessFunction):
    """Sets a timer with its first row, and keeps nothing else."""

    def __init__(self, is_event_time: bool) -> None:
        self.is_event_time = is_event_time

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        (timers.register_event_time_timer if self.is_event_time else timers.register_processing_time_timer)(100)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield 2


class WithRules(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.counting = Counting("value")
        self.counting.open(runtime_context)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.counting.count()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None: ...


Build = Callable[..., Any]


def counts(kind: str) -> Build:
    return lambda key, stream: stream.key_by(key).process(Counting(kind), Types.LONG())


def windowed(finish: Callable[[Any], Any], assigner: Any = MINUTE) -> Build:
    return lambda key, stream: finish(stream.key_by(key).window(assigner))


def two_values(row: Any) -> tuple[str, int]:
    return row.text, row.large


def merged(one: Any, _other: Any) -> Any:
    return one


ONE_INPUT: dict[str, Build] = {
    **{f"{kind} state": counts(kind) for kind in ("value", "list", "map", "reducing", "aggregating")},
    "event-time timers": lambda key, stream: stream.key_by(key).process(Timing(True), Types.LONG()),
    "processing-time timers": lambda key, stream: stream.key_by(key).process(Timing(False), Types.LONG()),
    "trigger": windowed(lambda windows: windows.trigger(CountTrigger.of(2)).reduce(merged)),
    "aggregates with a trigger": windowed(lambda windows: windows.trigger(CountTrigger.of(2)).aggregate(n=Count())),
    "folded windows": windowed(lambda windows: windows.reduce(merged)),
    "windows of rows": windowed(lambda windows: windows.process(lambda _key, _context, rows: [len(list(rows))])),
    "aggregated windows": windowed(lambda windows: windows.aggregate(n=Count())),
    "sessions": windowed(lambda windows: windows.aggregate(n=Count()), EventTimeSessionWindows.with_gap("1 min")),
    "folded sessions": windowed(lambda windows: windows.reduce(merged), EventTimeSessionWindows.with_gap("1 min")),
    "numbers of rows": lambda key, stream: stream.key_by(key).count_window(2).aggregate(n=Count()),
    "running aggregates": lambda key, stream: stream.key_by(key).aggregate(n=Sum("small")),
    "running column": lambda key, stream: stream.key_by(key).max("small"),
    "running reduce": lambda key, stream: stream.key_by(key).reduce(merged),
}
TWO_INPUTS: dict[str, Build] = {
    "two inputs": lambda key, one, other: (
        one.key_by(key).connect(other.key_by(key)).process(Counting("value"), Types.LONG())
    ),
    "broadcast": lambda key, one, other: (
        one.key_by(key).connect(other.broadcast(MapStateDescriptor("rules"))).process(WithRules(), Types.LONG())
    ),
    "join": lambda key, one, other: one.join(other).where(key).equal_to(key).window(MINUTE).apply(merged),
    "interval join": lambda key, one, other: (
        one.key_by(key).interval_join(other.key_by(key)).between(-9, 9).process(lambda left, _right, _context: [left])
    ),
}
KINDS = ONE_INPUT | TWO_INPUTS
IN_BACKEND = ["trigger", "two inputs", "broadcast", *(kind for kind in KINDS if "state" in kind or "timers" in kind)]


def harness(kind: str, key: Any, backend: str, saved: bytes | None = None) -> Harness:
    inputs = 2 if kind in TWO_INPUTS else 1
    settings: Any = {"type_info": TYPES, "options": {"state.backend.type": backend}}
    if saved is not None:
        settings["restore_from"] = saved
    made: Any = OneInputHarness if inputs == 1 else TwoInputHarness
    opened: Harness = made.of(lambda *streams: KINDS[kind](key, *streams), **settings)
    return opened


def with_row(kind: str, key: Any, backend: str) -> bytes:
    with harness(kind, key, backend) as before:
        before._inputs[0].process(ROW, 50)
        return before.snapshot()


def second_row(restored: Harness, kind: str) -> None:
    restored._inputs[1 if "join" in kind else 0].process(ROW, 51)


each_kind = pytest.mark.parametrize(
    ("kind", "backend"), [*((kind, "hashmap") for kind in KINDS), *((kind, "rocksdb") for kind in IN_BACKEND)]
)


@each_kind
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("text", "large", "keys of type string,.*by type int64"),
        ("small", "text", "keys of type int32,.*by type string"),
        (two_values, "text", "keys of type string, int64,.*by type string"),
        ("row", "other_row", "keys of type struct<a: int64>,.*by type struct<b: int64>"),
    ],
)
def test_keys_of_another_type_are_refused_with_both_types(
    kind: str, backend: str, before: Any, after: Any, says: str
) -> None:
    saved = with_row(kind, before, backend)
    with harness(kind, after, backend, saved) as restored, pytest.raises(IncompatibleStateError, match=says):
        second_row(restored, kind)


@each_kind
@pytest.mark.parametrize(("before", "after"), [("text", "other_text"), ("small", "large"), ("small", "double")])
def test_keys_of_another_name_or_of_a_wider_type_are_found(kind: str, backend: str, before: str, after: str) -> None:
    saved = with_row(kind, before, backend)
    with harness(kind, after, backend, saved) as restored:
        second_row(restored, kind)
        for each in restored._inputs:
            each.watermark(1_000_000)
        restored.advance_time(200)
        results = restored.results()
        again = restored.snapshot()
    assert len(results) == 1, "the row from before and the new one have the same key"
    if isinstance(results[0], int):
        assert results == [2]
    with harness(kind, after, backend, again):
        """Its own snapshot is taken."""


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_all_subtasks_know_the_types_of_all_former_ones(before: int, after: int) -> None:
    """Also one whose key groups had no row before."""

    def make(key: ColumnKey) -> Callable[[], Any]:
        return lambda: create_operator([code(ProcessFactory(Counting("value"), None), key)], ["op"])

    text, number = ColumnKey(("text",)), ColumnKey(("number",))
    old = Subtasks(make(text), [text], before)
    old.push({"text": ["a"], "number": [1]})
    written = [write_snapshot(snapshot) for snapshot in old.snapshots()]
    for key in range(20):
        new = Subtasks(make(number), [number], after, written)
        with pytest.raises(IncompatibleStateError, match="by type int64"):
            new.push({"text": ["a"], "number": [key]})


def test_keys_of_a_function_without_state_may_become_others() -> None:
    def build(key: str) -> Callable[[DataStream], DataStream]:
        return lambda stream: stream.key_by(key).process(lambda value, _ctx: [value.large], Types.LONG())

    with OneInputHarness.of(build("text"), type_info=TYPES) as before:
        before.process(ROW, 0)
        saved = before.snapshot()
    with OneInputHarness.of(build("large"), type_info=TYPES, restore_from=saved) as after:
        after.process(ROW, 0)
        assert after.results() == [7]
