"""Sessions, triggers and evictors on random streams, held against a definition of one row at a time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from actors.operators.windows.general.operator import GeneralWindowOperator
from flinkray.functions.interfaces import AggregateFunction, ProcessWindowFunction, WindowContext
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.types.records import Millis, OutputTag
from flinkray.windows.aggregates import CollectList, Count, First, Last, Max, Sum
from flinkray.windows.assigners import (
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from flinkray.windows.continuous_triggers import ContinuousEventTimeTrigger
from flinkray.windows.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from flinkray.windows.triggers import CountTrigger, DeltaTrigger, EventTimeTrigger, PurgingTrigger, Trigger
from tests.support.general_windows import (
    END,
    Beyond,
    Continuously,
    Every,
    GeneralModel,
    ModelRow,
    ModelTrigger,
    keep_all,
    random_steps,
)
from tests.support.rescaling import Subtasks
from tests.support.windows import Event

SELECTORS: list[KeySelector] = [ColumnKey(("key",)), FunctionKey(lambda row: row.key)]
KEYS: list[list[Any]] = [["a", "b", "c"], [1, 2, None], [f"key {number}" for number in range(12)], [0.5, float("nan")]]
LATE = OutputTag("late")


class Shown(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        yield show(key, context.window(), [element.value for element in elements])


class Listed(AggregateFunction):
    """Whose accumulator is changed in place."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value.value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return list(accumulator)

    def merge(self, accumulator_a: list[Any], accumulator_b: list[Any]) -> list[Any]:
        return accumulator_a + accumulator_b


class Wrapped(ProcessWindowFunction):
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterable[Any]:
        (values,) = elements
        yield show(key, context.window(), values if isinstance(values, list) else values.text)


def add_up(left: Any, right: Any) -> dict[str, Any]:
    return {"key": left.key, "value": 0, "text": f"{left.text},{right.text}"}


def show(key: Any, window: Any, values: Any) -> str:
    return repr((key, getattr(window, "start", 0), getattr(window, "end", END + 1), values))


AGGREGATES = (
    ("rows", Count()),
    ("total", Sum("value")),
    ("high", Max("value")),
    ("first", First("value")),
    ("last", Last("value")),
    ("all", CollectList("value")),
)


def columns_of(rows: list[ModelRow], is_by_arrival: bool) -> list[Any]:
    values = [row.value for row in (sorted(rows, key=lambda row: row.number) if is_by_arrival else rows)]
    return [len(values), sum(values), max(values), values[0], values[-1], values]


SHAPES: dict[str, dict[str, Any]] = {
    "process": {"process": Shown()},
    "aggregate": {"aggregate": Listed(), "process": Wrapped()},
    "reduce": {"reduce": add_up, "process": Wrapped()},
    "built-in": {"aggregates": AGGREGATES},
}


