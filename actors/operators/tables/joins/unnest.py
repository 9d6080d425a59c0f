"""A row for each element of a collection (Flink's UnnestRowsFunction)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.ranges import indices_of_ranges
from actors.columns.take import take, take_rows
from actors.keys.index import Ids
from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.contract.operator import Operator, label_of
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.errors import RecordError
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import columns_of
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import CollectionType, RowType, TypeRoot
from flinkray.transformations.table_join_factories import UnnestFactory

_REPLACED = pa.array([0, 3, 0, 3], pa.int8())
"""Kinds of rows without updates: what was goes, and what is comes."""


class UnnestOperator(Operator):
    """Gives each row, with what it does and its event time, once for each element; elements that are rows as their
    fields, but none for a NULL among them; entries of a map as key and value; elements of a multiset as often as they
    are in it."""

    def __init__(self, factory: UnnestFactory) -> None:
        self._factory = factory
        self._schema = stored_schema(factory.rows)
        self._width = len(factory.input_rows[0].fields)
        self._collection = prepared(factory.collection, EvaluationContext())
        self._read = sorted(columns_of(factory.collection))
        kind = factory.collection.type
        self._is_multiset = kind.root is TypeRoot.MULTISET
        self._has_rows = isinstance(kind, CollectionType) and isinstance(kind.element, RowType)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        collections = self._collections(batch)
        # Offsets count from the first element of what this may be a slice of, as the elements do.
        offsets = as_numpy(collections.offsets).astype(np.int64)
        counts = np.where(as_numpy(collections.is_valid()), np.diff(offsets), 0)
        rows, elements, numbers = self._places(collections, offsets[:-1], counts)
        if self._factory.is_outer:
            rows, elements, numbers = _with_empty(rows, elements, numbers, batch.num_rows)
        for start in range(0, len(rows), self.context.batch_rows):
            some = slice(start, start + self.context.batch_rows)
            self._emit(batch, collections, rows[some], elements[some], numbers[some])

    def _collections(self, batch: Batch) -> pa.Array:
        columns = {each: batch.data.column(each) for each in self._read}
        context = EvaluationContext(now_micros=self.context.clock.now_ms() * 1000)
        try:
            return calculate(self._collection, columns, batch.num_rows, context)
        except RecordError as error:
            text = expression_text(self._factory.collection, self._factory.input_rows[0].names)
            raise RecordError(f"{label_of(self.context)}: UNNEST({text}): {error}") from error

    def _places(self, collections: pa.Array, begins: Ids, counts: Ids) -> tuple[Ids, Ids, Ids]:
        """For each result its row, the place of the element, and the element's number from 1."""
        rows, elements = np.repeat(np.arange(len(counts)), counts), indices_of_ranges(begins, counts)
        if self._is_multiset:
            times = np.maximum(as_numpy(collections.items)[elements], 0)
            rows, elements = np.repeat(rows, times), np.repeat(elements, times)
            counts = np.bincount(rows, minlength=len(counts))
        firsts = np.cumsum(counts) - counts
        numbers = np.arange(len(rows)) - firsts[rows] + 1
        if not self._has_rows:
            return rows, elements, numbers
        is_row = as_numpy(_elements(collections).is_valid())[elements]
        return rows[is_row], elements[is_row], numbers[is_row]

    def _emit(self, batch: Batch, collections: pa.Array, rows: Ids, elements: Ids, numbers: Ids) -> None:
        taken = take_rows(batch, rows)
        if self._factory.replaces and taken.kinds is not None:
            taken = taken.with_kinds(_REPLACED.take(taken.kinds))
        is_missing = numbers == 0
        places = from_numpy(elements, is_missing)
        columns = [take(each, places) for each in self._element_columns(collections)]
        if self._factory.with_ordinality:
            columns.append(from_numpy(numbers, is_missing))
        arrays = [
            each.cast(field.type) for each, field in zip(columns, list(self._schema)[-len(columns) :], strict=True)
        ]
        data = pa.RecordBatch.from_arrays([*taken.data.columns[: self._width], *arrays], schema=self._schema)
        self.output.emit(taken.without_keys().with_data(data))

    def _element_columns(self, collections: pa.Array) -> list[pa.Array]:
        if pa.types.is_map(collections.type) and not self._is_multiset:
            return [collections.keys, collections.items]
        elements = _elements(collections)
        if not self._has_rows:
            return [elements]
        return [pc.struct_field(elements, place) for place in range(elements.type.num_fields)]


def _elements(collections: pa.Array) -> pa.Array:
    """Those of arrays and multisets, with those of others that these may be slices of."""
    return collections.keys if pa.types.is_map(collections.type) else collections.values


def _with_empty(rows: Ids, elements: Ids, numbers: Ids, count: int) -> tuple[Ids, Ids, Ids]:
    """The same with a result of the number 0 for each row that has none."""
    empty = np.flatnonzero(np.bincount(rows, minlength=count) == 0)
    at = np.searchsorted(rows, empty)
    zeros = np.zeros(len(empty), np.int64)
    return np.insert(rows, at, empty), np.insert(elements, at, zeros), np.insert(numbers, at, zeros)
