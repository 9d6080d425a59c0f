"""Dense numbers for 64-bit integers: 0 for the first that came, 1 for the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
"""Shape (rows,): the number of each row's key."""

_EMPTY = -1
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)

# Tables grow by so many integers at a time, so that what is copied on the way stays small beside the table.
_INSERTED_AT_ONCE = 1 << 20


class IntegerIndex:
    """Open addressing with linear probing, all rows of a batch in step. Belongs to one thread.

    The table holds numbers only, in 32 bits while these are enough; the integers are in an array by number. So there
    are 16 to 24 bytes per integer in all, of which a lookup reads 12.
    """

    def __init__(self) -> None:
        self.size = 0
        self._null_id = _EMPTY
        self._words: Ids = np.zeros(1024, np.int64)
        self._allocate(1024)

    @property
    def words(self) -> Ids:
        """The integers by number, 0 for null; to be read only, before the next `ids`."""
        return self._words[: self.size]

    def ids(self, words: Ids, nulls: npt.NDArray[np.bool_] | None = None) -> Ids:
        """The number of each word; one more number for all rows where `nulls` is true."""
        ids = self._find(words)
        if nulls is not None:
            ids[nulls] = self._null_id
        missing = np.flatnonzero(ids == _EMPTY)
        if len(missing):
            ids[missing] = self._add(words[missing], None if nulls is None else nulls[missing])
        return ids

    def _slots(self, words: Ids) -> Ids:
        mixed = words.view(np.uint64) * _MULTIPLIER
        mixed ^= mixed >> _SHIFT
        mixed *= _MULTIPLIER
        mixed >>= self._slot_shift
        return mixed.view(np.int64)

    def _find(self, words: Ids) -> Ids:
        slots = self._slots(words)
        ids = self._table[slots].astype(np.int64, copy=False)
        # What _EMPTY reads, the last word, does not matter.
        open_rows = np.flatnonzero((self._words[ids] != words) & (ids != _EMPTY))
        while len(open_rows):
            slots[open_rows] = (slots[open_rows] + 1) & self._mask
            found = self._table[slots[open_rows]]
            ids[open_rows] = found
            open_rows = open_rows[(self._words[found] != words[open_rows]) & (found != _EMPTY)]
        return ids

    def _add(self, words: Ids, nulls: npt.NDArray[np.bool_] | None) -> Ids:
        """Numbers for words that are not in the table yet, in order of first appearance."""
        if nulls is not None and nulls.any():
            return self._add_with_null(words, nulls)
        distinct, first_rows, inverse = np.unique(words, return_index=True, return_inverse=True)
        order = np.argsort(first_rows)
        numbers = np.empty(len(distinct), np.int64)
        numbers[order] = np.arange(self.size, self.size + len(distinct))
        self._number(distinct[order])
        if 2 * self.size > self._mask:
            self._grow()
        else:
            self._insert(distinct, numbers)
        return numbers[inverse]

    def _add_with_null(self, words: Ids, nulls: npt.NDArray[np.bool_]) -> Ids:
        first_null = int(np.argmax(nulls))
        before, after = slice(0, first_null), np.flatnonzero(~nulls[first_null:]) + first_null
        ids = np.empty(len(words), np.int64)
        if first_null:
            ids[before] = self._add(words[before], None)
        self._null_id = self.size
        self._number(np.zeros(1, np.int64))
        ids[first_null:] = self._null_id
        if len(after):
            ids[after] = self.ids(words[after])
        return ids

    def _number(self, words: Ids) -> None:
        size = self.size + len(words)
        if size > len(self._words):
            longer = np.zeros(max(size, 2 * len(self._words)), np.int64)
            longer[: self.size] = self._words[: self.size]
            self._words = longer
        self._words[self.size : size] = words
        self.size = size

    def _insert(self, words: Ids, numbers: Ids) -> None:
        """Distinct words that are not in the table. Of those that meet in a slot one wins, the others go on."""
        slots = self._slots(words)
        while len(slots):
            is_free = self._table[slots] == _EMPTY
            self._table[slots[is_free]] = numbers[is_free]
            lost = self._table[slots] != numbers
            numbers = numbers[lost]
            slots = (slots[lost] + 1) & self._mask

    def _grow(self) -> None:
        """Makes a table for all integers that have a number."""
        capacity = self._mask + 1
        while 2 * self.size > capacity:
            capacity *= 2
        self._allocate(capacity)
        for start in range(0, self.size, _INSERTED_AT_ONCE):
            numbers = np.arange(start, min(self.size, start + _INSERTED_AT_ONCE))
            if self._null_id != _EMPTY:
                numbers = numbers[numbers != self._null_id]
            self._insert(self._words[numbers], numbers)

    def _allocate(self, capacity: int) -> None:
        self._mask = capacity - 1
        self._slot_shift = np.uint64(64 - capacity.bit_length() + 1)
        self._table: npt.NDArray[Any] = np.empty(0, np.int32)  # before the new one is made
        self._table = np.full(capacity, _EMPTY, np.int32 if capacity < 2**31 else np.int64)
