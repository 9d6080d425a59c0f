"""Cells that are numbered in order of arrival: where slices have rows of some of the keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.operators.accumulator_base import Cells, Places, grown, together
from actors.operators.placed_cells import is_dense
from actors.ordering import order_below, order_by
from actors.state.integer_index import PairIndex
from actors.state.key_index import Ids
from actors.taking import contiguous

# With so many cells it is asked for the first time whether other cells would be better, then whenever they have
# doubled.
_FEWEST_JUDGED = 4096

# Cells that are not in use any more are squeezed out when there are more of them than others, and at least this many.
_RELEASED_BEFORE_COMPACTING = 4096

# Cells are looked up if more than this share of all rows are of a key and slice that already had one.
_WORTH_LOOKING_UP = 0.25


class _Slice(Struct):
    chunks: list[Cells]
    """Its cells, ascending."""
    is_merged: bool = False
    """They are in one chunk, and each key has one."""


class ArrivingCells(ABC):
    """Numbers cells in order of arrival; those that are not in use any more are not used again.

    Args:
        groups: cells that it is about to be asked for, each of another key or slice.
    """

    def __init__(self, groups: int = 0) -> None:
        self._slices: dict[int, _Slice] = {}
        """By slice start."""
        self._released = 0
        self._judged_at = max(_FEWEST_JUDGED, 2 * groups)
        self._rows = 0
        """That came."""
        self._repeats = 0
        """Of these, as far as it is known: how many were of a key and slice that already had a cell."""
        self.most_keys = 0
        """In one of the slices that were released."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Above all cells."""

    @property
    def count(self) -> int:
        """Cells in use."""
        return self.size - self._released

    @property
    def is_worth_looking_up(self) -> bool:
        """Whether many rows were of a key and slice that already had a cell."""
        return self._repeats > _WORTH_LOOKING_UP * self._rows

    @property
    def has_repeats(self) -> bool:
        """Whether a key may have several cells in a slice."""
        return False

    def starts(self) -> list[int]:
        return list(self._slices)

    def has_room(self, starts: Sequence[int], keys: int, rows: int) -> bool:
        """Whether `cells` may be called for that many rows; else other cells are better. May find some that repeat."""
        self._rows += rows
        if self.count < self._judged_at:
            return True
        self.find_repeated()
        self._judged_at = 2 * self.count
        return self._is_best() and not is_dense(keys, len({*self._slices, *starts}), self.count)

    def _is_best(self) -> bool:
        return True

    @abstractmethod
    def cells(self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int) -> Cells:
        """The cell of each key in its slice, which are in use from now on.

        Args:
            key_ids: may be written over.
            starts: the distinct slices of the rows.
            which: for each row the index of its slice in `starts`; None: they are all in the only one.
            keys: above all key numbers so far.
        """

    def _enter(self, cells: Cells, starts: Sequence[int], which: npt.NDArray[Any] | None) -> None:
        """These are new in their slices."""
        for start, chunk in zip(starts, [cells] if which is None else _parted(cells, which, len(starts)), strict=True):
            if len(chunk):
                some = self._slices.setdefault(start, _Slice([]))
                some.chunks.append(chunk)
                some.is_merged = False

    def reused(self) -> list[slice]:
        """Cells that were used before, to be cleared before anything is added; each is given once."""
        return []

    def repeated(self) -> list[tuple[Cells, Cells]]:
        """Cells that are not in use any more, and for each the one that what it has is to be added to; to be asked for
        after all that may find some. Each is given once."""
        return []

    def find_repeated(self) -> None:
        """From now on each key has one cell in a slice."""

    def unmerged(self, slice_start: int) -> Cells:
        """The cells of a slice; a key may have several of them. Quick."""
        return together(self._slices[slice_start].chunks)

    def cells_of(self, slice_start: int) -> Places:
        """The cells of a slice, ascending, one for each key; none if there is no such slice."""
        some = self._slices.get(slice_start)
        if some is None:
            return np.empty(0, np.int64)
        if not some.is_merged:
            cells = together(some.chunks)
            distinct = self._merged(cells)
            self._released += len(cells) - len(distinct)
            some.chunks, some.is_merged = [distinct], True
        return some.chunks[0]

    def _merged(self, cells: Cells) -> Cells:
        """The first cell of each key."""
        return cells

    @abstractmethod
    def key_ids(self, cells: Places) -> Ids | slice:
        """The key of each of these cells, in whichever form is at hand."""

    def release(self, slice_start: int, is_clear: bool = False) -> None:
        """The slice is not needed any more; should it come again, it is a new one.

        Args:
            is_clear: nothing is left of what was added to its cells.
        """
        released = sum(map(len, self._slices.pop(slice_start, _Slice([])).chunks))
        self._released += released
        self.most_keys = max(self.most_keys, released)

    def recent(self) -> Cells:
        """Cells in use, and those that were released last."""
        return np.arange(self.size)

    def is_wasteful(self) -> bool:
        """Whether numbering what is left anew is worth it."""
        return self._released > max(_RELEASED_BEFORE_COMPACTING, self.count)


