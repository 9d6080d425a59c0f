"""The least or largest value of each group, and the first or last one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.take import take
from actors.columns.text_words import ordered_words
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Values
from actors.operators.aggregates.group_array import GroupArray
from actors.operators.aggregates.value_rules import (
    extreme_of,
    is_fixed_width,
    numbers_of,
    numpy_type,
    to_arrow,
)
from actors.operators.tables.aggregates.states.arguments import Taken
from actors.operators.tables.aggregates.states.group_state import Arrays, Captured, Columns, GroupState
from actors.operators.tables.aggregates.states.grouped_rows import Flags, GroupedRows
from actors.operators.tables.aggregates.states.value_sets import ValueSets
from actors.operators.tables.rows.stored_columns import StoredColumns, taken_of
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

_NONE = -1
_FEWEST_REPLACED = 4096


def order_numbers(values: pa.Array) -> Values:
    """Numbers that are ordered as the values are; anything where there is a null."""
    if is_fixed_width(values.type):
        return numbers_of(values)
    if pa.types.is_null(values.type):  # which Arrow does not rank
        return np.zeros(len(values), np.int64)
    words = ordered_words(values)
    if words is not None:
        return words
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    return as_numpy(ranks.cast(pa.int64()))


def best_rows(places: Ids, numbers: Values, size: int, is_max: bool) -> Ids:
    """For each place a row whose number is its least or largest; -1: it has no row."""
    function, start = extreme_of(numbers.dtype, is_max)
    best = np.full(size, start, numbers.dtype)
    function.at(best, places, numbers)
    is_best = numbers == best[places]
    if numbers.dtype.kind == "f":
        is_best |= np.isnan(best)[places]
    found = np.full(size, _NONE, np.int64)
    rows = np.flatnonzero(is_best)
    found[places[rows]] = rows
    return found


class NumericExtremes(Arrays):
    """The least or largest of values that are numbers to numpy; without a meaning for groups without values."""

    def __init__(self, arrow_type: pa.DataType, is_max: bool) -> None:
        self._type = arrow_type
        dtype = numpy_type(arrow_type)
        self._function, start = extreme_of(dtype, is_max)
        super().__init__({"extreme": (dtype, start)})

    def add(self, taken: Taken) -> None:
        self._add(taken.rows, taken.numbers)

    def merge(self, rows: GroupedRows, columns: Mapping[str, pa.Array]) -> None:
        self._add(rows, as_numpy(columns["extreme"]))

    def _add(self, rows: GroupedRows, numbers: Values) -> None:
        best = self.arrays["extreme"][rows.groups]
        self._function.at(best, rows.places, numbers)
        self.arrays["extreme"][rows.groups] = best

    def of(self, groups: Ids, is_null: Flags) -> pa.Array:
        """Their extremes; NULL where they have no value."""
        return to_arrow(self.arrays["extreme"][groups], self._type, is_null)


class GroupValues(GroupState):
    """Base of one value of each group, of any type; NULL where a group has none."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._schema = pa.schema([("value", arrow_type)])
        self._slots = GroupArray(np.int64, _NONE)
        self._values = StoredColumns(self._schema)
        self._size = 0
        self._read: tuple[Ids, pa.Array] | None = None
        """The groups that were read last, while their values are the same, and these."""

    def of(self, groups: Ids) -> pa.Array:
        if self._read is None or self._read[0] is not groups:  # of a batch's groups it is asked before and after
            self._read = groups, self._stored(groups)
        return self._read[1]

    def _stored(self, groups: Ids) -> pa.Array:
        slots = self._slots[groups]
        has_none = slots == _NONE
        if has_none.all():
            return pa.nulls(len(groups), self._schema.field(0).type)
        if not has_none.any():
            return self._values.take(slots).column(0)
        places = np.cumsum(~has_none) - 1
        found = self._values.take(slots[~has_none]).column(0)
        return found.take(from_numpy(places, is_null=has_none))

    def put(self, groups: Ids, values: pa.Array) -> None:
        """Gives distinct groups other values."""
        if not len(groups):
            return
        self._read = None
        begin = len(self._values)
        self._values.append(pa.RecordBatch.from_arrays([values], schema=self._schema))
        self._slots[groups] = np.arange(begin, begin + len(groups))
        if len(self._values) > 2 * self._size + _FEWEST_REPLACED:
            self.retain(np.arange(self._size))

    def grow(self, size: int) -> None:
        self._size = max(self._size, size)
        self._slots.grow(size)

    def reset(self, groups: Ids) -> None:
        self._read = None
        self._slots[groups] = _NONE

    def retain(self, groups: Ids) -> None:
        self._read = None
        slots, values = self._slots[groups], StoredColumns(self._schema)
        has_one = slots != _NONE
        if has_one.any():
            values.append(self._values.take(slots[has_one]))
        slots[has_one] = np.arange(len(values))
        self._slots.replace(slots)
        self._values, self._size = values, len(groups)

    def capture(self, groups: Ids) -> Captured:
        read, chunks, schema = self._slots.capture(self._size), self._values.chunks, self._schema

        def columns() -> Columns:
            slots = read()[groups]
            ascending = np.unique(slots[slots != _NONE])
            values = taken_of(chunks, ascending)
            found = (values or schema.empty_table()).column(0)
            return {"value": found.take(from_numpy(np.searchsorted(ascending, slots), is_null=slots == _NONE))}

        return Captured(groups, columns)

    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        self.grow(int(groups.max(initial=-1)) + 1)
        values = columns["value"]
        has_one = as_numpy(values.is_valid())
        self.put(groups[has_one], values.filter(from_numpy(has_one)).cast(self._schema.field(0).type))


