"""What one watermark fires is fired in pieces: a snapshot between two of them has what is left, and nothing comes in
between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from actors.operators.contract.cancellation import TaskCanceled
from actors.operators.contract.operator import Operator
from actors.operators.contract.pieces import Pieces
from actors.operators.registry import create_operator
from actors.protocol.elements import Watermark, WatermarkStatus
from actors.tasks.chain.outputs import ChainingOutput
from flinkray.functions.interfaces import KeyedProcessFunction, ProcessWindowFunction
from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.transformations.operator_factories import (
    OperatorFactory,
    ProcessFactory,
    WindowCoGroupFactory,
    WindowFactory,
)
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from flinkray.windows.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkray.windows.evictors import CountEvictor
from tests.support.operators import OperatorHarness, as_batch, code
from tests.support.state import restored_from

KEY = ColumnKey(("key",))
KEYS = 5
ROWS = [(row % KEYS, row * 7 % 60) for row in range(40)]
"""The key and the time of each row; all windows below are due at 100."""


class Timers(KeyedProcessFunction):
    """Has timers at several times, counts them, and sets another one for a time that has been reached."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 20 * 20 + 19)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if timestamp == 39:
            ctx.timer_service().register_event_time_timer(45)
        yield ctx.get_current_key(), timestamp, count


