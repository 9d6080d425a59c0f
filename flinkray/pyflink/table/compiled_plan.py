"""`pyflink.table.compiled_plan`."""

from __future__ import annotations

from flinkray.pyflink.imported_names import imported
from flinkray.tables.environment.statement_sets import CompiledPlan

__all__ = ["CompiledPlan"]

__getattr__ = imported(__name__)
