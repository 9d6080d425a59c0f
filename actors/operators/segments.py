"""Running computations over the rows of each key, for all keys of a batch at once, in numpy.

The rows are sorted by group, stably, so each group is a segment in order of arrival. A scan goes through every segment
from a value carried in. Long segments are scanned one by one, short ones in step (all first rows, all second rows,
...): each result is what adding row after row gives, to the last bit of a double, with no call per row.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]

# Where scanning segments in step would take more turns than this, the long ones are scanned on their own: about where
# a turn over the few segments that are left costs as much as a scan of one.
_LONGEST_IN_STEP = 128
_RADIX_GROUPS = 1 << 16


class Segments:
    """A batch's rows by group. What the methods take and give is in sorted order; `sort` and `unsort` go between.

    Attributes:
        groups: the groups that occur, shape (segments,).
        starts, lengths: of each segment.
    """

    def __init__(self, ids: Ints, groups: int) -> None:
        """`ids`: the group of each row, at least one; `groups`: above all of them."""
        self.order = _stable_order(ids, groups)
        by_group = ids[self.order]
        self.starts = np.flatnonzero(np.concatenate(([True], by_group[1:] != by_group[:-1])))
        self.lengths = np.diff(self.starts, append=len(ids))
        self.groups = by_group[self.starts]

    @cached_property
    def segment_of(self) -> Ints:
        """The segment of each row."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    def spread(self, values: Values) -> Values:
        """A value per segment, at each of its rows."""
        return np.repeat(values, self.lengths)

    def sort(self, values: Values) -> Values:
        return values.take(self.order)

    def unsort(self, values: Values) -> Values:
        """Back in the order of the batch."""
        rows = np.empty_like(values)
        rows[self.order] = values
        return rows

    @property
    def ends(self) -> Ints:
        """The last row of each segment."""
        return self.starts + self.lengths - 1

    def count(self, flags: Flags, carried: Ints) -> Ints:
        """How many flags so far, from `carried` per segment."""
        return self.sum_exactly(flags.astype(np.int64), carried)

    def count_rows(self, carried: Ints) -> Ints:
        """How many rows so far, from `carried` per segment."""
        counts = self.spread(carried - self.starts)
        counts += np.arange(1, len(counts) + 1)
        return counts

    def sum_exactly(self, values: Ints, carried: Ints) -> Ints:
        """Running sums of integers, modulo 2**64, from `carried` per segment."""
        totals = np.cumsum(values)
        before = totals[self.starts]
        before -= values[self.starts]
        totals += self.spread(carried - before)
        return totals

    def last_flagged(self, flags: Flags) -> Ints:
        """The last row at or before each row, of its segment, that is flagged; -1: none."""
        rows = np.maximum.accumulate(np.where(flags, np.arange(len(flags)), -1))
        return np.where(rows >= self.starts[self.segment_of], rows, -1)

    def first_flagged(self, flags: Flags) -> Ints:
        """The first flagged row of its segment, at each row from it on; -1 before."""
        is_first = flags & (self.count(flags, np.zeros(len(self.starts), np.int64)) == 1)
        return self.last_flagged(is_first)

    def scan(self, function: np.ufunc, values: Values, carried: Values) -> Values:
        """The ufunc folded over each segment from `carried`, at each row."""
        result = np.empty_like(values)
        is_long = self.lengths > _LONGEST_IN_STEP
        for segment in np.flatnonzero(is_long):
            start = self.starts[segment]
            rows = slice(start, start + self.lengths[segment])
            result[rows] = function.accumulate(np.concatenate((carried[segment : segment + 1], values[rows])))[1:]
        self._scan_in_step(function, values, carried, np.flatnonzero(~is_long), result)
        return result

    def _scan_in_step(
        self, function: np.ufunc, values: Values, carried: Values, segments: Ints, result: Values
    ) -> None:
        segments = segments[np.argsort(-self.lengths[segments], kind="stable")]
        if not len(segments):
            return
        lengths, at = self.lengths[segments], self.starts[segments].copy()
        current = carried[segments].astype(values.dtype, copy=True)
        # Longest first, so the segments that still have rows are the first `alive`.
        alive_by_turn = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")
        for alive in alive_by_turn.tolist():
            rows = at[:alive]
            function(current[:alive], values[rows], out=current[:alive])
            result[rows] = current[:alive]
            rows += 1


def _stable_order(ids: Ints, groups: int) -> Ints:
    """numpy sorts 16-bit integers by radix, several times faster; so groups are numbered within the batch first."""
    if groups > _RADIX_GROUPS:
        rows = np.arange(len(ids))
        first_row = np.empty(groups, np.int64)  # only the entries that are written are read
        first_row[ids[::-1]] = rows[::-1]
        first = first_row[ids]
        ids = (np.cumsum(first == rows) - 1)[first]
        groups = int(ids.max()) + 1
    if groups <= _RADIX_GROUPS:
        return np.argsort(ids.astype(np.uint16), kind="stable")
    return np.argsort(ids, kind="stable")
