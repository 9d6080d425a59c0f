"""Queries in expressions, and LATERAL ones, are joins: SEMI and ANTI where a filter asks whether there are rows, else
LEFT with the one row of a value."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    FALSE,
    TRUE,
    AggregateCall,
    BoundExpression,
    Call,
    Column,
    Constant,
    OuterColumn,
    Plan,
    Subquery,
    columns_of,
    conjunction,
    conjuncts,
    equal,
    has_subquery,
    rewritten,
    shifted,
)
from flinkray.tables.plans.nodes import (
    Aggregate,
    Correlate,
    Filter,
    Join,
    Limit,
    Project,
    Sort,
    TableFunctionCall,
    Unnest,
    Values,
)
from flinkray.tables.plans.rules.dependent_joins import dependent_join, has_one_row
from flinkray.tables.plans.rules.domains import Dependent
from flinkray.tables.plans.rules.rewriting import bottom_up, columns, with_expressions, with_outer_columns
from flinkray.tables.types.logical import BIGINT, BOOLEAN, LogicalType, TypeRoot

_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_EXTREMES = {"<": ("MAX",), "<=": ("MAX",), ">": ("MIN",), ">=": ("MIN",), "<>": ("MIN", "MAX")}
"""What of some values tells whether a comparison holds for any of them."""
_WITHOUT_EXTREMES = frozenset(
    {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW, TypeRoot.RAW}
)
"""Types whose values have no order, or NaN among them, which no comparison holds for."""


def subqueries_as_joins(plan: Plan) -> Plan:
    """The plan without subqueries and without `Correlate`, as far as joins can do what they do.

    What stays, whoever lowers the plan says that it cannot be.
    """
    return bottom_up(plan, _rewritten)


def _rewritten(plan: Plan) -> Plan:
    try:
        return _without_subqueries(plan)
    except Dependent as error:
        reason = str(error)

    def explained(each: BoundExpression) -> BoundExpression:
        return replace(each, why_not=reason) if isinstance(each, Subquery) else each

    plan = replace(plan, why_not=reason) if isinstance(plan, Correlate) else plan
    return with_expressions(plan, lambda each: rewritten(each, explained))


def _without_subqueries(plan: Plan) -> Plan:
    match plan:
        case Correlate():
            joined = dependent_join(plan.kind, plan.left, plan.right)
            return _narrowed(joined, range(len(plan.row_type.fields)), plan.row_type.names)
        case Filter() if has_subquery(plan.condition):
            return _filter(plan)
        case Project() if any(has_subquery(each) for each in plan.expressions):
            source, expressions = _with_values(plan.input, plan.expressions)
            return replace(plan, input=source, expressions=expressions)
        case Unnest() | TableFunctionCall():
            return _of_each_row(plan)
        case Join() if plan.condition is not None and has_subquery(plan.condition):
            return _join(plan)
        case Values() if len(plan.rows) == 1 and any(has_subquery(each) for each in plan.rows[0]):
            source, expressions = _with_values(Values(((),), replace(plan.columns, fields=())), plan.rows[0])
            return Project(source, expressions, plan.columns.names)
    return plan


def _filter(plan: Filter) -> Plan:
    """A filter whose conditions on subqueries are joins above the other conditions."""
    width = len(plan.row_type.fields)
    others = conjunction(each for each in conjuncts(plan.condition) if not has_subquery(each))
    source = plan.input if others is None else Filter(plan.input, others)
    values: list[BoundExpression] = []
    for condition in conjuncts(plan.condition):
        if has_subquery(condition):
            joined = _joined(source, condition)
            source = source if joined is None else joined
            values += [condition] if joined is None else []
    source, conditions = _with_values(source, tuple(values))
    remaining = conjunction(conditions)
    return _narrowed(source if remaining is None else Filter(source, remaining), range(width), plan.row_type.names)


def _narrowed(plan: Plan, places: range | list[int], names: tuple[str, ...]) -> Plan:
    """Some columns of a plan; itself, where they are all."""
    kept = tuple(columns(plan)[each] for each in places)
    return plan if kept == columns(plan) and names == plan.row_type.names else Project(plan, kept, names)


def _of_each_row(plan: Unnest | TableFunctionCall) -> Plan:
    """What gives rows of values for each row, where a query is among those."""
    found = (plan.collection,) if isinstance(plan, Unnest) else plan.arguments
    if not any(map(has_subquery, found)):
        return plan
    width, names = len(plan.input.row_type.fields), plan.row_type.names
    source, expressions = _with_values(plan.input, found)
    if isinstance(plan, Unnest):
        changed: Plan = replace(plan, input=source, collection=expressions[0])
    else:
        changed = replace(plan, input=source, arguments=expressions)
    places = [*range(width), *range(len(source.row_type.fields), len(changed.row_type.fields))]
    return _narrowed(changed, places, names)


def _join(plan: Join) -> Plan:
    """A join whose condition has subqueries: of an inner one they are a filter of its pairs, of others each is a value
    of the side whose columns it reads."""
    if plan.kind == "INNER":
        others = conjunction(each for each in conjuncts(plan.condition) if not has_subquery(each))
        asking = conjunction(each for each in conjuncts(plan.condition) if has_subquery(each))
        assert asking is not None
        return _filter(Filter(replace(plan, condition=others), asking))
    width, names = len(plan.left.row_type.fields), plan.row_type.names
    left, right = plan.left, plan.right
    of_left: list[BoundExpression] = []
    of_right: list[BoundExpression] = []
    for each in conjuncts(plan.condition):
        read = columns_of(each)
        if has_subquery(each) and read and min(read) >= width:
            of_right.append(_moved(each, -width))
        elif has_subquery(each):
            if read and max(read) >= width:
                raise Dependent("in ON of an outer join it can have columns of one side alone")
            of_left.append(each)
    left, lefts = _with_values(left, tuple(of_left))
    right, rights = _with_values(right, tuple(of_right))
    more = len(left.row_type.fields) - width
    own = [_moved(each, more, width) for each in conjuncts(plan.condition) if not has_subquery(each)]
    rights = tuple(shifted(each, width + more) for each in rights)
    joined = replace(plan, left=left, right=right, condition=conjunction([*own, *lefts, *rights]))
    places = [*range(width), *range(width + more, width + more + len(plan.right.row_type.fields))]
    return _narrowed(joined, places[: len(names)], names)


def _moved(expression: BoundExpression, by: int, start: int = 0) -> BoundExpression:
    """The expression over columns from `start` on that stand further right, its subqueries too."""

    def outer(column: OuterColumn, level: int) -> BoundExpression:
        return replace(column, index=column.index + by) if level == 1 and column.index >= start else column

    def change(each: BoundExpression) -> BoundExpression:
        if isinstance(each, Column) and each.index >= start:
            return replace(each, index=each.index + by)
        return replace(each, plan=with_outer_columns(each.plan, outer)) if isinstance(each, Subquery) else each

    return rewritten(expression, change)


# -- EXISTS and IN of filters


def _joined(source: Plan, condition: BoundExpression) -> Plan | None:
    """The rows of the source for which a condition on a subquery holds; None: it is no such condition."""
    negated = isinstance(condition, Call) and condition.function == "NOT"
    subquery = condition.arguments[0] if isinstance(condition, Call) and negated else condition
    if not isinstance(subquery, Subquery) or subquery.kind not in ("IN", "EXISTS"):
        return None
    source, operands = _with_values(source, subquery.operands)
    width, kinds = len(source.row_type.fields), subquery.plan.row_type.types
    may_be_null = any(each.type.nullable for each in operands) or any(each.nullable for each in kinds)
    is_null_aware = negated and subquery.kind == "IN" and may_be_null
    conditions = [
        _compared("=", operand, Column(kinds[place], place + width)) for place, operand in enumerate(operands)
    ]
    asked = _bare(subquery.plan) if subquery.kind == "EXISTS" else subquery.plan
    return dependent_join("ANTI" if negated else "SEMI", source, asked, conjunction(conditions), is_null_aware)


def _compared(operator: str, operand: BoundExpression, column: BoundExpression) -> Call:
    """An operand, which has the type to compare in, with a column of a query."""
    if operand.type.as_nullable() != column.type.as_nullable() and operand.type.root is not column.type.root:
        column = Call(operand.type.with_nullability(column.type.nullable), "CAST", (column,))
    return Call(equal(operand, column).type, operator, (operand, column))


def _bare(plan: Plan) -> Plan:
    """What of a plan says whether there are rows: not its order or columns."""
    while isinstance(plan, Project | Sort) or (isinstance(plan, Limit) and plan.count != 0 and not plan.offset):
        plan = plan.input
    return plan


# -- values


def _with_values(source: Plan, expressions: tuple[BoundExpression, ...]) -> tuple[Plan, tuple[BoundExpression, ...]]:
    """The source with the values of subqueries behind its columns, and the expressions that read them."""
    values = _Values(source)
    found = tuple(values.of(each) for each in expressions)
    return values.source, found


class _Values:
    """Puts the values of subqueries behind the columns of rows."""

    def __init__(self, source: Plan) -> None:
        self.source = source
        self._known: dict[Plan, Column] = {}

    def of(self, expression: BoundExpression) -> BoundExpression:
        """The expression without subqueries."""
        return rewritten(expression, self._value) if has_subquery(expression) else expression

    def _value(self, each: BoundExpression) -> BoundExpression:
        if not isinstance(each, Subquery):
            return each
        operator, _, quantifier = each.kind.partition(" ")
        match each.kind:
            case "SCALAR":
                return self._scalar(each.plan)
            case "EXISTS":
                return self._exists(each.plan)
            case "IN":
                return self._any("=", each)
            case "ARRAY" | "MAP" | "MULTISET":
                raise Dependent("rows become a collection by an aggregate: (SELECT ARRAY_AGG(x) FROM ...)")
        if quantifier == "ANY":
            return self._any(operator, each)
        return Call(each.type, "NOT", (self._any(_NEGATED[operator], each),))

    def _scalar(self, plan: Plan) -> Column:
        if plan not in self._known:
            width = len(self.source.row_type.fields)
            self.source = dependent_join("LEFT", self.source, _single_row(plan))
            self._known[plan] = columns(self.source)[width]
        return self._known[plan]

    def _exists(self, plan: Plan) -> BoundExpression:
        kind = BIGINT.not_null()
        count = self._scalar(Aggregate(_bare(plan), (), (AggregateCall("COUNT", (), kind),), ("count$",)))
        return Call(BOOLEAN.not_null(), "IS TRUE", (Call(BOOLEAN, ">", (count, Constant(kind, 0))),))

    def _any(self, operator: str, subquery: Subquery) -> BoundExpression:
        """Whether a comparison holds for any row: TRUE for one, else NULL where it is open for one, else FALSE."""
        plan, operands = subquery.plan, subquery.operands
        kinds = plan.row_type.types
        if operator in _EXTREMES and kinds[0].root not in _WITHOUT_EXTREMES:
            return self._any_by_extremes(operator, plan, operands[0], subquery.type)
        outer = tuple(map(_as_outer, operands))
        compared = [_compared(operator, one, Column(kinds[place], place)) for place, one in enumerate(outer)]
        condition = conjunction(compared)
        assert condition is not None
        cases = [self._exists(Filter(plan, condition)), TRUE]
        null = Constant(BOOLEAN, None)
        if len(operands) > 1 and subquery.type.nullable:
            is_open = Call(BOOLEAN.not_null(), "IS NOT FALSE", (condition,))
            cases += [self._exists(Filter(plan, is_open)), null]
        elif subquery.type.nullable:
            if operands[0].type.nullable:
                cases += [_all(_is_null(operands[0]), self._exists(plan)), null]
            if kinds[0].nullable:
                cases += [self._exists(Filter(plan, _is_null(Column(kinds[0], 0)))), null]
        return Call(subquery.type, "CASE", (*cases, FALSE))

    def _any_by_extremes(
        self, operator: str, plan: Plan, operand: BoundExpression, kind: LogicalType
    ) -> BoundExpression:
        """As `_any`, by the least or the largest value and how many there are."""
        column, count = Column(plan.row_type.types[0], 0), BIGINT.not_null()
        extremes = [AggregateCall(each, (column,), column.type.as_nullable()) for each in _EXTREMES[operator]]
        calls = (*extremes, AggregateCall("COUNT", (), count), AggregateCall("COUNT", (column,), count))
        names = tuple(f"total${place}" for place in range(len(calls)))
        width = len(self.source.row_type.fields)
        self.source = dependent_join("LEFT", self.source, Aggregate(plan, (), calls, names))
        *found, rows, values = columns(self.source)[width:]
        compared = tuple(_compared(operator, operand, each) for each in found)
        holds = Call(BOOLEAN, "OR", compared) if len(compared) > 1 else compared[0]
        has_null = Call(BOOLEAN.not_null(), ">", (rows, values))
        is_open = Call(BOOLEAN.not_null(), "OR", (has_null, _is_null(operand)))
        # Without a row on a stream nothing is counted yet.
        has_rows = Call(BOOLEAN.not_null(), "IS TRUE", (Call(BOOLEAN, ">", (rows, Constant(count, 0))),))
        is_empty = Call(BOOLEAN.not_null(), "NOT", (has_rows,))
        is_true = Call(BOOLEAN.not_null(), "IS TRUE", (holds,))
        return Call(kind, "CASE", (is_empty, FALSE, is_true, TRUE, is_open, Constant(BOOLEAN, None), FALSE))


def _is_null(expression: BoundExpression) -> Call:
    return Call(BOOLEAN.not_null(), "IS NULL", (expression,))


def _all(*conditions: BoundExpression) -> Call:
    return Call(BOOLEAN.not_null(), "AND", conditions)


def _as_outer(expression: BoundExpression) -> BoundExpression:
    """An expression over the query around, as one within a query in it."""

    def change(each: BoundExpression) -> BoundExpression:
        if isinstance(each, Column):
            return OuterColumn(each.type, each.index)
        return replace(each, level=each.level + 1) if isinstance(each, OuterColumn) else each

    return rewritten(expression, change)


def _single_row(plan: Plan) -> Plan:
    """The plan where it has one row at most in any case; else with an aggregate that fails for a second row."""
    below = plan
    while isinstance(below, Project):
        below = below.input
    if has_one_row(plan) or (isinstance(below, Limit) and below.count == 1):
        return plan
    value = plan.row_type.fields[0]
    call = AggregateCall("SINGLE_VALUE", (Column(value.type, 0),), value.type.as_nullable())
    return Aggregate(plan, (), (call,), (value.name,))
