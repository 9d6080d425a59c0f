"""`pyflink.table.table_pipeline`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.tables.environment.statement_sets import TablePipeline

__all__ = ["TablePipeline"]

__getattr__ = imported(__name__)
