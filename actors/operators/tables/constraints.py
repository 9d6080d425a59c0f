"""What a table demands of the rows that are written into it (Flink's ConstraintEnforcer)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.contract.operator import Operator, OperatorContext, Output, label_of
from flinkray.batches.batch import Batch
from flinkray.errors import RecordError
from flinkray.tables.types.logical import TEXTS, LengthType
from flinkray.transformations.table_factories import ConstraintsFactory
from flinkray.types.rows import RowKind


class ConstraintsOperator(Operator):
    """Checks whole columns, of all changes alike. A column without a null costs a look at how many it has."""

    def __init__(self, factory: ConstraintsFactory) -> None:
        self._factory = factory

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._where = f"{label_of(context)}: table {self._factory.table!r}"

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        with_null = [place for place in self._factory.not_null if self._has_fault(batch, place)]
        if with_null and not self._factory.drops:
            raise RecordError(
                f"{self._where}: a row has NULL in column {self._name(with_null[0])!r}, which is NOT NULL; filter such "
                "rows, or leave them out with 'table.exec.sink.not-null-enforcer' = 'DROP'"
            )
        for place in with_null:
            batch = batch.filter(pc.invert(self._is_fault(batch, place)))
        if self._factory.lengths and batch.num_rows:
            batch = batch.with_data(self._with_lengths(batch.data))
        self.output.emit(batch)

    def _has_fault(self, batch: Batch, place: int) -> bool:
        return bool(batch.data.column(place).null_count and self._is_fault(batch, place).true_count)

    def _is_fault(self, batch: Batch, place: int) -> pa.Array:
        is_null = batch.data.column(place).is_null()
        if not self._factory.deletes_by_key or batch.kinds is None:
            return is_null
        return pc.and_(is_null, pc.not_equal(batch.kinds, RowKind.DELETE.value))

    def _with_lengths(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        for place in self._factory.lengths:
            kind = self._factory.rows.types[place]
            assert isinstance(kind, LengthType)
            column = rows.column(place)
            lengths = pc.utf8_length(column) if kind.kind in TEXTS else pc.binary_length(column)
            bounds = pc.min_max(lengths).as_py()
            is_right = bounds["max"] is None or (
                bounds["max"] <= kind.length and (not kind.is_fixed or bounds["min"] == kind.length)
            )
            if is_right:
                continue
            if not self._factory.trims:
                raise RecordError(
                    f"{self._where}: column {self._name(place)!r} is {kind}, and values have lengths of "
                    f"{bounds['min']} to {bounds['max']}; cut them by SUBSTRING, "
                    "or with 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD'"
                )
            rows = rows.set_column(place, rows.schema.field(place), _of_length(column, kind))
        return rows

    def _name(self, place: int) -> str:
        return self._factory.rows.names[place]


def _of_length(column: pa.Array, kind: LengthType) -> pa.Array:
    """Values cut to the length of their type, and where that is fixed filled up with blanks or zeros."""
    if kind.kind in TEXTS:
        cut = pc.utf8_slice_codeunits(column, 0, kind.length)
        return pc.utf8_rpad(cut, kind.length) if kind.is_fixed else cut
    cut = pc.binary_slice(column, 0, kind.length)
    if not kind.is_fixed:
        return cut
    missing = pc.subtract(kind.length, pc.binary_length(cut))
    zeros = pc.binary_repeat(pa.scalar(b"\0", column.type), missing)
    return pc.binary_join_element_wise(cut, zeros, pa.scalar(b"", column.type))
