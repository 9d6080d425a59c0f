"""The rows of windows by window and key, made values for the user's functions some groups at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from actors.columns.large_columns import as_columns, take_repeated_rows
from actors.columns.ordering import distinct, order_by
from actors.columns.ranges import indices_of_ranges
from actors.keys.index import Ids
from actors.operators.windows.buffers.buffered_rows import decoded
from actors.operators.windows.buffers.window_lookup import WindowedRows
from flinkray.types.records import MAX_TIMESTAMP

_NO_IDS = np.empty(0, np.int64)


class RowsByGroup:
    """A *group* is a window and a key (`WindowedRows.ids`); groups are by window, then by their first row's arrival.

    Args:
        sides: each with rows of its own, or none; the groups are those that any has.
        keys: how many keys have numbers.
    """

    def __init__(self, sides: Sequence[WindowedRows | None], keys: int) -> None:
        self._ids = distinct(np.concatenate([_NO_IDS if side is None else side.ids for side in sides]))
        self._sides = [_Side(side, self._ids) for side in sides]
        firsts = np.minimum.reduce([side.firsts() for side in self._sides])
        self._order = order_by(self._ids // keys, firsts)

    def pieces(self, most: int) -> Iterator[tuple[Ids, list[list[list[Any]]]]]:
        """Groups with at most so many rows of all sides, or one: their numbers, and each side's rows of each, by
        arrival."""
        ends = np.cumsum(np.sum([side.counts for side in self._sides], axis=0)[self._order])
        begin = 0
        while begin < len(ends):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(ends.searchsorted(before + most, "right")))
            groups = self._order[begin:end]
            yield self._ids[groups], [side.values(groups) for side in self._sides]
            begin = end

    def pieces_by_arrival(self, most: int) -> Iterator[tuple[Ids, list[list[Any]]]]:
        """As `pieces`, the rows of all sides together."""
        if len(self._sides) == 1:
            for ids, (rows,) in self.pieces(most):
                yield ids, rows
            return
        for ids, by_side in self.pieces(most):
            groups = self._ids.searchsorted(ids)
            arrivals = zip(*(side.arrivals(groups) for side in self._sides), strict=True)
            by_group = zip(zip(*by_side, strict=True), arrivals, strict=True)
            yield ids, [_by_arrival(rows, numbers) for rows, numbers in by_group]


def _by_arrival(rows: Sequence[list[Any]], arrivals: Sequence[list[int]]) -> list[Any]:
    values, numbers = list(chain.from_iterable(rows)), list(chain.from_iterable(arrivals))
    return [values[place] for place in sorted(range(len(numbers)), key=numbers.__getitem__)]


class _Side:
    """The rows of one side, by group."""

    def __init__(self, rows: WindowedRows | None, groups: Ids) -> None:
        self._rows = rows
        self.counts = np.zeros(len(groups), np.int64)
        if rows is not None:
            self._order = order_by(rows.ids)  # those of a window are by arrival
            ids = rows.ids[self._order]
            self._begins = ids.searchsorted(groups)
            self.counts = ids.searchsorted(groups, "right") - self._begins

    def firsts(self) -> Ids:
        """When the first row of each group arrived; the highest number where there is none."""
        firsts = np.full(len(self.counts), MAX_TIMESTAMP, np.int64)
        if self._rows is not None:
            has_rows = self.counts > 0
            firsts[has_rows] = self._rows.positions[self._order[self._begins[has_rows]]]
        return firsts

    def values(self, groups: Ids) -> list[list[Any]]:
        """The rows of each of these, as user functions see them: each an object of its own."""
        if self._rows is None:
            return [[] for _ in groups]
        rows, places = self._rows.rows, self._rows.places[self._places(groups)]
        return self._parted(decoded(take_repeated_rows(as_columns(rows.data), places), rows.kind), groups)

    def arrivals(self, groups: Ids) -> list[list[int]]:
        """When each of them arrived."""
        if self._rows is None:
            return [[] for _ in groups]
        return self._parted(self._rows.positions[self._places(groups)].tolist(), groups)

    def _places(self, groups: Ids) -> Ids:
        return self._order[indices_of_ranges(self._begins[groups], self.counts[groups])]

    def _parted(self, values: list[Any], groups: Ids) -> list[list[Any]]:
        ends = np.cumsum(self.counts[groups]).tolist()
        return [values[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
