"""`pyflink.table.statement_set`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.tables.environment.statement_sets import StatementSet

__all__ = ["StatementSet"]

__getattr__ = imported(__name__)
