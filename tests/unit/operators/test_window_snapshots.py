"""Windows and window joins go on from their snapshots, on any number of subtasks, as if nothing had happened."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.base import Operator
from actors.operators.window_join import create_co_group_operator
from actors.operators.window_operator import create_window_operator
from flinkray.aggregates import (
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
from flinkray.functions import AggregateFunction, ProcessWindowFunction, WindowContext
from flinkray.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.operator_factories import WindowCoGroupFactory, WindowFactory
from flinkray.state import ValueStateDescriptor
from flinkray.types import Millis, OutputTag
from flinkray.windowing import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from tests.support.operators import code
from tests.support.rescaling import Subtasks
from tests.support.windows import Event, random_steps

ASSIGNERS: list[WindowAssigner] = [
    TumblingEventTimeWindows.of(10),
    TumblingEventTimeWindows.of(25, 7),
    SlidingEventTimeWindows.of(20, 5),
    SlidingEventTimeWindows.of(10, 4, 1),
    SlidingEventTimeWindows.of(5, 8, -2),  # some times are in no window
]
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


class Counting(ProcessWindowFunction):
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
    "process": {"process": Counting()},
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


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shape", SHAPES)
def test_windows_go_on_at_any_parallelism(shape: str, seed: int) -> None:
    chance = random.Random(f"{shape} {seed}")
    selector = SELECTORS[seed % len(SELECTORS)]
    key_type, keys = chance.choice(KEYS)
    if shape == "process":
        keys = [key for key in keys if key == key]
    lateness = chance.choice((0, 30))
    make = window(shape, chance.choice(ASSIGNERS), lateness, late_tag=LATE)
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


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shape", JOINS)
def test_joins_go_on_at_any_parallelism(shape: str, seed: int) -> None:
    chance = random.Random(f"{shape} {seed}")
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
