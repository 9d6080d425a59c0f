"""Arithmetic of aligned windows: which windows and slices a row belongs to, when they fire and when they are over."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.columns.ranges import indices_of_ranges
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import INT64, fixed_width
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP
from flinkray.windows.assigners import AlignedWindows, CumulativeWindows

Times = npt.NDArray[np.int64]

# So many new starts at most are inserted one by one; for more, sorting is quicker.
_MOST_INSERTED = 8


class AlignedWindowTimes:
    """Tumbling or sliding windows [start, start + size), starting at offset + n * slide, in epoch milliseconds.

    Cumulative windows, which end a slide after one another and begin together every size, are numbered as sliding ones:
    by the start that the one with that end would have. What is in one begins at `begins`.

    *Slices* are the times [start, start + slice) between any two bounds of windows; sliding windows share them. All
    divisions round down, so that times before the epoch are like any other. After Flink's WindowOperator.
    """

    def __init__(self, assigner: AlignedWindows, allowed_lateness_ms: int) -> None:
        self.size = int(assigner.size_ms)
        self.slide = int(assigner.slide_ms)
        self.offset = int(assigner.offset_ms)
        self.slice = math.gcd(self.size, self.slide)
        self.is_cumulative = isinstance(assigner, CumulativeWindows)
        self._period = self.size if self.is_cumulative else self.slide
        """How far the last windows of two slices are from one another, where they differ."""
        self._lateness = int(allowed_lateness_ms)

    @property
    def is_sliced(self) -> bool:
        """Whether a window consists of more than one slice."""
        return self.slice != self.size

    @property
    def grid(self) -> str:
        """Says where slices begin and end, for comparison with the metadata of a snapshot."""
        return f"slices of {self.slice} ms from {self.offset % self.slice}"

    @property
    def has_gaps(self) -> bool:
        """Whether some times are in no window."""
        return self.slide > self.size

    # -- rows to windows

    def are_within_bounds(self, lowest: int, highest: int) -> bool:
        """Whether windows of such times begin and end, and what is computed here stays, within 64 bits."""
        begin = min(self.last_start(lowest), lowest - self.size) - abs(self.offset)
        end = max(self.last_start(highest) + self.size, highest) + abs(self.offset)
        return begin >= MIN_TIMESTAMP and end <= MAX_TIMESTAMP

    def slice_start(self, timestamp: int) -> int:
        """The start of the slice that contains the time."""
        return (timestamp - self.offset) // self.slice * self.slice + self.offset

    def slice_starts(self, timestamps: Times) -> Times:
        """The start of the slice that contains each time."""
        return (timestamps - self.offset) // self.slice * self.slice + self.offset

    def last_starts(self, timestamps: Times) -> Times:
        """The start of the latest window that begins at or before each time (with gaps: it may have ended)."""
        return (timestamps - self.offset) // self._period * self._period + self.offset

    def last_start(self, timestamp: int) -> int:
        return (timestamp - self.offset) // self._period * self._period + self.offset

    def begins(self, starts: Times) -> Times:
        """Where what is in these windows begins: at their starts, but for cumulative ones."""
        return self.last_starts(starts + (self.size - 1)) if self.is_cumulative else starts

    def starts(self, last_start: int, timestamp: int) -> list[int]:
        """The starts of all windows that contain the time, ascending."""
        first = last_start - (last_start - (timestamp - self.size + 1)) // self.slide * self.slide
        return list(range(first, last_start + 1, self.slide))

    def slices_of_rows(self, batch: Batch) -> tuple[list[int], npt.NDArray[Any] | None]:
        """Finds the slices of rows, all of which must have event time.

        Returns:
            The starts of the distinct slices of the rows, ascending; and for each row the index of its slice, or None:
            there is only one slice.
        """
        lowest, highest = ((time - self.offset) // self.slice for time in batch.time_bounds)
        if lowest == highest:
            return [self.offset + lowest * self.slice], None
        assert batch.timestamps is not None
        timestamps: Times = fixed_width(batch.timestamps, INT64)
        if highest - lowest == 1:
            starts = [self.offset + number * self.slice for number in (lowest, highest)]
            return starts, (timestamps >= starts[1]).astype(np.intp)
        numbers = (timestamps - self.offset) // self.slice
        span = highest - lowest + 1
        if span <= 4 * len(numbers):  # cheaper than sorting
            numbers -= lowest
            present = np.zeros(span, np.bool_)
            present[numbers] = True
            distinct = np.flatnonzero(present) + lowest
            slice_indices = (np.cumsum(present) - 1)[numbers]
        else:
            distinct, slice_indices = np.unique(numbers, return_inverse=True)
        return (distinct * self.slice + self.offset).tolist(), slice_indices

    def starts_over_slice(self, slice_start: int) -> list[int]:
        """The starts of all windows that the slice is part of, ascending."""
        return self.starts(self.last_start(slice_start), slice_start)

    def windows_over_slices(self, slice_starts: Times, after: int, until: int) -> tuple[Times, Times]:
        """The windows over these slices, which ascend, that start after the one time and not after the other one.

        Returns:
            Numbers of windows that are over each slice and over none before it: the first one, and how many there are.
            Window n starts at `offset + n * slide`.
        """
        firsts, lasts = self._numbers_over_slices(slice_starts, after, until)
        firsts[1:] = np.maximum(firsts[1:], lasts[:-1] + 1)
        return firsts, np.maximum(lasts - firsts + 1, 0)

    def windows_of_slices(self, slice_starts: Times, after: int, until: int) -> tuple[Times, npt.NDArray[np.int64]]:
        """Finds the windows over each slice that start after the one time and not after the other one.

        Returns:
            The starts of the windows, and for each of them the index of the slice.
        """
        firsts, lasts = self._numbers_over_slices(slice_starts, after, until)
        counts = np.maximum(lasts - firsts + 1, 0)
        numbers = indices_of_ranges(firsts, counts)
        return numbers * self.slide + self.offset, np.repeat(np.arange(len(slice_starts)), counts)

    def _numbers_over_slices(self, slice_starts: Times, after: int, until: int) -> tuple[Times, Times]:
        """The lowest and the highest number of the windows over each slice, within the two times."""
        distances = slice_starts - self.offset
        firsts = (distances + (self.slice - 1 - self.size)) // self.slide + 1
        lowest, highest = ((_clamped(time) - self.offset) // self.slide for time in (after, until))
        lasts = distances // self._period * self._period // self.slide
        return np.maximum(firsts, lowest + 1), np.minimum(lasts, highest)

    def due_later(self, slice_starts: Sequence[int], watermark: int) -> list[int]:
        """The starts of the windows over these slices, which ascend, that the watermark has not made due."""
        slices = np.array(slice_starts, np.int64)
        numbers = indices_of_ranges(*self.windows_over_slices(slices, self.due_limit(watermark), MAX_TIMESTAMP))
        starts: list[int] = (numbers * self.slide + self.offset).tolist()
        return starts

    # -- windows and the watermark

    def first_open_slice(self, watermark: int) -> int:
        """The start of the first slice whose last millisecond the watermark has not reached."""
        return self.slice_start(watermark + 1)

    def is_due(self, start: int, watermark: int) -> bool:
        """Whether the watermark has reached the window's last millisecond: its result is wanted."""
        return start + self.size - 1 <= watermark

    def is_over(self, start: int, watermark: int) -> bool:
        """Whether the watermark has passed the allowed lateness too: nothing is added any more, the state goes."""
        return self.cleanup_time(start) <= watermark

    def cleanup_time(self, start: int) -> int:
        """The watermark with which the window is over."""
        return min(start + self.size - 1 + self._lateness, MAX_TIMESTAMP)

    def cleanup_times(self, starts: Times) -> Times:
        return np.minimum(starts + (self.size - 1), MAX_TIMESTAMP - self._lateness) + self._lateness

    def due_limit(self, watermark: int) -> int:
        """Windows that start at or before this are due."""
        return watermark - self.size + 1

    def over_limit(self, watermark: int) -> int:
        """Windows that start at or before this are over."""
        return MAX_TIMESTAMP if watermark == MAX_TIMESTAMP else watermark - self._lateness - self.size + 1

    def released_limit(self, watermark: int) -> int:
        """Slices that start at or before this are part of no window that is not over."""
        limit = self.over_limit(watermark)
        return limit if limit == MAX_TIMESTAMP else self.last_start(limit) + self._period - 1

    def late_limit(self, watermark: int) -> int:
        """Whatever ends at or before this (its last millisecond counts) is over."""
        return late_limit(watermark, self._lateness)


