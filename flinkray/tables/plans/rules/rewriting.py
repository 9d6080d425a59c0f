"""What rules share: going through a plan, and changing the expressions of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.plans.expressions import BoundExpression, Column, OuterColumn, Plan, Subquery, rewritten
from flinkray.tables.types.logical import RowType


def bottom_up(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """The plan with `change` made to every node, inputs before what reads them; those of subqueries too."""
    inputs = tuple(bottom_up(each, change) for each in plan.inputs)
    if any(new is not old for new, old in zip(inputs, plan.inputs, strict=True)):
        plan = plan.with_inputs(inputs)

    def in_subquery(each: BoundExpression) -> BoundExpression:
        return replace(each, plan=bottom_up(each.plan, change)) if isinstance(each, Subquery) else each

    return change(with_expressions(plan, lambda each: rewritten(each, in_subquery)))


def with_outer_columns(plan: Plan, change: Callable[[OuterColumn, int], BoundExpression], depth: int = 0) -> Plan:
    """The plan with `change` made to the columns of queries around it that it reads, wherever it does.

    Args:
        change: takes the column, and how many levels around the plan it is of, from 1.
        depth: how many levels deeper than the plan this part of it is.
    """
    inputs = tuple(
        with_outer_columns(each, change, depth + more) for each, more in zip(plan.inputs, plan.levels, strict=True)
    )

    def changed(each: BoundExpression) -> BoundExpression:
        if isinstance(each, OuterColumn) and each.level > depth:
            return change(each, each.level - depth)
        if isinstance(each, Subquery):
            return replace(each, plan=with_outer_columns(each.plan, change, depth + 1))
        return each

    if any(new is not old for new, old in zip(inputs, plan.inputs, strict=True)):
        plan = plan.with_inputs(inputs)
    return with_expressions(plan, lambda each: rewritten(each, changed))


def with_expressions(plan: Plan, change: Callable[[BoundExpression], BoundExpression]) -> Plan:
    """The node with `change` made to each of its own expressions."""
    changed = {}
    for name in plan.__struct_fields__:
        old = getattr(plan, name)
        if isinstance(old, Plan | RowType):
            continue
        new = _changed(old, change)
        if new is not old:
            changed[name] = new
    return replace(plan, **changed) if changed else plan


def _changed(value: Any, change: Callable[[BoundExpression], BoundExpression]) -> Any:
    if isinstance(value, BoundExpression):
        new = change(value)
        return value if new == value else new
    if isinstance(value, tuple):
        items = tuple(_changed(each, change) for each in value)
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, Struct) and type(value).__module__.endswith("plans.expressions"):
        new_fields = {name: _changed(getattr(value, name), change) for name in value.__struct_fields__}
        is_same = all(new_fields[name] is getattr(value, name) for name in value.__struct_fields__)
        return value if is_same else replace(value, **new_fields)
    return value


def columns(plan: Plan) -> tuple[Column, ...]:
    """All columns of a plan's rows."""
    return tuple(Column(kind, place) for place, kind in enumerate(plan.row_type.types))
