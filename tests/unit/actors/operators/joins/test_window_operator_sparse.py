"""Window joins of many windows with few rows each: the same pairs, few batches, and no memory for what is over."""

from __future__ import annotations

import gc
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.joins.window_operator import (
    ColumnarJoinOperator,
    TwoInputWindowOperator,
    create_co_group_operator,
)
from actors.operators.windows.base.times import AlignedWindowTimes
from actors.operators.windows.buffers import firing_batches
from flinkray.batches.batch import Batch
from flinkray.transformations.operator_factories import WindowCoGroupFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Kind, Millis
from flinkray.windows.assigners import AlignedWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.support.operators import OperatorHarness, code
from tests.support.state import restored_from
from tests.support.windows import Event, Firing, WindowModel

TUMBLING = TumblingEventTimeWindows.of(10)
SLIDING = SlidingEventTimeWindows.of(30, 10)
ASSIGNERS = [
    TUMBLING,
    TumblingEventTimeWindows.of(10, -3),
    SLIDING,
    SlidingEventTimeWindows.of(25, 10, 4),
    SlidingEventTimeWindows.of(7, 15),  # with gaps
]
KEYS = (ColumnKey(("key",)), ColumnKey(("key",)))


def pair(left: Any, right: Any) -> tuple[int, int]:
    return left.value, right.value


def group(first: Any, second: Any) -> list[tuple[list[int], list[int]]]:
    return [([row.value for row in first], [row.value for row in second])]


FUNCTIONS: dict[str, Any] = {"columns": None, "pairs": pair, "groups": group}


def harness_of(assigner: AlignedWindows, lateness: int = 0, shape: str = "columns", **settings: Any) -> OperatorHarness:
    factory = WindowCoGroupFactory(assigner, shape != "groups", FUNCTIONS[shape], Millis(lateness))
    return OperatorHarness(create_co_group_operator(code(factory, *KEYS)), keys=KEYS, **settings)


def push(harness: OperatorHarness, events: list[Event], side: int) -> None:
    columns = {"key": pa.array([event.key for event in events], pa.int64()), "value": [e.value[1] for e in events]}
    harness.push(columns, [event.time for event in events], side)


def both(harness: OperatorHarness, watermark: int) -> None:
    harness.watermark(watermark, 0)
    harness.watermark(watermark, 1)


def results_of(harness: OperatorHarness, shape: str) -> list[Any]:
    if shape == "columns":
        rows = [(row["value"], row["value_right"]) for row in harness.output.dicts]
    else:
        rows = harness.output.rows
    return list(zip(harness.output.timestamps, rows, strict=True))


def expected_of(fired: list[Firing], size: int, shape: str) -> list[Any]:
    """In the order in which they are to come: by window, then by arrival, of which a row's value is the number."""
    results: list[tuple[Any, Any]] = []
    for firing in fired:
        first, second = ([value for side, value in firing.values if side == wanted] for wanted in (0, 1))
        time = firing.start + size - 1
        if shape == "groups":
            results.append(((time, min(first + second)), (time, (first, second))))
        else:
            arrival = min(first + second) if shape == "pairs" else 0  # a function is called key by key
            results += [((time, arrival, one, other), (time, (one, other))) for one in first for other in second]
    return [result for _, result in sorted(results, key=lambda entry: entry[0])]


def random_events(chance: random.Random, count: int, around: int, side: int, first: int) -> list[Event]:
    spread = chance.choice((20, 300, 3000))
    keys = chance.choice(([None, 1], [None, *range(5)]))
    times = (around + chance.randrange(spread) for _ in range(count))
    return [Event(time, chance.choice(keys), (side, first + number)) for number, time in enumerate(times)]


