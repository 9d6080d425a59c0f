"""`pyflink.datastream.formats.csv`."""

from __future__ import annotations

from typing import Any

from flinkray.pyflink.datastream.connectors.file_sink import BulkWriterFactory
from flinkray.type_hints import record_type

__all__ = ["CsvBulkWriters"]


class CsvBulkWriters:
    @staticmethod
    def for_schema(schema: Any = None) -> BulkWriterFactory:
        """CSV files with a line of column names.

        Args:
            schema: as `row_type` of ParquetBulkWriters.
        """
        return BulkWriterFactory("csv", None if schema is None else record_type(schema).schema)
