"""DISTINCT, and UNION without ALL, are aggregates without results: a group for each row."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import Aggregate, Distinct, SetOperation
from flinkray.tables.plans.rules.rewriting import bottom_up


def distinct_as_aggregates(plan: Plan) -> Plan:
    """The plan without `Distinct`, and with UNION ALL only."""
    return bottom_up(plan, _rewritten)


def _rewritten(plan: Plan) -> Plan:
    if isinstance(plan, Distinct):
        return _grouped(plan.input)
    if isinstance(plan, SetOperation) and plan.kind == "UNION" and not plan.all:
        return _grouped(replace(plan, all=True))
    return plan


def _grouped(plan: Plan) -> Plan:
    names = plan.row_type.names
    return Aggregate(plan, tuple(range(len(names))), (), names)