class Shown(ProcessWindowFunction):
    """Counts the windows that have fired for the key, and those that are over."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired"))
        fired.update((fired.value() or 0) + 1)
        in_window = context.window_state().get_state(ValueStateDescriptor("in window"))
        in_window.update((in_window.value() or 0) + 1)
        values = sorted(str(element.time) for element in elements)
        yield key, context.window().start, values, fired.value(), in_window.value()

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("in window")).clear()


class OfSession(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired"))
        fired.update((fired.value() or 0) + 1)
        yield key, context.window().start, sorted(str(element.time) for element in elements), fired.value()


class OfSessionWithClear(OfSession):
    def clear(self, context: Any) -> None: ...


def first_of(left: Any, _right: Any) -> Any:
    return left


TUMBLING, SLIDING = TumblingEventTimeWindows.of(20), SlidingEventTimeWindows.of(40, 20)
LATE = Millis(1_000)
FACTORIES: dict[str, OperatorFactory] = {
    "timers": ProcessFactory(Timers()),
    "general": WindowFactory(TUMBLING, process=Shown(), evictor=CountEvictor.of(100)),
    "rows": WindowFactory(TUMBLING, process=Shown()),
    "rows, sliding": WindowFactory(SLIDING, process=Shown()),
    "rows, late": WindowFactory(SLIDING, process=Shown(), allowed_lateness_ms=LATE),
    "folded": WindowFactory(TUMBLING, reduce=first_of, process=Shown()),
    "folded, late": WindowFactory(SLIDING, reduce=first_of, process=Shown(), allowed_lateness_ms=LATE),
    "sessions": WindowFactory(EventTimeSessionWindows.with_gap(9), process=OfSession()),
    "sessions, late": WindowFactory(
        EventTimeSessionWindows.with_gap(9), process=OfSessionWithClear(), allowed_lateness_ms=LATE
    ),
    "co-group": WindowCoGroupFactory(
        SLIDING, is_join=False, function=lambda left, right: [(len(left), len(right), str((left + right)[0].key))]
    ),
    "join": WindowCoGroupFactory(
        TUMBLING, is_join=True, function=lambda left, right: (left.key, left.time, right.time)
    ),
}


def operator_of(name: str) -> Operator:
    factory = FACTORIES[name]
    return create_operator([code(factory, *[KEY] * inputs_of(factory))], [name])


def inputs_of(factory: OperatorFactory) -> int:
    return 2 if isinstance(factory, WindowCoGroupFactory) else 1


def harness_of(name: str, restored: Any = None) -> OperatorHarness:
    return OperatorHarness(operator_of(name), keys=(KEY,) * inputs_of(FACTORIES[name]), restored=restored)


def push_rows(harness: OperatorHarness) -> None:
    for half, rows in enumerate((ROWS[:25], ROWS[25:])):
        data = {"key": [key for key, _ in rows], "time": [time for _, time in rows]}
        harness.push(data, [time for _, time in rows], half % harness.operator.number_of_inputs)


def watermark(harness: OperatorHarness, timestamp: int) -> None:
    for index in range(harness.operator.number_of_inputs):
        harness.watermark(timestamp, index)


def fire_all(harness: OperatorHarness) -> None:
    harness.operator.finish_firing()


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pieces, "is_over", lambda _: True)


def undisturbed(name: str) -> list[Any]:
    with harness_of(name) as harness:
        push_rows(harness)
        watermark(harness, 100)
        fire_all(harness)
        watermark(harness, MAX_TIMESTAMP)
        fire_all(harness)
        return harness.output.rows


OF_TIMERS = ("timers", "general")
"""These have no watermark in their snapshots, or may have timers for the past; they fire with the next watermark."""


def ordered(name: str, rows: list[Any]) -> list[Any]:
    """Timers of one time fire in any order of their keys after a restore."""
    return sorted(rows, key=lambda row: row[0]) if name in OF_TIMERS else rows


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("name", FACTORIES)
def test_what_has_not_fired_at_a_barrier_fires_after_a_restore_and_nothing_else_does(name: str) -> None:
    expected = undisturbed(name)
    assert len(expected) > KEYS
    pieces = 0
    while True:
        with harness_of(name) as harness:
            push_rows(harness)
            watermark(harness, 100)
            for _ in range(pieces):
                harness.operator.fire_on()
            fired, is_left = harness.output.rows, harness.operator.is_firing
            snapshot = harness.snapshot()
        with harness_of(name, restored_from([snapshot], range(128))) as harness:
            again = harness.snapshot()  # nothing has happened yet
        with harness_of(name, restored_from([again], range(128))) as harness:
            fire_all(harness)
            assert name in OF_TIMERS or fired + harness.output.rows == expected, "windows fire before rows come"
            watermark(harness, 100)
            fire_all(harness)
            watermark(harness, MAX_TIMESTAMP)
            fire_all(harness)
            assert ordered(name, fired + harness.output.rows) == ordered(name, expected), pieces
        if not is_left:
            break
        pieces += 1
    assert pieces > KEYS, "it has fired in pieces"


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("name", FACTORIES)
def test_watermarks_and_statuses_wait_for_what_is_due_before_them(name: str) -> None:
    due = len(undisturbed(name))
    with harness_of(name) as harness:
        push_rows(harness)
        watermark(harness, 100)
        assert harness.operator.is_firing
        watermark(harness, 200)
        for index in range(harness.operator.number_of_inputs):
            harness.status(True, index)
        while not harness.output.watermarks:
            assert len(harness.output.rows) <= due
            harness.operator.fire_on()
        assert len(harness.output.rows) == due
        fire_all(harness)
        events = [each for each in harness.output.elements if isinstance(each, Watermark | WatermarkStatus)]
        assert events == [Watermark(100), Watermark(200), WatermarkStatus(True)]
        for index in range(harness.operator.number_of_inputs):
            harness.status(False, index)
        assert harness.output.elements[-1] == WatermarkStatus(False)


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("name", FACTORIES)
def test_rows_that_a_mail_brings_come_behind_what_is_due(name: str) -> None:
    with harness_of(name) as harness:
        push_rows(harness)
        watermark(harness, 100)
        watermark(harness, 120)
        batch = as_batch({"key": [0], "time": [150]}, [150])
        ChainingOutput(harness.operator).emit(batch)
        assert not harness.operator.is_firing
        assert harness.output.watermarks == [100, 120]


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("name", FACTORIES)
def test_a_task_that_is_cancelled_fires_nothing_more(name: str) -> None:
    with harness_of(name) as harness:
        push_rows(harness)
        watermark(harness, 100)
        harness.context.cancellation.set()
        fired = len(harness.output.rows)
        with pytest.raises(TaskCanceled):
            fire_all(harness)
        assert len(harness.output.rows) <= fired + 1


class OnTheClock(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_processing_time_timer(50)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key()


@pytest.mark.usefixtures("one_at_a_time")
def test_between_timers_of_the_clock_the_task_does_other_things() -> None:
    operator = create_operator([code(ProcessFactory(OnTheClock()), KEY)], ["timers"])
    with OperatorHarness(operator, keys=(KEY,)) as harness:
        harness.push({"key": list(range(4))}, [0] * 4)
        fired_before: list[int] = []
        harness.context.call_later(50, lambda: fired_before.append(len(harness.output.rows)), "something else")
        harness.advance(50)
        assert fired_before == [1]
        assert harness.output.rows == [0, 1, 2, 3]
