"""The operator that filters and projects rows by expressions of SQL."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from actors.operators.calc.calculation import calculate, prepared
from actors.operators.calc.values.evaluation import EvaluationContext
from actors.operators.contract.operator import label_of
from actors.operators.expressions.column_operators import ColumnOperator, filtered
from flinkray.batches.batch import Batch
from flinkray.errors import RecordError, TypeMismatchError, UnknownColumnError
from flinkray.tables.plans.explain import expression_text
from flinkray.tables.plans.expressions import columns_of
from flinkray.tables.types.arrow import CARRIER, to_arrow
from flinkray.transformations.operator_factories import CalcFactory


class CalcOperator(ColumnOperator):
    """Filters first, so that only rows that stay are projected, and only columns that are projected are filtered."""

    def __init__(self, factory: CalcFactory) -> None:
        self._columns = factory.columns
        self._types = [to_arrow(kind) for _, kind in factory.columns]
        self._names = [name for name, _ in factory.projections]
        self._expressions = [expression for _, expression in factory.projections]
        self._projected = sorted(columns_of(*self._expressions))
        self._has_predicate = factory.predicate is not None
        self._filtered_by: list[int] = []
        if factory.predicate is not None:
            self._filtered_by = sorted(columns_of(factory.predicate))
            self._expressions.append(factory.predicate)
        self._read = sorted({*self._projected, *self._filtered_by})

    def open(self) -> None:
        self._prepared = [prepared(each, EvaluationContext()) for each in self._expressions]

    def transform(self, batch: Batch) -> Batch:
        context = EvaluationContext(now_micros=self.context.clock.now_ms() * 1000)
        places = self._places(batch.data)
        # Where no column is projected, any one says how many rows there are.
        rows = batch.without_keys().select([places[each] for each in self._projected] or [0])
        if self._has_predicate:
            read = {each: self._column(each, batch.data.column(places[each])) for each in self._filtered_by}
            rows = filtered(rows, self._calculated(-1, read, batch.num_rows, context))
            if not rows.num_rows:
                return rows
        read = {each: self._column(each, rows.data.column(place)) for place, each in enumerate(self._projected)}
        columns = [self._calculated(place, read, rows.num_rows, context) for place, _ in enumerate(self._names)]
        names = self._names
        if not names:
            columns, names = [pa.nulls(rows.num_rows)], [CARRIER]
        return rows.with_data(pa.RecordBatch.from_arrays(columns, names=names))

    def _places(self, data: pa.RecordBatch) -> dict[int, int]:
        """Where each of the input's columns that is read stands in a batch."""
        places = {each: data.schema.get_field_index(self._columns[each][0]) for each in self._read}
        for each, place in places.items():
            if place == -1:
                raise UnknownColumnError(self._columns[each][0], data.schema.names, label_of(self.context))
        return places

    def _column(self, index: int, column: pa.Array) -> pa.Array:
        """A column as kernels take it: texts that a dictionary holds, say, as texts."""
        if column.type.equals(self._types[index]):
            return column
        try:
            return column.cast(self._types[index])
        except (pa.ArrowException, ValueError) as error:
            name, kind = self._columns[index]
            raise TypeMismatchError(
                f"{label_of(self.context)}: column {name!r} was declared as {kind}, and is {column.type}: {error}"
            ) from error

    def _calculated(
        self, place: int, columns: Mapping[int, pa.Array], rows: int, context: EvaluationContext
    ) -> pa.Array:
        try:
            return calculate(self._prepared[place], columns, rows, context)
        except RecordError as error:
            expression = self._expressions[place]
            text = expression_text(expression, [name for name, _ in self._columns])
            raise RecordError(f"{label_of(self.context)}: {text}: {error}") from error
