"""`pyflink.table.schema`."""

from __future__ import annotations

from flinkray.tables.api.schemas import Schema

__all__ = ["Schema"]