@pytest.mark.parametrize("seed", range(60))
def test_many_windows_give_what_a_loop_over_all_pairs_gives_in_its_order_also_across_a_restore(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    shape, assigner = list(FUNCTIONS)[seed % 3], ASSIGNERS[seed % len(ASSIGNERS)]
    if seed % 2:  # windows come in several groups, and in several pieces of windows
        for operator in (TwoInputWindowOperator, ColumnarJoinOperator):
            monkeypatch.setattr(operator, "_ROWS_AT_ONCE", 25)
        monkeypatch.setattr(firing_batches, "_WINDOWS_AT_ONCE", 7)
    lateness = chance.choice((0, 0, 40, 2000))
    harness, model = harness_of(assigner, lateness, shape), WindowModel(assigner, lateness)
    now = number = 0
    for _ in range(14):
        harness.output.clear()
        step = chance.random()
        if step < 0.6:
            side = chance.randrange(2)
            events = random_events(chance, chance.choice((1, 5, 60)), now, side, number)
            number += len(events)
            push(harness, events, side)
            fired = model.batch(events)
        elif step < 0.9:
            now += chance.choice((7, 100, 1000))
            both(harness, now)
            fired = model.advance(now)
        else:
            saved = restored_from([harness.snapshot()], range(128))
            harness, fired = harness_of(assigner, lateness, shape, restored=saved), []
            both(harness, now if model.watermark > MIN_TIMESTAMP else MIN_TIMESTAMP)
        assert results_of(harness, shape) == expected_of(fired, assigner.size_ms, shape)
    harness.output.clear()
    both(harness, MAX_TIMESTAMP)
    assert results_of(harness, shape) == expected_of(model.advance(MAX_TIMESTAMP), assigner.size_ms, shape)
    operator: Any = harness.operator
    assert not any(buffer.layouts for buffer in operator._buffers)


def calls_of(action: Callable[[], object]) -> Counter[str]:
    """How often it calls what of Arrow."""
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "c_call" and "pyarrow" in (getattr(argument, "__module__", None) or ""):
            calls[argument.__name__] += 1
        if event == "call" and "pyarrow" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1

    gc.disable()  # a collection calls what others have registered for it
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING])
@pytest.mark.parametrize("is_late", [False, True])
def test_many_windows_take_as_many_calls_of_arrow_and_as_many_batches_as_few(
    assigner: AlignedWindows, is_late: bool
) -> None:
    def run(windows: int) -> OperatorHarness:
        harness = harness_of(assigner, lateness=10**9)
        rows = [Event(100 * number, number % 10, (0, number)) for number in range(windows)]
        if is_late:
            both(harness, 100 * windows)
        push(harness, rows, 0)
        push(harness, rows, 1)
        both(harness, 100 * windows)
        return harness

    for windows in (20, 2000):  # the first fills caches
        run(windows)
    few, many = (calls_of(lambda: run(windows)) for windows in (20, 2000))  # noqa: B023
    assert few["take"] > 2
    assert many == few
    (batch,) = run(2000).output.batches
    assert batch.num_rows == 2000 * assigner.size_ms // 10


def test_a_row_far_ahead_in_each_batch_does_not_keep_the_others_in_memory() -> None:
    harness = harness_of(TUMBLING)
    text = "x" * 1000
    before = pa.total_allocated_bytes()
    for number in range(200):
        times = np.append(np.full(100, 10 * number), 10**6 + 10 * number)
        data = pa.record_batch({"key": np.arange(101), "text": [text] * 101})
        for side in (0, 1):
            harness.operator.process_batch(Batch(data, Kind.ROW, pa.array(times)), side)
        del data
        both(harness, 10 * number + 9)
        harness.output.clear()
    kept = 2 * 200 * 1000
    assert pa.total_allocated_bytes() - before < 3 * kept
    both(harness, MAX_TIMESTAMP)
    assert len(harness.output.rows) == 200


def test_one_row_far_ahead_keeps_nothing_but_itself_in_memory() -> None:
    harness = harness_of(TUMBLING)
    before = pa.total_allocated_bytes()
    data = pa.record_batch({"key": np.arange(1000), "text": ["x" * 1000] * 1000})
    harness.operator.process_batch(Batch(data, Kind.ROW, pa.array(np.append(np.zeros(999, np.int64), 10**6))), 0)
    del data
    assert pa.total_allocated_bytes() - before > 10**6
    both(harness, 100)
    assert pa.total_allocated_bytes() - before < 10**5


