"""Columns of the query around a plan that it reads: found, named, and what a plan says without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    FieldAccess,
    OuterColumn,
    Plan,
    Subquery,
    conjunction,
    conjuncts,
    expressions_of,
    is_deterministic,
    rewritten,
    shifted,
    walk,
    with_columns,
)
from flinkray.tables.plans.nodes import Filter, Join, Project, Sort, unique_names
from flinkray.tables.plans.rules.rewriting import columns, with_outer_columns
from flinkray.tables.types.logical import without_attribute


class Correlated(BoundExpression, frozen=True):
    """A column of the left input of a dependent join, which its right input reads, wherever it stands in that."""

    index: int


def released(plan: Plan) -> Plan:
    """The plan with `Correlated` for the columns of the query around it, and one level less for those further out."""

    def change(column: OuterColumn, level: int) -> BoundExpression:
        return Correlated(column.type, column.index) if level == 1 else replace(column, level=column.level - 1)

    return with_outer_columns(plan, change)


def attributes_of(plan: Plan) -> dict[BoundExpression, None]:
    """What a plan reads of the query around it, each once: columns, and their fields and casts, as a whole."""
    found: dict[BoundExpression, None] = {}
    for expression in expressions_of(plan):
        _gather(expression, found)
    for each in plan.inputs:
        found |= attributes_of(each)
    return found


def _gather(expression: BoundExpression, found: dict[BoundExpression, None]) -> None:
    if is_attribute(expression):
        found[expression] = None
        return
    if isinstance(expression, Subquery):
        found |= attributes_of(expression.plan)
    below: Sequence[BoundExpression] = ()
    if isinstance(expression, Call):
        below = expression.arguments
    elif isinstance(expression, FieldAccess):
        below = (expression.operand,)
    elif isinstance(expression, Subquery):
        below = expression.operands
    for each in below:
        _gather(each, found)


def is_attribute(expression: BoundExpression) -> bool:
    """Whether it is a column of the query around, or a field or cast of one."""
    match expression:
        case Correlated():
            return True
        case FieldAccess(operand=below) | Call(function="CAST", arguments=(below,)):
            return is_attribute(below)
    return False


def is_correlated(plan: Plan) -> bool:
    """Whether a plan reads columns of the query around it."""
    return bool(attributes_of(plan))


def reads_left(expression: BoundExpression) -> bool:
    """Whether an expression reads columns of the query around."""
    found: dict[BoundExpression, None] = {}
    _gather(expression, found)
    return bool(found)


def replaced(
    expression: BoundExpression, change: Callable[[BoundExpression], BoundExpression | None]
) -> BoundExpression:
    """The expression with others for its parts, from the root down, where `change` gives one."""
    other = change(expression)
    if other is not None:
        return other
    match expression:
        case Call():
            return replace(expression, arguments=tuple(replaced(each, change) for each in expression.arguments))
        case FieldAccess():
            return replace(expression, operand=replaced(expression.operand, change))
    return expression


def of_left(expression: BoundExpression) -> BoundExpression:
    """The expression over rows that begin with those of the query around."""
    return rewritten(expression, lambda each: Column(each.type, each.index) if isinstance(each, Correlated) else each)


class Pulled(Struct, frozen=True):
    """A plan as rows that read nothing around them, of which those count for which conditions hold, with the values of
    `outputs`. Conditions and outputs are over the rows of `plan`, and read `Correlated` columns."""

    plan: Plan
    conditions: tuple[BoundExpression, ...]
    outputs: tuple[BoundExpression, ...]


def pulled(plan: Plan) -> Pulled | None:
    """The plan with what it reads of the query around it taken out; None: that is more than conditions and values."""
    if not is_correlated(plan):
        return Pulled(plan, (), columns(plan))
    if any(isinstance(each, Subquery) for found in expressions_of(plan) for each in walk(found)):
        return None
    match plan:
        case Filter():
            return _of_filter(plan)
        case Project():
            below = pulled(plan.input)
            if below is None or not all(is_deterministic(each) for each in plan.expressions):
                return None
            outputs = tuple(with_columns(each, below.outputs.__getitem__) for each in plan.expressions)
            return replace(below, outputs=outputs)
        case Sort():
            return pulled(plan.input)
        case Join(kind="INNER" | "SEMI" | "ANTI", is_null_aware=False):
            return _of_join(plan)
    return None


def _of_filter(plan: Filter) -> Pulled | None:
    below = pulled(plan.input)
    if below is None or not is_deterministic(plan.condition):
        return None
    found = tuple(with_columns(each, below.outputs.__getitem__) for each in conjuncts(plan.condition))
    own = conjunction(each for each in found if not reads_left(each))
    source = below.plan if own is None else Filter(below.plan, own)
    return Pulled(source, (*below.conditions, *(each for each in found if reads_left(each))), below.outputs)


def _of_join(plan: Join) -> Pulled | None:
    left, right = pulled(plan.left), pulled(plan.right)
    if left is None or right is None or (plan.kind != "INNER" and right.conditions):
        return None
    width = len(left.plan.row_type.fields)
    outputs = (*left.outputs, *(shifted(each, width) for each in right.outputs))
    found = tuple(with_columns(each, outputs.__getitem__) for each in conjuncts(plan.condition))
    if plan.kind != "INNER" and any(map(reads_left, found)):
        return None
    join = replace(
        plan, left=left.plan, right=right.plan, condition=conjunction(each for each in found if not reads_left(each))
    )
    others = (*left.conditions, *(shifted(each, width) for each in right.conditions))
    outputs = outputs if plan.kind == "INNER" else left.outputs
    return Pulled(join, (*others, *(each for each in found if reads_left(each))), outputs)


def with_values_of(plan: Plan, expressions: Sequence[BoundExpression], names: Sequence[str] = ()) -> Project:
    """The values of expressions as columns."""
    found = names or [f"value${place}" for place in range(len(expressions))]
    return Project(plan, tuple(expressions), tuple(unique_names(found)))


def plain_column(plan: Plan, index: int) -> Column:
    """A column of a plan's rows, not as a time attribute."""
    return Column(without_attribute(plan.row_type.types[index]), index)
