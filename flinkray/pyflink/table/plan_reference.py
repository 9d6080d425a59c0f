"""`pyflink.table.plan_reference`."""

from __future__ import annotations

from flinkray.tables.compiled.references import FilePlanReference, JsonContentPlanReference, PlanReference

__all__ = ["FilePlanReference", "JsonContentPlanReference", "PlanReference"]
