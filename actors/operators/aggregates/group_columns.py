"""State of running aggregates: a value per group, and the row of the group from which a result is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.casting import comparable, from_stored, stored, stored_type
from actors.operators.aggregates.accumulators import Values
from actors.operators.aggregates.group_array import GroupArray
from actors.operators.aggregates.segments import Ints, Segments
from actors.operators.aggregates.value_rules import (
    Flags,
    are_better,
    cast_exactly,
    extreme_of,
    is_fixed_width,
    numbers_of,
    numpy_type,
    to_arrow,
    valid_flags,
)
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.batches.value_columns import to_array, to_values

State = dict[str, pa.Array]
"""Columns with a row per group, by name."""


class GroupColumn:
    """A value, or null, per group: in an array of numpy's for fixed-width types, else of Python objects."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.type = arrow_type
        self._stored_type = stored_type(arrow_type)
        self._is_fixed = is_fixed_width(self._stored_type)
        self._values = GroupArray(numpy_type(self._stored_type), 0) if self._is_fixed else GroupArray(object, None)
        self._is_set = GroupArray(np.bool_, False)

    def get(self, groups: Ints) -> pa.Array:
        return self._as_arrow(self._values[groups], self._is_set[groups])

    def capture(self, size: int) -> Callable[[], pa.Array]:
        """The values of the groups 0 ... size - 1 as they are now, made a column when (and where) called, once."""
        values, is_set = self._values.capture(size), self._is_set.capture(size)
        return lambda: self._as_arrow(values(), is_set())

    def _as_arrow(self, values: Values, is_set: Flags) -> pa.Array:
        if self._is_fixed:
            array = to_arrow(values, self._stored_type, ~is_set)
        else:
            array = to_array(values.tolist(), self._stored_type)
        return from_stored(array, self.type)

    def put(self, groups: Ints, values: pa.Array, size: int) -> None:
        """Sets the values of these distinct groups; makes room for `size` groups."""
        self.grow(size)
        values = stored(values)
        self._is_set[groups] = as_numpy(values.is_valid())
        self._values[groups] = numbers_of(values) if self._is_fixed else _objects(to_values(values))

    def grow(self, size: int) -> None:
        self._values.grow(size)
        self._is_set.grow(size)

    def is_set(self, groups: Ints) -> Flags:
        return self._is_set[groups]


def _objects(values: list[Any]) -> Values:
    array = np.empty(len(values), object)
    array[:] = values
    return array


class Choice:
    """Chooses for each row the row of its group that the result is taken from: a row of the batch, or the one carried
    in.

    Args:
        columns: the types of the columns that are taken.
    """

    def __init__(self, columns: Sequence[pa.DataType]) -> None:
        self._carried = [GroupColumn(arrow_type) for arrow_type in columns]

    def take(self, segments: Segments, rows: Ints, columns: Sequence[pa.Array], size: int) -> list[pa.Array]:
        """The columns of the chosen rows, in the batch's order.

        Args:
            rows: for each row, sorted by group, the index of the chosen row in that order; -1: the one carried in from
                earlier batches, which is null where there is none.
        """
        results = []
        positions = np.where(rows < 0, segments.segment_of, len(segments.groups) + segments.order[rows])
        for carried, column in zip(self._carried, columns, strict=True):
            carried.grow(size)
            candidates = pa.concat_arrays([carried.get(segments.groups), column])
            results.append(candidates.take(from_numpy(segments.unsort(positions))))
            changed = rows[segments.ends] >= 0
            chosen = candidates.take(from_numpy(positions[segments.ends][changed]))
            carried.put(segments.groups[changed], chosen, size)
        return results

    def capture(self, size: int) -> Callable[[], State]:
        """The rows that are carried, for `restore`; captured as by `GroupColumn.capture`."""
        columns = {f"c{index}": carried.capture(size) for index, carried in enumerate(self._carried)}
        return lambda: {name: column() for name, column in columns.items()}

    def restore(self, state: State) -> None:
        for index, carried in enumerate(self._carried):
            values = cast_exactly(state[f"c{index}"], carried.type)
            carried.put(np.arange(len(values)), values, len(values))


class Improvements:
    """The best value per group, and at which rows it gets better: strictly, so that the first of equal ones stays."""

    def __init__(self, arrow_type: pa.DataType, is_max: bool) -> None:
        self._is_max = is_max
        self._is_fixed = is_fixed_width(arrow_type)
        self._best = GroupColumn(arrow_type)

    def rows(self, segments: Segments, values: pa.Array, size: int) -> Ints:
        """The index of the row with the best value so far, at each row, sorted by group; -1: the one carried in, or
        none."""
        self._best.grow(size)
        carried = self._best.get(segments.groups)
        if self._is_fixed:
            rows = segments.last_flagged(_improves(segments, values, carried, self._is_max))
        else:
            rows = segments.last_flagged(_improves_rank(segments, values, carried, self._is_max))
        last = rows[segments.ends]
        improved = last >= 0
        chosen = values.take(from_numpy(segments.order[last[improved]]))
        self._best.put(segments.groups[improved], chosen, size)
        return rows

    def capture(self, size: int) -> Callable[[], pa.Array]:
        """The best value per group, for `restore`; captured as by `GroupColumn.capture`."""
        return self._best.capture(size)

    def restore(self, best: pa.Array) -> None:
        self._best.put(np.arange(len(best)), cast_exactly(best, self._best.type), len(best))


def _improves(segments: Segments, values: pa.Array, carried: pa.Array, is_max: bool) -> Flags:
    """The rows, sorted by group, at which a fixed-width value is better than all before it, `carried` per segment among
    them."""
    function, start = extreme_of(numpy_type(values.type), is_max)
    valid, was_set = segments.sort(valid_flags(values)), valid_flags(carried)
    numbers = np.where(valid, segments.sort(numbers_of(values)), start)
    first = np.where(was_set, numbers_of(carried), start).astype(numbers.dtype)
    before = _shifted(segments, segments.scan(function, numbers, first), first)
    had_before = segments.count(valid, was_set.astype(np.int64)) - valid > 0
    flags: Flags = valid & (are_better(numbers, before, is_max) | ~had_before)
    return flags


def _improves_rank(segments: Segments, values: pa.Array, carried: pa.Array, is_max: bool) -> Flags:
    """The rows, sorted by group, at which a value that is not of fixed width is better than all before it, by its
    rank."""
    ranks = _ranks(pa.concat_arrays([carried, values]), is_max)
    first, current = ranks[: len(carried)], segments.sort(ranks[len(carried) :])
    flags: Flags = current > _shifted(segments, segments.scan(np.maximum, current, first), first)
    return flags


def _shifted(segments: Segments, running: Values, first: Values) -> Values:
    """The running value before each row."""
    before = np.empty_like(running)
    before[1:] = running[:-1]
    before[segments.starts] = first
    return before


_NULL_RANK = 0
"""The rank of null: Arrow counts ranks from 1."""


def _ranks(values: pa.Array, is_max: bool) -> Ints:
    """Integers that order as the values do, the best highest; that of null is below all."""
    if pa.types.is_null(values.type):
        return np.full(len(values), _NULL_RANK, np.int64)
    encoded = comparable(values).dictionary_encode()
    ranked = np.full(max(1, len(encoded.dictionary)), _NULL_RANK, np.int64)
    order = "ascending" if is_max else "descending"
    ranked[: len(encoded.dictionary)] = pc.rank(encoded.dictionary, sort_keys=order, tiebreaker="dense").to_numpy()
    indices = as_numpy(encoded.indices.fill_null(0))
    return np.where(valid_flags(values), ranked[indices], _NULL_RANK)
