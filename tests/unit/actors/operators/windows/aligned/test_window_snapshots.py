"""Windows and window joins go on from their snapshots, on any number of subtasks, as if nothing had happened."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.contract.operator import Operator
from actors.operators.joins.window_operator import create_co_group_operator
from actors.operators.windows.buffers.buffering_operator import BufferingWindowOperator
from actors.operators.windows.choice import create_window_operator
from flinkray.errors import CheckpointError
from flinkray.functions.interfaces import AggregateFunction, ProcessWindowFunction, WindowContext
from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.transformations.operator_factories import WindowCoGroupFactory, WindowFactory
from flinkray.types.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.types.records import Millis, OutputTag
from flinkray.windows.aggregates import (
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)
from flinkray.windows.assigners import (
    CumulativeEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.support.operators import OperatorHarness, code
from tests.support.rescaling import Subtasks
from tests.support.state import restored_from, write_snapshot
from tests.support.windows import Event, random_steps

ASSIGNERS: list[WindowAssigner] = [
    TumblingEventTimeWindows.of(10),
    TumblingEventTimeWindows.of(25, 7),
    SlidingEventTimeWindows.of(20, 5),
    SlidingEventTimeWindows.of(10, 4, 1),
    SlidingEventTimeWindows.of(5, 8, -2),  # some times are in no window
]
IN_COLUMNS = [*ASSIGNERS, CumulativeEventTimeWindows(20, 5, 8)]
KEY = ColumnKey(("key",))
SELECTORS: list[KeySelector | None] = [
    KEY,
    FunctionKey(lambda row: row.key),
    FunctionKey(lambda row: (row.key, 1)),
    None,
]
KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", "b", None, *(f"key {number}" for number in range(9))]),
    (pa.int32(), [None, *range(-5, 5)]),
    (pa.float64(), [0.0, -0.0, float("nan"), 2.5, 1e300, 4.0]),
    (pa.timestamp("s"), list(range(10))),
]
LATE = OutputTag("late")

AGGREGATES = (
    ("rows", Count()),
    ("values", Count("value")),
    ("total", Sum("value")),
    ("mean", Avg("value")),
    ("low", Min("value")),
    ("first", First("value")),
    ("last", Last("value")),
    ("distinct", CountDistinct("value")),
    ("top", TopN("value", 2)),
    ("all", CollectList("value")),
    ("texts", CollectList("text")),
    ("last_text", Last("text")),
    ("high_text", Max("text")),
    ("at_low", ArgMin("text", by="value")),
    ("at_high", ArgMax("value", by="text")),
)


class Concatenation(AggregateFunction):
    """Whose accumulator is changed in place."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value.value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> str:
        shown = repr(accumulator)
        accumulator.append("shown")  # which a later firing shows
        return shown


class CountingWindow(ProcessWindowFunction):
    """Uses state per key, and per key and window."""

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        firings = context.window_state().get_state(ValueStateDescriptor("firings"))
        total = context.global_state().get_state(ValueStateDescriptor("total"))
        firings.update((firings.value() or 0) + 1)
        total.update((total.value() or 0) + 1)
        values = [element.value for element in elements]
        yield repr((key, context.window().start, values, firings.value(), total.value()))

    def clear(self, context: WindowContext) -> None:
        context.window_state().get_state(ValueStateDescriptor("firings")).clear()


def larger(left: Any, right: Any) -> Any:
    return left if repr(left.value) > repr(right.value) else right


SHAPES: dict[str, dict[str, Any]] = {
    "columnar": {"aggregates": AGGREGATES},
    "process": {"process": CountingWindow()},
    "reduce": {"reduce": larger},
    "aggregate": {"aggregate": Concatenation()},
}


def window(shape: str, assigner: WindowAssigner, lateness: int = 0, **more: Any) -> Callable[[], Operator]:
    factory = WindowFactory(assigner, allowed_lateness_ms=Millis(lateness), **SHAPES[shape], **more)
    return lambda: create_window_operator(code(factory))


def counted(rows: list[Any]) -> Counter[str]:
    return Counter(map(repr, rows))


def columns(events: list[Event], key_type: pa.DataType, chance: random.Random) -> dict[str, Any]:
    return {
        "key": pa.array([event.key for event in events], key_type),
        "value": pa.array([event.value for event in events], pa.int64()),
        "text": pa.array([chance.choice(["x", "yy", "zzz", None]) for _ in events], pa.string()),
    }


