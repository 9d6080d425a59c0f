"""The session's time zone put into the calls that depend on it, so that what computes them needs to know no more."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.tables.plans.expressions import BoundExpression, Call, Plan, rewritten
from flinkray.tables.plans.rules.rewriting import bottom_up, with_expressions
from flinkray.tables.types.logical import CollectionType, LogicalType, MapType, RowType, TypeRoot

UTC = "UTC"
_OF_ZONE = frozenset({"CURRENT_DATE", "CURRENT_TIME", "LOCALTIMESTAMP", "FROM_UNIXTIME", "UNIX_TIMESTAMP"})
"""Functions without an instant among their arguments and results that depend on the zone."""


def in_time_zone(plan: Plan, time_zone: str) -> Plan:
    """The plan with calls that compute in the time zone. Without this they do so in UTC."""
    if time_zone == UTC:
        return plan

    def change(each: BoundExpression) -> BoundExpression:
        return replace(each, time_zone=time_zone) if isinstance(each, Call) and _depends(each) else each

    return bottom_up(plan, lambda node: with_expressions(node, lambda each: rewritten(each, change)))


def _depends(call: Call) -> bool:
    kinds = (call.type, *(each.type for each in call.arguments))
    return call.function in _OF_ZONE or any(map(_has_instants, kinds))


def _has_instants(kind: LogicalType) -> bool:
    match kind:
        case CollectionType(element=element):
            return _has_instants(element)
        case MapType(key=key, value=value):
            return _has_instants(key) or _has_instants(value)
        case RowType():
            return any(map(_has_instants, kind.types))
    return kind.root is TypeRoot.TIMESTAMP_LTZ
