"""Slices merged ahead of time, so that a window of many slices is put together from few pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from actors.columns.ordering import order_by
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators
from actors.operators.aggregates.aggregate_columns import AggregateColumns

# Two pieces stay two where their merger has more than this share of their groups: it would take memory for little.
_WORTH_MERGING = 0.75


class Piece(Struct, frozen=True):
    """Aggregates of some keys over some slices.

    Attributes:
        key_ids: distinct.
        first_cells: per key the lowest of its accumulators, which orders the keys.
        aggregates: what holds them.
        accumulators: where in `aggregates` each key's are.
    """

    key_ids: Ids
    first_accumulators: Accumulators
    aggregates: AggregateColumns
    accumulators: Accumulators


class MergedSlices:
    """Merges the slices 2n and 2n + 1, then pairs of pairs, and so on, each when it is first asked for.

    A window of n slices consists of some 2 log2(n) pieces, and each slice that passes costs about two merges, where
    every window would else merge n slices. A slice that changes takes only the pieces over it along, so late rows
    cost little. The pieces are a cache: nothing is lost when they are dropped.

    Args:
        piece_of: the piece of one slice, by its number (slices are numbered in order of time); None: it has no rows.
    """

    def __init__(self, piece_of: Callable[[int], Piece | None]) -> None:
        self._piece_of = piece_of
        self._pieces: dict[tuple[int, int], list[Piece]] = {}
        """By level and number: those of the slices number << level to (number + 1) << level."""
        self._levels = 0

    def pieces(self, first: int, last: int) -> Iterator[Piece]:
        """Pieces that make up the slices first ... last - 1."""
        while first < last:
            level = 0
            while not first & (1 << level) and first + (2 << level) <= last:
                level += 1
            yield from self._merged(level, first >> level)
            first += 1 << level

    def drop(self, numbers: Iterable[int]) -> None:
        """These slices have changed, or are gone."""
        if self._pieces:
            for number in numbers:
                for level in range(1, self._levels + 1):
                    self._pieces.pop((level, number >> level), None)

    def clear(self) -> None:
        """Keys or accumulators have other numbers now."""
        self._pieces.clear()

    def _merged(self, level: int, number: int) -> list[Piece]:
        if not level:
            piece = self._piece_of(number)
            return [] if piece is None else [piece]
        pieces = self._pieces.get((level, number))
        if pieces is None:
            pieces = [*self._merged(level - 1, 2 * number), *self._merged(level - 1, 2 * number + 1)]
            if len(pieces) > 1:
                pieces = _merge(pieces)
            self._pieces[level, number] = pieces
            self._levels = max(self._levels, level)
        return pieces


def _merge(pieces: list[Piece]) -> list[Piece]:
    key_ids, first_accumulators, places = _by_lowest_accumulator(pieces)
    if len(key_ids) > _WORTH_MERGING * len(places):
        return pieces
    return [Piece(key_ids, first_accumulators, _put_together(pieces, places, len(key_ids)), np.arange(len(key_ids)))]


def combine(windows: Sequence[Sequence[Piece]]) -> tuple[Ids, list[int], AggregateColumns]:
    """The keys of all windows, each window's by their lowest accumulators; how many each has; and their aggregates."""
    keys: list[Ids] = []
    places: list[Accumulators] = []
    size = 0
    for pieces in windows:
        key_ids, _, places_in_window = _by_lowest_accumulator(pieces)
        keys.append(key_ids)
        places.append(places_in_window + size)
        size += len(key_ids)
    every = [piece for pieces in windows for piece in pieces]
    return np.concatenate(keys), [len(key_ids) for key_ids in keys], _put_together(every, np.concatenate(places), size)


def _by_lowest_accumulator(pieces: Sequence[Piece]) -> tuple[Ids, Accumulators, Accumulators]:
    """The distinct keys of all pieces by their lowest accumulators, these accumulators, and for each key of each piece
    its place among the distinct ones."""
    key_ids = np.concatenate([piece.key_ids for piece in pieces])
    accumulators = np.concatenate([piece.first_accumulators for piece in pieces])
    never, keys = np.iinfo(np.int64).max, int(key_ids.max()) + 1
    if keys <= 8 * len(key_ids):  # an array with a place per key beats sorting
        first_accumulators = np.full(keys, never)
        np.minimum.at(first_accumulators, key_ids, accumulators)
        distinct = np.flatnonzero(first_accumulators != never)
        first_accumulators, numbers = first_accumulators[distinct], np.empty(keys, np.int64)
    else:
        distinct, key_ids = np.unique(key_ids, return_inverse=True)
        first_accumulators, numbers = np.full(len(distinct), never), np.empty(len(distinct), np.int64)
        np.minimum.at(first_accumulators, key_ids, accumulators)
    order = order_by(first_accumulators)
    if len(numbers) == len(distinct):
        numbers[order] = np.arange(len(order))
    else:
        numbers[distinct[order]] = np.arange(len(order))
    return distinct[order], first_accumulators[order], numbers[key_ids]


def _put_together(pieces: Sequence[Piece], places: Accumulators, size: int) -> AggregateColumns:
    """New aggregates of `size` groups, in which each key of each piece goes to its place."""
    merged = pieces[0].aggregates.fresh()
    merged.grow(size)
    accumulators: dict[int, list[Accumulators]] = {}
    targets: dict[int, list[Accumulators]] = {}
    holders = {id(piece.aggregates): piece.aggregates for piece in pieces}
    start = 0
    for piece in pieces:
        stop = start + len(piece.accumulators)
        accumulators.setdefault(id(piece.aggregates), []).append(piece.accumulators)
        targets.setdefault(id(piece.aggregates), []).append(places[start:stop])
        start = stop
    for holder, aggregates in holders.items():
        merged.merge(aggregates, np.concatenate(accumulators[holder]), np.concatenate(targets[holder]))
    return merged
