"""Rows as entries of a stream, which are lists of names and values, and entries as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.errors import UnknownColumnError

VALUE_FIELD = "value"
"""The field of an entry that has a message in it."""


def encode_fields(data: pa.RecordBatch, message_format: MessageFormat | None) -> tuple[list[bytes], list[list[Any]]]:
    """Names of fields, and their values by column: bytes, or None where the row has none.

    Raises:
        ValueError: a value has no form; names the column.
    """
    if message_format is not None:
        return [VALUE_FIELD.encode()], [message_format.encode(data).to_pylist()]
    names = [name.encode() for name in data.schema.names]
    return names, [_texts(column, name) for column, name in zip(data.columns, data.schema.names, strict=True)]


def _texts(column: pa.Array, name: str) -> list[Any]:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return list(column.to_pylist())
    if pa.types.is_nested(column.type):
        raise ValueError(f"column {name!r} is {column.type}, and a field of Redis is one text; give a value_format")
    try:
        return list(column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist())
    except pa.ArrowException as error:
        raise ValueError(f"column {name!r} of {column.type} has no text ({error}); give a value_format") from error


def decode_fields(entries: Sequence[dict[bytes, bytes]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the columns of `schema`, read from the fields of these names; a field that lacks is null.

    Raises:
        ValueError: a text is no value of its column.
    """
    columns = []
    for field in schema:
        name = field.name.encode()
        values = pa.array([entry.get(name) for entry in entries], pa.large_binary())
        try:
            columns.append(_parsed(values, field.type))
        except pa.ArrowException as error:
            raise ValueError(f"field {field.name!r}: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _parsed(values: pa.Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return values.cast(type)
    texts = values.cast(pa.large_string())
    if pa.types.is_boolean(type):
        texts = pc.utf8_lower(texts)
    return texts.cast(type)


def checked_columns(data: pa.RecordBatch, names: Sequence[str], where: str) -> None:
    """Raises: UnknownColumnError: rows lack one of the columns."""
    for name in names:
        if name not in data.schema.names:
            raise UnknownColumnError(name, data.schema.names, where)
