"""`pyflink.table.schema`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.tables.api.schemas import Schema

__all__ = ["Schema"]

__getattr__ = imported(__name__)
