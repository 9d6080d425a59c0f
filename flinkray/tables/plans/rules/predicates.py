"""Filters go down to where their columns come from: rows that no one wants cost least there."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    BoundExpression,
    Column,
    Plan,
    columns_of,
    conjunction,
    conjuncts,
    has_subquery,
    is_deterministic,
    shifted,
    with_columns,
)
from flinkray.tables.plans.nodes import (
    Aggregate,
    Correlate,
    Distinct,
    Filter,
    Join,
    Joining,
    Project,
    SetOperation,
    Sort,
    TableFunctionCall,
    TemporalJoin,
    Unnest,
    Window,
    WindowTableFunction,
)
from flinkray.tables.plans.rules.rewriting import bottom_up

Conditions = tuple[BoundExpression, ...]


def push_predicates_down(plan: Plan) -> Plan:
    """The plan with each condition as far down as it gives the same rows.

    None goes below a watermark assigner: watermarks are of all rows.
    """
    return bottom_up(plan, _pushed)


def _pushed(plan: Plan) -> Plan:
    if isinstance(plan, Filter):
        return _below(plan.input, conjuncts(plan.condition))
    if isinstance(plan, Join) and plan.condition is not None:
        return _join(plan, conjuncts(plan.condition))
    return plan


def _filtered(plan: Plan, conditions: Iterable[BoundExpression]) -> Plan:
    condition = conjunction(conditions)
    return plan if condition is None else Filter(plan, condition)


def _below(plan: Plan, conditions: Conditions) -> Plan:
    """A filter of these conditions over a plan, as far down as it goes."""
    if not conditions:
        return plan
    movable = tuple(each for each in conditions if is_deterministic(each) and not has_subquery(each))
    staying = tuple(each for each in conditions if each not in movable)
    match plan:
        case Filter():
            return _below(plan.input, (*conjuncts(plan.condition), *conditions))
        case Project():
            return _through_project(plan, movable, staying)
        case Joining():
            return _filtered(_through_join(plan, movable), staying) if movable else _filtered(plan, staying)
        case Sort() | Distinct():
            return _filtered(plan.with_inputs((_below(plan.input, movable),)), staying)
        case SetOperation():
            inputs = tuple(_below(each, movable) for each in plan.inputs)
            return _filtered(plan.with_inputs(inputs), staying)
        case Aggregate() | Window() | WindowTableFunction() | Unnest() | TableFunctionCall():
            width = len(plan.input.row_type.fields)
            passing = _passing(plan, width)
            down = tuple(each for each in movable if columns_of(each) and columns_of(each) <= passing.keys())
            lower = tuple(
                with_columns(each, lambda index: Column(plan.input.row_type.types[passing[index]], passing[index]))
                for each in down
            )
            rest = tuple(each for each in conditions if each not in down)
            return _filtered(plan.with_inputs((_below(plan.input, lower),)), rest)
    return _filtered(plan, conditions)


def _passing(plan: Plan, width: int) -> dict[int, int]:
    """Columns by which rows may be left out below the node as well, with their numbers there."""
    match plan:
        case Aggregate():
            return {} if plan.grouping_sets else dict(enumerate(plan.keys))
        case Window():
            keys = [{each.index for each in call.partition_by if isinstance(each, Column)} for call in plan.calls]
            return {each: each for each in set.intersection(*keys)}
        case WindowTableFunction():
            is_session = plan.kind == "SESSION"
            return {each: each for each in (plan.partition_by if is_session else range(width))}
    return {each: each for each in range(width)}


def _through_project(plan: Project, movable: Conditions, staying: Conditions) -> Plan:
    down, rest = [], list(staying)
    for each in movable:
        lower = with_columns(each, lambda index: plan.expressions[index])
        if is_deterministic(lower) and not has_subquery(lower):
            down.append(lower)
        else:
            rest.append(each)
    return _filtered(replace(plan, input=_below(plan.input, tuple(down))), rest)


# -- joins


def _split(conditions: Conditions, width: int) -> tuple[Conditions, Conditions, Conditions]:
    """Conditions of the left columns alone, of the right ones alone (by their numbers there), and all others."""
    left: list[BoundExpression] = []
    right: list[BoundExpression] = []
    rest: list[BoundExpression] = []
    for each in conditions:
        read = columns_of(each)
        is_movable = bool(read) and is_deterministic(each) and not has_subquery(each)
        if is_movable and max(read) < width:
            left.append(each)
        elif is_movable and min(read) >= width:
            right.append(shifted(each, -width))
        else:
            rest.append(each)
    return tuple(left), tuple(right), tuple(rest)


def _through_join(plan: Joining, conditions: Conditions) -> Plan:
    """A filter over a join: on the side that is there for each row, at the inputs; else of an inner join in its own."""
    width = len(plan.left.row_type.fields)
    left, right, rest = _split(conditions, width)
    above: list[BoundExpression] = []
    if plan.kind in ("RIGHT", "FULL"):
        above += left
        left = ()
    if plan.kind not in ("INNER", "RIGHT") or isinstance(plan, TemporalJoin | Correlate):
        above += [shifted(each, width) for each in right]
        right = ()
    plan = replace(plan, left=_below(plan.left, left), right=_below(plan.right, right))
    if isinstance(plan, Join) and plan.kind == "INNER":
        return _join(plan, (*conjuncts(plan.condition), *rest, *above))
    return _filtered(plan, (*rest, *above))


def _join(plan: Join, conditions: Conditions) -> Plan:
    """A join on conditions, those of one side alone at its input where that leaves out no row that has to stay."""
    width = len(plan.left.row_type.fields)
    left, right, rest = _split(conditions, width)
    if plan.kind not in ("INNER", "RIGHT", "SEMI"):
        rest = (*left, *rest)
        left = ()
    if plan.kind not in ("INNER", "LEFT", "SEMI", "ANTI") or plan.is_null_aware:
        rest = (*rest, *(shifted(each, width) for each in right))
        right = ()
    return replace(plan, left=_below(plan.left, left), right=_below(plan.right, right), condition=conjunction(rest))
