"""Converts the columns of Ray Data's tables to types that streams have: tensors to lists, other extensions to
storage."""

from __future__ import annotations

import math

import pyarrow as pa

from flinkray.errors import InvalidProgramError


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata and extension types.

    Tensors of one shape become nested lists of fixed length, which `map_batches` gives to numpy as arrays of that
    shape; other extension types become their storage types.
    """
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with exactly these columns: missing ones are null, and casts lose nothing.

    Raises:
        InvalidProgramError: a tensor is null, which a list of fixed length cannot be.
    """
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(_plain_column(field.name, table.column(field.name)).cast(field.type))
        else:
            columns.append(pa.nulls(table.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if not isinstance(type_, pa.BaseExtensionType):
        return type_
    shape = getattr(type_, "shape", None)
    if not shape:
        return type_.storage_type
    plain = type_.storage_type.value_type
    for length in reversed(shape):
        plain = pa.list_(plain, length)
    return plain


def _plain_column(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([_plain_array(name, chunk) for chunk in column.chunks], _plain_type(column.type))


def _plain_array(name: str, array: pa.ExtensionArray) -> pa.Array:
    shape = getattr(array.type, "shape", None)
    if not shape:
        return array.storage
    values = array.storage.flatten()
    if len(values) != len(array) * math.prod(shape):
        raise InvalidProgramError(f"from_ray_dataset: tensor column {name!r} holds nulls; fill or filter them before")
    for length in reversed(shape):
        values = pa.FixedSizeListArray.from_arrays(values, length)
    return values
