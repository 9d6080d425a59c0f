"""Rows in the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from flinkray.connectors.formats.nested_columns import retyped
from flinkray.errors import TypeMismatchError, UnknownColumnError
from flinkray.types.nested import with_items


def fitted(data: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    """The rows with exactly the columns of the table, null where they have none.

    Args:
        where: operator, subtask and table, for errors.

    Raises:
        TypeMismatchError: a column does not fit without loss, is null where the table wants a value, or is not in the
            table.
        UnknownColumnError: several columns have one name.
    """
    if data.schema.equals(schema, check_metadata=True):
        return data
    for name in data.schema.names:
        if data.schema.names.count(name) > 1:
            raise UnknownColumnError(name, data.schema.names, where)
    unknown = new_columns(data.schema, schema)
    if unknown:
        raise TypeMismatchError(
            f"{where}: the rows have a column {unknown[0].name!r} of type {unknown[0].type}, and the table has none; "
            "leave it out, or let the sink add it: add_columns=True"
        )
    columns = []
    for field in schema:
        if field.name in data.schema.names:
            column = _cast(data.column(field.name), field, where)
        else:
            column = pa.nulls(data.num_rows, field.type)
        if not field.nullable and column.null_count:
            raise TypeMismatchError(
                f"{where}: column {field.name!r} is NOT NULL in the table, and {column.null_count} of "
                f"{data.num_rows} rows have no value for it; fill it first"
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def new_columns(rows: pa.Schema, table: pa.Schema) -> Sequence[pa.Field]:
    """The columns of rows that a table has not."""
    return [field for field in rows if field.name not in table.names]


def chosen(schema: pa.Schema, columns: Sequence[str] | None, source: str) -> pa.Schema:
    """The columns of a table that a source reads, with types that programs know: all of them, or these.

    Raises:
        UnknownColumnError: the table has none of that name.
    """
    names = schema.names if columns is None else columns
    for name in names:
        if name not in schema.names:
            raise UnknownColumnError(name, schema.names, f"{source}(columns=...)")
    return pa.schema([(name, plain(schema.field(name).type)) for name in names])


def plain(kind: pa.DataType) -> pa.DataType:
    """The type that programs know values by: text and bytes as lake packages give them may be large ones."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(plain(kind.value_type)))
    return with_items(kind, plain)


def storable(fields: Iterable[pa.Field]) -> pa.Schema:
    """Columns with times as tables of lakes have them."""
    return pa.schema([field.with_type(in_microseconds(field.type)) for field in fields])


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    """The type with times as tables of lakes have them, which takes all values of coarser ones."""
    if pa.types.is_time32(kind):
        return pa.time64("us")
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return pa.timestamp("us", kind.tz)
    return with_items(kind, in_microseconds)


def _cast(column: pa.Array, field: pa.Field, where: str) -> pa.Array:
    if _is_text(column.type) is not _is_text(field.type):  # Arrow would read and write numbers and times as text
        raise TypeMismatchError(
            f"{where}: column {field.name!r} is {column.type}, and {field.type} in the table; cast it first"
        )
    try:
        try:
            return column.cast(field.type)
        except pa.ArrowNotImplementedError:  # of most dictionaries and extension types
            return retyped(column, field.type, pa.Array.cast)
    except pa.ArrowException as error:
        raise TypeMismatchError(
            f"{where}: column {field.name!r} is {column.type}, and {field.type} in the table: {error}; cast it first"
        ) from error


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
