"""Accumulators that are numbered in order of arrival: where slices have rows of some of the keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.columns.ordering import distinct, is_other_than_before, order_by
from actors.columns.ranges import places_of_runs
from actors.columns.take import contiguous
from actors.keys.index import Ids
from actors.keys.integer_index import PairIndex
from actors.operators.aggregates.accumulators import Accumulators, Selection, grown
from actors.operators.windows.aligned.dense_index import is_dense
from actors.operators.windows.aligned.slice_runs import AccumulatorRun, AccumulatorsBySlice, Counts, Starts

# With so many accumulators it is asked for the first time whether other accumulators would be better, then whenever
# they have doubled.
_FEWEST_JUDGED = 4096

# Accumulators that are not in use any more are squeezed out when there are more of them than others, and at least this
# many.
_RELEASED_BEFORE_COMPACTING = 4096

# Accumulators are looked up if more than this share of all rows are of a key and slice that already had one.
_WORTH_LOOKING_UP = 0.25


# In slices of so many accumulators each, one after the other is looked for what repeats; in all smaller ones at once.
_LARGE_SLICE = 512


class SparseIndex(ABC):
    """Numbers accumulators in order of arrival; those that are not in use any more are not used again.

    Args:
        groups: accumulators that it is about to be asked for, each of another key or slice.
    """

    def __init__(self, groups: int = 0) -> None:
        self._slices = AccumulatorsBySlice()
        self._released = 0
        self._judged_at = max(_FEWEST_JUDGED, 2 * groups)
        self._rows = 0
        """That came."""
        self._repeats = 0
        """Of these, as far as it is known: how many were of a key and slice that already had an accumulator."""
        self.most_keys = 0
        """In one of the slices that were released."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Above all accumulators."""

    @property
    def count(self) -> int:
        """Accumulators in use."""
        return self.size - self._released

    @property
    def is_worth_looking_up(self) -> bool:
        """Whether many rows were of a key and slice that already had an accumulator."""
        return self._repeats > _WORTH_LOOKING_UP * self._rows

    @property
    def has_repeats(self) -> bool:
        """Whether a key may have several accumulators in a slice."""
        return False

    def starts(self) -> list[int]:
        """Of the slices, ascending."""
        starts: list[int] = self._slices.starts().tolist()
        return starts

    def has_room(self, starts: Sequence[int], keys: int, rows: int) -> bool:
        """Whether `accumulators` may be called for that many rows; else other accumulators are better. May find some
        that repeat."""
        self._rows += rows
        if self.count < self._judged_at:
            return True
        self.find_repeated()
        self._judged_at = 2 * self.count
        return self._is_best() and not is_dense(keys, self._number_with(starts), self.count)

    def _number_with(self, starts: Sequence[int]) -> int:
        """Of the slices, if these come."""
        return len(distinct(np.concatenate([self._slices.starts(), np.array(starts, np.int64)])))

    def _is_best(self) -> bool:
        return True

    @abstractmethod
    def accumulators(
        self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int
    ) -> Accumulators:
        """The accumulator of each key in its slice, which are in use from now on.

        Args:
            key_ids: may be written over.
            starts: the distinct slices of the rows, ascending.
            which: for each row the index of its slice in `starts`; None: they are all in the only one.
            keys: above all key numbers so far.
        """

    def reused(self) -> list[slice]:
        """Accumulators that were used before, to be cleared before anything is added; each is given once."""
        return []

    def repeated(self) -> list[tuple[Accumulators, Accumulators]]:
        """Accumulators that are not in use any more, and for each the one that what it has is to be added to; to be
        asked for after all that may find some. Each is given once."""
        return []

    def find_repeated(self) -> None:
        """From now on each key has one accumulator in a slice."""

    def unmerged(self) -> AccumulatorRun:
        """All accumulators, by slice; a key may have several of one. Quick."""
        return self._slices.everything()

    def sizes(self, starts: Starts) -> Counts:
        """How many accumulators each of these slices has at most."""
        return self._slices.sizes(starts)

    def read(self, starts: Starts) -> AccumulatorRun:
        """Those of these slices that there are, each key with one accumulator.

        Args:
            starts: ascending.
        """
        return self._slices.read(starts, self._left_out)

    def read_changed(self, starts: Starts) -> None:
        """Reads those of these slices, which ascend, that have got accumulators since they were read."""
        changed = self._slices.changed(starts)
        if len(changed):
            self.read(changed)

    def accumulators_of(self, slice_start: int) -> Selection:
        """The accumulators of a slice, ascending, one for each key; none if there is no such slice."""
        return self.read(np.array([slice_start], np.int64)).accumulators

    def _left_out(self, run: AccumulatorRun) -> npt.NDArray[np.int64]:
        """For `AccumulatorsBySlice.read`: all but the first accumulator of each key in each slice."""
        return np.empty(0, np.int64)

    @abstractmethod
    def key_ids(self, accumulators: Selection) -> Ids | slice:
        """The key of each of these accumulators, in whichever form is at hand."""

    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        """These slices are not needed any more; should one come again, it is a new one.

        Args:
            starts: ascending.
            cleared: those of which nothing is left of what was added to their accumulators.
        """
        released = self._slices.release(np.array(starts, np.int64))
        self._released += int(released.sum())
        self.most_keys = max(self.most_keys, int(released.max(initial=0)))

    def recent(self) -> Accumulators:
        """Accumulators in use, and those that were released last."""
        return np.arange(self.size)

    def is_wasteful(self) -> bool:
        """Whether numbering what is left anew is worth it."""
        return self._released > max(_RELEASED_BEFORE_COMPACTING, self.count)


