"""A dense index: the numbers of accumulators are computed, where slices have rows of most keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators, Selection, grown, numbers_in
from actors.operators.aggregates.value_rules import Flags
from actors.operators.windows.aligned.accumulator_runs import AccumulatorRun, Counts, Starts
from actors.operators.windows.aligned.slice_index import SliceIndex

# A dense index may be used while there are at most this many numbers for each accumulator in use.
_MOST_PER_USED = 4

# Slices that have just begun are empty: so many of them need not have their accumulators yet.
_BEGUN = 2

_FEWEST_BITS = 10

_NONE: Accumulators = np.empty(0, np.int64)

HasRows = Callable[[slice], Flags]
"""Says which of these accumulators something has been added to since they were cleared."""


class DenseIndex(SliceIndex):
    """A slice has a block of accumulators, one for every key: nothing is looked up. Blocks of slices that were released
    are used again.

    Args:
        keys: how many there are.
        has_rows: says which accumulators have rows, of all that are in use; None: they are marked with each row.
    """

    is_dense = True

    def __init__(self, keys: int, has_rows: HasRows | None = None) -> None:
        self._has_rows = has_rows
        self._bits = _bits_for(keys)
        self._blocks: dict[int, int] = {}
        """The number of the block by slice start."""
        self._free: list[int] = []
        """The blocks that were released, the last one last."""
        self._is_used = np.zeros(0, np.bool_)
        """Whether each accumulator is in use. Blocks that were released are as they were before. Not true yet of blocks
        in `_touched`, where rows have not been marked."""
        self._touched: set[int] = set()
        """Blocks that have got rows since somebody asked how many of their accumulators are in use."""
        self._counts: dict[int, int] = {}
        """How many accumulators were in use then, by block."""
        self._cleared_blocks: set[int] = set()
        """Released blocks whose accumulators have all been cleared."""
        self._reused: list[slice] = []
        self._released = 0
        """How many blocks were released last, between two times that `is_wasteful` was asked."""
        self._is_judged = False
        self._most_blocks = 0
        """The most blocks that were in use at a time, of late."""

    @property
    def size(self) -> int:
        return (len(self._blocks) + len(self._free)) << self._bits

    @property
    def count(self) -> int:
        return sum(map(self._number_used, self._blocks.values()))

    def starts(self) -> list[int]:
        return sorted(self._blocks)

    def is_suitable(self, starts: Sequence[int], keys: int, rows: int) -> bool:
        if keys > 1 << self._bits:
            return False
        blocks = len(self._blocks) + sum(start not in self._blocks for start in starts)
        if blocks <= len(self._blocks) + len(self._free):
            return True
        return (blocks - _BEGUN) << self._bits <= _MOST_PER_USED * (self.count + rows)

    def accumulators(
        self, key_ids: Ids, starts: Sequence[int], slice_indices: npt.NDArray[Any] | None, keys: int
    ) -> Accumulators:
        firsts = np.array([self._block_for(start) for start in starts], np.int64) << self._bits
        accumulators = key_ids
        accumulators += firsts[0] if slice_indices is None else firsts.take(slice_indices)
        if self._has_rows is None and not all(self._is_used[first : first + keys].all() for first in firsts.tolist()):
            self._is_used[accumulators] = True
        self._touched.update(map(self._blocks.__getitem__, starts))
        return accumulators

    def _block_for(self, slice_start: int) -> int:
        block = self._blocks.get(slice_start)
        if block is not None:
            return block
        if self._free:
            block = self._free.pop()
            self._released = max(0, self._released - 1)
            self._is_used[self._numbers_of(block)] = False
            if block in self._cleared_blocks:
                self._cleared_blocks.remove(block)
            else:
                self._reused.append(self._numbers_of(block))
        else:
            block = len(self._blocks)
            self._is_used = grown(self._is_used, (block + 1) << self._bits, False)
        self._blocks[slice_start] = block
        self._most_blocks = max(self._most_blocks, len(self._blocks))
        return block

    def _numbers_of(self, block: int) -> slice:
        return slice(block << self._bits, (block + 1) << self._bits)

    def reused(self) -> list[slice]:
        reused, self._reused = self._reused, []
        return reused

    def read_unmerged(self) -> AccumulatorRun:
        return self.read(np.array(self.starts(), np.int64))

    def sizes(self, starts: Starts) -> Counts:
        blocks = map(self._blocks.get, starts.tolist())
        return np.array([0 if block is None else self._number_used(block) for block in blocks], np.int64)

    def read(self, starts: Starts) -> AccumulatorRun:
        counts = self.sizes(starts)
        starts, counts = starts[counts > 0], counts[counts > 0]
        accumulators = [numbers_in(self._used_in(self._blocks[start])) for start in starts.tolist()]
        all_accumulators = accumulators[0] if len(accumulators) == 1 else np.concatenate([_NONE, *accumulators])
        return AccumulatorRun(starts, np.cumsum(counts), all_accumulators)

    def accumulators_of(self, slice_start: int) -> Selection:
        block = self._blocks.get(slice_start)
        return slice(0, 0) if block is None else self._used_in(block)

    def _number_used(self, block: int) -> int:
        """How many accumulators of the block are in use; `_is_used` says which, from now on."""
        if block in self._touched:
            self._touched.remove(block)
            block_numbers = self._numbers_of(block)
            if self._has_rows is not None:
                self._is_used[block_numbers] = self._has_rows(block_numbers)
            self._counts[block] = int(np.count_nonzero(self._is_used[block_numbers]))
        return self._counts[block]

    def _used_in(self, block: int) -> Selection:
        count = self._number_used(block)
        block_numbers = self._numbers_of(block)
        is_used = self._is_used[block_numbers]
        if is_used[:count].all():
            return slice(block_numbers.start, block_numbers.start + count)
        used: Accumulators = np.flatnonzero(is_used)
        used += block_numbers.start
        return used

    def key_ids(self, accumulators: Selection) -> Ids | slice:
        if (
            isinstance(accumulators, slice)
            and accumulators.start >> self._bits == (accumulators.stop - 1) >> self._bits
        ):
            first = accumulators.start & ((1 << self._bits) - 1)
            return slice(first, first + accumulators.stop - accumulators.start)
        return numbers_in(accumulators) & ((1 << self._bits) - 1)

    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        for start in starts:
            block = self._blocks.pop(start, None)
            if block is not None:
                if start in cleared:
                    self._cleared_blocks.add(block)
                self._free.append(block)
                self._released = 1 if self._is_judged else self._released + 1
                self._is_judged = False

    @property
    def most_keys(self) -> int:
        released = self._free[len(self._free) - self._released :]
        return max(map(self._number_used, released), default=0)

    def recent(self) -> Accumulators:
        blocks = (*self._blocks.values(), *self._free[len(self._free) - self._released :])
        return np.concatenate([np.empty(0, np.int64), *(numbers_in(self._used_in(block)) for block in blocks)])

    def is_wasteful(self) -> bool:
        self._is_judged = True
        is_sparse = 0 < _MOST_PER_USED * self.most_keys < 1 << self._bits
        is_large = self.size >> self._bits > _MOST_PER_USED * (self._most_blocks + _BEGUN)
        self._most_blocks = max(len(self._blocks), self._most_blocks * 7 // 8)
        return is_sparse or is_large


def is_dense(keys: int, slices: int, accumulators: int, most_keys: int = 0) -> bool:
    """Whether a dense index of these slices would not have too many numbers, with one for every key in every slice."""
    block = 1 << _bits_for(keys)
    per_slice = most_keys or accumulators // max(1, slices)
    return block <= _MOST_PER_USED * per_slice and (slices - _BEGUN) * block <= _MOST_PER_USED * accumulators


def _bits_for(keys: int) -> int:
    return max(_FEWEST_BITS, (keys - 1).bit_length())
