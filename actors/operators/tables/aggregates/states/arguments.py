"""Which rows an aggregate takes, and their values."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Values
from actors.operators.aggregates.value_rules import numbers_of
from actors.operators.tables.aggregates.states.grouped_rows import Flags, GroupedRows, Weights
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.tables.plans.expressions import BoundExpression, Column, Constant
from flinkray.tables.types.arrow import to_arrow


class Source(Struct, frozen=True):
    """What an aggregate is over; aggregates over the same share what they keep."""

    arguments: tuple[BoundExpression, ...]
    filter: BoundExpression | None = None
    """A column that is true for the rows that are taken."""
    is_distinct: bool = False
    """Whether each value of the first argument is taken once."""
    takes_null: bool = False
    """Whether rows are taken whose first argument is NULL."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(to_arrow(each.type) for each in self.arguments)


class Taken:
    """The rows that a source takes of a batch."""

    def __init__(
        self, rows: GroupedRows, columns: tuple[pa.Array, ...], places: Ids | None = None, chosen: Flags | None = None
    ) -> None:
        self.rows = rows
        self._columns = columns
        self._places = places
        """Where the rows are in the columns; None: they are all of these."""
        self.chosen = chosen
        """Which rows of the batch these are, where that was found out at once; None: all."""

    @cached_property
    def values(self) -> tuple[pa.Array, ...]:
        """The values of the arguments; counts do not ask for them."""
        if self._places is None:
            return self._columns
        indices = from_numpy(self._places)
        return tuple(take(each, indices) for each in self._columns)

    @cached_property
    def numbers(self) -> Values:
        """The values of the first argument, which are of fixed width, as numpy has them."""
        return numbers_of(self.values[0])

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The values as columns, by number."""
        return pa.RecordBatch.from_arrays(list(self.values), names=[str(place) for place in range(len(self.values))])

    def select(self, rows: Ids, weights: Weights | None = None) -> Taken:
        """Some of the rows; with other weights, where they are given."""
        places = rows if self._places is None else self._places[rows]
        return Taken(self.rows.select(rows, weights), self._columns, places)


def taken(source: Source, data: pa.RecordBatch, rows: GroupedRows) -> Taken:
    """The rows of a batch that a source takes, DISTINCT left aside."""
    values = tuple(column_of(each, data) for each in source.arguments)
    chosen = selection(source, data, values)
    if chosen is None:
        return Taken(rows, values)
    places = np.flatnonzero(chosen)
    return Taken(rows.select(places), values, places, chosen)


def selection(source: Source, data: pa.RecordBatch, values: tuple[pa.Array, ...]) -> Flags | None:
    """Which rows of a batch a source takes; None: all."""
    selected = None if source.filter is None else flags_of(source.filter, data)
    if values and not source.takes_null and values[0].null_count:
        is_valid = as_numpy(values[0].is_valid())
        selected = is_valid if selected is None else selected & is_valid
    return None if selected is None or bool(selected.all()) else selected


def flags_of(condition: BoundExpression, data: pa.RecordBatch) -> Flags:
    """For which rows of a batch a filter is true."""
    column = column_of(condition, data)
    flags: Flags = as_numpy(column.fill_null(False) if column.null_count else column)
    return flags


def column_of(expression: BoundExpression, data: pa.RecordBatch) -> pa.Array:
    """The column that an argument or a filter is, or a constant as one."""
    if isinstance(expression, Column):
        return data.column(expression.index)
    assert isinstance(expression, Constant)
    return pa.repeat(pa.scalar(expression.value, to_arrow(expression.type)), data.num_rows)