class LookupIndex(SparseIndex):
    """Accumulators are found by their pair of slice and key."""

    def __init__(self, groups: int = 0) -> None:
        super().__init__(groups)
        self._pairs = PairIndex()
        """Numbers accumulators: a pair is the number of the slice, counted from 0 as slices appear, and that of the
        key."""
        self._numbers: dict[int, int] = {}
        self._next_number = 0

    @property
    def size(self) -> int:
        return self._pairs.size

    def accumulators(
        self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int
    ) -> Accumulators:
        numbers = np.array([self._number(start) for start in starts], np.int64)
        before = self._pairs.size
        accumulators = self._pairs.ids(numbers[0] if which is None else numbers.take(which), key_ids, keys)
        self._repeats += len(accumulators) - (self._pairs.size - before)
        if self._pairs.size > before:
            new_accumulators = np.arange(before, self._pairs.size, dtype=np.int64)
            firsts = self._pairs.firsts(slice(before, None))
            self._slices.add(new_accumulators, starts, None if which is None else _indices(firsts, numbers))
        return accumulators

    def _number(self, slice_start: int) -> int:
        number = self._numbers.get(slice_start)
        if number is None:
            number = self._numbers[slice_start] = self._next_number
            self._next_number += 1
        return number

    def key_ids(self, accumulators: Selection) -> Ids | slice:
        return self._pairs.seconds(accumulators)

    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        super().release(starts, cleared)
        for start in starts:
            self._numbers.pop(start, None)


class AppendIndex(SparseIndex):
    """Each row has an accumulator of its own, the next one. Accumulators of one key in one slice become one when the
    slice is read, or when there are twice as many in all slices as there were then: nothing is searched for a row, and
    some three accumulators are looked at for it in all."""

    def __init__(self, groups: int = 0) -> None:
        super().__init__(groups)
        self._size = 0
        self._key_ids = np.empty(0, np.int32)
        """Per accumulator."""
        self._rows_of_keys = np.empty(0, np.int32)
        """Per key, of no meaning between two uses."""
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
        self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int
    ) -> Accumulators:
        first, self._size = self._size, self._size + len(key_ids)
        self._key_ids = grown(self._key_ids, self._size, 0)
        self._key_ids[first : self._size] = key_ids
        self._rows_of_keys = grown(self._rows_of_keys, keys, 0)
        accumulators = np.arange(first, self._size)
        self._slices.add(accumulators, starts, which)
        return accumulators

    def repeated(self) -> list[tuple[Accumulators, Accumulators]]:
        repeated, self._repeated = self._repeated, []
        return repeated

    def find_repeated(self) -> None:
        self.read(self._slices.starts())

    def _left_out(self, run: AccumulatorRun) -> npt.NDArray[np.int64]:
        keys = self._key_ids[contiguous(run.accumulators)]
        first_rows = self._first_rows(keys, run.counts)
        repeats = np.flatnonzero(first_rows != np.arange(len(keys), dtype=np.int32))
        if len(repeats):
            self._repeats += len(repeats)
            self._released += len(repeats)
            self._repeated.append((run.accumulators[repeats], run.accumulators[first_rows[repeats]]))
        return repeats

    def _first_rows(self, keys: npt.NDArray[np.int32], counts: Counts) -> npt.NDArray[np.int32]:
        """For each row of some slices, which have so many rows each, the first one of its key in its slice."""
        if len(counts) == 1:
            return self._first_rows_of_one(keys)
        first_rows, ends = np.empty(len(keys), np.int32), np.cumsum(counts)
        is_large = counts >= _LARGE_SLICE
        for end, count in zip(ends[is_large].tolist(), counts[is_large].tolist(), strict=True):
            first_rows[end - count : end] = self._first_rows_of_one(keys[end - count : end])
            first_rows[end - count : end] += end - count
        small = np.flatnonzero(~is_large)
        if len(small):
            rows = places_of_runs((ends - counts)[small], counts[small])
            pairs = np.repeat(small * len(self._rows_of_keys), counts[small]) + keys[rows]
            order = order_by(pairs)
            is_other = is_other_than_before(pairs[order])
            first_rows[rows[order]] = rows[order[is_other]][np.cumsum(is_other) - 1]
        return first_rows

    def _first_rows_of_one(self, keys: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        rows = np.arange(len(keys), dtype=np.int32)
        self._rows_of_keys[keys[::-1]] = rows[::-1]  # the last write wins, which is the first row of each
        return self._rows_of_keys.take(keys)

    def key_ids(self, accumulators: Selection) -> Ids | slice:
        ids: Ids = self._key_ids[accumulators].astype(np.int64)
        return ids


def _indices(values: Ids, places: Ids) -> Ids:
    """Where each value is in `places`, which are distinct."""
    order = order_by(places)
    indices: Ids = order[np.searchsorted(places[order], values)]
    return indices