class TriggerCase:
    """One random program and its model."""

    def __init__(self, chance: random.Random, shape: str, factory: WindowFactory, model: GeneralModel) -> None:
        self.chance = chance
        self.shape = shape
        self.model = model
        self.keys = chance.choice(KEYS)
        make: Callable[[], GeneralWindowOperator] = lambda: GeneralWindowOperator(factory)  # noqa: E731
        self.subtasks = Subtasks(
            make, [chance.choice(SELECTORS)], chance.randint(1, 2), batch_rows=chance.choice((3, 999))
        )
        self.has_evictor = factory.evictor is not None

    def run(self) -> None:
        steps = random_steps(self.chance, self.keys)
        barriers = {self.chance.randrange(len(steps)) for _ in range(self.chance.choice((0, 0, 1, 2)))}
        for number, step in enumerate(steps):
            if number in barriers:
                self.subtasks = self.subtasks.rescaled(self.chance.randint(1, 3), lambda s, step=step: self.do(s, step))
                assert not self.subtasks.take()
            self.do(self.subtasks, step)
            if isinstance(step, int):
                self.model.advance(step)
            else:
                for event in step:
                    self.model.row(event)
            self.compare()
        for harness in self.subtasks.harnesses:
            self.check_empty(harness.operator)
            harness.operator.close()

    def do(self, subtasks: Subtasks, step: list[Event] | int) -> None:
        if isinstance(step, int):
            subtasks.watermark(step)
        else:
            data = {
                "key": [event.key for event in step],
                "value": [event.value for event in step],
                "text": [str(event.value) for event in step],
            }
            subtasks.push(data, [event.time for event in step])

    def compare(self) -> None:
        late, self.model.late = self.model.late, []
        expected = [self.expected(*firing) for firing in self.model.take()] + [("late", number) for number in late]
        assert Counter(map(repr, map(simple, self.subtasks.take()))) == Counter(map(repr, expected))

    def expected(self, key: Any, start: int, end: int, rows: list[ModelRow]) -> Any:
        time = end - 1
        if self.shape == "built-in":
            window = (start, end) if end <= END else (None, None)
            return (key, *window, *columns_of(rows, not self.has_evictor)), time
        values = [row.value for row in rows]
        return repr((key, start, end, ",".join(map(str, values)) if self.shape == "reduce" else values)), time

    def check_empty(self, operator: Any) -> None:
        """Nothing is kept of windows that are over."""
        if not operator._is_event_time:
            return
        kept = {name for name, state in operator._own_state._states.items() if not state.is_empty_everywhere}
        assert not kept
        assert not operator._timers._event_timers.timers()
        if operator._aggregates is not None:
            operator._aggregates._store.check()
            assert operator._aggregates._store.accumulator_count == 0


def simple(element: tuple[Any, Any]) -> tuple[Any, Any]:
    """What a subtask gave, as `expected` has it."""
    row, more = element
    if row == "late":
        return row, more["value"]
    return row if isinstance(row, str) else tuple(row), more


# -- what is tried