@pytest.mark.seeds(3)
@pytest.mark.parametrize("shape", SHAPES)
def test_windows_go_on_at_any_parallelism(shape: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(f"{shape} {seed}")
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", (1 << 30, 30)[seed % 2])
    monkeypatch.setattr(BufferingWindowOperator, "_VALUES_AT_ONCE", (1 << 14, 3)[seed % 2])
    selector = SELECTORS[seed % len(SELECTORS)]
    key_type, keys = chance.choice(KEYS)
    if shape == "process":
        keys = [key for key in keys if key == key]
    lateness = chance.choice((0, 30))
    assigner = chance.choice(IN_COLUMNS if shape == "columnar" else ASSIGNERS)
    make = window(shape, assigner, lateness, late_tag=LATE)
    steps = random_steps(chance, keys, [None, *range(9)], batches=12, most_rows=25)
    most = 1 if selector is None else 4
    undisturbed, moved = Subtasks(make, [selector]), Subtasks(make, [selector], chance.randint(1, most))
    barriers = {chance.randrange(len(steps)) for _ in range(5)}
    for number, step in enumerate(steps):
        data = None if isinstance(step, int) else columns(step, key_type, chance)
        times = None if isinstance(step, int) else [event.time for event in step]

        def do(subtasks: Subtasks) -> None:
            if isinstance(step, int):  # noqa: B023
                subtasks.watermark(step)  # noqa: B023
            else:
                subtasks.push(data, times)  # noqa: B023

        if number in barriers:
            moved = moved.rescaled(chance.randint(1, most), do)
        do(undisturbed)
        do(moved)
        assert counted(moved.take()) == counted(undisturbed.take())


def pair(left: Any, right: Any) -> Any:
    return repr((left.value, right.value))


def both_lists(left: Any, right: Any) -> list[str]:
    return [repr(([row.value for row in left], [row.value for row in right]))]


JOINS = {"columnar": (None, True), "function": (pair, True), "co-group": (both_lists, False)}


@pytest.mark.seeds(3)
@pytest.mark.parametrize("shape", JOINS)
def test_joins_go_on_at_any_parallelism(shape: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(f"{shape} {seed}")
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", (1 << 30, 30)[seed % 2])
    monkeypatch.setattr(BufferingWindowOperator, "_VALUES_AT_ONCE", (1 << 14, 3)[seed % 2])
    selectors = [SELECTORS[seed % 2], KEY]
    # A function's times would come in microseconds, so that the two inputs would not meet.
    key_type, keys = chance.choice(KEYS[:3])
    function, is_join = JOINS[shape]
    factory = WindowCoGroupFactory(
        chance.choice(ASSIGNERS), is_join, function, Millis(chance.choice((0, 30))), OutputTag("late")
    )
    steps = random_steps(chance, keys, [None, *range(9)], batches=14, most_rows=15)
    undisturbed = Subtasks(lambda: create_co_group_operator(code(factory)), selectors)
    moved = Subtasks(lambda: create_co_group_operator(code(factory)), selectors, chance.randint(1, 4))
    barriers = {chance.randrange(len(steps)) for _ in range(5)}
    for number, step in enumerate(steps):
        side = chance.randrange(2)
        data = None if isinstance(step, int) else columns(step, key_type, chance)
        times = None if isinstance(step, int) else [event.time for event in step]

        def do(subtasks: Subtasks) -> None:
            if isinstance(step, int):  # noqa: B023
                subtasks.watermark(step, 2)  # noqa: B023
            else:
                subtasks.push(data, times, side)  # noqa: B023

        if number in barriers:
            moved = moved.rescaled(chance.randint(1, 4), do)
        do(undisturbed)
        do(moved)
        assert counted(moved.take()) == counted(undisturbed.take())


# -- subtasks whose watermarks differed


def rows_at(times: list[int], keys: list[Any]) -> dict[str, Any]:
    return {"key": keys, "value": list(range(len(times))), "text": ["x"] * len(times)}


@pytest.mark.seeds(3)
@pytest.mark.parametrize("shape", [*SHAPES, *(f"join {name}" for name in JOINS)])
def test_what_had_fired_in_a_subtask_that_was_ahead_does_not_fire_again(shape: str, seed: int) -> None:
    """The restored subtasks take the lowest watermark, and windows up to the highest fire for the other keys only."""
    chance = random.Random(f"{shape} {seed}")
    assigner = chance.choice(ASSIGNERS[:4])
    lateness = chance.choice((0, 40, 1000))
    is_join = shape.startswith("join ")
    if is_join:
        function, is_pairs = JOINS[shape.removeprefix("join ")]
        factory = WindowCoGroupFactory(assigner, is_pairs, function, Millis(lateness))
        make: Callable[[], Operator] = lambda: create_co_group_operator(code(factory))  # noqa: E731
        inputs = 2
    else:
        make, inputs = window(shape, assigner, lateness), 1
    selectors = [KEY] * inputs
    former, undisturbed = Subtasks(make, selectors, 3), Subtasks(make, selectors, 3)
    marks = [chance.randrange(40, 100) for _ in range(3)]
    keys = [f"key {number}" for number in range(20)]
    times = [chance.randrange(150) for _ in range(200)]
    first = [rows_at(times, [chance.choice(keys) for _ in times]) for _ in range(inputs)]
    for subtasks in (former, undisturbed):
        for index in range(inputs):
            subtasks.push(first[index], times, index)
        for harness, mark in zip(subtasks.harnesses, marks, strict=True):
            for index in range(inputs):
                harness.watermark(mark, index)
    assert counted(former.take()) == counted(undisturbed.take())
    later = [100 + chance.randrange(100) for _ in range(50)]
    second = [rows_at(later, [chance.choice(keys) for _ in later]) for _ in range(inputs)]
    after = former
    for _ in range(2):
        after = after.rescaled(chance.choice((1, 2, 4, 5)))
    for subtasks in (after, undisturbed):
        for index in range(inputs):
            subtasks.push(second[index], later, index)
        for mark in (min(marks) + 1, max(marks) - 1, 400):
            subtasks.watermark(mark, inputs)
    assert counted(after.take()) == counted(undisturbed.take())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_for_a_window_that_fires_again_brings_its_key_back(shape: str) -> None:
    make = window(shape, TumblingEventTimeWindows.of(10), lateness=1000)
    former = Subtasks(make, [KEY], 2)
    keys = [f"key {number}" for number in range(8)]
    former.push(rows_at([1] * 8, keys), [1] * 8)
    former.harnesses[0].watermark(5)
    former.harnesses[1].watermark(9)
    fired = former.take()
    assert 0 < len(fired) < 8
    after = former.rescaled(1)
    after.push(rows_at([2] * 8, keys), [2] * 8)
    assert not after.take(), "the watermark is that of the subtask that was behind"
    after.watermark(9)
    assert len(after.take()) == 8


def test_what_had_fired_is_known_also_after_compacting() -> None:
    make = window("columnar", SlidingEventTimeWindows.of(20, 10))
    former, undisturbed = Subtasks(make, [KEY], 2), Subtasks(make, [KEY], 2)
    keys = [f"key {number}" for number in range(12_000)]
    for subtasks in (former, undisturbed):
        subtasks.push(rows_at([12] * 12_000, keys), [12] * 12_000)
        subtasks.push(rows_at([55] * 20, keys[:20]), [55] * 20)
        for harness, mark in zip(subtasks.harnesses, (59, 5), strict=True):
            harness.watermark(mark)
        subtasks.take()
    after = former.rescaled(1)
    for subtasks in (after, undisturbed):
        subtasks.watermark(29)
    assert len(after.take()) == len(undisturbed.take()) > 10_000
    for subtasks in (after, undisturbed):
        subtasks.watermark(100)
    assert counted(after.take()) == counted(undisturbed.take())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_subtask_that_stays_keeps_its_own_watermark_and_a_new_one_takes_the_lowest(shape: str) -> None:
    make = window(shape, TumblingEventTimeWindows.of(10), late_tag=LATE)
    former = Subtasks(make, [KEY], 2)
    for harness, mark in zip(former.harnesses, (15, 95), strict=True):
        harness.watermark(mark)
    keys = [f"key {number}" for number in range(8)]
    same, other = former.rescaled(2), former.rescaled(3)
    for subtasks in (same, other):
        subtasks.push(rows_at([50] * 8, keys), [50] * 8)
    assert [len(harness.output.side("late")) > 0 for harness in same.harnesses] == [False, True]
    assert not other.take()
    assert [harness.operator._watermark for harness in other.harnesses] == [15] * 3  # type: ignore[attr-defined]


# -- what else the state has to hold


@pytest.mark.parametrize("shape", ["columnar", "process"])
def test_state_for_windows_of_another_size_is_an_error(shape: str) -> None:
    before = OperatorHarness(window(shape, TumblingEventTimeWindows.of(10))(), keys=[KEY])
    before.push(rows_at([1], ["a"]), [1])
    restored = restored_from([before.snapshot()], range(128))
    with pytest.raises(CheckpointError, match=r"'op' \(subtask 1 of 1\).*windows .*10 ms"):
        OperatorHarness(window(shape, TumblingEventTimeWindows.of(15))(), keys=[KEY], restored=restored)


def test_windows_of_another_size_on_the_same_slices_go_on_from_them() -> None:
    before = OperatorHarness(window("columnar", SlidingEventTimeWindows.of(20, 10))(), keys=[KEY])
    before.push(rows_at([1, 12], ["a", "a"]), [1, 12])
    restored = restored_from([before.snapshot()], range(128))
    after = OperatorHarness(window("columnar", TumblingEventTimeWindows.of(10))(), keys=[KEY], restored=restored)
    after.watermark(30)
    assert [(row.window_start, row.rows) for row in after.output.rows] == [(0, 1), (10, 1)]


@pytest.mark.parametrize("size", [20, 30, 40])
def test_cumulative_windows_go_on_with_no_others(size: int) -> None:
    # Their slices are given back with the longest window, which others need for longer.
    before = OperatorHarness(window("columnar", CumulativeEventTimeWindows(20, 10))(), keys=[KEY])
    before.push(rows_at([1], ["a"]), [1])
    restored = restored_from([before.snapshot()], range(128))
    for other in (SlidingEventTimeWindows.of(size, 10), CumulativeEventTimeWindows(size, 10, 10)):
        with pytest.raises(CheckpointError, match="written for cumulative windows of 20 ms every 10 ms from 0 "):
            OperatorHarness(window("columnar", other)(), keys=[KEY], restored=restored)


def test_columns_that_were_widened_in_one_subtask_only_are_widened_in_all() -> None:
    make = window("columnar", TumblingEventTimeWindows.of(10))
    undisturbed, moved = Subtasks(make, [KEY]), Subtasks(make, [KEY], 4)
    whole = {"key": [f"key {number}" for number in range(40)], "value": list(range(40)), "text": ["x"] * 40}
    halves = {"key": ["key 3"], "value": [0.5], "text": ["y"]}
    for subtasks in (undisturbed, moved):
        subtasks.push(whole, [1] * 40)
        subtasks.push(halves, [1])
    for parallelism in (3, 2):
        moved = moved.rescaled(parallelism)
    for subtasks in (undisturbed, moved):
        subtasks.push({**whole, "value": [number / 4 for number in range(40)]}, [2] * 40)
        subtasks.watermark(9)
    assert counted(moved.take()) == counted(undisturbed.take())


def test_rows_of_a_join_keep_any_column_and_any_object() -> None:
    keys: list[KeySelector] = [ColumnKey(("slice",)), FunctionKey(lambda value: value["slice"])]
    factory = WindowCoGroupFactory(TumblingEventTimeWindows.of(10), False, lambda left, right: [repr((left, right))])
    undisturbed, moved = (Subtasks(lambda: create_co_group_operator(code(factory)), keys, 2) for _ in range(2))
    first = {"slice": [1, 2], "row:position": ["p", "q"], "a:b": [[1], None], "key": [0.5, None]}
    for subtasks in (undisturbed, moved):
        subtasks.push(first, [1, 1], 0)
        subtasks.push([{"slice": 1, "x": {1}}, {"slice": 2, "x": {2}}], [2, 2], 1)
    moved = moved.rescaled(3)
    for subtasks in (undisturbed, moved):
        subtasks.watermark(9, 2)
    results = counted(moved.take())
    assert len(results) == 2
    assert results == counted(undisturbed.take())


def test_state_of_more_accumulators_than_one_piece_of_a_file_holds_comes_back_in_order() -> None:
    make = window("columnar", TumblingEventTimeWindows.of(10))
    moved = Subtasks(make, [KEY])
    keys = [(number * 7919) % 100_003 for number in range(70_000)]
    batch = {"key": keys, "value": list(range(70_000)), "text": ["x"] * 70_000}
    moved.push(batch, [1] * 70_000)
    moved = moved.rescaled(1)
    moved.watermark(9)
    assert [row.key for harness in moved.harnesses for row in harness.output.rows] == keys


def test_windows_without_rows_have_only_their_watermark_as_state() -> None:
    for shape in SHAPES:
        moved = Subtasks(window(shape, TumblingEventTimeWindows.of(10)), [KEY], 2)
        moved.watermark(7)
        (first, _) = moved.snapshots()
        assert [part.name for part in write_snapshot(first).parts] == ["subtask"]
