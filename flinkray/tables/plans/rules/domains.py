"""What a query around another one has to ask it, as a table that the other is joined with.

After T. Neumann and A. Kemper, Unnesting Arbitrary Queries (BTW 2015): the distinct values that a query reads of the
one around it, its domain, are joined with the tables that it reads, so that it gives its rows for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Column,
    Constant,
    Plan,
    SortKey,
    Subquery,
    WindowCall,
    conjunction,
    conjuncts,
    expressions_of,
    is_deterministic,
    walk,
)
from flinkray.tables.plans.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Project,
    Rank,
    SetOperation,
    Sort,
    TableFunctionCall,
    TemporalJoin,
    Unnest,
    Values,
    Window,
    WindowTableFunction,
    row_type,
    unique_names,
)
from flinkray.tables.plans.rules.correlation import (
    attributes_of,
    is_attribute,
    is_correlated,
    of_left,
    plain_column,
    reads_left,
    replaced,
)
from flinkray.tables.plans.rules.rewriting import columns, with_expressions
from flinkray.tables.types.common import common_type
from flinkray.tables.types.logical import BIGINT, BOOLEAN, LogicalType, RowField

_ALL_ROWS = 2**62


class Dependent(Exception):
    """A plan cannot be had without asking it anew for each row of the query around; says what of it stands in the way,
    and the way out."""


class Domain:
    """Makes plans that give, for each value of the domain, the rows that they give where that is around them.

    Args:
        left: the rows of the query around.
        plan: what reads them.
    """

    def __init__(self, left: Plan, plan: Plan) -> None:
        self.attributes = tuple(attributes_of(plan))
        self.of_left = tuple(of_left(each) for each in self.attributes)
        """The values of the domain over the rows around."""
        names = unique_names([f"domain${place}" for place in range(len(self.attributes))])
        values = tuple(plain_column(left, each.index) if isinstance(each, Column) else each for each in self.of_left)
        self._rows = Distinct(Project(left, values, tuple(names)))
        self.is_read = False
        """Whether a plan was joined with the domain: else a NULL in it has no rows."""

    def widened(self, plan: Plan) -> Plan:
        """The plan's rows for each value of the domain, with that behind their columns.

        Raises:
            Dependent: nobody knows how.
        """
        if any(isinstance(each, Subquery) for found in expressions_of(plan) for each in walk(found)):
            raise Dependent("")
        if not is_correlated(plan):
            return self._beside(plan)
        match plan:
            case Filter():
                return self._filter(plan)
            case Project():
                return self._project(plan)
            case Aggregate():
                return self._aggregate(plan)
            case Distinct():
                return Distinct(self.widened(plan.input))
            case Sort():
                return self.widened(plan.input)
            case Limit():
                return self._limit(plan)
            case Window() | WindowTableFunction() | Unnest() | TableFunctionCall():
                return self._with_added_columns(plan)
            case Join():
                return self._join(plan)
            case SetOperation():
                return self._set_operation(plan)
            case Values():
                return self._values(plan)
            case TemporalJoin():
                raise Dependent("with columns of the query around it, it cannot have FOR SYSTEM_TIME AS OF")
        raise Dependent("")

    # -- the domain's columns

    @property
    def width(self) -> int:
        """How many columns the domain has."""
        return len(self.attributes)

    def columns(self, plan: Plan) -> tuple[Column, ...]:
        """The domain's columns in a plan that has them last."""
        width = len(plan.row_type.fields)
        return tuple(plain_column(plan, place) for place in range(width - self.width, width))

    def _beside(self, plan: Plan) -> Plan:
        self.is_read = True
        return self._rows if not plan.row_type.fields and isinstance(plan, Values) else Join("INNER", plan, self._rows)

    def _over(self, expression: BoundExpression, values: Sequence[BoundExpression]) -> BoundExpression:
        """An expression with values in the place of what it reads of the domain."""
        known = dict(zip(self.attributes, values, strict=True))
        return replaced(expression, known.get)

    def _ordered(self, plan: Plan, own: Iterable[int], domain: Iterable[int], names: Sequence[str]) -> Project:
        """The columns of a plan, those of the domain last."""
        places = [*own, *domain]
        kinds = plan.row_type.types
        names = unique_names([*names, *(f"domain${place}" for place in range(self.width))])
        return Project(plan, tuple(Column(kinds[place], place) for place in places), tuple(names))

    # -- nodes

    def _filter(self, plan: Filter) -> Plan:
        conditions, below = list(conjuncts(plan.condition)), plan.input
        while isinstance(below, Filter):
            conditions, below = [*conjuncts(below.condition), *conditions], below.input
        if not is_correlated(below):
            found = self._bound(below, conditions)
            if found is not None:
                return found
        source = self.widened(below)
        condition = conjunction(self._over(each, self.columns(source)) for each in conditions)
        assert condition is not None
        return Filter(source, condition)

    def _bound(self, source: Plan, conditions: list[BoundExpression]) -> Plan | None:
        """The filter without the domain, where its conditions say what each value of that is equal to."""
        values: dict[BoundExpression, BoundExpression] = {}
        for each in conditions:
            for attribute, value in _equalities(each):
                values.setdefault(attribute, value)
        if not all(each in values for each in self.attributes):
            return None
        found = tuple(values[each] for each in self.attributes)
        tests = [Call(BOOLEAN.not_null(), "IS NOT NULL", (each,)) for each in found if each.type.nullable]
        others = [self._over(each, found) for each in conditions]
        kept = [each for each in others if not (isinstance(each, Call) and each.function == "=" and _is_same(each))]
        condition = conjunction([*kept, *tests])
        names = [*source.row_type.names, *(f"domain${place}" for place in range(self.width))]
        filtered = source if condition is None else Filter(source, condition)
        return Project(filtered, (*columns(source), *found), tuple(unique_names(names)))

    def _project(self, plan: Project) -> Plan:
        source = self.widened(plan.input)
        domain = self.columns(source)
        names = unique_names([*plan.names, *(f"domain${place}" for place in range(self.width))])
        return Project(source, (*(self._over(each, domain) for each in plan.expressions), *domain), tuple(names))

    def grouped(self, plan: Aggregate) -> Aggregate:
        """The groups of an aggregate for each value of the domain, which is behind its keys."""
        source = self.widened(plan.input)
        count = len(plan.keys)
        more = tuple(each.index for each in self.columns(source))
        behind = tuple(range(count, count + self.width))
        names = [
            *plan.names[:count],
            *(f"domain${place}" for place in range(self.width)),
            *plan.names[count:],
        ]
        return replace(
            plan,
            input=source,
            keys=(*plan.keys, *more),
            names=tuple(unique_names(names)),
            grouping_sets=tuple((*each, *behind) for each in plan.grouping_sets),
        )

    def _aggregate(self, plan: Aggregate) -> Plan:
        if () in plan.grouping_sets:
            raise Dependent("with columns of the query around it, its grouping sets cannot have () among them")
        count = len(plan.keys)
        if not count and not plan.window:
            self.is_read = True
            return self._ordered_totals(self._rows, plan)
        found = self.grouped(plan)
        own = [*range(count), *range(count + self.width, len(found.names))]
        return self._ordered(found, own, range(count, count + self.width), plan.names)

    def _ordered_totals(self, rows: Plan, plan: Aggregate) -> Plan:
        found = self.with_totals("LEFT", rows, tuple(columns(rows)), plan)
        width = len(rows.row_type.fields)
        return self._ordered(found, range(width, width + len(plan.calls)), range(width), plan.names)

    def with_totals(self, kind: str, rows: Plan, values: Sequence[BoundExpression], plan: Aggregate) -> Plan:
        """Rows that have values of the domain with the results of an aggregate without keys behind their columns; LEFT:
        those of no rows, where it has none for their value."""
        found = self.grouped(plan)
        conditions = self.equalities(rows, values, ())
        return _with_results(Join(kind, rows, found, conjunction(conditions)), plan)

    def equalities(
        self, rows: Plan, values: Sequence[BoundExpression], at: Sequence[BoundExpression]
    ) -> list[BoundExpression]:
        """That values of rows are those of the domain in other rows: in the first columns behind them, or in others."""
        width = len(rows.row_type.fields)
        others = at or [Column(each.type, width + place) for place, each in enumerate(self.attributes)]
        return [same(one, other, self.is_read) for one, other in zip(values, others, strict=True)]

    def _limit(self, plan: Limit) -> Plan:
        keys: tuple[SortKey, ...] = ()
        below = plan.input
        if isinstance(below, Sort):
            keys, below = below.keys, below.input
        source = self.widened(below)
        domain = tuple(each.index for each in self.columns(source))
        last = _ALL_ROWS if plan.count is None else plan.offset + plan.count
        number = RowField("number$", BIGINT.not_null())
        if last <= plan.offset:
            return Values((), source.row_type)
        return Rank(source, "ROW_NUMBER", domain, keys, plan.offset + 1, last, has_number=False, number=number)

    def _with_added_columns(self, plan: Window | WindowTableFunction | Unnest | TableFunctionCall) -> Plan:
        names, width = plan.row_type.names, len(plan.input.row_type.fields)
        source = self.widened(plan.input)
        domain = self.columns(source)
        found = with_expressions(plan.with_inputs((source,)), lambda each: self._over(each, domain))
        if isinstance(found, Window):
            found = replace(found, calls=tuple(_partitioned(call, domain) for call in found.calls))
        if isinstance(found, WindowTableFunction) and found.kind == "SESSION":
            found = replace(found, partition_by=(*found.partition_by, *(each.index for each in domain)))
        behind = range(width, width + self.width)
        own = [*range(width), *range(width + self.width, len(found.row_type.fields))]
        return self._ordered(found, own, behind, names)

    def _join(self, plan: Join) -> Plan:
        names = plan.row_type.names
        left_width, right_width = (len(each.row_type.fields) for each in plan.inputs)
        reads = plan.condition is not None and reads_left(plan.condition)
        is_left, is_right = map(is_correlated, plan.inputs)
        if plan.kind in ("RIGHT", "FULL"):
            is_right, is_left = True, is_left or reads or plan.kind == "FULL"
        elif plan.kind != "INNER":
            is_left = True
            is_right = is_right
        is_left = is_left or not is_right
        left = self.widened(plan.left) if is_left else plan.left
        right = self.widened(plan.right) if is_right else plan.right
        start = left_width + self.width * is_left
        conditions = self._join_conditions(plan, left, right, start)
        if is_left and is_right:
            others = [Column(each.type, each.index + start) for each in self.columns(right)]
            equal = [same(one, two, True) for one, two in zip(self.columns(left), others, strict=True)]
            conditions += [_is_true(each) for each in equal] if plan.is_null_aware else equal
        joined = replace(plan, left=left, right=right, condition=conjunction(conditions))
        if plan.kind in ("SEMI", "ANTI"):
            return joined
        own = [*range(left_width), *range(start, start + right_width)]
        of_left, of_right = range(left_width, start), range(start + right_width, len(joined.row_type.fields))
        if plan.kind == "FULL":
            return self._of_either(joined, own, list(zip(of_left, of_right, strict=True)), names)
        is_of_left = is_left and plan.kind != "RIGHT"
        return self._ordered(joined, own, of_left if is_of_left else of_right, names)

    def _join_conditions(self, plan: Join, left: Plan, right: Plan, start: int) -> list[BoundExpression]:
        """The conditions of a join over its widened inputs, of which the right's columns begin at `start`."""
        width, kinds = len(plan.left.row_type.fields), (*plan.left.row_type.types, *plan.right.row_type.types)
        domain: Sequence[Column] = self.columns(left) if left is not plan.left else ()
        domain = domain or [Column(each.type, each.index + start) for each in self.columns(right)]
        known = dict(zip(self.attributes, domain, strict=True))

        def moved(each: BoundExpression) -> BoundExpression | None:
            if isinstance(each, Column):
                return Column(kinds[each.index], each.index + (start - width if each.index >= width else 0))
            return known.get(each)

        return [replaced(each, moved) for each in conjuncts(plan.condition)]

    def _of_either(self, plan: Join, own: list[int], domain: list[tuple[int, int]], names: Sequence[str]) -> Plan:
        """The columns of a full join, with the domain of the side that is there."""
        values = []
        for left, right in domain:
            one, other = plain_column(plan, left), plain_column(plan, right)
            values.append(Call(_common(one.type, other.type), "COALESCE", (one, other)))
        kinds = plan.row_type.types
        names = unique_names([*names, *(f"domain${place}" for place in range(self.width))])
        return Project(plan, (*(Column(kinds[each], each) for each in own), *values), tuple(names))

    def _set_operation(self, plan: SetOperation) -> Plan:
        inputs = [self.widened(each) for each in plan.inputs]
        kinds = [_common(*(each.type for each in pair)) for pair in zip(*map(self.columns, inputs), strict=True)]
        for place, each in enumerate(inputs):
            cast = [
                column if column.type.as_nullable() == kind.as_nullable() else Call(kind, "CAST", (column,))
                for column, kind in zip(self.columns(each), kinds, strict=True)
            ]
            if cast != list(self.columns(each)):
                own = columns(each)[: len(plan.columns.fields)]
                inputs[place] = Project(each, (*own, *cast), each.row_type.names)
        names = unique_names([*plan.columns.names, *(f"domain${place}" for place in range(self.width))])
        return replace(plan, left=inputs[0], right=inputs[1], columns=row_type(names, [*plan.columns.types, *kinds]))

    def _values(self, plan: Values) -> Plan:
        """A row of the domain for each row of constants."""
        self.is_read = True
        rows = self._rows
        domain = self.columns(rows)
        names = unique_names([*plan.columns.names, *rows.row_type.names])
        found: Plan | None = None
        for row in plan.rows:
            one = Project(rows, (*(self._over(each, domain) for each in row), *domain), tuple(names))
            kinds = row_type(names, [*plan.columns.types, *(each.type for each in domain)])
            found = one if found is None else SetOperation("UNION", True, found, one, kinds)
        assert found is not None
        return found