def test_many_small_batches_are_kept_in_few_runs() -> None:
    harness = harness_of(TUMBLING)
    operator: Any = harness.operator
    for number in range(3000):
        push(harness, [Event(1000 * (number % 50), number, (0, number))], 0)
    (layout,) = operator._buffers[0].layouts
    assert sum(run.num_rows for run in layout.runs) == 3000
    assert len(layout.runs) < 35


def test_columns_of_a_type_of_its_own_in_each_window_stay_as_they_are() -> None:
    harness = harness_of(TUMBLING)
    for number in range(40):
        value = pa.array([number]) if number % 20 < 10 else pa.array([f"text {number}"])
        harness.push({"key": [1], "value": value}, [10 * number], 0)
    harness.push({"key": [1] * 40, "other": list(range(40))}, [10 * number for number in range(40)], 1)
    both(harness, MAX_TIMESTAMP)
    assert [batch.data.schema.field("value").type for batch in harness.output.batches] == 2 * [pa.int64(), pa.string()]
    values = [value for batch in harness.output.batches for value in batch.data.column("value").to_pylist()]
    assert values == [number if number % 20 < 10 else f"text {number}" for number in range(40)]


def test_dictionaries_that_have_no_room_in_one_are_not_put_together_where_no_window_needs_it() -> None:
    harness = harness_of(TUMBLING)
    for number in range(10):
        values = pa.array([f"{number} {index}" for index in range(100)])
        codes = pa.DictionaryArray.from_arrays(pa.array([number], pa.int8()), values)
        harness.push({"key": [1], "value": codes}, [10 * number], 0)
    harness.push({"key": [1] * 10, "other": list(range(10))}, [10 * number for number in range(10)], 1)
    both(harness, MAX_TIMESTAMP)
    assert [row["value"] for row in harness.output.dicts] == [f"{number} {number}" for number in range(10)]
    assert [row["other"] for row in harness.output.dicts] == list(range(10))


def test_windows_of_the_next_keys_of_a_batch_job_fire_although_those_before_were_later() -> None:
    harness = harness_of(SLIDING)
    for key in (1, 2):
        for side in (0, 1):
            push(harness, [Event(1000 // key, key, (side, key))], side)
        harness.operator.end_keys()
    assert harness.output.timestamps == [1009, 1019, 1029, 509, 519, 529]


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING])
def test_windows_are_put_together_until_they_have_so_many_rows(assigner: AlignedWindows) -> None:
    harness = harness_of(assigner)
    operator: Any = harness.operator
    for side in (0, 1):
        push(harness, [Event(number // 10 * 10, number, (side, number)) for number in range(300)], side)
        push(harness, [Event(150, number, (side, number)) for number in range(200)], side)
    starts = np.arange(0, 300, 10)
    groups = list(firing_batches.firing_batches_of(starts, assigner.size_ms, operator._buffers, 100))
    assert np.concatenate([group.starts for group in groups]).tolist() == starts.tolist()
    rows = [sum(int(found.counts.sum()) for side in group.sides for found in side) for group in groups]
    assert sum(rows) == sum(rows_in(start, assigner.size_ms) for start in starts.tolist())
    assert all(count <= 100 or len(group.starts) == 1 for count, group in zip(rows, groups, strict=True))
    assert all(one + other > 100 for one, other in itertools.pairwise(rows))


def rows_in(start: int, size: int) -> int:
    """Of both sides, in the test above."""
    return 2 * sum(10 + 200 * (time == 150) for time in range(start, min(start + size, 300), 10))


@pytest.mark.parametrize("seed", range(40))
def test_windows_over_slices_are_those_over_any_of_them_each_once(seed: int) -> None:
    chance = random.Random(seed)
    times = AlignedWindowTimes(chance.choice(ASSIGNERS), 0)
    numbers = sorted({chance.randrange(-60, 60) for _ in range(chance.randint(1, 30))})
    slices = [number * times.slice + times.offset for number in numbers]
    after, until = chance.choice(((MIN_TIMESTAMP - 50, MAX_TIMESTAMP), (-100, 90), (13, 14), (20, -20)))
    expected = sorted({start for each in slices for start in times.starts_over_slice(each) if after < start <= until})
    pieces = firing_batches.window_starts(times, [np.array(slices)], after, until)
    assert [start for piece in pieces for start in piece.tolist()] == expected
