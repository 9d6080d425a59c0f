"""Dense numbers for 64-bit integers, and for pairs of small ones: 0 for the first integer that came, 1 for the next.

A table of one of two forms finds them: a direct one has an entry for each integer of a range, a hashed one is searched
by open addressing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
"""Shape (rows,): the number of each row's key."""

_EMPTY = -1
_FIRST_MARK = -2
"""While integers are added to a hashed table, an entry that row i has claimed holds this value less i."""

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_LOWEST = -(1 << 63)
_HIGHEST = (1 << 63) - 1

_SMALLEST_TABLE = 1024

# A table is direct while it has not many more entries than there are integers. The rows of the batch that is being
# added count as integers.
_ENTRIES_ALWAYS = 1 << 16
_ENTRIES_PER_INTEGER = 8
# Up to 8 MiB of entries there may be many more of them.
_ENTRIES_PER_INTEGER_OF_FEW = 64
_ENTRIES_OF_FEW = 1 << 21

# A new table is filled with so many integers at a time, so that temporary arrays stay small beside it.
_INSERTED_AT_ONCE = 1 << 20

_NONE: Ids = np.empty(0, np.int64)


class IntegerIndex:
    """Numbers integers. Those that lie together are looked up by their distance from the lowest, others by open
    addressing; all rows of a batch at once. Belongs to one thread.

    The table holds numbers only, in 32 bits where it is large and these are enough; the integers are in an array by
    number. That takes 16 to 24 bytes per integer, of which a lookup reads 12. A direct table with as many spare entries
    as are allowed takes up to 40 bytes per integer, or 8 MiB in all, and a lookup reads 4 bytes of it.
    """

    def __init__(self) -> None:
        self.size = 0
        self._null_id = _EMPTY
        self._words: Ids = np.zeros(_SMALLEST_TABLE, np.int64)
        self._lowest, self._highest = _HIGHEST, _LOWEST
        """The bounds of the integers in the table."""
        self._is_direct = True
        self._low = 0
        """The integer that has the first entry of a direct table."""
        self._allocate(0)

    @property
    def words(self) -> Ids:
        """The integers by number, 0 for null; to be read only, and only before the next `ids`."""
        return self._words[: self.size]

    def ids(self, words: Ids, nulls: npt.NDArray[np.bool_] | None = None) -> Ids:
        """The number of each integer; all rows where `nulls` is true share a number of their own."""
        ids = self._find_direct(words) if self._is_direct else self._find_hashed(words)
        if nulls is not None:
            ids[nulls] = self._null_id
        missing = _missing(ids)
        if len(missing):
            ids[missing] = self._add(words[missing], None if nulls is None else nulls[missing])
        return ids

    def ids_from(self, base: int, distances: Ids, end: int) -> Ids:
        """The number of each integer `base + distance`; all distances are from 0 to `end` - 1."""
        first = base - self._low
        if not self._is_direct or first < 0 or first + end > len(self._table):
            return self.ids(base + distances)
        ids = self._table[first : first + end].take(distances, mode="clip").astype(np.int64, copy=False)
        missing = _missing(ids)
        if len(missing):
            ids[missing] = self._add(base + distances[missing], None)
        return ids

    # -- finding

    def _find_direct(self, words: Ids) -> Ids:
        entries = words - self._low if self._low else words
        unsigned, end = entries.view(np.uint64), len(self._table)
        if unsigned.max(initial=0) < end:  # so all are within bounds, and clipping is numpy's quickest mode
            return self._table.take(entries, mode="clip").astype(np.int64, copy=False)
        is_inside = unsigned < end
        ids = np.full(len(words), _EMPTY, np.int64)
        ids[is_inside] = self._table[entries[is_inside]]
        return ids

    def _first_entries(self, words: Ids) -> Ids:
        """The entry at which the search for each integer begins. It goes on by 1, 2, 3 ... entries, which clusters
        little and comes to every entry."""
        mixed = words.view(np.uint64) * _MULTIPLIER
        mixed ^= mixed >> _SHIFT
        mixed *= _MULTIPLIER
        mixed >>= self._hash_shift
        return mixed.view(np.int64)

    def _find_hashed(self, words: Ids) -> Ids:
        entries = self._first_entries(words)
        ids = self._table[entries].astype(np.int64, copy=False)
        # An entry that is _EMPTY reads the last integer here, which does not matter.
        open_rows = np.flatnonzero((self._words[ids] != words) & (ids != _EMPTY))
        step = 0
        while len(open_rows):
            step += 1
            entries[open_rows] = (entries[open_rows] + step) & self._mask
            found = self._table[entries[open_rows]]
            ids[open_rows] = found
            open_rows = open_rows[(self._words[found] != words[open_rows]) & (found != _EMPTY)]
        return ids

    # -- adding

    def _add(self, words: Ids, nulls: npt.NDArray[np.bool_] | None) -> Ids:
        """Numbers integers that are not in the table yet, in order of first appearance."""
        if nulls is not None and nulls.any():
            return self._add_with_null(words, nulls)
        self._make_room(words)
        if self._is_direct:
            return self._enter(words, words - self._low)
        before, room = self.size, (self._mask + 1) // 2 - self.size
        ids = self._enter_claimed(words[:room], self._claimed_entries(words[:room]))
        if room >= len(words):
            return ids
        # The others are assumed to repeat as often as these.
        self._grow(self.size + (self.size - before) * (len(words) - room) // room)
        return np.concatenate([ids, self.ids(words[room:])])

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

    def _enter(self, words: Ids, entries: Ids) -> Ids:
        """Numbers new integers, each of which has an entry of its own, and gives each row's number."""
        numbers = np.arange(self.size, self.size + len(words))
        self._table[entries[::-1]] = numbers[::-1]  # the last write wins, which is the first row of each
        found = self._table[entries]
        is_first = found == numbers
        if is_first.all():
            self._number(words)
            return numbers
        return self._closed_up(words, entries, is_first, found - self.size)

    def _enter_claimed(self, words: Ids, entries: Ids) -> Ids:
        """As `_enter`, where each entry has the mark of its integer's first row."""
        first_rows = _FIRST_MARK - self._table[entries].astype(np.int64)
        return self._closed_up(words, entries, first_rows == np.arange(len(words)), first_rows)

    def _closed_up(self, words: Ids, entries: Ids, is_first: npt.NDArray[np.bool_], first_rows: Ids) -> Ids:
        """Numbers the first row of each integer, in order, and gives each row the number of its integer's first row."""
        numbers: Ids = np.cumsum(is_first, dtype=np.int64)
        numbers += self.size - 1
        self._table[entries[is_first]] = numbers[is_first]
        self._number(words[is_first])
        return numbers.take(first_rows)

    def _claimed_entries(self, words: Ids) -> Ids:
        """The entry of each new integer, which holds the mark of the integer's first row."""
        entries = self._first_entries(words)
        rows = np.arange(len(words))
        step = 0
        while len(rows):
            step += 1
            tried = entries[rows]
            free = np.flatnonzero(self._table[tried] == _EMPTY)[::-1]
            self._table[tried[free]] = _FIRST_MARK - rows[free]  # the last write wins: the first row of each integer
            holders = _FIRST_MARK - self._table[tried].astype(np.int64)  # an entry of an older integer has no such row
            is_lost = (holders < 0) | (words[np.maximum(holders, 0)] != words[rows])
            rows = rows[is_lost]
            entries[rows] = (entries[rows] + step) & self._mask
        return entries

    def _number(self, words: Ids) -> None:
        size = self.size + len(words)
        if size > len(self._words):
            self._words = _lengthened(self.words, max(size, 2 * len(self._words)))
        self._words[self.size : size] = words
        self.size = size

    # -- growing

    def _make_room(self, words: Ids) -> None:
        """Makes room for each of the integers, if the table is direct then; else for at least one."""
        lowest, highest = int(words.min()), int(words.max())
        goes_down = lowest < self._lowest <= self._highest
        self._lowest, self._highest = min(self._lowest, lowest), max(self._highest, highest)
        entries = self._highest - self._lowest + 1
        if not self._is_direct:
            if 2 * self.size > self._mask:
                self._grow(self.size)
        elif entries > _most_entries(self.size + len(words)):
            self._is_direct = False
            self._rebuild(_capacity(self.size))
        elif self._lowest < self._low or self._highest >= self._low + len(self._table):
            self._lay_out(entries, goes_down)

    def _grow(self, size: int) -> None:
        """A new table with room for one more integer than that at least."""
        entries = self._highest - self._lowest + 1
        if entries <= _most_entries(size):
            self._is_direct = True
            self._lay_out(entries, False)
        else:
            self._rebuild(_capacity(size))

    def _lay_out(self, entries: int, goes_down: bool) -> None:
        """Makes a direct table with that many entries, and some to spare in the direction in which integers grow."""
        length = max(_SMALLEST_TABLE, _power_of_two(entries))
        if self._lowest >= 0 and self._highest < length:
            self._low = 0  # an integer is the index of its own entry
        else:
            self._low = max(self._highest - length + 1, _LOWEST) if goes_down else self._lowest
        self._rebuild(length)

    def _rebuild(self, capacity: int) -> None:
        """Makes a new table of all integers that have a number."""
        self._allocate(capacity)
        for start in range(0, self.size, _INSERTED_AT_ONCE):
            numbers = np.arange(start, min(self.size, start + _INSERTED_AT_ONCE))
            if self._null_id != _EMPTY:
                numbers = numbers[numbers != self._null_id]
            words = self._words[numbers]
            if self._is_direct:
                self._table[words - self._low] = numbers
            else:
                self._insert(self._first_entries(words), numbers)

    def _insert(self, entries: Ids, numbers: Ids) -> None:
        """Enters distinct integers that are not in the table. Of those that meet at an entry one wins, others go on."""
        step = 0
        while len(entries):
            step += 1
            is_free = self._table[entries] == _EMPTY
            self._table[entries[is_free]] = numbers[is_free]
            lost = self._table[entries] != numbers
            numbers = numbers[lost]
            entries = (entries[lost] + step) & self._mask

    def _allocate(self, capacity: int) -> None:
        self._mask = capacity - 1
        self._hash_shift = np.uint64(64 - capacity.bit_length() + 1)
        # A small table stays in the cache with 64 bits too, and then what is read from it needs no cast.
        is_large = not self._is_direct or capacity > _ENTRIES_ALWAYS
        self._table: npt.NDArray[Any] = np.empty(0, np.int32)  # before the new one is made
        self._table = np.full(capacity, _EMPTY, np.int32 if is_large and capacity < 2**31 else np.int64)


class PairIndex:
    """Numbers pairs of numbers that are small themselves, both below 2**31. Belongs to one thread.

    A pair is looked up as one integer, whose lower bits are just enough for the second number, so that pairs lie
    together where most combinations occur.
    """

    def __init__(self) -> None:
        self._integers = IntegerIndex()
        self._bits = 0

    @property
    def size(self) -> int:
        return self._integers.size

    def ids(self, firsts: Ids | np.int64, seconds: Ids, end: int) -> Ids:
        """The number of each pair. All second numbers are below `end`, which never falls."""
        if end > 1 << self._bits:
            self._widen(end)
        if isinstance(firsts, np.int64):
            return self._integers.ids_from(int(firsts) << self._bits, seconds, end)
        return self._integers.ids((firsts << self._bits) | seconds)

    def firsts(self, ids: Ids | slice) -> Ids:
        """The first number of each of these pairs."""
        return self._integers.words[ids] >> self._bits

    def seconds(self, ids: Ids | slice) -> Ids:
        """The second number of each of these pairs."""
        return self._integers.words[ids] & ((1 << self._bits) - 1)

    def _widen(self, end: int) -> None:
        firsts, seconds = self.firsts(slice(None)), self.seconds(slice(None))
        self._bits = (end - 1).bit_length()
        self._integers = IntegerIndex()
        if len(firsts):
            self._integers.ids((firsts << self._bits) | seconds)


def _missing(ids: Ids) -> Ids:
    """The rows that have no number."""
    return np.flatnonzero(ids == _EMPTY) if ids.min(initial=0) == _EMPTY else _NONE


def _most_entries(integers: int) -> int:
    """How many entries a direct table of so many integers may have."""
    of_few = min(_ENTRIES_PER_INTEGER_OF_FEW * integers, _ENTRIES_OF_FEW)
    return max(_ENTRIES_ALWAYS, of_few, _ENTRIES_PER_INTEGER * integers)


def _capacity(integers: int) -> int:
    """The capacity of a hashed table in which there is room for one more than so many integers."""
    return max(_SMALLEST_TABLE, _power_of_two(2 * integers + 2))


def _lengthened(words: Ids, size: int) -> Ids:
    longer = np.empty(size, np.int64)
    longer[: len(words)] = words
    return longer


def _power_of_two(at_least: int) -> int:
    return 1 << (at_least - 1).bit_length()
