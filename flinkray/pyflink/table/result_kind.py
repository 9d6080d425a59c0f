"""`pyflink.table.result_kind`."""

from __future__ import annotations

from flinkray.tables.environment.answers import ResultKind

__all__ = ["ResultKind"]
