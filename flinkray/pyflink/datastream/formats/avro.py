"""`pyflink.datastream.formats.avro`: records of files as dicts, and rows as records in bytes, by the fields' places."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from flinkray.connectors.formats.avro import AvroFormat
from flinkray.connectors.source import Source
from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common.serialization import BulkWriterFactory, DeserializationSchema, SerializationSchema
from flinkray.pyflink.datastream.connector_functions import StandsForSource
from flinkray.pyflink.datastream.formats.avro_records import (
    AvroRecordFiles,
    AvroSchema,
    GenericRecordAvroTypeInfo,
    RecordSource,
    encoded,
)
from flinkray.pyflink.imported_names import imported
from flinkray.types.rows import Row

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

__getattr__ = imported(__name__)


class AvroInputFormat(StandsForSource):
    """For `create_input`: the records of Avro files as dicts.

    Args:
        path: of a file, or of a directory of such.
        schema: of the records that are made of those in the files, by Avro's rules of resolution.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._path = path
        self._schema = schema

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        return GenericRecordAvroTypeInfo(self._schema)

    def to_source(self) -> Source:
        return RecordSource(AvroRecordFiles(self._schema), "avro", [self._path], None)


class AvroBulkWriters:
    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Files of Avro with this schema, for dicts, or rows, that fit it."""
        return BulkWriterFactory("avro", records=partial(encoded, schema))


class _AvroSchema:
    """Args: avro_schema_string: the schema of the record, as JSON."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        if record_class is not None:
            raise InvalidProgramError(
                "record_class names a class of Java's, and there is no Java here; give avro_schema_string"
            )
        if avro_schema_string is None:
            raise TypeError("record_class or avro_schema_string should be specified.")
        self.schema = avro_schema_string
        self._format = AvroFormat(avro_schema_string)


class AvroRowDeserializationSchema(_AvroSchema, DeserializationSchema):
    def deserialize(self, message: bytes) -> Row:
        """
        Raises:
            ValueError: it is no such record.
        """
        (row,) = self._format.decode(pa.array([message], pa.large_binary())).to_pylist()
        return Row(**row)


class AvroRowSerializationSchema(_AvroSchema, SerializationSchema):
    def serialize(self, value: Any) -> bytes:
        schema = self._format.record_type.schema
        row = dict(zip(schema.names, value, strict=True))
        message: bytes = self._format.encode(pa.RecordBatch.from_pylist([row], schema=schema))[0].as_py()
        return message
