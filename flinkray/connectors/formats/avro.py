"""Avro records as messages: plain, or with the number of their schema in front (Confluent's wire format)."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import pyarrow as pa

from flinkray.batches.value_columns import to_array, to_values
from flinkray.connectors.formats.avro_types import arrow_schema
from flinkray.connectors.formats.message_format import MessageFormat, rows_type, shown
from flinkray.connectors.formats.nested_columns import leaves_as, with_times_cut
from flinkray.connectors.formats.schema_registry import SchemaRegistry
from flinkray.extras import import_package
from flinkray.types.records import RecordType
from flinkray.types.value_types import Misfit, Unholdable

_MAGIC = 0
READ_ERRORS = (EOFError, IndexError, KeyError, TypeError, ValueError, OverflowError, struct.error)
_HEADER = struct.Struct(">bI")


class AvroFormat(MessageFormat):
    """Each message is an Avro record in binary, without the header of Avro files.

    Args:
        schema: of the record that rows are made of, as text or as what its JSON is: messages that were written with
            another one are read as Avro's rules of resolution say.
        writer_schema: of messages that `registry` does not tell the schemas of, where it is not `schema`.
        registry: messages begin with the number that their schema has there. What is written gets the number of
            `schema`, registered under `subject`.
        subject: the registry's name for it; by custom `<topic>-value`.

    fastavro reads records one by one: 2 to 3 µs each, a hundred times what JSON in columns takes.
    """

    def __init__(
        self,
        schema: str | dict[str, Any],
        writer_schema: str | dict[str, Any] | None = None,
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
    ) -> None:
        self._schema = _json_of(schema)
        self._writer_schema = self._schema if writer_schema is None else _json_of(writer_schema)
        self._registry = registry
        self._subject = subject
        self._parsed: dict[Any, Any] = {}
        self._arrow_schema = arrow_schema(self._schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parsed": {}}

    @property
    def record_type(self) -> RecordType:
        return rows_type(self._arrow_schema)

    def decode(self, messages: pa.Array) -> pa.RecordBatch:
        fastavro = import_package("fastavro", "AvroFormat")
        reader = self._parse("reader", self._schema)
        records = []
        for message in messages.to_pylist():
            writer, begin = self._writer_of(message)
            stream = io.BytesIO(message[begin:])
            try:
                records.append(fastavro.schemaless_reader(stream, writer, reader))
            except (
                EOFError,
                IndexError,
                KeyError,
                TypeError,
                struct.error,
                UnicodeDecodeError,
                OverflowError,
            ) as error:
                raise ValueError(f"no Avro record of this schema: {shown(message)} ({error})") from error
            if stream.read(1):
                raise ValueError(f"there are bytes behind the record: {shown(message)}")
        return self._columns(records)

    def _columns(self, records: list[dict[str, Any]]) -> pa.RecordBatch:
        columns = []
        for field in self._arrow_schema:
            values = [record[field.name] for record in records]
            try:
                columns.append(to_array(values, field.type))
            except (Misfit, Unholdable, pa.ArrowException) as error:
                raise ValueError(f"column {field.name!r} of {field.type}: {error}") from error
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)

    def encode(self, data: pa.RecordBatch) -> pa.Array:
        fastavro = import_package("fastavro", "AvroFormat")
        schema = self._parse("reader", self._schema)
        header = b""
        if self._registry is not None:
            if self._subject is None:
                raise ValueError("AvroFormat(registry=...) needs subject= to write, such as '<topic>-value'")
            header = _HEADER.pack(_MAGIC, self._registry.register(self._subject, json.dumps(self._schema)))
        messages = []
        names = data.schema.names
        for values in zip(*map(to_values, map(self._in_types, names, data.columns)), strict=True):
            row = dict(zip(names, values, strict=True))
            stream = io.BytesIO()
            stream.write(header)
            try:
                fastavro.schemaless_writer(stream, schema, row)
            except (ValueError, TypeError, KeyError, struct.error, OverflowError, AttributeError) as error:
                raise ValueError(f"the row {row!r} does not fit the Avro schema: {error}") from error
            messages.append(stream.getvalue())
        return pa.array(messages, pa.large_binary())

    def _in_types(self, name: str, column: pa.Array) -> pa.Array:
        """The column with its times in the zone that the schema has them in, as fastavro takes a time without one for
        a time where the process runs, and with numbers of the schema's types, which it does not check."""
        index = self._arrow_schema.get_field_index(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if index < 0:
            return column
        try:
            return with_times_cut(column, leaves_as(column.type, self._arrow_schema.field(index).type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(f"column {name!r} does not fit the Avro schema: {error}") from error

    def _writer_of(self, message: bytes) -> tuple[Any, int]:
        """The schema that a message was written with, and where its record begins."""
        if self._registry is None:
            return self._parse("writer", self._writer_schema), 0
        if len(message) < _HEADER.size or message[0] != _MAGIC:
            raise ValueError(f"the message does not begin with the number of a schema: {shown(message)}")
        _, schema_id = _HEADER.unpack_from(message)
        if schema_id not in self._parsed:
            self._parse(schema_id, json.loads(self._registry.schema(schema_id)))
        return self._parsed[schema_id], _HEADER.size

    def _parse(self, key: Any, schema: Any) -> Any:
        if key not in self._parsed:
            self._parsed[key] = import_package("fastavro", "AvroFormat").parse_schema(schema)
        return self._parsed[key]


def _json_of(schema: str | dict[str, Any]) -> Any:
    try:
        return json.loads(schema) if isinstance(schema, str) else schema
    except json.JSONDecodeError as error:
        raise ValueError(f"an Avro schema is JSON: {error}") from error
