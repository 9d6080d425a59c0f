"""`pyflink.table.table_result`."""

from __future__ import annotations

from flinkray.tables.environment.answers import ResultKind
from flinkray.tables.environment.results import TableResult

__all__ = ["ResultKind", "TableResult"]
