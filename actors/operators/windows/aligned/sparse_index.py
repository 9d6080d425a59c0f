"""Sparse indexes: accumulators are numbered in order of arrival, where slices have rows of some of the keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.ranges import indices_of_ranges
from actors.columns.take import contiguous
from actors.keys.index import Ids
from actors.keys.integer_index import PairIndex
from actors.operators.aggregates.accumulators import Accumulators, Selection, grown
from actors.operators.windows.aligned.accumulator_runs import AccumulatorRun, AccumulatorsBySlice, Counts, Starts
from actors.operators.windows.aligned.dense_index import is_dense
from actors.operators.windows.aligned.slice_index import SliceIndex
from actors.operators.windows.base.compaction import is_mostly_released

# With so many accumulators it is asked for the first time whether another index would be better, then whenever they
# have doubled.
_FEWEST_JUDGED = 4096

# So many accumulators at least must have been released before the others are numbered anew.
_FEWEST_COMPACTED = 4096

# Accumulators are looked up if more than this share of all rows are of a key and slice that already had one.
_WORTH_LOOKING_UP = 0.25

# Slices of so many accumulators each are searched for repeats one after the other; all smaller ones at once.
_LARGE_SLICE = 512


class SparseIndex(SliceIndex):
    """Base: numbers accumulators in order of arrival; those that are not in use any more are not used again.

    Args:
        expected: so many accumulators are about to be asked for, each of another key or slice.
    """

    is_dense = False

    def __init__(self, expected: int = 0) -> None:
        self._slices = AccumulatorsBySlice()
        self._released = 0
        self._next_judged = max(_FEWEST_JUDGED, 2 * expected)
        self._rows = 0
        """Rows that have come."""
        self._repeats = 0
        """How many of these rows, as far as it is known, were of a key and slice that already had an accumulator."""
        self._most_keys = 0

    @property
    def most_keys(self) -> int:
        return self._most_keys

    @property
    def count(self) -> int:
        return self.size - self._released

    @property
    def is_worth_looking_up(self) -> bool:
        return self._repeats > _WORTH_LOOKING_UP * self._rows

    def starts(self) -> list[int]:
        starts: list[int] = self._slices.starts().tolist()
        return starts

    def is_suitable(self, starts: Sequence[int], keys: int, rows: int) -> bool:
        self._rows += rows
        if self.count < self._next_judged:
            return True
        self.merge_repeated()
        self._next_judged = 2 * self.count
        return self._is_best() and not is_dense(keys, self._number_with(starts), self.count)

    def _number_with(self, starts: Sequence[int]) -> int:
        """How many slices there would be with these."""
        return len(distinct(np.concatenate([self._slices.starts(), np.array(starts, np.int64)])))

    def _is_best(self) -> bool:
        return True

    def read_unmerged(self) -> AccumulatorRun:
        return self._slices.all_accumulators()

    def sizes(self, starts: Starts) -> Counts:
        return self._slices.sizes(starts)

    def read(self, starts: Starts) -> AccumulatorRun:
        return self._slices.read(starts, self._repeats_in)

    def read_changed(self, starts: Starts) -> None:
        changed = self._slices.changed(starts)
        if len(changed):
            self.read(changed)

    def _repeats_in(self, run: AccumulatorRun) -> npt.NDArray[np.int64]:
        """For `AccumulatorsBySlice.read`: the indices of all accumulators but the first of each key in each slice."""
        return np.empty(0, np.int64)

    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        released = self._slices.release(np.array(starts, np.int64))
        self._released += int(released.sum())
        self._most_keys = max(self._most_keys, int(released.max(initial=0)))

    def recent(self) -> Accumulators:
        return np.arange(self.size)

    def is_wasteful(self) -> bool:
        return is_mostly_released(self._released, self.count, _FEWEST_COMPACTED)


class LookupIndex(SparseIndex):
    """Finds accumulators by their pair of slice and key."""

    def __init__(self, expected: int = 0) -> None:
        super().__init__(expected)
        self._pairs = PairIndex()
        """Numbers accumulators: a pair is the number of the slice, counted from 0 as slices appear, and that of the
        key."""
        self._slice_numbers: dict[int, int] = {}
        self._next_slice_number = 0

    @property
    def size(self) -> int:
        return self._pairs.size

    def accumulators(
        self, key_ids: Ids, starts: Sequence[int], slice_indices: npt.NDArray[Any] | None, keys: int
    ) -> Accumulators:
        slice_numbers = np.array([self._slice_number(start) for start in starts], np.int64)
        before = self._pairs.size
        accumulators = self._pairs.ids(
            slice_numbers[0] if slice_indices is None else slice_numbers.take(slice_indices), key_ids, keys
        )
        self._repeats += len(accumulators) - (self._pairs.size - before)
        if self._pairs.size > before:
            new_accumulators = np.arange(before, self._pairs.size, dtype=np.int64)
            firsts = self._pairs.firsts(slice(before, None))
            self._slices.add(
                new_accumulators, starts, None if slice_indices is None else _indices_among(firsts, slice_numbers)
            )
        return accumulators

    def _slice_number(self, slice_start: int) -> int:
        number = self._slice_numbers.get(slice_start)
        if number is None:
            number = self._slice_numbers[slice_start] = self._next_slice_number
            self._next_slice_number += 1
        return number

    def key_ids(self, accumulators: Selection) -> Ids | slice:
        return self._pairs.seconds(accumulators)

    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        super().release(starts, cleared)
        for start in starts:
            self._slice_numbers.pop(start, None)


class AppendIndex(SparseIndex):
    """Gives each row an accumulator of its own, the next one.

    Accumulators of one key in one slice become one when the slice is read, or when there are twice as many in all
    slices as there were then: nothing is searched for a row, and some three accumulators are looked at for it in all.
    """

    def __init__(self, expected: int = 0) -> None:
        super().__init__(expected)
        self._size = 0
        self._key_ids = np.empty(0, np.int32)
        """The key of each accumulator."""
        self._rows_of_keys = np.empty(0, np.int32)
        """A row of each key; of no meaning between two uses."""
        self._repeated: list[tuple[Accumulators, Accumulators]] = []

    @property
    def size(self) -> int:
        return self._size

    @property
    def has_repeats(self) -> bool:
        return not self._slices.are_merged

    def _is_best(self) -> bool:
        return not self.is_worth_looking_up

    def accumulators(
        self, key_ids: Ids, starts: Sequence[int], slice_indices: npt.NDArray[Any] | None, keys: int
    ) -> Accumulators:
        first, self._size = self._size, self._size + len(key_ids)
        self._key_ids = grown(self._key_ids, self._size, 0)
        self._key_ids[first : self._size] = key_ids
        self._rows_of_keys = grown(self._rows_of_keys, keys, 0)
        accumulators = np.arange(first, self._size)
        self._slices.add(accumulators, starts, slice_indices)
        return accumulators

    def repeated(self) -> list[tuple[Accumulators, Accumulators]]:
        repeated, self._repeated = self._repeated, []
        return repeated

    def merge_repeated(self) -> None:
        self.read(self._slices.starts())

    def _repeats_in(self, run: AccumulatorRun) -> npt.NDArray[np.int64]:
        keys = self._key_ids[contiguous(run.accumulators)]
        first_rows = self._first_rows(keys, run.counts)
        repeats = np.flatnonzero(first_rows != np.arange(len(keys), dtype=np.int32))
        if len(repeats):
            self._repeats += len(repeats)
            self._released += len(repeats)
            self._repeated.append((run.accumulators[repeats], run.accumulators[first_rows[repeats]]))
        return repeats

    def _first_rows(self, keys: npt.NDArray[np.int32], counts: Counts) -> npt.NDArray[np.int32]:
        """For each accumulator of some slices, which have so many each, the index of the first one of its key in its
        slice."""
        if len(counts) == 1:
            return self._first_rows_of_one(keys)
        first_rows, ends = np.empty(len(keys), np.int32), np.cumsum(counts)
        is_large = counts >= _LARGE_SLICE
        for end, count in zip(ends[is_large].tolist(), counts[is_large].tolist(), strict=True):
            first_rows[end - count : end] = self._first_rows_of_one(keys[end - count : end])
            first_rows[end - count : end] += end - count
        small = np.flatnonzero(~is_large)
        if len(small):
            rows = indices_of_ranges((ends - counts)[small], counts[small])
            pairs = np.repeat(small * len(self._rows_of_keys), counts[small]) + keys[rows]
            order = order_by(pairs)
            is_other = differs_from_previous(pairs[order])
            first_rows[rows[order]] = rows[order[is_other]][np.cumsum(is_other) - 1]
        return first_rows

    def _first_rows_of_one(self, keys: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        rows = np.arange(len(keys), dtype=np.int32)
        self._rows_of_keys[keys[::-1]] = rows[::-1]  # the last write wins, which is the first row of each
        return self._rows_of_keys.take(keys)

    def key_ids(self, accumulators: Selection) -> Ids | slice:
        ids: Ids = self._key_ids[accumulators].astype(np.int64)
        return ids


def _indices_among(values: Ids, distinct_values: Ids) -> Ids:
    """The index of each value in `distinct_values`."""
    order = order_by(distinct_values)
    indices: Ids = order[np.searchsorted(distinct_values[order], values)]
    return indices
