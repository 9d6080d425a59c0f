"""PyFlink's schemas for bytes as formats of messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import RowEncoder, decode
from flinkray.connectors.formats.avro import AvroFormat
from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.connectors.formats.raw import RawFormat
from flinkray.errors import InvalidProgramError, TypeMismatchError
from flinkray.pyflink.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from flinkray.pyflink.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from flinkray.pyflink.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRows,
    JsonRowSerializationSchema,
)
from flinkray.types.records import Kind, RecordType


def format_of(schema: SerializationSchema | DeserializationSchema) -> MessageFormat:
    """The format that reads or writes what the schema does: whole columns at a time where there is one that does the
    same, else a value at a time by the schema itself.

    Raises:
        InvalidProgramError: it is no schema.
    """
    match schema:
        case SimpleStringSchema() if schema.is_utf8:
            return RawFormat(str)
        case ByteArraySchema():
            return RawFormat(bytes)
        case JsonRowDeserializationSchema():
            return JsonRows(schema.record_type, schema.is_field_needed)
        case JsonRowSerializationSchema():
            return JsonRows(schema.record_type)
        case AvroRowDeserializationSchema() | AvroRowSerializationSchema():
            return ByPosition(AvroFormat(schema.schema))
    if not hasattr(schema, "serialize") and not hasattr(schema, "deserialize"):
        raise InvalidProgramError(
            f"a schema says how values are read and written, such as SimpleStringSchema(), and {schema!r} is none; "
            "read texts or bytes (ByteArraySchema), and convert them in a map function"
        )
    return BySchema(schema)


class ByPosition(MessageFormat):
    """A format whose columns are those of the rows by their places, as PyFlink's schemas take them, and not by name."""

    def __init__(self, named: MessageFormat) -> None:
        self._named = named

    @property
    def record_type(self) -> RecordType:
        return self._named.record_type

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        return self._named.decode(messages)

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        names = self._named.record_type.schema.names
        if len(names) != data.num_columns:
            raise ValueError(f"rows have {data.num_columns} columns, and the schema {len(names)}: {', '.join(names)}")
        return self._named.encode(data.rename_columns(names))


class BySchema(MessageFormat):
    """Calls a schema for each value."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    @property
    def record_type(self) -> RecordType:
        known: RecordType | None = getattr(self._schema, "record_type", None)
        if known is None:
            raise InvalidProgramError(
                f"{type(self._schema).__name__} does not say which type it reads; give it a property record_type, or "
                "read bytes with ByteArraySchema, and convert them in a map function"
            )
        return known

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        values = [self._schema.deserialize(message) for message in messages.to_pylist()]
        if None in values:
            raise ValueError("the schema reads no value from it")
        try:
            return RowEncoder(type(self._schema).__name__, "", self.record_type).encode(values, None).data
        except TypeMismatchError as error:
            raise ValueError(str(error)) from error

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        is_scalar = data.schema.names == ["value"]
        values = decode(Batch(data, Kind.SCALAR if is_scalar else Kind.ROW))
        return pa.array([self._schema.serialize(value) for value in values], pa.large_binary())
