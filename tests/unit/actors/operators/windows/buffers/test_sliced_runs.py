"""Runs of rows by slice, and the rows of windows that are found in them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.windows.buffers.buffered_rows import BufferedRows
from actors.operators.windows.buffers.row_buffer import RowBuffer
from actors.operators.windows.buffers.sliced_runs import SlicedRun, merged_runs
from actors.operators.windows.buffers.window_lookup import WindowedRows, WindowRanges, ordered_by_window, ranges_in
from flinkray.types.records import Kind


def rows_of(positions: list[int], fired_until: int | None = None) -> BufferedRows:
    """The value of a row is its position, and so is its key."""
    at = np.array(positions)
    fired = None if fired_until is None else np.full(len(at), fired_until)
    return BufferedRows(pa.table({"value": at}), Kind.ROW, at.copy(), at, fired)


def run_of(positions: list[int], slices: list[int]) -> SlicedRun:
    return SlicedRun.of_rows(rows_of(positions), np.array(slices))


def content(run: SlicedRun) -> list[tuple[int, int]]:
    """The slice and the value of each row."""
    return list(zip(run.slices().tolist(), run.live().data.column("value").to_pylist(), strict=True))


def found(run: SlicedRun, starts: list[int], size: int) -> list[WindowRanges]:
    one = ranges_in(run, np.array(starts), size)
    return [] if one is None else [one]


def test_rows_are_by_slice_and_those_of_a_slice_by_arrival() -> None:
    run = run_of([4, 1, 3, 2], [20, 10, 10, 20])
    assert content(run) == [(10, 1), (10, 3), (20, 2), (20, 4)]
    assert (run.earliest, run.latest, run.starts.tolist()) == (10, 20, [10, 20])


def test_merged_runs_are_by_arrival_also_where_a_later_run_has_earlier_rows() -> None:
    first, second = run_of([3, 5], [10, 20]), run_of([1, 4, 2], [10, 10, 20])
    assert content(merged_runs([first, second], "join")) == [(10, 1), (10, 3), (10, 4), (20, 2), (20, 5)]


def test_slices_up_to_the_limit_are_released_with_the_memory_of_most_rows() -> None:
    run = run_of(list(range(10)), [10] * 4 + [20] * 5 + [30])
    some = run.after(9)
    assert some is not None
    assert content(some) == content(run)
    some = run.after(10)
    assert some is not None
    assert content(some) == content(run)[4:]
    assert some.rows is run.rows, "half of the rows are worth no copy"
    few = some.after(20)
    assert few is not None
    assert content(few) == [(30, 9)]
    assert few.rows.num_rows == 1
    assert run.after(30) is None


@pytest.mark.parametrize("seed", range(30))
def test_windows_have_their_rows_by_arrival_and_hold_each_once(seed: int) -> None:
    chance = random.Random(seed)
    is_sliced = seed % 3 > 0
    size = chance.choice((20, 50)) if is_sliced else 10
    positions = list(range(60))
    chance.shuffle(positions)
    slices = [10 * chance.randrange(12) for _ in positions]
    cuts = sorted(chance.sample(range(1, 60), 3))
    pieces = [slice(begin, end) for begin, end in zip([0, *cuts], [*cuts, 60], strict=True)]
    runs = [run_of(positions[piece], slices[piece]) for piece in (pieces if chance.random() < 0.7 else [slice(60)])]
    starts = sorted(10 * number for number in chance.sample(range(-4, 14), chance.randint(1, 8)))
    windowed = ordered_by_window([each for run in runs for each in found(run, starts, size)], 60, is_sliced, "join")
    expected = [
        (window, position)
        for window, start in enumerate(starts)
        for position, at in sorted(zip(positions, slices, strict=True))
        if start <= at < start + size
    ]
    if windowed is None:
        assert not expected
        return
    assert list(zip(windowed.windows.tolist(), windowed.positions.tolist(), strict=True)) == expected
    assert windowed.data().to_pydict() == {"value": [position for _, position in expected]}
    assert windowed.ids.tolist() == [window * 60 + position for window, position in expected]
    assert windowed.rows.num_rows == len({position for _, position in expected})


@pytest.mark.parametrize("seed", range(30))
def test_the_rows_of_some_keys_are_those_that_have_them_and_were_not_released(seed: int) -> None:
    chance = random.Random(seed)
    positions = chance.sample(range(100), 40)
    slices = [10 * chance.randrange(5) for _ in positions]
    run = run_of(positions, slices)
    place = np.array([position % 7 for position in range(100)])
    run = run.renumbered(place)
    limit = 10 * chance.randrange(-1, 4)
    left = run.after(limit)
    if left is None:
        return
    keys = sorted(chance.sample(range(9), chance.randint(1, 3)))
    expected = sorted(
        (at, position) for position, at in zip(positions, slices, strict=True) if at > limit and position % 7 in keys
    )
    for _ in range(2):
        some = left.of_keys(np.array(keys))
        assert (content(some) if some is not None else []) == expected
        if some is not None:
            assert (some.earliest, some.latest) == (expected[0][0], expected[-1][0])
        keys = keys[:1]
        expected = [(at, position) for at, position in expected if position % 7 == keys[0]]


def test_rows_of_some_keys_are_looked_for_in_the_runs_of_their_time() -> None:
    buffer = RowBuffer("join")
    for number in range(3):
        buffer.add(run_of([2 * number, 2 * number + 1], [10 * number, 10 * number]))
    (layout,) = buffer.of_keys(np.array([1, 2, 5]), 0, 10).layouts
    assert [content(run) for run in layout.runs] == [[(0, 1)], [(10, 2)]]
    assert not buffer.of_keys(np.array([9]), 0, 100).layouts
    assert len(buffer.layouts[0].runs) == 3


def test_rows_that_lie_side_by_side_are_not_copied() -> None:
    run = run_of(list(range(40)), [10 * (number // 10) for number in range(40)])
    for starts, size in (([10, 20], 10), ([0, 10], 20)):
        (each,) = found(run, starts, size)
        assert np.shares_memory(each.rows().key_ids, run.rows.key_ids)
    (each,) = found(run, [0, 20], 10)
    assert each.rows().key_ids.tolist() == [*range(10), *range(20, 30)]


def test_windows_without_rows_between_rows_of_others_have_nothing() -> None:
    (each,) = found(run_of([0, 1], [0, 100]), [10, 50], 60)
    assert each.of(0, 1) is None
    some = each.of(1, 2)
    assert some is not None
    assert (some.first, some.counts.tolist()) == (0, [1])


def test_only_keys_whose_window_has_not_fired_with_some_row_fire() -> None:
    rows = rows_of([0, 1], fired_until=15)
    windowed = WindowedRows(rows, np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([0, 1, 3]))
    assert windowed.not_fired(np.array([16, 17])).tolist() == [3]


def test_rows_with_which_windows_have_fired_are_not_merged_with_others_that_would_be_asked_for_it_too() -> None:
    buffer = RowBuffer("join")
    for number in range(20):
        rows = rows_of([number], 15 if number % 2 else None)
        buffer.add(SlicedRun.of_rows(rows, np.array([10])))
    assert [layout.has_fired_otherwise for layout in buffer.layouts] == [False, True]
    assert all(
        (run.rows.fired_until is None) == (not each.has_fired_otherwise) for each in buffer.layouts for run in each.runs
    )
