"""Between a changelog and a stream of inserts that says in a column what each row does."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.contract.operator import label_of
from actors.operators.expressions.column_operators import ColumnOperator
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError, TypeMismatchError, UnknownColumnError
from flinkray.transformations.operator_factories import AsChangelogFactory, KindsAsColumnFactory
from flinkray.types.arrow_types import is_text
from flinkray.types.rows import ROW_KINDS, SHORT_STRINGS, RowKind

_TEXTS = {text: value for value, text in enumerate(SHORT_STRINGS)} | {
    # What change data capture calls them: create, read (of a snapshot), update, delete.
    "c": RowKind.INSERT.value,
    "r": RowKind.INSERT.value,
    "u": RowKind.UPDATE_AFTER.value,
    "d": RowKind.DELETE.value,
}


class AsChangelogOperator(ColumnOperator):
    """Takes the column that says what each row does out of the rows, and makes it their kinds."""

    def __init__(self, factory: AsChangelogFactory) -> None:
        self._column = factory.column

    def transform(self, batch: Batch) -> Batch:
        data, names = batch.data, batch.data.schema.names
        if self._column not in names:
            raise UnknownColumnError(self._column, names, label_of(self.context))
        if len(names) == 1:
            raise InvalidProgramError(f"{label_of(self.context)}: the rows have no column but {self._column!r}")
        column = data.column(self._column)
        kinds = self._kinds(column)
        if kinds.null_count:
            wrong = column[pc.index(kinds.is_null(), True).as_py()].as_py()
            raise TypeMismatchError(
                f"{label_of(self.context)}: column {self._column!r} says what rows do in the changelog, with "
                f"{', '.join(_TEXTS)} or {', '.join(map(str, range(len(ROW_KINDS))))}; {wrong!r} is none of these"
            )
        return batch.with_data(data.select([name for name in names if name != self._column])).with_kinds(kinds)

    def _kinds(self, column: pa.Array) -> pa.Array:
        """The kind of each row; null where it is none."""
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        types = pa.types
        if types.is_integer(column.type):
            is_kind = pc.is_in(column, pa.array(range(len(ROW_KINDS)), column.type))
            return pc.if_else(is_kind, column, None).cast(pa.int8())
        if is_text(column.type):
            return pa.array(_TEXTS.values(), pa.int8()).take(pc.index_in(column, pa.array(_TEXTS, column.type)))
        raise TypeMismatchError(
            f"{label_of(self.context)}: column {self._column!r} says what rows do in the changelog, so it must be of "
            f"text or integers, not {column.type}"
        )


class KindsAsColumnOperator(ColumnOperator):
    """Makes the kinds of rows a column of text, the last one; what comes out are inserts."""

    def __init__(self, factory: KindsAsColumnFactory) -> None:
        self._column = factory.column

    def transform(self, batch: Batch) -> Batch:
        data, names = batch.data, batch.data.schema.names
        if self._column in names:
            raise InvalidProgramError(
                f"{label_of(self.context)}: kinds_as_column would make two columns named {self._column!r}; name another"
            )
        kinds = pa.array(SHORT_STRINGS, pa.string()).take(batch.row_kinds)
        with_kinds = pa.RecordBatch.from_arrays([*data.columns, kinds], names=[*names, self._column])
        return batch.with_data(with_kinds).with_kinds(None)
