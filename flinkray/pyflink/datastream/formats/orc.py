"""`pyflink.datastream.formats.orc`."""

from __future__ import annotations

from flinkray.pyflink.unavailable import unavailable

__all__: list[str] = []

__getattr__ = unavailable(
    __name__,
    "OrcBulkWriters",
    "files are Parquet, Arrow, CSV or JSON lines; use ParquetBulkWriters.for_row_type()",
)
