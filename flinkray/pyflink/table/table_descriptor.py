"""`pyflink.table.table_descriptor`."""

from __future__ import annotations

from flinkray.tables.api.schemas import FormatDescriptor, TableDescriptor

__all__ = ["FormatDescriptor", "TableDescriptor"]