class Extremes(GroupValues):
    """The least or largest value of any type that has an order."""

    def __init__(self, arrow_type: pa.DataType, is_max: bool) -> None:
        super().__init__(arrow_type)
        self.columns = ("value",)
        self._is_max = is_max

    def add(self, taken: Taken) -> None:
        self._add(taken.rows, taken.values[0])

    def merge(self, rows: GroupedRows, columns: Mapping[str, pa.Array]) -> None:
        values = columns["value"]
        has_one = np.flatnonzero(as_numpy(values.is_valid()))
        self._add(rows.select(has_one), take(values, from_numpy(has_one)))

    def _add(self, rows: GroupedRows, new: pa.Array) -> None:
        groups = rows.groups
        before = self.of(groups)
        has_one = np.flatnonzero(as_numpy(before.is_valid()))
        values = pa.concat_arrays([take(before, from_numpy(has_one)), new])
        places = np.concatenate([has_one, rows.places])
        best = best_rows(places, order_numbers(values), len(groups), self._is_max)
        is_better = best >= len(has_one)
        self.put(groups[is_better], take(values, from_numpy(best[is_better])))
        self._read = groups, values.take(from_numpy(best, is_null=best == _NONE))


class FirstOrLast(GroupValues):
    """The first or the last value."""

    def __init__(self, arrow_type: pa.DataType, is_last: bool) -> None:
        super().__init__(arrow_type)
        self._is_last = is_last

    def add(self, taken: Taken) -> None:
        groups, places = taken.rows.groups, taken.rows.places
        rows = np.full(len(groups), _NONE, np.int64)
        if self._is_last:
            rows[places] = np.arange(len(places))
        else:
            rows[places[::-1]] = np.arange(len(places))[::-1]
            rows[self._slots[groups] != _NONE] = _NONE
        chosen = rows != _NONE
        self.put(groups[chosen], take(taken.values[0], from_numpy(rows[chosen])))


class RetractableExtremes(ValueSets):
    """The least or largest value of groups from which values are taken back: all of them are counted.

    The values of a group are looked through where its extreme goes.
    """

    def __init__(self, arrow_type: pa.DataType, is_max: bool) -> None:
        super().__init__([arrow_type])
        self._is_max = is_max
        self._best = GroupArray(np.int64, _NONE)
        self._size = 0

    def add(self, taken: Taken) -> None:
        rows = taken.rows
        groups = rows.groups
        of_rows = self.numbers_of(groups[rows.places], taken.batch)
        first, numbers, _, after = self.count(of_rows, rows.weights)
        best = self._best[groups]
        has_one = np.flatnonzero(best != _NONE)
        is_lost = np.zeros(len(groups), np.bool_)
        is_lost[has_one] = self.counts(best[has_one]) <= 0
        lost = np.flatnonzero(is_lost)
        of_lost, left = self.of_groups(groups[lost])
        stays, comes = has_one[~is_lost[has_one]], after > 0
        places = np.concatenate([lost[of_lost], stays, rows.places[first][comes]])
        candidates = np.concatenate([left, best[stays], numbers[comes]])
        found = best_rows(places, order_numbers(self.take(candidates).column(0)), len(groups), self._is_max)
        self._best[groups] = np.where(found == _NONE, _NONE, np.append(candidates, _NONE)[found])
        self._renumber(self.forget_unused())

    def of(self, groups: Ids) -> pa.Array:
        best = self._best[groups]
        has_none = best == _NONE
        places = np.cumsum(~has_none) - 1
        return self.take(best[~has_none]).column(0).take(from_numpy(places, is_null=has_none))

    def _renumber(self, new_numbers: Ids | None) -> None:
        if new_numbers is not None:
            best = self._best[np.arange(self._size)]
            self._best.replace(np.where(best == _NONE, _NONE, np.append(new_numbers, _NONE)[best]))

    def grow(self, size: int) -> None:
        self._size = max(self._size, size)
        self._best.grow(size)

    def reset(self, groups: Ids) -> None:
        super().reset(groups)
        self._best[groups] = _NONE

    def retain(self, groups: Ids) -> None:
        best = self._best[groups]
        new_numbers = self._rebuild(self._new_groups(groups))
        self._best.replace(np.where(best == _NONE, _NONE, np.append(new_numbers, _NONE)[best]))
        self._size = len(groups)

    def restore(self, groups: Ids, columns: Mapping[str, pa.Array]) -> None:
        super().restore(groups, columns)
        self.grow(int(groups.max(initial=-1)) + 1)
        known = np.unique(groups)
        places, numbers = self.of_groups(known)
        best = best_rows(places, order_numbers(self.take(numbers).column(0)), len(known), self._is_max)
        self._best[known] = np.where(best == _NONE, _NONE, np.append(numbers, _NONE)[best])
