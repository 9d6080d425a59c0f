"""Sliding windows put together from slices merged ahead give what they give slice by slice."""

from __future__ import annotations

import random
from typing import Any

import pytest

from actors.operators.aggregates.accumulators import selection_size
from actors.operators.windows.aligned import aggregate_operator
from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.operators.windows.aligned.merged_slices import MergedSlices, SliceAggregate
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, Millis
from flinkray.windows.aggregates import Aggregate, Avg, CollectList, Count, First, Last, Max, Sum
from flinkray.windows.assigners import (
    AlignedWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.support.operators import FakeContext, ManualClock, OperatorHarness
from tests.support.rescaling import Subtasks
from tests.support.window_cases import random_case

KEY = (ColumnKey(("key",)),)


@pytest.fixture(autouse=True)
def _merged_however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregate_operator, "_FEW_ACCUMULATORS", 0)


OF_FIXED_SIZE: tuple[tuple[str, Aggregate], ...] = (
    ("rows", Count()),
    ("total", Sum("value")),
    ("mean", Avg("value")),
    ("high", Max("value")),
    ("first", First("row")),
    ("last", Last("value")),
)


def operator(assigner: AlignedWindows, merges: bool, lateness: int) -> ColumnarWindowOperator:
    aggregates = OF_FIXED_SIZE if merges else (*OF_FIXED_SIZE, ("all", CollectList("row")))
    return ColumnarWindowOperator(WindowFactory(assigner, aggregates, allowed_lateness_ms=Millis(lateness)))


def results(subtasks: Subtasks) -> list[tuple[Any, ...]]:
    """In order, where there is one subtask."""
    found = []
    for harness in subtasks.harnesses:
        found += [tuple(value for name, value in row.items() if name != "all") for row in harness.output.dicts]
        harness.output.clear()
    return found if len(subtasks.harnesses) == 1 else sorted(found, key=repr)


@pytest.mark.parametrize("seed", range(25))
def test_windows_of_merged_slices_are_those_of_single_slices(seed: int) -> None:
    """Also after late rows, within the allowed lateness too, after compacting and in new subtasks."""
    chance = random.Random(seed)
    case = random_case(500 + seed, 200)
    assigner = SlidingEventTimeWindows.of(chance.choice((30, 70, 160)), chance.choice((5, 10)), chance.randrange(5))
    lateness = chance.choice((0, 0, 50))
    selectors = [ColumnKey(case.key_names)]
    merging, plain = (
        Subtasks(lambda merges=merges: operator(assigner, merges, lateness), selectors) for merges in (True, False)
    )
    for (data, times), mark in zip(case.batches, case.watermarks, strict=True):
        for subtasks in (merging, plain):
            subtasks.push(data, times)
            if mark is not None:
                subtasks.watermark(mark)
        assert results(merging) == results(plain)
        if chance.random() < 0.1:
            parallelism = chance.randint(1, 3)
            merging, plain = merging.rescaled(parallelism), plain.rescaled(parallelism)


def test_a_window_asks_for_few_parts_and_a_late_row_drops_only_those_over_its_slice() -> None:
    harness = OperatorHarness(operator(SlidingEventTimeWindows.of(64, 1), True, 0), keys=KEY)
    columns = {"key": ["a", "b"] * 64, "value": [1] * 128, "row": list(range(128))}
    times = [row // 2 for row in range(128)]
    harness.push(columns, times)
    assert isinstance(harness.operator, ColumnarWindowOperator)
    store = harness.operator._store
    asked: list[int] = []

    def aggregate_of(number: int) -> SliceAggregate | None:
        asked.append(number)
        accumulators = store.accumulators_of(number)
        return store.slice_aggregate(accumulators) if selection_size(accumulators) else None

    merged = MergedSlices(aggregate_of)
    assert len(list(merged.parts(0, 64))) == 1
    assert sorted(asked) == list(range(64))
    asked.clear()
    assert len(list(merged.parts(1, 64))) == 6
    assert asked == [1]
    asked.clear()
    merged.drop([37])
    assert len(list(merged.parts(0, 64))) == 1
    assert sorted(asked) == [36, 37]


# -- windows of processing time


def in_processing_time(assigner: AlignedWindows) -> OperatorHarness:
    context = FakeContext(keys=KEY, clock=ManualClock(1003))
    factory = WindowFactory(assigner, (("total", Sum("value")),), allowed_lateness_ms=Millis(1000))
    return OperatorHarness(ColumnarWindowOperator(factory), context=context)


def shown(harness: OperatorHarness) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in harness.output.dicts]
    harness.output.clear()
    return rows


def test_a_batch_is_in_the_window_of_its_arrival_which_fires_when_the_clock_has_passed_it() -> None:
    harness = in_processing_time(TumblingProcessingTimeWindows.of(10))
    harness.push({"key": ["a", "b", "a"], "value": [1, 2, 3]}, [5, 6, 7])
    harness.advance(6)
    harness.push({"key": ["b"], "value": [4]})
    harness.watermark(MAX_TIMESTAMP)
    assert shown(harness) == [], "the window has a millisecond left, and watermarks do not matter"
    harness.advance(1)
    assert harness.output.timestamps == [1009, 1009]
    assert shown(harness) == [("a", 1000, 1010, 4), ("b", 1000, 1010, 6)]
    assert harness.context.metrics.counters == {}, "nothing is late"
    assert not harness.context.timers


def test_sliding_windows_of_processing_time() -> None:
    harness = in_processing_time(SlidingProcessingTimeWindows.of(10, 5))
    harness.push({"key": ["a"], "value": [1]})
    harness.advance(5)
    assert shown(harness) == [("a", 995, 1005, 1)]
    harness.push({"key": ["a"], "value": [2]})
    harness.advance(100)
    assert shown(harness) == [("a", 1000, 1010, 3), ("a", 1005, 1015, 2)]


def test_a_clock_that_is_set_back_stands_still() -> None:
    harness = in_processing_time(TumblingProcessingTimeWindows.of(10))
    harness.push({"key": ["a"], "value": [1]})
    harness.advance(7)
    assert shown(harness) == [("a", 1000, 1010, 1)]
    harness.context.clock.now = 1002
    harness.push({"key": ["a"], "value": [2]})
    harness.advance(30)
    assert shown(harness) == [("a", 1010, 1020, 2)]


def test_windows_of_processing_time_that_wait_at_the_end_of_the_input_do_not_fire() -> None:
    harness = in_processing_time(TumblingProcessingTimeWindows.of(10))
    harness.push({"key": ["a"], "value": [1]})
    harness.watermark(MAX_TIMESTAMP)
    harness.end()
    harness.advance(100)
    assert shown(harness) == []


def test_windows_of_processing_time_that_ended_before_a_restore_fire_at_once_and_once() -> None:
    assigner = SlidingProcessingTimeWindows.of(10, 5)
    factory = WindowFactory(assigner, (("total", Sum("value")),))
    before = Subtasks(lambda: ColumnarWindowOperator(factory), KEY, 2)
    before.push({"key": list(range(8)), "value": [1] * 8})
    before.harnesses[1].advance(5)
    fired = results(before)
    assert 0 < len(fired) < 8
    after = before.rescaled(1)
    (harness,) = after.harnesses
    harness.advance(12)
    rest = results(after)
    assert len(rest) == 16 - len(fired)
    assert sorted(fired + rest) == sorted((key, start, start + 10, 1) for key in range(8) for start in (-5, 0))
