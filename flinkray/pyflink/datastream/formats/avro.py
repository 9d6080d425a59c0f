"""`pyflink.datastream.formats.avro`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "AvroSchema GenericRecordAvroTypeInfo AvroInputFormat AvroBulkWriters AvroRowDeserializationSchema "
    "AvroRowSerializationSchema",
    "files are Parquet, Arrow, CSV or JSON lines; write Parquet, ParquetBulkWriters.for_row_type(), or read and "
    "write Avro from Python with fastavro, in a Source and Sink of your own",
)
