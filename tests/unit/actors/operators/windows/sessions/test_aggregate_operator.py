"""The rules of session windows with built-in aggregates."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.windows.sessions import end_queue
from actors.operators.windows.sessions import store as session_store
from actors.operators.windows.sessions.aggregate_operator import ColumnarSessionOperator
from flinkray.errors import NullTimestampError, UserFunctionError
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis, OutputTag
from flinkray.windows.aggregates import ArgMax, CollectList, Count, CountDistinct, First, Last, Max, Sum
from flinkray.windows.assigners import EventTimeSessionWindows, ProcessingTimeSessionWindows, SessionWindows
from tests.support.operators import FakeContext, ManualClock, OperatorHarness
from tests.support.rescaling import Subtasks
from tests.support.window_cases import Session, SessionModel, assert_updates_then_results, random_case

KEY = (ColumnKey(("key",)),)
LATE = OutputTag("late")
GAP = EventTimeSessionWindows.with_gap(10)


class AggregatedHarness:
    """The operator; results read as (key, start, end, values in order)."""

    def __init__(self, assigner: SessionWindows = GAP, lateness: int = 0, is_keyed: bool = True, **settings: Any):
        factory = WindowFactory(
            assigner, (("values", CollectList("value")),), allowed_lateness_ms=Millis(lateness), late_tag=LATE
        )
        self.operator = ColumnarSessionOperator(factory)
        self.harness = OperatorHarness(self.operator, keys=KEY if is_keyed else (None,), **settings)

    def push(self, *rows: tuple[str, int, int]) -> None:
        """(key, time, value)"""
        keys, times, values = zip(*rows, strict=True)
        self.harness.push({"key": list(keys), "value": list(values)}, list(times))
        self.operator._store.check()

    def watermark(self, timestamp: int) -> None:
        self.harness.watermark(timestamp)
        self.operator._store.check()

    def take(self) -> list[tuple[Any, ...]]:
        """What came out since the last time."""
        rows = [
            (row.get("key"), row["window_start"], row["window_end"], row["values"]) for row in self.harness.output.dicts
        ]
        self.late = [row.value for row in self.harness.output.side("late")]
        self.harness.output.clear()
        return rows


def test_a_session_ends_a_gap_after_its_last_element_and_fires_at_its_last_millisecond() -> None:
    sessions = AggregatedHarness()
    sessions.push(("a", 0, 1), ("a", 7, 2))
    sessions.watermark(15)
    assert sessions.take() == []
    sessions.watermark(16)
    assert sessions.take() == [("a", 0, 17, [1, 2])]


def test_windows_that_touch_merge_and_those_a_millisecond_apart_do_not() -> None:
    sessions = AggregatedHarness()
    sessions.push(("a", 0, 1), ("a", 10, 2), ("a", 31, 3))
    sessions.push(("a", 21, 4))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [("a", 0, 20, [1, 2]), ("a", 21, 41, [3, 4])]


def test_an_element_between_two_sessions_makes_them_one() -> None:
    sessions = AggregatedHarness()
    sessions.push(("a", 0, 1), ("a", 18, 2), ("b", 5, 3))
    sessions.push(("a", 9, 4))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [("b", 5, 15, [3]), ("a", 0, 28, [1, 2, 4])]


def test_results_are_ordered_by_end_start_and_first_arrival_and_carry_the_last_millisecond() -> None:
    sessions = AggregatedHarness()
    sessions.push(("c", 5, 1), ("b", 5, 2), ("a", 2, 3), ("a", 5, 4))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.harness.output.timestamps == [14, 14, 14]
    assert [row[0] for row in sessions.take()] == ["a", "c", "b"]


def test_a_late_element_that_merges_into_a_live_session_is_not_late() -> None:
    sessions = AggregatedHarness()
    sessions.push(("a", 10, 1), ("a", 18, 2), ("b", 18, 3))
    sessions.watermark(20)
    sessions.push(("a", 2, 4), ("b", 2, 5))  # both windows end at 12; that of "a" touches [10, 28)
    assert sessions.take() == []
    assert sessions.late == [5]
    sessions.watermark(27)
    assert sessions.take() == [("a", 2, 28, [1, 2, 4]), ("b", 18, 28, [3])]


def test_a_late_element_is_saved_by_those_before_it_and_not_by_those_after_it() -> None:
    sessions = AggregatedHarness()
    sessions.push(("a", 30, 1))
    sessions.watermark(30)
    sessions.push(("a", 12, 2), ("a", 22, 3), ("a", 13, 4), ("a", 1, 5))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [("a", 13, 40, [1, 3, 4])]
    assert sessions.late == [2, 5]


def test_each_element_within_the_allowed_lateness_makes_its_session_fire_again() -> None:
    sessions = AggregatedHarness(lateness=20)
    sessions.push(("a", 0, 1), ("b", 0, 2))
    sessions.watermark(9)
    assert [row[0] for row in sessions.take()] == ["a", "b"]
    sessions.push(("a", 0, 3), ("a", 0, 4))
    assert sessions.take() == [("a", 0, 10, [1, 3]), ("a", 0, 10, [1, 3, 4])]
    sessions.push(("a", 5, 5))
    assert sessions.take() == [], "the merged session ends at 15"
    sessions.watermark(14)
    assert sessions.take() == [("a", 0, 15, [1, 3, 4, 5])]
    sessions.watermark(28)
    assert sessions.take() == []
    sessions.push(("b", 0, 6), ("b", 0, 7))
    assert sessions.take() == [("b", 0, 10, [2, 6]), ("b", 0, 10, [2, 6, 7])]
    sessions.watermark(29)
    sessions.push(("b", 0, 8))
    assert sessions.take() == []
    assert sessions.late == [8]


def test_late_elements_are_counted_where_there_is_no_output_for_them() -> None:
    factory = WindowFactory(GAP, (("rows", Count()),))
    harness = OperatorHarness(ColumnarSessionOperator(factory), keys=KEY)
    harness.watermark(100)
    harness.push({"key": ["a", "a", "a"]}, [90, 92, 3])
    assert harness.context.metrics.counters == {"late_records_dropped": 2}


def test_each_row_may_bring_its_own_gap() -> None:
    sessions = AggregatedHarness(EventTimeSessionWindows.with_dynamic_gap(lambda row: row.value))
    sessions.push(("a", 0, 50), ("a", 10, 5), ("a", 51, 9), ("a", 60, 7))
    sessions.push(("a", 50, 1))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [("a", 0, 67, [50, 5, 51 - 42, 7, 1])]


def test_a_gap_may_be_an_integer_of_numpy() -> None:
    sessions = AggregatedHarness(EventTimeSessionWindows.with_dynamic_gap(lambda _: np.int64(5)))  # type: ignore[arg-type, return-value]
    sessions.push(("a", 0, 1))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [("a", 0, 5, [1])]


@pytest.mark.parametrize("gap", [0, -1, 1.5, None, True])
def test_a_gap_that_is_not_positive_names_the_row(gap: Any) -> None:
    sessions = AggregatedHarness(EventTimeSessionWindows.with_dynamic_gap(lambda _: gap))
    with pytest.raises(UserFunctionError, match="positive number of milliseconds"):
        sessions.push(("a", 0, 50))


def test_an_element_without_event_time_is_an_error() -> None:
    with pytest.raises(NullTimestampError, match="assign_timestamps_and_watermarks"):
        AggregatedHarness().harness.push({"key": ["a"], "value": [1]})


def test_sessions_of_a_stream_without_keys() -> None:
    sessions = AggregatedHarness(is_keyed=False)
    sessions.push(("a", 0, 1), ("b", 7, 2), ("c", 30, 3))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [(None, 0, 17, [1, 2]), (None, 30, 40, [3])]


def test_a_session_at_the_end_of_time_ends_there() -> None:
    sessions = AggregatedHarness()
    sessions.push(("a", MAX_TIMESTAMP - 3, 1), ("a", MAX_TIMESTAMP - 1, 2))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [("a", MAX_TIMESTAMP - 3, MAX_TIMESTAMP, [1, 2])]


def test_sessions_that_are_over_leave_no_room_taken() -> None:
    sessions = AggregatedHarness()
    for number in range(40):
        keys = [f"key {number * 500 + row}" for row in range(500)]
        sessions.harness.push({"key": keys, "value": [1] * 500}, [number * 100] * 500)
        sessions.watermark(number * 100 + 50)
    store = sessions.operator._store
    assert store.session_count == 0
    assert store._table.count < 5000
    assert len(store._keys) < 5000


# -- processing time


def test_processing_time_sessions_are_of_the_time_at_which_rows_arrive() -> None:
    clock = ManualClock(1000)
    sessions = AggregatedHarness(
        ProcessingTimeSessionWindows.with_gap(10), context=FakeContext(keys=KEY, clock=clock), lateness=500
    )
    sessions.push(("a", 7, 1), ("b", 3, 2))
    sessions.harness.advance(8)
    sessions.push(("a", 7, 3))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [], "watermarks do not matter"
    sessions.harness.advance(2)
    assert sessions.harness.output.timestamps == [1009]
    assert sessions.take() == [("b", 1000, 1010, [2])]
    sessions.harness.advance(8)
    assert sessions.take() == [("a", 1000, 1018, [1, 3])]
    assert not sessions.harness.context.timers, "nothing waits"


# -- against a model, and at any parallelism


@pytest.mark.parametrize("seed", range(60))
def test_sessions_are_those_of_the_model(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    case = random_case(seed, 100)
    if seed % 2:
        monkeypatch.setattr(session_store, "_FEWEST_COMPACTED", 0)
        monkeypatch.setattr(end_queue, "_FAN_IN", 2)
    gaps = [chance.randrange(1, 40) for _ in range(7)]
    is_dynamic, lateness = seed % 3 == 0, chance.choice((0, 0, 20, 1000))
    gap = gaps[0]
    assigner = (
        EventTimeSessionWindows.with_dynamic_gap(lambda row: gaps[row.row % 7])
        if is_dynamic
        else EventTimeSessionWindows.with_gap(gap)
    )
    model = SessionModel((lambda event: gaps[event[2] % 7]) if is_dynamic else (lambda _: gap), lateness)
    factory = WindowFactory(
        assigner, (("rows", CollectList("row")),), allowed_lateness_ms=Millis(lateness), late_tag=LATE
    )
    operator = ColumnarSessionOperator(factory)
    with OperatorHarness(operator, keys=[ColumnKey(case.key_names)], batch_rows=chance.choice((3, 1000))) as harness:
        for (data, times), mark in zip(case.batches, case.watermarks, strict=True):
            events = [(time, case.key_of(row), row["row"]) for row, time in zip(data.to_pylist(), times, strict=True)]
            harness.push(data, times)
            updates, results = model.batch(events), []
            if mark is not None and mark > model.watermark:
                harness.watermark(mark)
                results = model.advance(mark)
            operator._store.check()
            found = [
                (case.key_of(row), row["window_start"], row["window_end"], row["rows"]) for row in harness.output.dicts
            ]
            assert_updates_then_results(found, as_rows(updates), as_rows(results))
            assert [row.row for row in harness.output.side("late")] == [row for _, _, row in model.late]
            harness.output.clear()
            model.late.clear()


def as_rows(sessions: list[Session]) -> list[tuple[Any, ...]]:
    return [(each.key, each.start, each.end, [row for _, row in each.values]) for each in sessions]


AGGREGATES = (
    ("rows", Count()),
    ("total", Sum("value")),
    ("first", First("row")),
    ("last", Last("value")),
    ("high", Max("value")),
    ("at_high", ArgMax("row", by="value")),
    ("different", CountDistinct("value")),
    ("all", CollectList("row")),
)


@pytest.mark.parametrize("seed", range(15))
def test_sessions_go_on_at_any_parallelism(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", (1 << 30, 30)[seed % 2])
    case = random_case(1000 + seed, 120)
    lateness = chance.choice((0, 30))
    factory = WindowFactory(
        EventTimeSessionWindows.with_gap(chance.randrange(1, 30)),
        AGGREGATES,
        allowed_lateness_ms=Millis(lateness),
        late_tag=LATE,
    )
    selectors = [ColumnKey(case.key_names)]
    undisturbed = Subtasks(lambda: ColumnarSessionOperator(factory), selectors)
    moved = Subtasks(lambda: ColumnarSessionOperator(factory), selectors, chance.randint(1, 4))
    for (data, times), mark in zip(case.batches, case.watermarks, strict=True):
        for subtasks in (undisturbed, moved):
            subtasks.push(data, times)
            if mark is not None:
                subtasks.watermark(mark)
        assert sorted(map(repr, moved.take())) == sorted(map(repr, undisturbed.take()))
        if chance.random() < 0.3:
            moved = moved.rescaled(chance.randint(1, 4), lambda them: them.watermark(MAX_TIMESTAMP))


def rows_at(times: list[int], chance: random.Random) -> dict[str, Any]:
    return {
        "key": [f"key {chance.randrange(20)}" for _ in times],
        "value": list(range(len(times))),
        "row": list(range(len(times))),
    }


@pytest.mark.parametrize("seed", range(8))
def test_sessions_that_had_fired_in_a_subtask_that_was_ahead_do_not_fire_again(seed: int) -> None:
    chance = random.Random(seed)
    lateness = chance.choice((0, 40, 1000))
    factory = WindowFactory(GAP, AGGREGATES, allowed_lateness_ms=Millis(lateness), late_tag=LATE)
    former, undisturbed = (Subtasks(lambda: ColumnarSessionOperator(factory), KEY, 3) for _ in range(2))
    marks = [chance.randrange(40, 100) for _ in range(3)]
    times = [chance.randrange(150) for _ in range(100)]
    first = rows_at(times, chance)
    for subtasks in (former, undisturbed):
        subtasks.push(first, times)
        for harness, mark in zip(subtasks.harnesses, marks, strict=True):
            harness.watermark(mark)
    assert sorted(map(repr, former.take())) == sorted(map(repr, undisturbed.take()))
    after = former.rescaled(chance.choice((1, 2, 4))).rescaled(chance.choice((1, 2, 4)))
    later = [160 + chance.randrange(100) for _ in range(50)]
    second = rows_at(later, chance)
    for subtasks in (after, undisturbed):
        subtasks.push(second, later)
        for mark in (min(marks) + 1, max(marks) - 1, 400):
            subtasks.watermark(mark)
    assert sorted(map(repr, after.take())) == sorted(map(repr, undisturbed.take()))


def test_sessions_come_back_after_compacting_with_their_chains() -> None:
    sessions = AggregatedHarness(lateness=5)
    keys = [f"key {number}" for number in range(6000)]
    sessions.harness.push({"key": keys, "value": [0] * 6000}, [0] * 6000)
    sessions.harness.push({"key": keys[:10] * 2, "value": list(range(20))}, [100] * 10 + [130] * 10)
    sessions.watermark(50)
    assert len(sessions.take()) == 6000
    assert sessions.operator._store._table.count == 20
    sessions.push(("key 3", 105, 99), ("key 3", 115, 98), ("key 3", 122, 97))
    sessions.watermark(MAX_TIMESTAMP)
    found = sessions.take()
    assert ("key 3", 100, 140, [3, 13, 99, 98, 97]) in found
    assert len(found) == 19


def test_sessions_that_have_fired_and_are_kept_get_late_rows_and_end_after_compacting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_store, "_FEWEST_COMPACTED", 0)
    sessions = AggregatedHarness(lateness=50)
    sessions.push(("a", 0, 1), ("b", 0, 2), ("c", 0, 3), ("c", 60, 4), ("d", 60, 5))
    sessions.watermark(80)
    sessions.take()
    store = sessions.operator._store
    assert store._table.count == store.session_count == 2, "the first three are over, the others have fired"
    sessions.push(("c", 65, 6))
    assert sessions.take() == [("c", 60, 75, [4, 6])]
    sessions.watermark(200)
    assert sessions.take() == []
    assert store.session_count == 0


def test_a_batch_in_which_the_order_of_rows_decides_fires_a_session_again_with_each_row() -> None:
    sessions = AggregatedHarness(lateness=50)
    sessions.push(("a", 55, 1))
    sessions.watermark(100)
    sessions.take()
    sessions.push(("a", 56, 2), ("b", 35, 3), ("b", 43, 4), ("a", 57, 5), ("c", 60, 6))
    assert sorted(sessions.take()) == [
        ("a", 55, 66, [1, 2]),
        ("a", 55, 67, [1, 2, 5]),
        ("b", 43, 53, [4]),
        ("c", 60, 70, [6]),
    ]
    assert sessions.late == [3]


def test_a_late_row_does_not_part_another_key_from_its_older_sessions() -> None:
    sessions = AggregatedHarness()
    sessions.watermark(50)
    sessions.push(("a", 100, 1), ("b", 100, 2))
    sessions.push(("a", 10, 3), ("b", 200, 4))
    sessions.push(("b", 105, 5))
    sessions.watermark(MAX_TIMESTAMP)
    assert sessions.take() == [("a", 100, 110, [1]), ("b", 100, 115, [2, 5]), ("b", 200, 210, [4])]


def test_many_open_sessions_of_one_key_are_found_by_a_late_row() -> None:
    sessions = AggregatedHarness()
    times = np.arange(0, 100_000, 20)
    data = pa.RecordBatch.from_pydict({"key": ["a"] * len(times), "value": list(range(len(times)))})
    sessions.harness.push(data, times.tolist())
    sessions.push(("a", 10, 7), ("a", 99_999, 8))
    sessions.watermark(MAX_TIMESTAMP)
    assert len(sessions.take()) == len(times)
