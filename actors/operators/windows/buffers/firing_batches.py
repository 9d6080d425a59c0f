"""Firing batches: which windows fire in one go, so that they cost little each and take little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.columns.ordering import distinct
from actors.columns.ranges import pairs_of
from actors.operators.windows.base.times import AlignedWindowTimes, Times
from actors.operators.windows.buffers.row_buffer import RowBuffer
from actors.operators.windows.buffers.window_lookup import WindowRanges, ranges_in_buffer
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP

# So many windows are looked for at a time.
_WINDOWS_AT_ONCE = 1 << 16


class FiringBatch(Struct, frozen=True):
    """Windows that follow one another, ascending, which fire in one go, and the rows that each buffer has of them."""

    starts: Times
    sides: Sequence[Sequence[WindowRanges]]

    def without_dictionaries(self) -> FiringBatch:
        return FiringBatch(self.starts, [[each.without_dictionaries() for each in side] for side in self.sides])

    def halves(self) -> tuple[FiringBatch, FiringBatch]:
        middle = len(self.starts) // 2
        return _batch_of(self.starts, self.sides, 0, middle), _batch_of(
            self.starts, self.sides, middle, len(self.starts)
        )


def window_starts(times: AlignedWindowTimes, slices: Sequence[Times], after: int, until: int) -> Iterator[Times]:
    """The starts of the windows over these slices that start after the one time and not after the other one: ascending,
    in arrays that are not too large."""
    if slices:
        all_slices = slices[0] if len(slices) == 1 else distinct(np.concatenate(slices))
        firsts, counts = times.windows_over_slices(all_slices, after, until)
        for _, numbers in pairs_of(firsts, counts, _WINDOWS_AT_ONCE):
            yield numbers * times.slide + times.offset


def windows_between(times: AlignedWindowTimes, buffers: Sequence[RowBuffer], after: int, until: int) -> Iterator[Times]:
    """The starts of windows as `window_starts` gives them, over all slices that the buffers have."""
    before, last = times.last_start(after), times.last_start(until)
    if before >= last or last < MIN_TIMESTAMP:
        return  # which most watermarks find
    earliest, latest = max(before + times.slide, MIN_TIMESTAMP), min(last + times.size - 1, MAX_TIMESTAMP)
    slices = [found for buffer in buffers for found in buffer.slices_between(earliest, latest)]
    yield from window_starts(times, slices, after, until)


def firing_batches_of(starts: Times, size: int, buffers: Sequence[RowBuffer], most_rows: int) -> Iterator[FiringBatch]:
    """Cuts these windows, which ascend, into firing batches.

    A batch has at most `most_rows` rows of all buffers, or is one window. All windows of a batch that have rows of a
    buffer have them of the same layouts, so that none is given types that it would not have alone.

    Args:
        size: of each window, in ms.
    """
    by_layout = [ranges_in_buffer(buffer, starts, size) for buffer in buffers]
    sides = [[each for found in layouts for each in found] for layouts in by_layout]
    ends = np.cumsum(_counts([each for side in sides for each in side], len(starts)))
    changes = np.concatenate([_layout_changes(layouts, len(starts)) for layouts in by_layout])
    cuts = np.append(distinct(changes), len(ends))
    begin = 0
    while begin < len(starts):
        before = int(ends[begin - 1]) if begin else 0
        fitting = int(ends.searchsorted(before + most_rows, "right"))
        end = min(max(begin + 1, fitting), int(cuts[cuts.searchsorted(begin, "right")]))
        yield _batch_of(starts, sides, begin, end)
        begin = end


def _batch_of(starts: Times, sides: Sequence[Sequence[WindowRanges]], begin: int, end: int) -> FiringBatch:
    parts = [[part for each in side if (part := each.of(begin, end)) is not None] for side in sides]
    return FiringBatch(starts[begin:end], parts)


def _counts(found: Sequence[WindowRanges], windows: int) -> npt.NDArray[np.int64]:
    """How many rows each window has."""
    counts = np.zeros(windows, np.int64)
    for each in found:
        counts[each.windows] += each.counts
    return counts


def _layout_changes(by_layout: Sequence[Sequence[WindowRanges]], windows: int) -> npt.NDArray[np.int64]:
    """The indices of the windows with rows of other layouts than the last one before them that has any."""
    if len(by_layout) < 2:
        return np.empty(0, np.int64)
    has_rows = np.array([_counts(found, windows) > 0 for found in by_layout])
    somewhere = np.flatnonzero(has_rows.any(axis=0))
    some = has_rows[:, somewhere]
    changes: npt.NDArray[np.int64] = somewhere[1:][(some[:, 1:] != some[:, :-1]).any(axis=0)]
    return changes
