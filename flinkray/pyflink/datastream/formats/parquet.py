"""`pyflink.datastream.formats.parquet`."""

from __future__ import annotations

from typing import Any

from flinkray.pyflink.datastream.connectors.file_sink import BulkWriterFactory
from flinkray.type_hints import record_type

__all__ = ["ParquetBulkWriters"]


class ParquetBulkWriters:
    @staticmethod
    def for_row_type(row_type: Any = None) -> BulkWriterFactory:
        """Parquet files.

        Args:
            row_type: the columns of the files, which rows are brought to, as `output_type=` of an operator; None: the
                rows' own.
        """
        return BulkWriterFactory("parquet", None if row_type is None else record_type(row_type).schema)
