"""Which windows are put together in one go, so that they cost little each and take little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.columns.ordering import distinct
from actors.columns.ranges import pairs_of
from actors.operators.windows.base.times import Times, WindowTimes
from actors.operators.windows.buffers.row_buffer import RowBuffer
from actors.operators.windows.buffers.window_lookup import Found, found_in_buffer
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP

# So many windows are looked for at a time.
_WINDOWS_AT_ONCE = 1 << 16


class WindowGroup(Struct, frozen=True):
    """Windows that follow each other, ascending, and what each buffer has of them."""

    starts: Times
    sides: Sequence[Sequence[Found]]

    def without_dictionaries(self) -> WindowGroup:
        return WindowGroup(self.starts, [[each.without_dictionaries() for each in side] for side in self.sides])

    def halves(self) -> tuple[WindowGroup, WindowGroup]:
        middle = len(self.starts) // 2
        return _part(self.starts, self.sides, 0, middle), _part(self.starts, self.sides, middle, len(self.starts))


def window_starts(times: WindowTimes, slices: Sequence[Times], after: int, until: int) -> Iterator[Times]:
    """The starts of the windows over these slices that start after the one time and not after the other one: ascending,
    in pieces that are not too large."""
    if slices:
        together = slices[0] if len(slices) == 1 else distinct(np.concatenate(slices))
        firsts, counts = times.windows_over_slices(together, after, until)
        for _, numbers in pairs_of(firsts, counts, _WINDOWS_AT_ONCE):
            yield numbers * times.slide + times.offset


def windows_between(times: WindowTimes, buffers: Sequence[RowBuffer], after: int, until: int) -> Iterator[Times]:
    """As `window_starts`, of all slices that the buffers have."""
    before, last = times.last_start(after), times.last_start(until)
    if before >= last or last < MIN_TIMESTAMP:
        return  # which most watermarks find
    earliest, latest = max(before + times.slide, MIN_TIMESTAMP), min(last + times.size - 1, MAX_TIMESTAMP)
    slices = [found for buffer in buffers for found in buffer.slices_between(earliest, latest)]
    yield from window_starts(times, slices, after, until)


def groups_of(starts: Times, size: int, buffers: Sequence[RowBuffer], most_rows: int) -> Iterator[WindowGroup]:
    """These windows, which ascend, of `size` ms in groups that have at most so many rows of all buffers, or are one
    window. All of a group that have rows of a buffer have them of the same layouts, so that none is given types that it
    would not have alone."""
    by_layout = [found_in_buffer(buffer, starts, size) for buffer in buffers]
    sides = [[each for found in layouts for each in found] for layouts in by_layout]
    ends = np.cumsum(_counts([each for side in sides for each in side], len(starts)))
    changes = np.concatenate([_changes(layouts, len(starts)) for layouts in by_layout])
    cuts = np.append(distinct(changes), len(ends))
    begin = 0
    while begin < len(starts):
        before = int(ends[begin - 1]) if begin else 0
        fitting = int(ends.searchsorted(before + most_rows, "right"))
        end = min(max(begin + 1, fitting), int(cuts[cuts.searchsorted(begin, "right")]))
        yield _part(starts, sides, begin, end)
        begin = end


def _part(starts: Times, sides: Sequence[Sequence[Found]], begin: int, end: int) -> WindowGroup:
    parts = [[part for each in side if (part := each.of(begin, end)) is not None] for side in sides]
    return WindowGroup(starts[begin:end], parts)


def _counts(found: Sequence[Found], windows: int) -> npt.NDArray[np.int64]:
    """How many rows each window has."""
    counts = np.zeros(windows, np.int64)
    for each in found:
        counts[each.windows] += each.counts
    return counts


def _changes(by_layout: Sequence[Sequence[Found]], windows: int) -> npt.NDArray[np.int64]:
    """The windows with rows of other layouts than the last one before them that has any."""
    if len(by_layout) < 2:
        return np.empty(0, np.int64)
    has_rows = np.array([_counts(found, windows) > 0 for found in by_layout])
    somewhere = np.flatnonzero(has_rows.any(axis=0))
    some = has_rows[:, somewhere]
    changes: npt.NDArray[np.int64] = somewhere[1:][(some[:, 1:] != some[:, :-1]).any(axis=0)]
    return changes
