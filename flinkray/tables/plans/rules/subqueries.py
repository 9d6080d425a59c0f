"""IN, EXISTS and values of queries in conditions are joins: SEMI, ANTI, and LEFT with the one row of a value."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Call,
    Column,
    OuterColumn,
    Plan,
    Subquery,
    columns_of,
    conjunction,
    conjuncts,
    equal,
    has_subquery,
    outer_columns_of,
    rewritten,
    shifted,
    walk,
    with_columns,
)
from flinkray.tables.plans.nodes import Aggregate, Filter, Join, Limit, Project, Sort, unique_names
from flinkray.tables.plans.rules.rewriting import bottom_up, columns
from flinkray.tables.types.logical import BOOLEAN


def subqueries_as_joins(plan: Plan) -> Plan:
    """The plan without subqueries, as far as joins can do what they do.

    What stays: a subquery in OR, or one that reads columns of the query around it elsewhere than in the WHERE of its
    SELECT. Whoever lowers the plan says that it cannot be.
    """
    return bottom_up(plan, _rewritten)


def _rewritten(plan: Plan) -> Plan:
    if isinstance(plan, Filter) and has_subquery(plan.condition):
        return _filter(plan)
    if isinstance(plan, Project) and any(has_subquery(each) for each in plan.expressions):
        source, expressions = _with_values(plan.input, plan.expressions)
        return replace(plan, input=source, expressions=expressions)
    return plan


def _filter(plan: Filter) -> Plan:
    """A filter whose conditions on subqueries are joins below the other conditions."""
    source = plan.input
    width = len(source.row_type.fields)
    rest: list[BoundExpression] = []
    for condition in conjuncts(plan.condition):
        joined = _joined(source, condition)
        if joined is None:
            rest.append(condition)
        else:
            source = joined
    source, conditions = _with_values(source, tuple(rest))
    remaining = conjunction(conditions)
    found = source if remaining is None else Filter(source, remaining)
    if len(found.row_type.fields) == width:
        return found
    return Project(found, columns(found)[:width], plan.row_type.names)


# -- EXISTS and IN


class Uncorrelated(Struct, frozen=True):
    """A plan that reads no columns of the query around it, and the conditions taken out of it that did.

    In `conditions` columns are those of `plan`, and `OuterColumn`s of level 1 those of the query around.
    """

    plan: Plan
    conditions: tuple[BoundExpression, ...]


def _joined(source: Plan, condition: BoundExpression) -> Plan | None:
    """The rows of the source for which a condition on a subquery holds; None: it is no such condition."""
    negated = isinstance(condition, Call) and condition.function == "NOT"
    subquery = condition.arguments[0] if isinstance(condition, Call) and negated else condition
    if not isinstance(subquery, Subquery) or subquery.kind not in ("IN", "EXISTS"):
        return None
    if any(has_subquery(each) for each in subquery.operands):
        return None
    found = _uncorrelated(_bare(subquery.plan) if subquery.kind == "EXISTS" else subquery.plan)
    if found is None:
        return None
    width = len(source.row_type.fields)
    kinds = subquery.plan.row_type.types
    may_be_null = any(each.type.nullable for each in subquery.operands) or any(each.nullable for each in kinds)
    is_null_aware = negated and subquery.kind == "IN" and may_be_null
    conditions = [rewritten(shifted(each, width), _as_column) for each in found.conditions]
    if is_null_aware:
        # Only what IN compares leaves open whether there is an equal row; the query's own WHERE leaves out its row.
        conditions = [Call(BOOLEAN.not_null(), "IS TRUE", (each,)) for each in conditions]
    for place, operand in enumerate(subquery.operands):
        column: BoundExpression = Column(kinds[place], place + width)
        if operand.type.as_nullable() != column.type.as_nullable() and operand.type.root is not column.type.root:
            column = Call(operand.type.with_nullability(column.type.nullable), "CAST", (column,))
        conditions.append(equal(operand, column))
    kind = "ANTI" if negated else "SEMI"
    return Join(kind, source, found.plan, conjunction(conditions), (), (), is_null_aware)


def _as_column(expression: BoundExpression) -> BoundExpression:
    is_next = isinstance(expression, OuterColumn) and expression.level == 1
    return Column(expression.type, expression.index) if is_next and isinstance(expression, OuterColumn) else expression


def _bare(plan: Plan) -> Plan:
    """What of a plan says whether there are rows: not its order or columns."""
    while isinstance(plan, Project | Sort) or (isinstance(plan, Limit) and plan.count != 0 and not plan.offset):
        plan = plan.input
    return plan


def _uncorrelated(plan: Plan) -> Uncorrelated | None:
    """The plan without the columns around it, where it reads them in conditions of its WHERE alone; else None."""
    if not outer_columns_of(plan):
        return Uncorrelated(plan, ())
    if isinstance(plan, Filter):
        return _of_filter(plan)
    if isinstance(plan, Project) and not any(_reads_outer(each) for each in plan.expressions):
        return _of_project(plan)
    return None


def _of_filter(plan: Filter) -> Uncorrelated | None:
    below = _uncorrelated(plan.input)
    if below is None or len(below.plan.row_type.fields) != len(plan.input.row_type.fields):
        return None
    taken, kept = list(below.conditions), []
    for each in conjuncts(plan.condition):
        if not _reads_outer(each):
            kept.append(each)
        elif has_subquery(each) or any(isinstance(one, OuterColumn) and one.level > 1 for one in walk(each)):
            return None
        else:
            taken.append(each)
    condition = conjunction(kept)
    source = below.plan if condition is None else Filter(below.plan, condition)
    return Uncorrelated(source, tuple(taken))


def _of_project(plan: Project) -> Uncorrelated | None:
    """The columns that the conditions need stand behind those that there are."""
    below = _uncorrelated(plan.input)
    if below is None:
        return None
    kinds = below.plan.row_type.types
    expressions = list(plan.expressions)
    for index in sorted(columns_of(*below.conditions)):
        if Column(kinds[index], index) not in expressions:
            expressions.append(Column(kinds[index], index))
    count = len(expressions) - len(plan.expressions)
    names = unique_names([*plan.names, *(f"correlated${place}" for place in range(count))])
    conditions = tuple(
        with_columns(each, lambda index: Column(kinds[index], expressions.index(Column(kinds[index], index))))
        for each in below.conditions
    )
    return Uncorrelated(Project(below.plan, tuple(expressions), tuple(names)), conditions)


def _reads_outer(expression: BoundExpression) -> bool:
    for each in walk(expression):
        if isinstance(each, OuterColumn):
            return True
        if isinstance(each, Subquery) and outer_columns_of(each.plan, 2):
            return True
    return False


# -- values


def _with_values(source: Plan, expressions: tuple[BoundExpression, ...]) -> tuple[Plan, tuple[BoundExpression, ...]]:
    """The source with the values of uncorrelated subqueries behind its columns, and the expressions that read them."""
    values: dict[Subquery, Column] = {}
    for expression in expressions:
        for each in walk(expression):
            if not isinstance(each, Subquery) or each.kind != "SCALAR" or each in values:
                continue
            if outer_columns_of(each.plan):
                continue
            values[each] = Column(each.type, len(source.row_type.fields))
            source = Join("LEFT", source, _single_row(each.plan))

    def read(each: BoundExpression) -> BoundExpression:
        return values.get(each, each) if isinstance(each, Subquery) else each

    return source, tuple(rewritten(each, read) for each in expressions)


def _single_row(plan: Plan) -> Plan:
    """The plan where it has one row in any case; else with an aggregate that fails for a second row."""
    below = plan
    while isinstance(below, Project):
        below = below.input
    if isinstance(below, Aggregate) and not below.keys and not below.grouping_sets:
        return plan
    value = plan.row_type.fields[0]
    call = AggregateCall("SINGLE_VALUE", (Column(value.type, 0),), value.type.as_nullable())
    return Aggregate(plan, (), (call,), (value.name,))
