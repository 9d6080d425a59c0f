"""The rules of windows with any assigner, trigger and evictor, one by one, and what goes wrong with a message."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.operators.windows.aligned.function_operator import RowWindowOperator
from actors.operators.windows.aligned.process_operator import ProcessWindowOperator
from actors.operators.windows.choice import columnar_operator, create_window_operator
from actors.operators.windows.general.operator import GeneralWindowOperator
from actors.operators.windows.sessions.function_operator import RowSessionOperator
from flinkray.errors import InvalidProgramError, NullTimestampError, TypeMismatchError, UserFunctionError
from flinkray.functions.interfaces import AggregateFunction, ProcessWindowFunction, WindowContext
from flinkray.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkray.time.windows import Window
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis, OutputTag
from flinkray.windows.aggregates import Count, Sum
from flinkray.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from flinkray.windows.continuous_triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from flinkray.windows.evictors import CountEvictor, Evictor
from flinkray.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    QuietTrigger,
    Trigger,
    TriggerResult,
)
from tests.support.operators import FakeContext, OperatorHarness, code
from tests.support.state import restored_from

KEY = ColumnKey(("key",))
LATE = OutputTag("late")
SESSIONS = EventTimeSessionWindows.with_gap(10)


def listed(_key: Any, context: WindowContext, rows: Iterable[Any]) -> list[Any]:
    window = context.window()
    return [(getattr(window, "start", None), getattr(window, "end", None), [row.value for row in rows])]


def general(assigner: WindowAssigner, lateness: int = 0, **more: Any) -> OperatorHarness:
    if not {"process", "reduce", "aggregate", "aggregates"} & set(more):
        more["process"] = listed
    factory = WindowFactory(assigner, allowed_lateness_ms=Millis(lateness), late_tag=LATE, **more)
    return OperatorHarness(GeneralWindowOperator(factory), keys=[KEY])


def push(harness: OperatorHarness, *rows: tuple[int, Any], key: Any = "a") -> list[Any]:
    """Rows (time, value); gives what came out at once."""
    harness.output.clear()
    harness.push({"key": [key] * len(rows), "value": [value for _, value in rows]}, [time for time, _ in rows])
    return harness.output.rows


def at(harness: OperatorHarness, watermark: int) -> list[Any]:
    harness.output.clear()
    harness.watermark(watermark)
    return harness.output.rows


# -- firing


def test_window_firing_at_the_last_millisecond_with_it_as_event_time() -> None:
    with general(TumblingEventTimeWindows.of(10)) as harness:
        push(harness, (0, 1))
        assert at(harness, 8) == []
        assert at(harness, 9) == [(0, 10, [1])]
        assert harness.output.timestamps == [9]


def test_window_firing_end_and_lateness_saturate_instead_of_overflowing() -> None:
    with general(TumblingEventTimeWindows.of(10), lateness=MAX_TIMESTAMP) as harness:
        push(harness, (0, 1))
        assert at(harness, 9) == [(0, 10, [1])]
        assert push(harness, (0, 2)) == [(0, 10, [1, 2])]
        assert harness.operator._timers._event_timers.timers() == []  # type: ignore[attr-defined]
        assert at(harness, MAX_TIMESTAMP) == []


def test_window_that_ends_after_the_end_of_time_is_an_error_that_names_it() -> None:
    with (
        general(TumblingEventTimeWindows.of(10)) as harness,
        pytest.raises(TypeMismatchError, match=rf"gave Window\(.*which ends after {MAX_TIMESTAMP}"),
    ):
        push(harness, (MAX_TIMESTAMP - 1, 1))


def test_session_at_the_end_of_time_ends_with_it() -> None:
    with general(EventTimeSessionWindows.with_gap(10)) as harness:
        push(harness, (MAX_TIMESTAMP - 4, 1), (MAX_TIMESTAMP, 2))
        assert at(harness, MAX_TIMESTAMP) == [(MAX_TIMESTAMP - 4, MAX_TIMESTAMP, [1, 2])]


def test_partly_late_element_is_left_out_of_only_those_windows_it_is_late_for() -> None:
    with general(SlidingEventTimeWindows.of(20, 10)) as harness:
        at(harness, 20)
        push(harness, (15, 1))
        assert at(harness, 100) == [(10, 30, [1])]
        assert push(harness, (15, 2)) == []
        assert [row.value for row in harness.output.side("late")] == [2]


def test_sliding_windows_before_the_epoch_need_floor_arithmetic() -> None:
    with general(SlidingEventTimeWindows.of(10, 4, 1)) as harness:
        push(harness, (-1, 1))
        assert at(harness, 100) == [(-7, 3, [1]), (-3, 7, [1])]


def test_sliding_windows_offset_must_be_smaller_than_the_slide_not_the_size() -> None:
    with pytest.raises(ValueError, match=r"offset \(5 ms\) must be smaller than the slide \(5 ms\)"):
        SlidingEventTimeWindows.of(10, 5, 5)


# -- sessions


def test_session_lateness_is_judged_on_the_merged_window() -> None:
    with general(SESSIONS) as harness:
        push(harness, (20, 1))
        at(harness, 25)
        assert push(harness, (11, 2)) == []
        assert not harness.output.side("late"), "[11, 21) is over, [11, 30) is not"
        assert at(harness, 29) == [(11, 30, [1, 2])]


def test_session_lateness_after_a_purge_a_late_element_still_merges_and_fires_at_once() -> None:
    trigger = PurgingTrigger.of(EventTimeTrigger.create())
    with general(SESSIONS, lateness=100, trigger=trigger) as harness:
        push(harness, (0, 1))
        assert at(harness, 9) == [(0, 10, [1])]
        assert push(harness, (5, 2)) == [], "[0, 15) is not over"
        assert at(harness, 20) == [(0, 15, [2])]
        assert push(harness, (3, 3)) == [(0, 15, [3])]


def test_session_merging_of_windows_that_merely_touch() -> None:
    with general(SESSIONS) as harness:
        push(harness, (0, 1), (10, 2), (21, 3))
        assert at(harness, 100) == [(0, 20, [1, 2]), (21, 31, [3])]


def test_session_merging_leaves_the_state_under_the_first_window() -> None:
    with general(SESSIONS) as harness:
        push(harness, (0, 1), (5, 2), (12, 3))
        operator: Any = harness.operator
        windows = operator._merging.of("a", operator._key_group).windows
        assert windows == {Window(0, 22): Window(0, 10)}


def test_session_merging_of_an_identical_window_merges_nothing() -> None:
    class Merging(EventTimeTrigger):
        def on_merge(self, window: Any, ctx: Any) -> None:
            raise AssertionError("nothing merges")

    with general(SESSIONS, trigger=Merging()) as harness:
        push(harness, (0, 1), (0, 2))
        assert at(harness, 9) == [(0, 10, [1, 2])]


def test_session_merging_into_a_window_whose_state_is_under_another_keeps_its_rows() -> None:
    gaps = EventTimeSessionWindows.with_dynamic_gap(lambda row: row.value)
    with general(gaps) as harness:
        push(harness, (0, 5), (3, 12), (0, 15))
        assert at(harness, 100) == [(0, 15, [5, 12, 15])]


def test_session_merging_looks_only_at_the_windows_beside_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def count(windows: Iterable[Window], callback: Any) -> None:
        listed = list(windows)
        looked_at.append(len(listed))
        merge_windows(listed, callback)

    merge_windows = Window.merge_windows
    monkeypatch.setattr(Window, "merge_windows", count)
    with general(SESSIONS) as harness:
        push(harness, *((start, start) for start in range(0, 2_000, 20)))
        assert looked_at == []
        push(harness, *((start, start) for start in range(1_990, 0, -20)))
        assert looked_at == [2] + [3] * 99
        assert at(harness, 5_000) == [(0, 2_000, [*range(0, 2_000, 20), *range(1_990, 0, -20)])]


@pytest.mark.parametrize("seed", range(10))
def test_session_merging_gives_what_merging_all_windows_gives(seed: int) -> None:
    class AllWindows(EventTimeSessionWindows):
        def merge_windows(self, windows: Iterable[Window], callback: Any) -> None:
            Window.merge_windows(windows, callback)

    chance = random.Random(seed)
    rows = [(chance.randrange(300), chance.randrange(1, 12)) for _ in range(150)]
    results = []
    for assigner in (EventTimeSessionWindows, AllWindows):
        with general(assigner.with_dynamic_gap(lambda row: row.value)) as harness:
            results.append([])
            for start in range(0, len(rows), 10):
                push(harness, *rows[start : start + 10])
                results[-1] += at(harness, start)
            results[-1] += at(harness, 5_000)
    assert results[0] == results[1]


def test_session_gap_that_is_not_positive_is_an_error_of_that_row() -> None:
    with general(EventTimeSessionWindows.with_dynamic_gap(lambda row: row.value)) as harness:
        push(harness, (0, 1))
        with pytest.raises(UserFunctionError, match=r"'op'.*gap of a session must be a positive.*got 0") as caught:
            push(harness, (0, 0))
        assert "value=0" in str(caught.value)


def test_state_per_window_is_refused_where_windows_merge() -> None:
    def process(_key: Any, context: WindowContext, _rows: Iterable[Any]) -> None:
        context.window_state().get_state(ValueStateDescriptor("seen"))

    with general(SESSIONS, process=process) as harness:
        push(harness, (0, 1))
        with pytest.raises(InvalidProgramError, match=r"operator 'op'.*'seen'.*windows that merge"):
            at(harness, 100)


def test_a_merged_window_must_not_end_in_the_past() -> None:
    class Shrinking(MergingWindowAssigner):
        def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Window]:
            return [Window(timestamp, timestamp + 10)]

        def get_default_trigger(self, env: Any = None) -> Trigger:
            return EventTimeTrigger.create()

        def is_event_time(self) -> bool:
            return True

        def merge_windows(self, windows: Iterable[Any], callback: Any) -> None:
            together = list(windows)
            if len(together) > 1:
                callback.merge(together, Window(0, 5))

    with general(Shrinking()) as harness:
        push(harness, (20, 1))
        at(harness, 10)
        with pytest.raises(InvalidProgramError, match=r"Shrinking merged windows .*Window\(start=0, end=5\)"):
            push(harness, (21, 2))


def test_a_session_may_end_while_a_row_is_put_into_it() -> None:
    context = FakeContext(keys=(KEY,))

    def gap(row: Any) -> int:
        context.clock.now += row.value  # the process stands still for so long
        return 100

    factory = WindowFactory(ProcessingTimeSessionWindows.with_dynamic_gap(gap), process=listed)
    with OperatorHarness(GeneralWindowOperator(factory), context=context) as harness:
        push(harness, (0, 0))
        harness.advance(50)
        push(harness, (0, 500), (0, 1))
        harness.advance(200)
        assert harness.output.rows == [(0, 150, [0, 500]), (550, 650, [1])]


# -- triggers


def test_trigger_merging_registers_no_timer_for_an_already_late_window() -> None:
    with general(SESSIONS, lateness=100) as harness:
        push(harness, (0, 1))
        at(harness, 30)
        assert push(harness, (5, 2)) == [(0, 15, [1, 2])]
        timers = harness.operator._timers._event_timers.timers()  # type: ignore[attr-defined]
        assert [timer.timestamp for timer in timers] == [114], "only that which ends the window"


def test_trigger_merging_adds_counts_up() -> None:
    with general(SESSIONS, trigger=CountTrigger.of(4)) as harness:
        assert push(harness, (0, 1), (20, 2), (1, 3)) == []
        assert push(harness, (10, 4)) == [(0, 30, [1, 3, 2, 4])]
        assert push(harness, (11, 5), (11, 6), (11, 7)) == []


def test_trigger_merging_keeps_the_earliest_pending_fire_time_of_continuous_triggers() -> None:
    with general(SESSIONS, trigger=ContinuousEventTimeTrigger.of(7)) as harness:
        push(harness, (16, 1), (2, 2), (10, 3))
        assert at(harness, 6) == []
        assert at(harness, 7) == [(2, 26, [2, 1, 3])]
        assert at(harness, 13) == []
        assert at(harness, 14) == [(2, 26, [2, 1, 3])]


class Stateful(QuietTrigger):
    """Keeps a state of each kind that can be merged, and fires with what is in them."""

    LIST = ListStateDescriptor("list")
    SUM = ReducingStateDescriptor("sum", function=lambda a, b: a + b)

    class Joined(AggregateFunction):
        def create_accumulator(self) -> str:
            return ""

        def add(self, value: Any, accumulator: str) -> str:
            return f"{accumulator}{value}"

        def get_result(self, accumulator: str) -> str:
            return accumulator

        def merge(self, accumulator_a: str, accumulator_b: str) -> str:
            return f"{accumulator_a}+{accumulator_b}"

    TEXT = AggregatingStateDescriptor("text", function=Joined())
    seen: Any = None

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        for descriptor in (self.LIST, self.SUM, self.TEXT):
            ctx.get_partitioned_state(descriptor).add(element.value)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        Stateful.seen = [ctx.get_partitioned_state(each).get() for each in (self.LIST, self.SUM, self.TEXT)]
        return TriggerResult.FIRE_AND_PURGE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        for descriptor in (self.LIST, self.SUM, self.TEXT):
            ctx.merge_partitioned_state(descriptor)

    def clear(self, window: Any, ctx: Any) -> None:
        for descriptor in (self.LIST, self.SUM, self.TEXT):
            ctx.get_partitioned_state(descriptor).clear()


def test_a_triggers_state_of_windows_that_merge_becomes_that_of_the_new_one() -> None:
    with general(SESSIONS, trigger=Stateful()) as harness:
        push(harness, (0, 1), (20, 2), (10, 3))
        at(harness, 100)
        assert Stateful.seen == [[1, 2, 3], 6, "1+23"]


def test_value_state_cannot_be_merged() -> None:
    class Merging(EventTimeTrigger):
        def on_merge(self, window: Any, ctx: Any) -> None:
            ctx.merge_partitioned_state(ValueStateDescriptor("v"))

    with (
        general(SESSIONS, trigger=Merging()) as harness,
        pytest.raises(InvalidProgramError, match="value state cannot"),
    ):
        push(harness, (0, 1), (5, 2))


def test_a_trigger_that_fails_is_an_error_of_the_operator_with_the_users_lines() -> None:
    class Failing(QuietTrigger):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            raise ValueError("no such luck")

    with general(TumblingEventTimeWindows.of(10), trigger=Failing()) as harness:
        with pytest.raises(UserFunctionError, match=r"'op'.*ValueError: no such luck") as caught:
            push(harness, (0, 1))
        assert Path(__file__).name in str(caught.value)


def test_a_trigger_must_give_a_trigger_result() -> None:
    class Silent(QuietTrigger):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
            return None

    with (
        general(TumblingEventTimeWindows.of(10), trigger=Silent()) as harness,
        pytest.raises(TypeMismatchError, match=r"'op'.*on_element of Silent must return a TriggerResult, not None"),
    ):
        push(harness, (0, 1))


def test_a_window_ends_also_where_its_trigger_deletes_the_timer_for_that() -> None:
    trigger = ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), 5)
    with general(TumblingEventTimeWindows.of(10), trigger=trigger) as harness:
        push(harness, (0, 1))
        harness.output.clear()
        harness.advance(6)
        assert harness.output.rows == [(0, 10, [1])]
        at(harness, 9)
        assert harness.operator._own_state._states["window-contents"].is_empty_everywhere  # type: ignore[attr-defined]


def test_a_timeout_fires_what_a_count_has_not() -> None:
    trigger = PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(3), 50))
    with general(GlobalWindows.create(), trigger=trigger) as harness:
        assert push(harness, (0, 1), (0, 2), (0, 3), (0, 4)) == [(None, None, [1, 2, 3])]
        harness.output.clear()
        harness.advance(50)
        assert harness.output.rows == []
        harness.advance(1)
        assert harness.output.rows == [(None, None, [4])]


def test_a_timeout_may_begin_anew_with_each_row() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(9), 50, True, False)
    with general(GlobalWindows.create(), trigger=trigger) as harness:
        push(harness, (0, 1))
        harness.advance(40)
        push(harness, (0, 2))
        harness.advance(50)
        assert harness.output.rows == []
        harness.advance(1)
        assert harness.output.rows == [(None, None, [1, 2])]


# -- processing time


def test_processing_time_windows_fire_once_their_last_millisecond_has_passed() -> None:
    with general(TumblingProcessingTimeWindows.of(10)) as harness:
        harness.push({"key": ["a"], "value": [1]})
        harness.advance(9)
        harness.push({"key": ["a"], "value": [2]})
        assert harness.output.rows == []
        harness.advance(1)
        harness.push({"key": ["a"], "value": [3]})
        assert harness.output.rows == [(0, 10, [1, 2])]
        harness.advance(10)
        assert harness.output.rows == [(0, 10, [1, 2]), (10, 20, [3])]
        assert harness.output.timestamps == [9, 19]


def test_processing_time_sessions_end_when_no_row_has_come_for_the_gap() -> None:
    with general(ProcessingTimeSessionWindows.with_gap(10)) as harness:
        for value in range(4):
            harness.push({"key": ["a"], "value": [value]})
            harness.advance(9)
        assert harness.output.rows == []
        harness.advance(1)
        assert harness.output.rows == [(0, 37, [0, 1, 2, 3])]


def test_allowed_lateness_has_no_effect_on_processing_time() -> None:
    with general(TumblingProcessingTimeWindows.of(10), lateness=1000) as harness:
        harness.push({"key": ["a"], "value": [1]})
        harness.advance(10)
        assert harness.operator._own_state._states["window-contents"].is_empty_everywhere  # type: ignore[attr-defined]


def test_continuous_processing_time_fires_at_multiples_and_at_the_end() -> None:
    trigger = ContinuousProcessingTimeTrigger.of(4)
    with general(TumblingProcessingTimeWindows.of(10), trigger=trigger) as harness:
        harness.push({"key": ["a"], "value": [1]})
        fired = []
        for now in range(1, 25):
            harness.output.clear()
            harness.advance(1)
            fired += [now] * len(harness.output.rows)
        assert fired == [5, 9, 10]


def test_continuous_processing_time_ends_for_windows_whose_end_is_past() -> None:
    with general(TumblingEventTimeWindows.of(10), trigger=ContinuousProcessingTimeTrigger.of(4)) as harness:
        harness.context.clock.now = 1_000
        push(harness, (0, 1))
        harness.advance(20)
        assert harness.output.rows == [(0, 10, [1])]


def test_processing_time_triggers_fire_event_time_windows_by_the_clock() -> None:
    with general(TumblingEventTimeWindows.of(10), trigger=ProcessingTimeTrigger.create()) as harness:
        push(harness, (0, 1))
        harness.advance(10)
        assert harness.output.rows == [(0, 10, [1])]


# -- counts and global windows


def test_count_windows_drop_what_has_fired() -> None:
    with general(CountTumblingWindowAssigner.of(2)) as harness:
        assert push(harness, (0, 1), (0, 2), (0, 3)) == [(None, None, [1, 2])]
        assert push(harness, (0, 4), (0, 5)) == [(None, None, [3, 4])]
        at(harness, MAX_TIMESTAMP)
        assert harness.output.rows == [], "what is not full does not fire"


def test_count_windows_slide_by_rows() -> None:
    with general(CountSlidingWindowAssigner.of(3, 2)) as harness:
        assert push(harness, *((0, value) for value in range(6))) == [(None, None, [0, 1, 2]), (None, None, [2, 3, 4])]


def test_global_windows_never_fire_on_their_own_and_need_no_event_time() -> None:
    with general(GlobalWindows.create()) as harness:
        harness.push({"key": ["a"], "value": [1]})
        harness.watermark(MAX_TIMESTAMP)
        assert harness.output.rows == []


def test_a_continuous_trigger_comes_to_an_end_with_the_data_in_a_window_without_an_end() -> None:
    with general(GlobalWindows.create(), trigger=ContinuousEventTimeTrigger.of(1)) as harness:
        push(harness, (0, 1))
        assert len(at(harness, MAX_TIMESTAMP)) == 2


# -- evictors, aggregates, functions


def test_what_an_evictor_must_return() -> None:
    class Forgetful(Evictor):
        def evict_before(self, elements: Any, size: int, window: Any, ctx: Any) -> Any:
            del elements[0]

        evict_after = evict_before

    with general(TumblingEventTimeWindows.of(10), evictor=Forgetful()) as harness:
        push(harness, (0, 1))
        with pytest.raises(TypeMismatchError, match="evict_before of Forgetful must return the list"):
            at(harness, 10)


def test_incremental_aggregation_with_an_evictor_sees_the_rows_that_are_left() -> None:
    keep = CountEvictor.of(2)
    windows = TumblingEventTimeWindows.of(10)
    with general(windows, evictor=keep, reduce=lambda a, b: {"key": a.key, "value": a.value + b.value}) as harness:
        push(harness, (0, 1), (0, 2), (0, 4))
        assert [row.value for row in at(harness, 10)] == [6]
    with general(windows, evictor=keep, aggregates=(("n", Count()), ("s", Sum("value")))) as harness:
        push(harness, (0, 1), (0, 2), (0, 4))
        assert [tuple(row) for row in at(harness, 10)] == [("a", 0, 10, 2, 6)]


def test_an_evictor_that_leaves_nothing() -> None:
    nothing = CountEvictor.of(0)
    with general(TumblingEventTimeWindows.of(10), evictor=nothing) as harness:
        push(harness, (0, 1))
        assert at(harness, 10) == [(0, 10, [])]
    with general(TumblingEventTimeWindows.of(10), evictor=nothing, reduce=max) as harness:
        push(harness, (0, 1))
        assert at(harness, 10) == []


def test_a_window_function_is_told_when_its_window_is_over() -> None:
    cleared: list[Any] = []

    class Counting(ProcessWindowFunction):
        def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> list[Any]:
            firings = context.window_state().get_state(ValueStateDescriptor("firings"))
            total = context.global_state().get_state(ValueStateDescriptor("total"))
            firings.update((firings.value() or 0) + 1)
            total.update((total.value() or 0) + 1)
            return [(firings.value(), total.value(), context.current_watermark(), context.current_processing_time())]

        def clear(self, context: WindowContext) -> None:
            cleared.append(
                (context.window(), context.window_state().get_state(ValueStateDescriptor("firings")).value())
            )
            context.window_state().get_state(ValueStateDescriptor("firings")).clear()

    with general(TumblingEventTimeWindows.of(10), trigger=CountTrigger.of(1), process=Counting()) as harness:
        harness.context.clock.now = 77
        assert push(harness, (0, 1), (1, 2), (15, 3)) == [
            (1, 1, -(2**63), 77),
            (2, 2, -(2**63), 77),
            (1, 3, -(2**63), 77),
        ]
        at(harness, 30)
        assert cleared == [(Window(0, 10), 2), (Window(10, 20), 1)]


def test_a_window_function_with_wrong_types_names_the_operator() -> None:
    with general(TumblingEventTimeWindows.of(10), process=lambda *_: 5) as harness:
        push(harness, (0, 1))
        with pytest.raises(TypeMismatchError, match=r"'op'.*must yield its results.*not return 5"):
            at(harness, 10)


def test_rows_without_event_time_are_refused_by_event_time_windows() -> None:
    with general(SESSIONS) as harness, pytest.raises(NullTimestampError, match="assign_timestamps_and_watermarks"):
        harness.push({"key": ["a"], "value": [1]})


def test_late_rows_are_counted_where_they_have_no_output() -> None:
    with OperatorHarness(GeneralWindowOperator(WindowFactory(SESSIONS, process=listed)), keys=[KEY]) as harness:
        harness.watermark(100)
        harness.push({"key": ["a", "a"], "value": [1, 2]}, [1, 99])
        assert harness.context.metrics.counters == {"late_records_dropped": 1}


# -- snapshots


def test_the_clocks_windows_timers_and_counts_go_on_from_a_snapshot() -> None:
    before = general(TumblingProcessingTimeWindows.of(10), trigger=PurgingTrigger.of(CountTrigger.of(2)))
    before.push({"key": ["a"], "value": [1]})
    restored = restored_from([before.snapshot()], range(128))
    before.operator.close()
    factory = WindowFactory(
        TumblingProcessingTimeWindows.of(10), trigger=PurgingTrigger.of(CountTrigger.of(2)), process=listed
    )
    with OperatorHarness(GeneralWindowOperator(factory), keys=[KEY], restored=restored) as harness:
        harness.push({"key": ["a"], "value": [2]})
        assert harness.output.rows == [(0, 10, [1, 2])]
        harness.advance(10)
        assert harness.operator._own_state._states["window-contents"].is_empty_everywhere  # type: ignore[attr-defined]
        assert not len(harness.operator._timers._processing_timers)  # type: ignore[attr-defined]


def test_count_windows_go_on_from_a_snapshot() -> None:
    before = general(CountTumblingWindowAssigner.of(3), aggregates=(("s", Sum("value")),))
    push(before, (0, 1), (0, 2))
    restored = restored_from([before.snapshot()], range(128))
    factory = WindowFactory(CountTumblingWindowAssigner.of(3), aggregates=(("s", Sum("value")),))
    with OperatorHarness(GeneralWindowOperator(factory), keys=[KEY], restored=restored) as harness:
        assert [row.s for row in push(harness, (0, 4))] == [7]


# -- which operator


def test_the_plain_case_stays_columnar_and_everything_else_runs_by_row() -> None:
    tumbling = TumblingEventTimeWindows.of(10)
    count = (("n", Count()),)

    class Own(TumblingEventTimeWindows):
        pass

    cases: list[tuple[WindowFactory, type]] = [
        (WindowFactory(tumbling, aggregates=count), ColumnarWindowOperator),
        (WindowFactory(tumbling, aggregates=count, trigger=EventTimeTrigger.create()), ColumnarWindowOperator),
        (WindowFactory(tumbling, aggregates=count, trigger=CountTrigger.of(1)), GeneralWindowOperator),
        (WindowFactory(tumbling, aggregates=count, evictor=CountEvictor.of(1)), GeneralWindowOperator),
        (WindowFactory(Own(Millis(10)), aggregates=count), GeneralWindowOperator),
        (WindowFactory(GlobalWindows.create(), aggregates=count), GeneralWindowOperator),
        (WindowFactory(tumbling, process=listed), ProcessWindowOperator),
        (WindowFactory(tumbling, reduce=max), RowWindowOperator),
        (WindowFactory(tumbling, reduce=max, process=listed), RowWindowOperator),
        (WindowFactory(tumbling, process=listed, trigger=CountTrigger.of(1)), GeneralWindowOperator),
        (WindowFactory(TumblingProcessingTimeWindows.of(10), process=listed), ProcessWindowOperator),
        (WindowFactory(SESSIONS, process=listed), RowSessionOperator),
        (WindowFactory(ProcessingTimeSessionWindows.with_gap(10), reduce=max), RowSessionOperator),
        (WindowFactory(SESSIONS, process=listed, evictor=CountEvictor.of(1)), GeneralWindowOperator),
    ]
    for factory, expected in cases:
        assert type(create_window_operator(code(factory, "key"))) is expected, factory
    assert columnar_operator(WindowFactory(tumbling, process=listed)) is None
