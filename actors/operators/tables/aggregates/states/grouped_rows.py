"""The rows of a batch by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.keys.index import Ids

Flags = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.int8]


class GroupedRows(Struct, frozen=True):
    """Rows of a batch, each of one of the groups that the batch has."""

    groups: Ids
    """The groups of the batch, each once; also those of which none of these rows is."""
    places: Ids
    """The place of each row's group in `groups`."""
    weights: Weights | None
    """1 where the row is added, -1 where it is taken back; None: all are added."""

    def select(self, rows: Ids, weights: Weights | None = None) -> GroupedRows:
        """Some of the rows; with other weights, where they are given."""
        if weights is None and self.weights is not None:
            weights = self.weights[rows]
        return GroupedRows(self.groups, self.places[rows], weights)

    def sums(self, values: npt.NDArray[np.float64] | None = None) -> npt.NDArray[Any]:
        """Sums by place, of the weights or of doubles by weight; those of the weights are integers."""
        addends: Any = self.weights
        if values is not None:
            addends = values if self.weights is None else values * self.weights
        found = np.bincount(self.places, addends, len(self.groups))
        return found.astype(np.int64) if values is None else found

    def integer_sums(self, values: Ids) -> Ids:
        """Sums of integers by weight and place, modulo 2**64."""
        found = np.zeros(len(self.groups), np.int64)
        np.add.at(found, self.places, values if self.weights is None else values * self.weights)
        return found


class Grouper:
    """Finds the groups of batches."""

    def __init__(self) -> None:
        self._last: Ids = np.zeros(0, np.int64)
        """For each group the last of its rows in some batch."""

    def group(self, groups: Ids, weights: Weights | None, size: int) -> tuple[GroupedRows, Ids]:
        """The rows of a batch by group, and the last row of each group.

        Args:
            groups: the group of each row.
            size: a number above all groups.
        """
        last = last_rows(groups, self._room(size))
        found = groups[last]
        self._last[found] = np.arange(len(found))
        return GroupedRows(found, self._last[groups], weights), last

    def _room(self, size: int) -> Ids:
        if len(self._last) < size:
            self._last = np.zeros(2 * size, np.int64)
        return self._last


def last_rows(numbers: Ids, scratch: Ids) -> Ids:
    """The last row with each number, ascending.

    Args:
        scratch: has an element for each number; they are overwritten.
    """
    rows = np.arange(len(numbers))
    scratch[numbers] = rows
    found: Ids = np.flatnonzero(scratch[numbers] == rows)
    return found


def first_rows(numbers: Ids, scratch: Ids) -> Ids:
    """As `last_rows`, the first row with each number."""
    rows = np.arange(len(numbers))
    scratch[numbers[::-1]] = rows[::-1]
    found: Ids = np.flatnonzero(scratch[numbers] == rows)
    return found