def late_limit(watermark: int, allowed_lateness_ms: int) -> int:
    """Windows whose last millisecond is at or before this are over."""
    # end + lateness saturates at the highest timestamp, which only the last watermark reaches.
    return MAX_TIMESTAMP if watermark == MAX_TIMESTAMP else max(watermark - allowed_lateness_ms, MIN_TIMESTAMP)


def _clamped(time: int) -> int:
    """The time, or the one of 64 bits that is nearest to it."""
    return min(max(time, MIN_TIMESTAMP), MAX_TIMESTAMP)


class PendingStarts:
    """Starts of windows or slices, each once, that wait for the watermark."""

    def __init__(self) -> None:
        self._ascending: list[int] = []
        self._starts: set[int] = set()

    def add(self, start: int) -> None:
        if start not in self._starts:
            self._starts.add(start)
            insort(self._ascending, start)

    def add_all(self, starts: Iterable[int]) -> list[int]:
        """Adds all of these, which ascend; gives those that were not there. Quicker than `add` of each where they are
        many."""
        known = self._starts
        new = [start for start in starts if start not in known]
        if len(new) <= _MOST_INSERTED:
            for start in new:
                self.add(start)
            return new
        known.update(new)
        is_behind = not self._ascending or self._ascending[-1] < new[0]
        self._ascending += new
        if not is_behind:
            self._ascending.sort()  # which finds that most of it is in order
        return new

    def earliest(self) -> int | None:
        """The lowest start; None: there is none."""
        return self._ascending[0] if self._ascending else None

    def between(self, first: int, end: int) -> list[int]:
        """The starts from `first` on and before `end`, ascending."""
        return self._ascending[bisect_left(self._ascending, first) : bisect_left(self._ascending, end)]

    def pop_until(self, limit: int) -> list[int]:
        """Removes the starts at or before this, and gives them, ascending."""
        popped = self._ascending[: bisect_right(self._ascending, limit)]
        if popped:
            del self._ascending[: len(popped)]
            self._starts.difference_update(popped)
        return popped
