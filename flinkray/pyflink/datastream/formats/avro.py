"""`pyflink.datastream.formats.avro`: rows as Avro records in bytes, by their fields' places."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkray.connectors.formats.avro import AvroFormat
from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common.serialization import DeserializationSchema, SerializationSchema
from flinkray.pyflink.unavailable import unavailable
from flinkray.types.rows import Row

__all__ = ["AvroRowDeserializationSchema", "AvroRowSerializationSchema"]

__getattr__ = unavailable(
    __name__,
    "AvroSchema GenericRecordAvroTypeInfo AvroInputFormat AvroBulkWriters",
    "records are rows here, and files of them are read and written with flinkray.FileSource and flinkray.FileSink, "
    "format='avro'",
)


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
