"""Types of columns as far as the beginning of a file shows them: a column without a value there has type null."""

from __future__ import annotations

import pyarrow as pa

from flinkray.types.nested import contains, with_items


def has_unknown(schema: pa.Schema) -> bool:
    """Whether the type of a column, or of a value nested in one, is not known yet (null)."""
    return any(contains(field.type, pa.types.is_null) for field in schema)


def filled(schema: pa.Schema, further: pa.Schema) -> pa.Schema:
    """The columns of `schema`, with the types that `further` has where they are not known there."""
    return pa.schema([field.with_type(_filled_from(field, further)) for field in schema])


def unknown_as_text(schema: pa.Schema) -> pa.Schema:
    """The columns of `schema`, with text where a type is not known."""
    return pa.schema([field.with_type(_text_for_unknown(field.type)) for field in schema])


def _filled_from(field: pa.Field, others: pa.Schema | pa.StructType) -> pa.DataType:
    index = others.get_field_index(field.name)  # -1: it is not there, or more than once
    return field.type if index < 0 else _filled(field.type, others.field(index).type)


def _filled(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return other
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        return pa.struct([field.with_type(_filled_from(field, other)) for field in kind])
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return pa.list_(kind.value_field.with_type(_filled(kind.value_type, other.value_type)))
    return kind


def _text_for_unknown(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_null(kind) else with_items(kind, _text_for_unknown)