class LookedUpCells(ArrivingCells):
    """Cells are found by their pair of slice and key."""

    def __init__(self, groups: int = 0) -> None:
        super().__init__(groups)
        self._pairs = PairIndex()
        """Numbers cells: a pair is the number of the slice, counted from 0 as slices appear, and that of the key."""
        self._numbers: dict[int, int] = {}
        self._next_number = 0

    @property
    def size(self) -> int:
        return self._pairs.size

    def cells(self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int) -> Cells:
        numbers = np.array([self._number(start) for start in starts], np.int64)
        before = self._pairs.size
        cells = self._pairs.ids(numbers[0] if which is None else numbers.take(which), key_ids, keys)
        self._repeats += len(cells) - (self._pairs.size - before)
        if self._pairs.size > before:
            new_cells = np.arange(before, self._pairs.size, dtype=np.int64)
            firsts = self._pairs.firsts(slice(before, None))
            self._enter(new_cells, starts, None if which is None else _indices(firsts, numbers))
        return cells

    def _number(self, slice_start: int) -> int:
        number = self._numbers.get(slice_start)
        if number is None:
            number = self._numbers[slice_start] = self._next_number
            self._next_number += 1
        return number

    def key_ids(self, cells: Places) -> Ids | slice:
        return self._pairs.seconds(cells)

    def release(self, slice_start: int, is_clear: bool = False) -> None:
        super().release(slice_start, is_clear)
        self._numbers.pop(slice_start, None)


class AppendedCells(ArrivingCells):
    """Each row has a cell of its own, the next one. Cells of one key in one slice become one when the slice is read, or
    when there are twice as many in all slices as there were then: nothing is searched for a row, and some three cells
    are looked at for it in all."""

    def __init__(self, groups: int = 0) -> None:
        super().__init__(groups)
        self._size = 0
        self._key_ids = np.empty(0, np.int32)
        """Per cell."""
        self._rows_of_keys = np.empty(0, np.int32)
        """Per key, of no meaning between two uses."""
        self._repeated: list[tuple[Cells, Cells]] = []

    @property
    def size(self) -> int:
        return self._size

    @property
    def has_repeats(self) -> bool:
        return not all(each.is_merged for each in self._slices.values())

    def _is_best(self) -> bool:
        return not self.is_worth_looking_up

    def cells(self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int) -> Cells:
        first, self._size = self._size, self._size + len(key_ids)
        self._key_ids = grown(self._key_ids, self._size, 0)
        self._key_ids[first : self._size] = key_ids
        self._rows_of_keys = grown(self._rows_of_keys, keys, 0)
        cells = np.arange(first, self._size)
        self._enter(cells, starts, which)
        return cells

    def repeated(self) -> list[tuple[Cells, Cells]]:
        repeated, self._repeated = self._repeated, []
        return repeated

    def find_repeated(self) -> None:
        for start in self._slices:
            self.cells_of(start)

    def _merged(self, cells: Cells) -> Cells:
        keys, rows = self._key_ids[contiguous(cells)], np.arange(len(cells), dtype=np.int32)
        self._rows_of_keys[keys[::-1]] = rows[::-1]  # the last write wins, which is the first row of each
        first_rows = self._rows_of_keys.take(keys)
        is_first = first_rows == rows
        if is_first.all():
            return cells
        repeats = np.flatnonzero(~is_first)
        self._repeats += len(repeats)
        self._repeated.append((cells[repeats], cells[first_rows[repeats]]))
        distinct: Cells = cells[is_first]
        return distinct

    def key_ids(self, cells: Places) -> Ids | slice:
        ids: Ids = self._key_ids[cells].astype(np.int64)
        return ids


def _indices(values: Ids, places: Ids) -> Ids:
    """Where each value is in `places`, which are distinct."""
    order = order_by(places)
    indices: Ids = order[np.searchsorted(places[order], values)]
    return indices


def _parted(cells: Cells, which: npt.NDArray[Any], parts: int) -> list[Cells]:
    """The cells of each part, ascending; `which`: for each cell the number of its part."""
    ends = np.cumsum(np.bincount(which, minlength=parts)).tolist()
    ordered = cells[order_below(which, parts)]
    return [ordered[start:end] for start, end in pairwise([0, *ends])]
