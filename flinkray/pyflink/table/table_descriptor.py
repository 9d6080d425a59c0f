"""`pyflink.table.table_descriptor`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.tables.api.schemas import FormatDescriptor, TableDescriptor

__all__ = ["FormatDescriptor", "TableDescriptor"]

__getattr__ = imported(__name__)