def tumbling(size: int) -> Callable[[Event], list[tuple[int, int]]]:
    return lambda event: [(event.time // size * size, event.time // size * size + size)]


def sliding(size: int, slide: int) -> Callable[[Event], list[tuple[int, int]]]:
    def windows(event: Event) -> list[tuple[int, int]]:
        last = event.time // slide * slide
        return [(start, start + size) for start in range(last, event.time - size, -slide)]

    return windows


def session(gap: int) -> Callable[[Event], list[tuple[int, int]]]:
    return lambda event: [(event.time, event.time + gap)]


def dynamic_session(event: Event) -> list[tuple[int, int]]:
    return [(event.time, event.time + gap_of(event.value))]


def gap_of(value: int) -> int:
    return 1 + value % 7 * 4


def everything(_event: Event) -> list[tuple[int, int]]:
    return [(0, END + 1)]


def random_windows(chance: random.Random, kinds: str) -> tuple[WindowAssigner, Any, bool]:
    """An assigner, what it does, and whether its windows merge."""
    kind = chance.choice(kinds.split())
    size = chance.choice((5, 10, 25))
    if kind == "tumbling":
        return TumblingEventTimeWindows.of(size), tumbling(size), False
    if kind == "sliding":
        slide = chance.choice((4, 5, 30))
        return SlidingEventTimeWindows.of(size, slide), sliding(size, slide), False
    if kind == "session":
        return EventTimeSessionWindows.with_gap(size), session(size), True
    if kind == "dynamic":
        return EventTimeSessionWindows.with_dynamic_gap(lambda row: gap_of(row.value)), dynamic_session, True
    return GlobalWindows.create(), everything, False


def random_trigger(chance: random.Random, merges: bool) -> tuple[Trigger, ModelTrigger]:
    count, interval, threshold = chance.choice((1, 2, 3, 7)), chance.choice((1, 4, 10)), chance.choice((0, 2, 10))
    triggers: list[tuple[Trigger, ModelTrigger]] = [
        (EventTimeTrigger.create(), ModelTrigger()),
        (CountTrigger.of(count), Every(count)),
        (ContinuousEventTimeTrigger.of(interval), Continuously(interval)),
    ]
    if not merges:
        delta = DeltaTrigger.of(threshold, lambda old, new: abs(new.value - old.value))
        triggers.append((delta, Beyond(threshold)))
    return chance.choice(triggers)


@pytest.mark.seeds(80)
def test_sessions_are_those_of_the_definition(seed: int) -> None:
    chance = random.Random(f"sessions {seed}")
    shape = list(SHAPES)[seed % len(SHAPES)]
    assigner, windows, merges = random_windows(chance, "session dynamic")
    lateness = chance.choice((0, 5, 40, 1000))
    purges = chance.random() < 0.3
    trigger = PurgingTrigger.of(EventTimeTrigger.create()) if purges else None
    factory = WindowFactory(
        assigner, allowed_lateness_ms=Millis(lateness), late_tag=LATE, trigger=trigger, **SHAPES[shape]
    )
    TriggerCase(chance, shape, factory, GeneralModel(windows, ModelTrigger(), lateness, merges, purges)).run()


@pytest.mark.seeds(80)
def test_triggers_fire_as_by_the_definition(seed: int) -> None:
    chance = random.Random(f"triggers {seed}")
    shape = list(SHAPES)[seed % len(SHAPES)]
    kinds = "tumbling sliding session dynamic global"
    assigner, windows, merges = random_windows(chance, kinds)
    trigger, model_trigger = random_trigger(chance, merges)
    lateness = chance.choice((0, 5, 40)) if assigner.is_event_time() else 0
    purges = chance.random() < 0.4
    factory = WindowFactory(
        assigner,
        allowed_lateness_ms=Millis(lateness),
        late_tag=LATE,
        trigger=PurgingTrigger.of(trigger) if purges else trigger,
        **SHAPES[shape],
    )
    TriggerCase(chance, shape, factory, GeneralModel(windows, model_trigger, lateness, merges, purges)).run()


def random_evictor(chance: random.Random) -> tuple[Evictor, Callable[[list[ModelRow]], list[ModelRow]], bool]:
    """An evictor, what it does, and whether it does so after the function."""
    kept, after = chance.choice((1, 2, 5)), chance.random() < 0.5
    span, threshold = chance.choice((1, 5, 20)), chance.choice((1, 3, 10))
    evictors: list[tuple[Evictor, Any]] = [
        (CountEvictor.of(kept, after), lambda rows: rows[-kept:]),
        (TimeEvictor.of(span, after), lambda rows: [r for r in rows if r.time > max(s.time for s in rows) - span]),
        (
            DeltaEvictor.of(threshold, lambda row, last: last.value - row.value, after),
            lambda rows: [r for r in rows if rows[-1].value - r.value < threshold],
        ),
    ]
    evictor, evict = chance.choice(evictors)
    return evictor, evict, after


@pytest.mark.seeds(80)
def test_evictors_leave_what_the_definition_leaves(seed: int) -> None:
    chance = random.Random(f"evictors {seed}")
    shape = list(SHAPES)[seed % len(SHAPES)]
    assigner, windows, merges = random_windows(chance, "tumbling sliding session dynamic global")
    trigger, model_trigger = random_trigger(chance, merges)
    evictor, evict, after = random_evictor(chance)
    lateness = chance.choice((0, 5, 40)) if assigner.is_event_time() else 0
    purges = chance.random() < 0.2
    factory = WindowFactory(
        assigner,
        allowed_lateness_ms=Millis(lateness),
        late_tag=LATE,
        trigger=PurgingTrigger.of(trigger) if purges else trigger,
        evictor=evictor,
        **SHAPES[shape],
    )
    before, later = (keep_all, evict) if after else (evict, keep_all)
    TriggerCase(
        chance, shape, factory, GeneralModel(windows, model_trigger, lateness, merges, purges, before, later)
    ).run()
