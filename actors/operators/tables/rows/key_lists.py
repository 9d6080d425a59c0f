"""A list of numbers for each key: adding to lists and reading them takes a few calls of numpy for a whole batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.ranges import indices_of_ranges
from actors.keys.index import Ids

_LARGEST_WASTE = 4
"""The lists are laid out anew when they take so many times the room of what is in them."""
_FEWEST_ENTRIES = 4096


class KeyLists:
    """The list of each of the keys 0, 1, ...: numbers in the order in which they were added. New keys have empty ones.

    Each list has a range of its own in one array, with room to grow; a list that is full moves behind all others.
    """

    def __init__(self) -> None:
        self._begins: Ids = np.zeros(0, np.int64)
        self._counts: Ids = np.zeros(0, np.int64)
        self._rooms: Ids = np.zeros(0, np.int64)
        self._entries: Ids = np.empty(0, np.int64)
        self._used = 0
        self._total = 0

    def counts(self, keys: Ids) -> Ids:
        """How many numbers the list of each key has."""
        self._know(keys)
        counts: Ids = self._counts[keys]
        return counts

    def add(self, keys: Ids, numbers: Ids) -> None:
        """Adds `numbers[i]` to the list of `keys[i]`."""
        if not len(keys):
            return
        self._know(keys)
        order = order_by(keys)
        ordered = keys[order]
        starts = np.flatnonzero(differs_from_previous(ordered))
        distinct, added = ordered[starts], np.diff(starts, append=len(ordered))
        needed = self._counts[distinct] + added
        is_full = needed > self._rooms[distinct]
        if is_full.any():
            self._move(distinct[is_full], needed[is_full])
        ranks = np.arange(len(ordered)) - np.repeat(starts, added)
        self._entries[self._begins[ordered] + self._counts[ordered] + ranks] = numbers[order]
        self._counts[distinct] = needed
        self._total += len(keys)

    def of(self, keys: Ids) -> tuple[Ids, Ids]:
        """All numbers of the lists of these keys, in the order of the keys, and for each its place in `keys`: (places,
        numbers)."""
        counts = self.counts(keys)
        return np.repeat(np.arange(len(keys)), counts), self._entries[indices_of_ranges(self._begins[keys], counts)]

    def retain(self, keys: Ids, is_kept: npt.NDArray[np.bool_]) -> None:
        """Takes the numbers for which `is_kept[number]` is false out of the lists of these distinct keys."""
        places, numbers = self.of(keys)
        kept = is_kept[numbers]
        left = np.bincount(places[kept], minlength=len(keys))
        self._total -= len(numbers) - int(kept.sum())
        self._entries[indices_of_ranges(self._begins[keys], left)] = numbers[kept]
        self._counts[keys] = left

    def _know(self, keys: Ids) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self._begins):
            more = max(size, 2 * len(self._begins)) - len(self._begins)
            self._begins, self._counts, self._rooms = (
                np.concatenate([each, np.zeros(more, np.int64)]) for each in (self._begins, self._counts, self._rooms)
            )

    def _move(self, keys: Ids, needed: Ids) -> None:
        """Gives the lists of these distinct keys room for so many numbers, and for as many again where they had some:
        most keys of a unique key never have a second."""
        rooms = np.where(self._counts[keys] > 0, 2 * needed, needed)
        if self._used + int(rooms.sum()) > len(self._entries):
            self._make_room(int(rooms.sum()))
        begins = self._used + np.cumsum(rooms) - rooms
        counts = self._counts[keys]
        self._entries[indices_of_ranges(begins, counts)] = self._entries[indices_of_ranges(self._begins[keys], counts)]
        self._begins[keys], self._rooms[keys] = begins, rooms
        self._used += int(rooms.sum())

    def _make_room(self, more: int) -> None:
        needed = self._used + more
        if self._used > _FEWEST_ENTRIES and self._used > _LARGEST_WASTE * self._total:
            entries = self._entries[indices_of_ranges(self._begins, self._counts)]
            self._begins, self._rooms = np.cumsum(self._counts) - self._counts, self._counts.copy()
            self._used = len(entries)
            needed = self._used + more
        else:
            entries = self._entries[: self._used]
        self._entries = np.empty(max(2 * needed, _FEWEST_ENTRIES), np.int64)
        self._entries[: self._used] = entries
