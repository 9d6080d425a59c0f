"""`pyflink.table.compiled_plan`."""

from __future__ import annotations

from flinkray.tables.environment.statement_sets import CompiledPlan

__all__ = ["CompiledPlan"]
