"""Queries: WITH, set operations, VALUES, and what stands behind them."""

from __future__ import annotations

from msgspec.structs import replace

from flinkray.errors import SqlValidationError
from flinkray.tables.binding.calls import cast_to, plain
from flinkray.tables.binding.context import CommonTablePlan, Context
from flinkray.tables.binding.expressions import ExpressionBinder
from flinkray.tables.binding.relations import RelationBinder
from flinkray.tables.binding.scope import Scope, known_as, repeated_names
from flinkray.tables.binding.selects import Ending, SelectBinder, sorted_by_outputs
from flinkray.tables.catalog import View
from flinkray.tables.plans.expressions import BoundExpression, Column, Plan
from flinkray.tables.plans.nodes import Project, SetOperation, Values, row_type
from flinkray.tables.syntax import queries as syntax
from flinkray.tables.syntax.expressions import CommonTable, Expression, Number, Query, QueryBody, Row
from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.statements import QueryStatement
from flinkray.tables.types.common import Meeting, common_type
from flinkray.tables.types.logical import LogicalType, RowType

DEEPEST_VIEWS = 30
"""Views that read each other: more are a circle."""


class QueryPlanner:
    """Binds queries."""

    def __init__(self, context: Context, depth: int = 0) -> None:
        self.context = context
        self.depth = depth

    def bind(self, query: Query, outer: Scope) -> Plan:
        """The plan of a query that may read columns of the queries around it."""
        planner = self
        for table in query.common_tables:
            planner = planner._with(table, query.recursive)
        return planner._body(query.body, outer, planner._ending(query))

    def _with(self, table: CommonTable, recursive: bool) -> QueryPlanner:
        inner = self._knowing(table, None) if recursive else self
        plan = inner.bind(table.query, Scope())
        return self._knowing(table, renamed(plan, table.columns, table.query, table, self.context))

    def _knowing(self, table: CommonTable, plan: Plan | None) -> QueryPlanner:
        known = {**self.context.common_tables, table.name.text: CommonTablePlan(plan)}
        return QueryPlanner(replace(self.context, common_tables=known), self.depth)

    def _ending(self, query: Query) -> Ending:
        limit = None if query.limit is None else self._count(query.limit, "LIMIT")
        offset = 0 if query.offset is None else self._count(query.offset, "OFFSET")
        return Ending(query.order_by, offset, limit)

    def _count(self, node: Expression, clause: str) -> int:
        if not isinstance(node, Number) or not node.text.isdigit():
            self.context.fail(node, f"{clause} takes a whole number")
        return int(node.text)

    def _body(self, body: QueryBody, outer: Scope, ending: Ending) -> Plan:
        if isinstance(body, syntax.Select):
            return SelectBinder(self.context, self.bind, self.view, outer).bind(body, ending)
        if isinstance(body, Query):
            plan = self.bind(body, outer)
        elif isinstance(body, syntax.SetOperation):
            plan = self._set_operation(body, outer)
        elif isinstance(body, syntax.Values):
            plan = self._values(body, outer)
        else:
            assert isinstance(body, syntax.ExplicitTable)
            relations = RelationBinder(self.context, self.bind, self.view, ())
            table = relations.bind(syntax.TableReference(body.path, span=body.span), None)
            plan = table.plan
            if self.context.expansion is not None:
                columns = [known_as(each, table.scope, self.context.expansion) for each in table.scope.columns]
                self.context.expansion.star(body, columns)
        return sorted_by_outputs(plan, ending, self.context)

    def view(self, view: View) -> Plan:
        """The plan of a view, whose query is bound anew."""
        if view.plan is not None:
            return with_names(view.plan, view.row_type.names)
        if self.depth > DEEPEST_VIEWS:
            raise SqlValidationError(f"view {view.path[2]!r} reads itself", view.sql, 0, len(view.sql))
        statement = parse_statement(view.sql)
        assert isinstance(statement, QueryStatement)
        catalog = self.context.catalog if view.current is None else self.context.catalog.seen_from(*view.current)
        context = Context(view.sql, catalog, warns=self.context.warns)
        plan = QueryPlanner(context, self.depth + 1).bind(statement.query, Scope())
        return with_names(plan, view.row_type.names)

    # -- VALUES

    def _values(self, body: syntax.Values, outer: Scope) -> Plan:
        binder = ExpressionBinder(self.context, Scope((), outer), self.bind, "VALUES")
        rows = [binder.all(row.items if isinstance(row, Row) else (row,)) for row in body.rows]
        width = len(rows[0])
        for node, row in zip(body.rows, rows, strict=True):
            if len(row) != width:
                self.context.fail(node, f"this row has {len(row)} values, and the first one {width}")
        types: list[LogicalType] = []
        for place in range(width):
            given = [plain(row[place].type) for row in rows]
            common = common_type(given, Meeting.RESULTS)
            if common is None:
                self.context.fail(body, f"column {place + 1} of VALUES has {_differing(given)}: CAST them to one type")
            types.append(common)
        cast = tuple(tuple(cast_to(each, kind) for each, kind in zip(row, types, strict=True)) for row in rows)
        return Values(cast, row_type([f"EXPR${place}" for place in range(width)], types))

    # -- set operations

    def _set_operation(self, body: syntax.SetOperation, outer: Scope) -> Plan:
        left = self._body(body.left, outer, Ending())
        right = self._body(body.right, outer, Ending())
        rows, others = left.row_type, right.row_type
        if len(rows.fields) != len(others.fields):
            counts = f"{len(rows.fields)} and {len(others.fields)}"
            self.context.fail(body.right, f"{body.kind} takes queries with as many columns, and these have {counts}")
        types = []
        for name, first, second in zip(rows.names, rows.types, others.types, strict=True):
            given = [plain(first), plain(second)]
            common = first if first == second else common_type(given, Meeting.RESULTS)
            if common is None:
                problem = f"column {name!r} is {first} on one side of {body.kind} and {second} on the other; CAST one"
                self.context.fail(body.right, problem)
            types.append(common)
        columns = row_type(rows.names, types)
        return SetOperation(body.kind, body.all, _cast_columns(left, columns), _cast_columns(right, columns), columns)


def _differing(types: list[LogicalType]) -> str:
    return " and ".join(dict.fromkeys(map(str, types)))


def _cast_columns(plan: Plan, wanted: RowType) -> Plan:
    """The plan with its columns cast to types, where they are of others."""
    rows = plan.row_type
    columns: list[BoundExpression] = [Column(kind, place) for place, kind in enumerate(rows.types)]
    cast = [cast_to(each, kind) for each, kind in zip(columns, wanted.types, strict=True)]
    return plan if cast == columns else Project(plan, tuple(cast), rows.names)


def renamed(plan: Plan, columns: tuple[Name, ...], query: Query, node: Node, context: Context) -> Plan:
    """The plan of a query with other names for its columns, where there are any; else its own have to differ."""
    if not columns:
        for name in repeated_names(query):
            context.fail(query, f"this gives several columns the name {name!r}")
        return plan
    return with_names(plan, context.new_names(columns, len(plan.row_type.fields), node))


def with_names(plan: Plan, names: tuple[str, ...]) -> Plan:
    """The plan with other names for its columns."""
    rows = plan.row_type
    if rows.names == names:
        return plan
    return Project(plan, tuple(Column(kind, place) for place, kind in enumerate(rows.types)), names)
