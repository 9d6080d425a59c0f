"""The rows of windows as values for the user's functions, by window and key, some pairs of these at a time."""

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


class ValuesPerWindow:
    """The values of each pair of window and key; pairs are by window, then by their first row's arrival.

    Args:
        sides: each with rows of its own, or None; the pairs are those that any side has.
        keys: how many keys have numbers.
    """

    def __init__(self, sides: Sequence[WindowedRows | None], keys: int) -> None:
        self._ids = distinct(np.concatenate([_NO_IDS if side is None else side.ids for side in sides]))
        self._sides = [_Side(side, self._ids) for side in sides]
        firsts = np.minimum.reduce([side.firsts() for side in self._sides])
        self._order = order_by(self._ids // keys, firsts)

    def batches(self, most: int) -> Iterator[tuple[Ids, list[list[list[Any]]]]]:
        """Pairs with at most so many rows of all sides, or one pair: their numbers (`WindowedRows.ids`), and for each
        side the rows of each pair, by arrival."""
        ends = np.cumsum(np.sum([side.counts for side in self._sides], axis=0)[self._order])
        begin = 0
        while begin < len(ends):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(ends.searchsorted(before + most, "right")))
            pairs = self._order[begin:end]
            yield self._ids[pairs], [side.values(pairs) for side in self._sides]
            begin = end

    def batches_by_arrival(self, most: int) -> Iterator[tuple[Ids, list[list[Any]]]]:
        """The pairs as `batches` gives them, with the rows of all sides in one list, by arrival."""
        if len(self._sides) == 1:
            for ids, (rows,) in self.batches(most):
                yield ids, rows
            return
        for ids, by_side in self.batches(most):
            pairs = self._ids.searchsorted(ids)
            arrivals = zip(*(side.arrivals(pairs) for side in self._sides), strict=True)
            by_pair = zip(zip(*by_side, strict=True), arrivals, strict=True)
            yield ids, [_by_arrival(rows, numbers) for rows, numbers in by_pair]


def _by_arrival(rows: Sequence[list[Any]], arrivals: Sequence[list[int]]) -> list[Any]:
    values, numbers = list(chain.from_iterable(rows)), list(chain.from_iterable(arrivals))
    return [values[index] for index in sorted(range(len(numbers)), key=numbers.__getitem__)]


class _Side:
    """The rows of one side, by pair of window and key."""

    def __init__(self, rows: WindowedRows | None, pairs: Ids) -> None:
        self._rows = rows
        self.counts = np.zeros(len(pairs), np.int64)
        if rows is not None:
            self._order = order_by(rows.ids)  # those of a window are by arrival
            ids = rows.ids[self._order]
            self._begins = ids.searchsorted(pairs)
            self.counts = ids.searchsorted(pairs, "right") - self._begins

    def firsts(self) -> Ids:
        """The position of each pair's first row in the order of arrival; the highest number where there is none."""
        firsts = np.full(len(self.counts), MAX_TIMESTAMP, np.int64)
        if self._rows is not None:
            has_rows = self.counts > 0
            firsts[has_rows] = self._rows.positions[self._order[self._begins[has_rows]]]
        return firsts

    def values(self, pairs: Ids) -> list[list[Any]]:
        """The rows of each of these pairs, as user functions see them: each an object of its own."""
        if self._rows is None:
            return [[] for _ in pairs]
        rows, indices = self._rows.rows, self._rows.indices[self._indices(pairs)]
        return self._split(decoded(take_repeated_rows(as_columns(rows.data), indices), rows.kind), pairs)

    def arrivals(self, pairs: Ids) -> list[list[int]]:
        """The positions of the rows of each of these pairs in the order of arrival."""
        if self._rows is None:
            return [[] for _ in pairs]
        return self._split(self._rows.positions[self._indices(pairs)].tolist(), pairs)

    def _indices(self, pairs: Ids) -> Ids:
        return self._order[indices_of_ranges(self._begins[pairs], self.counts[pairs])]

    def _split(self, values: list[Any], pairs: Ids) -> list[list[Any]]:
        ends = np.cumsum(self.counts[pairs]).tolist()
        return [values[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
