"""`pyflink.table.table_result`."""

from __future__ import annotations

from flinkray.collected_rows import CollectedRows
from flinkray.tables.environment.answers import ResultKind
from flinkray.tables.environment.results import TableResult

__all__ = ["CloseableIterator", "ResultKind", "TableResult"]

CloseableIterator = CollectedRows