def same(one: BoundExpression, other: BoundExpression, may_be_null: bool) -> Call:
    """That two values are equal, or both NULL where NULL may be meant."""
    is_open = one.type.nullable or other.type.nullable
    if may_be_null and one.type.nullable and other.type.nullable:
        return Call(BOOLEAN.not_null(), "IS NOT DISTINCT FROM", (one, other))
    return Call(BOOLEAN.with_nullability(is_open), "=", (one, other))


def _with_results(plan: Join, aggregate: Aggregate) -> Plan:
    """Rows of the left with the results of an aggregate, of which the right has the groups; those of no rows where it
    has none."""
    rows, width = columns(plan), len(plan.left.row_type.fields)
    results: list[BoundExpression] = []
    for place, call in enumerate(aggregate.calls, len(rows) - len(aggregate.calls)):
        if call.type.nullable or plan.kind == "INNER":
            results.append(rows[place])
        elif call.function in ("COUNT", "APPROX_COUNT_DISTINCT"):
            results.append(Call(call.type, "COALESCE", (rows[place], Constant(call.type, 0))))
        else:
            raise Dependent(f"{call.function} over no rows is not known where columns of the query around it are read")
    names = unique_names([*plan.left.row_type.names, *aggregate.names])
    return Project(plan, (*rows[:width], *results), tuple(names))


def _equalities(condition: BoundExpression) -> Iterable[tuple[BoundExpression, BoundExpression]]:
    """What of the query around a condition says to be equal to what."""
    if not isinstance(condition, Call) or condition.function != "=" or not is_deterministic(condition):
        return
    one, other = condition.arguments
    for attribute, value in ((one, other), (other, one)):
        is_same = attribute.type.as_nullable() == value.type.as_nullable()
        if is_attribute(attribute) and not reads_left(value) and is_same and not isinstance(value, Constant):
            yield attribute, value


def _is_same(call: Call) -> bool:
    return call.arguments[0] == call.arguments[1]


def _is_true(condition: BoundExpression) -> Call:
    return Call(BOOLEAN.not_null(), "IS TRUE", (condition,))


def _partitioned(call: WindowCall, domain: Sequence[Column]) -> WindowCall:
    return replace(call, partition_by=(*call.partition_by, *domain))


def _common(one: LogicalType, other: LogicalType) -> LogicalType:
    found = common_type([one, other])
    assert found is not None, "what is equal to the same value has a common type"
    return found
