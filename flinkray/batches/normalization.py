"""Columns from outside, brought into layouts that all of Arrow's kernels know.

Arrow has no `take`, no comparison and no sort for some layouts of values that other layouts hold as well: views of text
(as Polars gives them), run-end encoding, decimals of 32 and 64 bits. Sources normalize what they read once, so that no
operator meets them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.errors import TypeMismatchError
from flinkray.types.nested import with_items
from flinkray.types.records import RecordType

_TABLE = "the table of a source"


class LayoutNormalizer:
    """Normalizes the batches of one stream; whether a schema needs it is found out once.

    Args:
        where: names the operator in errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._normal_schema: pa.Schema | None = None

    def normalize(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows in layouts that kernels know; the same object where they are.

        Raises:
            TypeMismatchError: a column cannot be changed, or two have one name; names the operator and the column.
        """
        schema = data.schema
        if self._normal_schema is not None and schema.equals(self._normal_schema):
            return data
        _check_names(self._where, schema.names)
        normalized = normalized_schema(schema)
        if normalized is schema:
            self._normal_schema = schema
            return data
        columns = [
            _normalized_column(self._where, name, column)
            for name, column in zip(schema.names, data.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=normalized)


def normalized_table(table: pa.Table) -> pa.Table:
    """The table's rows, in chunks as before.

    Raises:
        TypeMismatchError: a column cannot be changed, or two have one name.
    """
    _check_names(_TABLE, table.column_names)
    given = table.schema
    schema = normalized_schema(given)
    if schema is given:
        return table
    columns = [
        pa.chunked_array([_normalized_column(_TABLE, field.name, chunk) for chunk in column.chunks], field.type)
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def normalized_record_type(record_type: RecordType) -> RecordType:
    """The type that rows of a type have once they are normalized; the same object where nothing changes."""
    schema = normalized_schema(record_type.schema)
    return record_type if schema is record_type.schema else RecordType(record_type.kind, schema)


def normalized_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of normalized rows; the same object where nothing changes."""
    types = [normalized_type(arrow_type) for arrow_type in schema.types]
    if types == schema.types:
        return schema
    fields = [field.with_type(arrow_type) for field, arrow_type in zip(schema, types, strict=True)]
    return pa.schema(fields, schema.metadata)


def normalized_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type that holds the same values in a layout that kernels know; also of what is nested in it."""
    types = pa.types
    if types.is_string_view(arrow_type):
        return pa.large_string()
    if types.is_binary_view(arrow_type):
        return pa.large_binary()
    if types.is_decimal32(arrow_type) or types.is_decimal64(arrow_type):
        return pa.decimal128(arrow_type.precision, arrow_type.scale)
    if types.is_run_end_encoded(arrow_type):
        return normalized_type(arrow_type.value_type)
    if types.is_dictionary(arrow_type):
        return pa.dictionary(arrow_type.index_type, normalized_type(arrow_type.value_type), arrow_type.ordered)
    return with_items(arrow_type, _normalized_item_type)


def _normalized_item_type(arrow_type: pa.DataType) -> pa.DataType:
    """Run-end encoded values within other values stay, since Arrow does not cast them: such rows can be passed on."""
    return arrow_type if pa.types.is_run_end_encoded(arrow_type) else normalized_type(arrow_type)


def _check_names(where: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TypeMismatchError(f"{where}: there are several columns {twice!r}; rename all but one: {', '.join(names)}")


def _normalized_column(where: str, name: str, column: pa.Array) -> pa.Array:
    try:
        return _normalized_array(column)
    except pa.ArrowException as error:
        raise TypeMismatchError(f"{where}: column {name!r} of type {column.type} cannot be used: {error}") from error


def _normalized_array(column: Any) -> pa.Array:
    target = normalized_type(column.type)
    if target.equals(column.type):
        return column
    if pa.types.is_run_end_encoded(column.type):  # run_end_decode has no kernel for all values
        ends = as_numpy(column.run_ends)
        runs = np.searchsorted(ends, np.arange(len(column)) + column.offset, side="right")
        return _normalized_array(column.values).take(from_numpy(runs))
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(
            column.indices, _normalized_array(column.dictionary), ordered=column.type.ordered
        )
    return column.cast(target)
