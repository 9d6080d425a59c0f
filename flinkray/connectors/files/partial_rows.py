"""Rows of which only some columns, and fields of rows in them, were read: the others are null."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types


def columns_to_read(present: Iterable[str], fields: frozenset[str]) -> list[str]:
    """What to read of a file's columns, as paths: those that are asked for, or the first one, since rows count.

    Args:
        fields: names of columns, and `column.field` of fields of rows, at any depth.
    """
    names = list(present)
    asked = [each for each in sorted(fields) if each in names or each.partition(".")[0] in names]
    return asked or names[:1]


def with_nulls(data: pa.RecordBatch, schema: pa.Schema, present: Iterable[str]) -> pa.RecordBatch:
    """The rows with those columns of a file that are wanted, null where they were not read.

    Args:
        schema: the columns as they are wanted; it gives the types of those that were not read.
        present: the names of those that the file has.
    """
    names = [name for name in present if name in schema.names] or data.schema.names
    columns = []
    for name in names:
        column = data.column(name) if name in data.schema.names else pa.nulls(data.num_rows, schema.field(name).type)
        columns.append(_filled(column, schema.field(name).type) if name in schema.names else column)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _filled(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A row with nulls for the fields that it has not."""
    if not (types.is_struct(kind) and types.is_struct(column.type)):
        return column
    read = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    parts = [
        _filled(read[field.name], field.type) if field.name in read else pa.nulls(len(column), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(parts, names=[field.name for field in kind], mask=column.is_null())
