"""Slices merged ahead of time, so that a window of many slices is put together from few parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from actors.columns.ordering import order_by
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators
from actors.operators.aggregates.aggregate_columns import AggregateColumns

# Two parts are not merged where their merger would have more than this share of their keys: it would take memory for
# little.
_WORTH_MERGING = 0.75


class SliceAggregate(Struct, frozen=True):
    """The aggregates of some keys over a slice, or over several that follow one another.

    Attributes:
        key_ids: the keys, each once.
        first_accumulators: for each key the lowest of the accumulators that were merged, which orders the keys.
        aggregates: the columns of accumulators in which the aggregates are.
        accumulators: the accumulator of each key in these columns.
    """

    key_ids: Ids
    first_accumulators: Accumulators
    aggregates: AggregateColumns
    accumulators: Accumulators


class MergedSlices:
    """Merges the slices 2n and 2n + 1, then pairs of pairs, and so on, each when it is first asked for.

    A window of n slices consists of some 2 log2(n) parts, and each slice that passes costs about two merges, where
    every window would else merge n slices. When a slice changes, only the parts over it are dropped, so late rows cost
    little. The parts are a cache: nothing is lost with them.

    Args:
        aggregate_of: gives the aggregate of one slice, by its number (slices are numbered in order of time); None: the
            slice has no rows.
    """

    def __init__(self, aggregate_of: Callable[[int], SliceAggregate | None]) -> None:
        self._aggregate_of = aggregate_of
        self._merged_parts: dict[tuple[int, int], list[SliceAggregate]] = {}
        """The parts by level and number: those of the slices number << level to (number + 1) << level."""
        self._levels = 0

    def parts(self, first: int, last: int) -> Iterator[SliceAggregate]:
        """Parts that make up the slices first ... last - 1."""
        while first < last:
            level = 0
            while not first & (1 << level) and first + (2 << level) <= last:
                level += 1
            yield from self._merged(level, first >> level)
            first += 1 << level

    def drop(self, numbers: Iterable[int]) -> None:
        """Drops the parts over these slices, which have changed or are gone."""
        if self._merged_parts:
            for number in numbers:
                for level in range(1, self._levels + 1):
                    self._merged_parts.pop((level, number >> level), None)

    def clear(self) -> None:
        """Drops everything: keys or accumulators have other numbers now."""
        self._merged_parts.clear()

    def _merged(self, level: int, number: int) -> list[SliceAggregate]:
        if not level:
            part = self._aggregate_of(number)
            return [] if part is None else [part]
        parts = self._merged_parts.get((level, number))
        if parts is None:
            parts = [*self._merged(level - 1, 2 * number), *self._merged(level - 1, 2 * number + 1)]
            if len(parts) > 1:
                parts = _merge(parts)
            self._merged_parts[level, number] = parts
            self._levels = max(self._levels, level)
        return parts


def _merge(parts: list[SliceAggregate]) -> list[SliceAggregate]:
    key_ids, first_accumulators, targets = _by_lowest_accumulator(parts)
    if len(key_ids) > _WORTH_MERGING * len(targets):
        return parts
    return [
        SliceAggregate(
            key_ids, first_accumulators, _merged_aggregates(parts, targets, len(key_ids)), np.arange(len(key_ids))
        )
    ]


def combine(windows: Sequence[Sequence[SliceAggregate]]) -> tuple[Ids, list[int], AggregateColumns]:
    """The keys of all windows, each window's by their lowest accumulators; how many keys each window has; and the
    aggregates of each window and key, in that order."""
    keys: list[Ids] = []
    targets: list[Accumulators] = []
    size = 0
    for parts in windows:
        key_ids, _, targets_in_window = _by_lowest_accumulator(parts)
        keys.append(key_ids)
        targets.append(targets_in_window + size)
        size += len(key_ids)
    every = [part for parts in windows for part in parts]
    return (
        np.concatenate(keys),
        [len(key_ids) for key_ids in keys],
        _merged_aggregates(every, np.concatenate(targets), size),
    )


def _by_lowest_accumulator(parts: Sequence[SliceAggregate]) -> tuple[Ids, Accumulators, Accumulators]:
    """The distinct keys of all parts by their lowest accumulators, these accumulators, and for each key of each part
    its index among the distinct ones."""
    key_ids = np.concatenate([part.key_ids for part in parts])
    accumulators = np.concatenate([part.first_accumulators for part in parts])
    never, keys = np.iinfo(np.int64).max, int(key_ids.max()) + 1
    if keys <= 8 * len(key_ids):  # an array with an element per key beats sorting
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


def _merged_aggregates(parts: Sequence[SliceAggregate], targets: Accumulators, size: int) -> AggregateColumns:
    """New aggregates of `size` accumulators.

    Args:
        targets: for each key of each part the accumulator that takes in what it has.
    """
    merged = parts[0].aggregates.fresh()
    merged.grow(size)
    # Parts that lie in the same columns are merged with one call.
    sources_in: dict[int, list[Accumulators]] = {}
    targets_in: dict[int, list[Accumulators]] = {}
    start = 0
    for part in parts:
        stop = start + len(part.accumulators)
        sources_in.setdefault(id(part.aggregates), []).append(part.accumulators)
        targets_in.setdefault(id(part.aggregates), []).append(targets[start:stop])
        start = stop
    for identity, aggregates in {id(part.aggregates): part.aggregates for part in parts}.items():
        merged.merge(aggregates, np.concatenate(sources_in[identity]), np.concatenate(targets_in[identity]))
    return merged
