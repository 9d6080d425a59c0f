"""`pyflink.datastream.formats.parquet`."""

from __future__ import annotations

from functools import partial
from typing import Any

from flinkray.functions.type_hints import record_type
from flinkray.pyflink.common.serialization import BulkWriterFactory
from flinkray.pyflink.datastream.connectors.stream_formats import BulkFormat, StreamFormat
from flinkray.pyflink.datastream.formats.avro_records import (
    AvroSchema,
    ParquetRecordFiles,
    RecordSource,
    in_columns,
)
from flinkray.pyflink.imported_names import imported

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]

__getattr__ = imported(__name__)


class AvroParquetReaders:
    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Rows of Parquet files as dicts.

        Raises:
            InvalidProgramError: a field has no type in Arrow, such as a union of several.
        """
        format = ParquetRecordFiles(schema.columns())
        return StreamFormat("parquet", source=partial(RecordSource, format, "parquet"))


class AvroParquetWriters:
    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory:
        """Parquet files with the fields of an Avro schema, for dicts, or rows, that fit it.

        Raises:
            InvalidProgramError: a field has no type in Arrow, such as a union of several.
        """
        return BulkWriterFactory("parquet", records=partial(in_columns, schema.columns()))


class ParquetBulkWriters:
    @staticmethod
    def for_row_type(
        row_type: Any = None,
        hadoop_config: object = None,  # noqa: ARG004
        utc_timestamp: bool = False,  # noqa: ARG004
    ) -> BulkWriterFactory:
        """Parquet files.

        Args:
            row_type: the columns of the files, which rows are brought to, as `output_type=` of an operator; None: the
                rows' own.
            hadoop_config, utc_timestamp: taken for PyFlink's programs; there is no Hadoop, and times are as in Arrow.
        """
        return BulkWriterFactory(
            "parquet", None if row_type is None else record_type(row_type).schema.remove_metadata()
        )


class ParquetColumnarRowInputFormat(BulkFormat):
    """For `FileSource.for_bulk_file_format`: rows of Parquet files.

    Args:
        row_type: as `output_type=` of an operator: the columns that are read.
        hadoop_config, batch_size, is_utc_timestamp, is_case_sensitive: taken for PyFlink's programs; there is no
            Hadoop, batches are as the environment says, times are as in Arrow, and names are compared as they are.
    """

    def __init__(
        self,
        row_type: Any,
        hadoop_config: object = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        super().__init__("parquet", record_type(row_type).schema.remove_metadata())
