"""Running computations over the rows of each key, for all keys of a batch at once, in numpy.

The rows are sorted by group, stably, so each group is a segment in order of arrival. A scan goes through every segment
from a value carried in. Long segments are scanned one by one, short ones in step (all first rows, all second rows,
...): each result is what adding row after row gives, to the last bit of a double, with no call per row.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from actors.columns.ordering import differs_from_previous, order_below
from actors.operators.aggregates.accumulators import Values
from actors.operators.aggregates.value_rules import Flags

Ints = npt.NDArray[np.int64]


class Segments:
    """A batch's rows by group. What the methods take and give is sorted by group; `sort` and `unsort` go between this
    order and that of the batch.

    Attributes:
        groups: the groups that occur, shape (segments,).
        starts: the index of the first row of each segment.
        lengths: how many rows each segment has.
    """

    def __init__(self, ids: Ints, groups: int) -> None:
        """Args:
        ids: the group of each row, at least one.
        groups: a number above all groups.
        """
        self.order = order_below(ids, groups)
        by_group = ids[self.order]
        self.starts = np.flatnonzero(differs_from_previous(by_group))
        self.lengths = np.empty_like(self.starts)
        np.subtract(self.starts[1:], self.starts[:-1], out=self.lengths[:-1])
        self.lengths[-1] = len(ids) - self.starts[-1]
        self.groups = by_group[self.starts]

    @cached_property
    def segment_of(self) -> Ints:
        """The segment of each row."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    def spread(self, values: Values) -> Values:
        """Each segment's value at each of its rows."""
        return np.repeat(values, self.lengths)

    def group_of_rows(self) -> Ints:
        """The group of each row, in the order of the batch."""
        return self.unsort(self.groups[self.segment_of])

    def sort(self, values: Values) -> Values:
        return values.take(self.order)

    def unsort(self, values: Values) -> Values:
        """The values in the order of the batch."""
        rows = np.empty_like(values)
        rows[self.order] = values
        return rows

    @property
    def ends(self) -> Ints:
        """The index of the last row of each segment."""
        return self.starts + self.lengths - 1

    def count(self, flags: Flags, carried: Ints) -> Ints:
        """How many flags there have been in the segment, at each row, from `carried` per segment on."""
        return self.sum_exactly(flags.astype(np.int64), carried)

    def count_rows(self, carried: Ints) -> Ints:
        """How many rows there have been in the segment, at each row, from `carried` per segment on."""
        counts = self.spread(carried - self.starts)
        counts += np.arange(1, len(counts) + 1)
        return counts

    def sum_exactly(self, values: Ints, carried: Ints) -> Ints:
        """Running sums of integers, modulo 2**64, from `carried` per segment on."""
        totals = np.cumsum(values)
        before = totals[self.starts]
        before -= values[self.starts]
        totals += self.spread(carried - before)
        return totals

    def last_flagged(self, flags: Flags) -> Ints:
        """At each row, the last flagged row of its segment that is not after it; -1: there is none."""
        rows = np.maximum.accumulate(np.where(flags, np.arange(len(flags)), -1))
        return np.where(rows >= self.starts[self.segment_of], rows, -1)

    def first_flagged(self, flags: Flags) -> Ints:
        """At each row, the first flagged row of its segment if that is not after it; else -1."""
        is_first = flags & (self.count(flags, np.zeros(len(self.starts), np.int64)) == 1)
        return self.last_flagged(is_first)

    def scan(self, function: np.ufunc, values: Values, carried: Values) -> Values:
        """The ufunc folded over each segment from `carried` on, at each row."""
        longest = int(self.lengths.max())
        if longest == 1:
            only: Values = function(carried.astype(values.dtype, copy=False), values)
            return only
        result = np.empty_like(values)
        longest_first = order_below(longest - self.lengths, longest)
        # The scan of one segment costs about what one step over all others does.
        costs = np.append(self.lengths[longest_first], 0)
        costs += np.arange(len(costs))
        alone = int(costs.argmin())
        for segment in longest_first[:alone].tolist():
            start = self.starts[segment]
            rows = result[start : start + self.lengths[segment]]
            rows[1:] = values[start + 1 : start + self.lengths[segment]]
            rows[:1] = function(carried[segment : segment + 1].astype(values.dtype), values[start : start + 1])
            function.accumulate(rows, out=rows)
        self._scan_in_step(function, values, carried, longest_first[alone:], result)
        return result

    def _scan_in_step(
        self, function: np.ufunc, values: Values, carried: Values, segments: Ints, result: Values
    ) -> None:
        """Scans these segments, the longest first, all of them by a row at a time."""
        if not len(segments):
            return
        lengths, at = self.lengths[segments], self.starts[segments]
        current = carried[segments].astype(values.dtype, copy=False)
        # The segments that still have rows are the first `alive`.
        alive_by_turn = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")
        for alive in alive_by_turn.tolist():
            rows = at[:alive]
            function(current[:alive], values[rows], out=current[:alive])
            result[rows] = current[:alive]
            rows += 1
