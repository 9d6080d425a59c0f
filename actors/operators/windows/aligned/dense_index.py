"""Accumulators that are computed, where slices have rows of most keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators, Selection, grown, numbers_in
from actors.operators.windows.aligned.slice_runs import AccumulatorRun, Counts, Starts

# Places may be computed while there are at most this many for each accumulator in use.
_PLACES_PER_CELL = 4

# Slices that have just begun are empty: so many need not have their accumulators yet.
_BEGUN = 2

_FEWEST_BITS = 10

_NONE: Accumulators = np.empty(0, np.int64)

Flags = npt.NDArray[np.bool_]

HasRows = Callable[[slice], Flags]
"""Which of these accumulators something has been added to since they were cleared."""


class DenseIndex:
    """A slice has a block of accumulators, with a place for every key: nothing is looked up. Blocks of slices that were
    released are used again.

    Args:
        keys: how many there are.
        has_rows: says so of all accumulators in use; None: they are marked with each row.
    """

    has_repeats: ClassVar[bool] = False
    """This and the next one: as of `SparseIndex`."""
    is_worth_looking_up: ClassVar[bool] = False

    def __init__(self, keys: int, has_rows: HasRows | None = None) -> None:
        self._has_rows = has_rows
        self._bits = _bits_for(keys)
        self._blocks: dict[int, int] = {}
        """Slice start -> its block."""
        self._free: list[int] = []
        """Blocks that were released, the last one last."""
        self._is_used = np.zeros(0, np.bool_)
        """Per accumulator, in blocks that were released as before; not yet of those in `_touched`, where nothing is
        marked."""
        self._touched: set[int] = set()
        """Blocks that rows have come for since somebody asked how many of their accumulators are in use."""
        self._numbers: dict[int, int] = {}
        """Of accumulators in use, by block, as they were then."""
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
        """Above all accumulators."""
        return (len(self._blocks) + len(self._free)) << self._bits

    @property
    def count(self) -> int:
        """Accumulators in use."""
        return sum(map(self._number_used, self._blocks.values()))

    def starts(self) -> list[int]:
        """As `SparseIndex.starts`."""
        return sorted(self._blocks)

    def has_room(self, starts: Sequence[int], keys: int, rows: int) -> bool:
        """Whether `accumulators` may be called for that many rows: there are not too many places for them."""
        if keys > 1 << self._bits:
            return False
        blocks = len(self._blocks) + sum(start not in self._blocks for start in starts)
        if blocks <= len(self._blocks) + len(self._free):
            return True
        return (blocks - _BEGUN) << self._bits <= _PLACES_PER_CELL * (self.count + rows)

    def accumulators(
        self, key_ids: Ids, starts: Sequence[int], which: npt.NDArray[Any] | None, keys: int
    ) -> Accumulators:
        """As `SparseIndex.accumulators`."""
        firsts = np.array([self._block(start) for start in starts], np.int64) << self._bits
        accumulators = key_ids
        accumulators += firsts[0] if which is None else firsts.take(which)
        if self._has_rows is None and not all(self._is_used[first : first + keys].all() for first in firsts.tolist()):
            self._is_used[accumulators] = True
        self._touched.update(map(self._blocks.__getitem__, starts))
        return accumulators

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
        """As `SparseIndex.reused`."""
        reused, self._reused = self._reused, []
        return reused

    def repeated(self) -> list[tuple[Accumulators, Accumulators]]:
        """As `SparseIndex.repeated`."""
        return []

    def find_repeated(self) -> None:
        """As `SparseIndex.find_repeated`."""

    def unmerged(self) -> AccumulatorRun:
        """As `SparseIndex.unmerged`."""
        return self.read(np.array(self.starts(), np.int64))

    def sizes(self, starts: Starts) -> Counts:
        """As `SparseIndex.sizes`."""
        blocks = map(self._blocks.get, starts.tolist())
        return np.array([0 if block is None else self._number_used(block) for block in blocks], np.int64)

    def read(self, starts: Starts) -> AccumulatorRun:
        """As `SparseIndex.read`."""
        counts = self.sizes(starts)
        starts, counts = starts[counts > 0], counts[counts > 0]
        accumulators = [numbers_in(self._used_in(self._blocks[start])) for start in starts.tolist()]
        together = accumulators[0] if len(accumulators) == 1 else np.concatenate([_NONE, *accumulators])
        return AccumulatorRun(starts, np.cumsum(counts), together)

    def read_changed(self, starts: Starts) -> None:
        """As `SparseIndex.read_changed`."""

    def accumulators_of(self, slice_start: int) -> Selection:
        """As `SparseIndex.accumulators_of`."""
        block = self._blocks.get(slice_start)
        return slice(0, 0) if block is None else self._used_in(block)

    def _number_used(self, block: int) -> int:
        """How many of its accumulators are in use; `_is_used` says which, from now on."""
        if block in self._touched:
            self._touched.remove(block)
            places = self._places(block)
            if self._has_rows is not None:
                self._is_used[places] = self._has_rows(places)
            self._numbers[block] = int(np.count_nonzero(self._is_used[places]))
        return self._numbers[block]

    def _used_in(self, block: int) -> Selection:
        count = self._number_used(block)
        places = self._places(block)
        is_used = self._is_used[places]
        if is_used[:count].all():
            return slice(places.start, places.start + count)
        used: Accumulators = np.flatnonzero(is_used)
        used += places.start
        return used

    def key_ids(self, accumulators: Selection) -> Ids | slice:
        """As `SparseIndex.key_ids`."""
        if (
            isinstance(accumulators, slice)
            and accumulators.start >> self._bits == (accumulators.stop - 1) >> self._bits
        ):
            first = accumulators.start & ((1 << self._bits) - 1)
            return slice(first, first + accumulators.stop - accumulators.start)
        return numbers_in(accumulators) & ((1 << self._bits) - 1)

    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        """As `SparseIndex.release`."""
        for start in starts:
            block = self._blocks.pop(start, None)
            if block is not None:
                if start in cleared:
                    self._clear.add(block)
                self._free.append(block)
                self._released = 1 if self._is_judged else self._released + 1
                self._is_judged = False

    @property
    def most_keys(self) -> int:
        """In one of the slices that were released last; 0: it is not known."""
        released = self._free[len(self._free) - self._released :]
        return max(map(self._number_used, released), default=0)

    def recent(self) -> Accumulators:
        """As `SparseIndex.recent`."""
        blocks = (*self._blocks.values(), *self._free[len(self._free) - self._released :])
        return np.concatenate([np.empty(0, np.int64), *(numbers_in(self._used_in(block)) for block in blocks)])

    def is_wasteful(self) -> bool:
        """As `SparseIndex.is_wasteful`."""
        self._is_judged = True
        is_sparse = 0 < _PLACES_PER_CELL * self.most_keys < 1 << self._bits
        is_large = self.size >> self._bits > _PLACES_PER_CELL * (self._most_blocks + _BEGUN)
        self._most_blocks = max(len(self._blocks), self._most_blocks * 7 // 8)
        return is_sparse or is_large


def is_dense(keys: int, slices: int, accumulators: int, most_keys: int = 0) -> bool:
    """Whether there are not too many places, if every key has one in every slice; as in `slice_cells.best_index`."""
    places = 1 << _bits_for(keys)
    per_slice = most_keys or accumulators // max(1, slices)
    return places <= _PLACES_PER_CELL * per_slice and (slices - _BEGUN) * places <= _PLACES_PER_CELL * accumulators


def _bits_for(keys: int) -> int:
    return max(_FEWEST_BITS, (keys - 1).bit_length())
