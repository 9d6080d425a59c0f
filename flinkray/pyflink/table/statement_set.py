"""`pyflink.table.statement_set`."""

from __future__ import annotations

from flinkray.tables.environment.statement_sets import StatementSet

__all__ = ["StatementSet"]
