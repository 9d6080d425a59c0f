"""Which cell a key has in a slice: looked up, or computed where slices have rows of most keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.operators.accumulator_base import Cells, Places, grown, listed
from actors.state.integer_index import PairIndex
from actors.state.key_index import Ids

# Places may be computed while there are at most this many for each cell in use.
_PLACES_PER_CELL = 4

# Slices that have just begun are empty: so many need not have their cells yet.
_BEGUN = 2

_FEWEST_BITS = 10

# With so many cells it is asked for the first time whether they could be computed, then whenever they have doubled.
_FEWEST_JUDGED = 4096

# Released cells are squeezed out when there are more of them than live ones, and at least this many.
_RELEASED_BEFORE_COMPACTING = 4096


Flags = npt.NDArray[np.bool_]

HasRows = Callable[[slice], Flags]
"""Which of these cells something has been added to since they were cleared."""


class LookedUpCells:
    """Cells are numbered in order of arrival, and found by their pair of slice and key. Those of slices that were
    released are not used again."""

    def __init__(self) -> None:
        self._pairs = PairIndex()
        """Numbers cells: a pair is the number of the slice, counted from 0 as slices appear, and that of the key."""
        self._numbers: dict[int, int] = {}
        self._next_number = 0
        self._slices: dict[int, list[Cells]] = {}
        """Slice start -> its cells, ascending, in chunks."""
        self._released = 0
        self._judged_at = _FEWEST_JUDGED
        self.most_keys = 0
        """In one of the slices that were released."""

    @property
    def size(self) -> int:
        """Above all cells."""
        return self._pairs.size

    @property
    def count(self) -> int:
        """Cells in use."""
        return self._pairs.size - self._released

    def starts(self) -> list[int]:
        return list(self._slices)

    def has_room(self, starts: Sequence[int], keys: int, rows: int) -> bool:
        """Whether `cells` is to be called for that many rows, and places are not to be computed from now on."""
        if self.count < self._judged_at:
            return True
        self._judged_at = 2 * self.count
        return not _is_dense(keys, len({*self._slices, *starts}), self.count)

    def cells(self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int) -> Cells:
        """The cell of each key in its slice, which are in use from now on.

        Args:
            key_ids: may be written over.
            starts: the distinct slices of the rows.
            which: for each row the index of its slice in `starts`; None: they are all in the only one.
            keys: above all key numbers so far.
        """
        numbers = np.array([self._number(start) for start in starts], np.int64)
        before = self._pairs.size
        cells = self._pairs.ids(numbers[0] if which is None else numbers.take(which), key_ids, keys)
        if self._pairs.size > before:
            new_cells = np.arange(before, self._pairs.size, dtype=np.int64)
            if len(starts) == 1:
                self._slices.setdefault(starts[0], []).append(new_cells)
            else:
                self._enter(new_cells, self._pairs.firsts(slice(before, None)), starts)
        return cells

    def _number(self, slice_start: int) -> int:
        number = self._numbers.get(slice_start)
        if number is None:
            number = self._numbers[slice_start] = self._next_number
            self._next_number += 1
        return number

    def _enter(self, new_cells: Cells, numbers: npt.NDArray[np.int64], starts: Sequence[int]) -> None:
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        bounds = np.flatnonzero(np.diff(numbers)) + 1
        start_of = {self._numbers[start]: start for start in starts}
        firsts = numbers[np.concatenate([[0], bounds])].tolist()
        for number, cells in zip(firsts, np.split(new_cells[order], bounds), strict=True):
            self._slices.setdefault(start_of[number], []).append(cells)

    def reused(self) -> list[slice]:
        """Cells that were used before, to be cleared before anything is added; each is given once."""
        return []

    def cells_of(self, slice_start: int) -> Places:
        """The cells of a slice, ascending; none if there is no such slice."""
        chunks = self._slices.get(slice_start)
        if chunks is None:
            return np.empty(0, np.int64)
        if len(chunks) > 1:
            chunks[:] = [np.concatenate(chunks)]
        return chunks[0]

    def key_ids(self, cells: Places) -> Ids | slice:
        """The key of each of these cells, in whichever form is at hand."""
        return self._pairs.seconds(cells)

    def release(self, slice_start: int, is_clear: bool = False) -> None:
        """The slice is not needed any more; should it come again, it is a new one.

        Args:
            is_clear: nothing is left of what was added to its cells.
        """
        released = sum(map(len, self._slices.pop(slice_start, [])))
        self._numbers.pop(slice_start, None)
        self._released += released
        self.most_keys = max(self.most_keys, released)

    def recent(self) -> Cells:
        """Cells in use, and those that were released last."""
        return np.arange(self.size)

    def is_wasteful(self) -> bool:
        """Whether numbering what is left anew is worth it; to be asked after releasing."""
        return self._released > max(_RELEASED_BEFORE_COMPACTING, self.count)


class PlacedCells:
    """A slice has a block of cells, with a place for every key: nothing is looked up. Blocks of slices that were
    released are used again.

    Args:
        keys: how many there are.
        has_rows: says so of all cells in use; None: they are marked with each row.
    """

    def __init__(self, keys: int, has_rows: HasRows | None = None) -> None:
        self._has_rows = has_rows
        self._bits = _bits_for(keys)
        self._blocks: dict[int, int] = {}
        """Slice start -> its block."""
        self._free: list[int] = []
        """Blocks that were released, the last one last."""
        self._is_used = np.zeros(0, np.bool_)
        """Per cell, in blocks that were released as before; not yet of those in `_touched`, where nothing is marked."""
        self._touched: set[int] = set()
        """Blocks that rows have come for since somebody asked how many of their cells are in use."""
        self._numbers: dict[int, int] = {}
        """Of cells in use, by block, as they were then."""
        self._clear: set[int] = set()
        """Blocks that were released, and of which nothing is left."""
        self._reused: list[slice] = []
        self._released = 0
        """How many blocks were released last, between two times that `is_wasteful` was asked."""
        self._is_judged = False
        self._most_blocks = 0
        """At a time, of late."""

    @property
    def size(self) -> int:
        """Above all cells."""
        return (len(self._blocks) + len(self._free)) << self._bits

    @property
    def count(self) -> int:
        """Cells in use."""
        return sum(map(self._number_used, self._blocks.values()))

    def starts(self) -> list[int]:
        return list(self._blocks)

    def has_room(self, starts: Sequence[int], keys: int, rows: int) -> bool:
        """Whether `cells` may be called for that many rows: there are not too many places for them."""
        if keys > 1 << self._bits:
            return False
        blocks = len(self._blocks) + sum(start not in self._blocks for start in starts)
        if blocks <= len(self._blocks) + len(self._free):
            return True
        return (blocks - _BEGUN) << self._bits <= _PLACES_PER_CELL * (self.count + rows)

    def cells(self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int) -> Cells:
        """As `LookedUpCells.cells`."""
        firsts = np.array([self._block(start) for start in starts], np.int64) << self._bits
        cells = key_ids
        cells += firsts[0] if which is None else firsts.take(which)
        if self._has_rows is None and not all(self._is_used[first : first + keys].all() for first in firsts.tolist()):
            self._is_used[cells] = True
        self._touched.update(map(self._blocks.__getitem__, starts))
        return cells

    def _block(self, slice_start: int) -> int:
        block = self._blocks.get(slice_start)
        if block is not None:
            return block
        if self._free:
            block = self._free.pop()
            self._released = max(0, self._released - 1)
            self._is_used[self._places(block)] = False
            if block in self._clear:
                self._clear.remove(block)
            else:
                self._reused.append(self._places(block))
        else:
            block = len(self._blocks)
            self._is_used = grown(self._is_used, (block + 1) << self._bits, False)
        self._blocks[slice_start] = block
        self._most_blocks = max(self._most_blocks, len(self._blocks))
        return block

    def _places(self, block: int) -> slice:
        return slice(block << self._bits, (block + 1) << self._bits)

    def reused(self) -> list[slice]:
        """As `LookedUpCells.reused`."""
        reused, self._reused = self._reused, []
        return reused

    def cells_of(self, slice_start: int) -> Places:
        """As `LookedUpCells.cells_of`."""
        block = self._blocks.get(slice_start)
        return slice(0, 0) if block is None else self._used_in(block)

    def _number_used(self, block: int) -> int:
        """How many of its cells are in use; `_is_used` says which, from now on."""
        if block in self._touched:
            self._touched.remove(block)
            places = self._places(block)
            if self._has_rows is not None:
                self._is_used[places] = self._has_rows(places)
            self._numbers[block] = int(np.count_nonzero(self._is_used[places]))
        return self._numbers[block]

    def _used_in(self, block: int) -> Places:
        count = self._number_used(block)
        places = self._places(block)
        is_used = self._is_used[places]
        if is_used[:count].all():
            return slice(places.start, places.start + count)
        used: Cells = np.flatnonzero(is_used)
        used += places.start
        return used

    def key_ids(self, cells: Places) -> Ids | slice:
        """As `LookedUpCells.key_ids`."""
        if isinstance(cells, slice) and cells.start >> self._bits == (cells.stop - 1) >> self._bits:
            first = cells.start & ((1 << self._bits) - 1)
            return slice(first, first + cells.stop - cells.start)
        return listed(cells) & ((1 << self._bits) - 1)

    def release(self, slice_start: int, is_clear: bool = False) -> None:
        """As `LookedUpCells.release`."""
        if slice_start not in self._blocks:
            return
        block = self._blocks.pop(slice_start)
        if is_clear:
            self._clear.add(block)
        self._free.append(block)
        self._released = 1 if self._is_judged else self._released + 1
        self._is_judged = False

    @property
    def most_keys(self) -> int:
        """In one of the slices that were released last; 0: it is not known."""
        released = self._free[len(self._free) - self._released :]
        return max(map(self._number_used, released), default=0)

    def recent(self) -> Cells:
        """As `LookedUpCells.recent`."""
        blocks = (*self._blocks.values(), *self._free[len(self._free) - self._released :])
        return np.concatenate([np.empty(0, np.int64), *(listed(self._used_in(block)) for block in blocks)])

    def is_wasteful(self) -> bool:
        """As `LookedUpCells.is_wasteful`."""
        self._is_judged = True
        is_sparse = 0 < _PLACES_PER_CELL * self.most_keys < 1 << self._bits
        is_large = self.size >> self._bits > _PLACES_PER_CELL * (self._most_blocks + _BEGUN)
        self._most_blocks = max(len(self._blocks), self._most_blocks * 7 // 8)
        return is_sparse or is_large


SliceCells = LookedUpCells | PlacedCells


def best_cells(keys: int, slices: int, cells: int, most_keys: int, has_rows: HasRows | None) -> SliceCells:
    """None in use yet.

    Args:
        keys, has_rows: as `PlacedCells` takes them.
        slices, cells: how many of these there are about to be.
        most_keys: in one of the slices that were released last; 0: it is not known.
    """
    return PlacedCells(keys, has_rows) if _is_dense(keys, slices, cells, most_keys) else LookedUpCells()


def _is_dense(keys: int, slices: int, cells: int, most_keys: int = 0) -> bool:
    """Whether there are not too many places, if every key has one in every slice; as in `best_cells`."""
    places = 1 << _bits_for(keys)
    per_slice = most_keys or cells // max(1, slices)
    return places <= _PLACES_PER_CELL * per_slice and (slices - _BEGUN) * places <= _PLACES_PER_CELL * cells


def _bits_for(keys: int) -> int:
    return max(_FEWEST_BITS, (keys - 1).bit_length())
