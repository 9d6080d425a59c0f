"""`pyflink.table.table_pipeline`."""

from __future__ import annotations

from flinkray.tables.environment.statement_sets import TablePipeline

__all__ = ["TablePipeline"]
