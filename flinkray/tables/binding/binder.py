"""From statements to tables, views and plans."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError, SqlError
from flinkray.tables.binding.calls import cast_to, checked_cast
from flinkray.tables.binding.context import CommonTablePlan, Context
from flinkray.tables.binding.expressions import ExpressionBinder
from flinkray.tables.binding.queries import QueryPlanner, renamed
from flinkray.tables.binding.scope import Scope, scope_of
from flinkray.tables.binding.tables import created_table
from flinkray.tables.catalog import Catalog, View
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.plans.expressions import BoundExpression, Column, Constant, Plan
from flinkray.tables.plans.nodes import Insert, Project, unique_names
from flinkray.tables.plans.tables import Table
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.expansion import Expansion
from flinkray.tables.syntax.expressions import Number, Query, Text
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.parser import parse_expression, parse_statement
from flinkray.tables.syntax.unparsing.queries import query_text
from flinkray.tables.types.casts import can_cast
from flinkray.tables.types.logical import RowType


class Binder:
    """Binds statements against a catalog, which it only reads.

    Args:
        sql: the text that the statements were read from, for the places that errors show.
        tables: plans that the statements read by names, before those of the catalog.
        joins_texts: `+` beside a text joins texts.
        warns: hints that have no effect are in the log.
    """

    def __init__(
        self,
        catalog: Catalog,
        sql: str,
        tables: Mapping[str, Plan] | None = None,
        *,
        joins_texts: bool = False,
        warns: bool = True,
    ) -> None:
        plans = {name: CommonTablePlan(plan) for name, plan in (tables or {}).items()}
        self._context = Context(sql, catalog, plans, joins_texts, warns=warns)

    def query(self, statement: syntax.QueryStatement) -> Plan:
        """The plan of a query.

        Raises:
            SqlValidationError: a name is unknown, or types do not fit; says what, and shows where.
        """
        return QueryPlanner(self._context).bind(statement.query, Scope())

    def table(self, statement: syntax.CreateTable) -> tuple[Table, Plan | None]:
        """The table of CREATE TABLE, and with AS the plan that fills it."""
        return created_table(statement, self._context)

    def view(self, statement: syntax.CreateView) -> View:
        """The view of CREATE VIEW: its query is bound now, so that it is right, and again where the view is read.

        What it keeps is the query with all names written out, so that it has the same columns whatever its tables get.
        """
        plan = QueryPlanner(self._context).bind(statement.query, Scope())
        plan = renamed(plan, statement.columns, statement.query, statement, self._context)
        try:
            path = self._context.catalog.path(statement.view.texts)
        except InvalidProgramError as error:
            self._context.fail(statement.view, error)
        catalog = self._context.catalog
        current = (catalog.current_catalog, catalog.current_database)
        return View(path, self._written_out(statement.query, plan), plan.row_type, statement.comment, current)

    def _written_out(self, query: Query, plan: Plan) -> str:
        """A query with all names written out; as it is where that cannot be, as with two relations without names."""
        expansion = Expansion()
        try:
            QueryPlanner(replace(self._context, expansion=expansion, warns=False)).bind(query, Scope())
            sql = query_text(expansion.expanded(query, unique_names, self._function))
            again = bind_query(self._context.catalog, sql, warns=False)
            is_same = again.row_type.types == plan.row_type.types
        except SqlError:
            is_same = False
        return sql if is_same else self._context.sql[query.span.start : query.span.end]

    def _function(self, path: Path) -> Path:
        """A built-in function in capitals, another one as it is written."""
        name = path.texts[-1].upper()
        is_known = name in FUNCTIONS and self._context.catalog.function(path.texts) is None
        return Path((Name(name),)) if is_known else path

    def insert(self, statement: syntax.Insert) -> Insert:
        """The plan of INSERT: the query's columns by their order, cast to those of the table, NULL for others."""
        context = self._context
        try:
            table = context.catalog.get(statement.table.texts)
        except InvalidProgramError as error:
            context.fail(statement.table, error)
        if isinstance(table, View):
            context.fail(statement.table, f"{table.path[2]!r} is a view; rows go into tables")
        plan = QueryPlanner(context).bind(statement.query, Scope())
        fixed = {each.column.text: each.value for each in statement.partition if each.value is not None}
        wanted = self._columns(statement, table, tuple(fixed))
        rows = plan.row_type
        if len(rows.fields) != len(wanted):
            names = ", ".join(wanted)
            context.fail(
                statement.query, f"the query has {len(rows.fields)} columns, and {len(wanted)} are written: {names}"
            )
        expressions: list[BoundExpression] = []
        for field in table.written_row_type.fields:
            value: BoundExpression
            if field.name in wanted:
                place = wanted.index(field.name)
                value = Column(rows.types[place], place)
                node = statement.query
            elif field.name in fixed:
                literal = fixed[field.name]
                value = ExpressionBinder(context, Scope(), QueryPlanner(context).bind, "PARTITION").bind(literal)
                if can_cast(value.type, field.type.as_nullable()):  # names of directories are texts
                    value = cast_to(value, field.type)
                node = statement.query
            elif field.type.nullable:
                value, node = Constant(field.type, None), statement.query
            else:
                context.fail(statement, f"column {field.name!r} is {field.type}, and has to be written")
            expressions.append(checked_cast(node, value, field.type, f"column {field.name!r}", context))
        project = Project(plan, tuple(expressions), table.written_row_type.names)
        partition = tuple((name, str(_literal(value))) for name, value in fixed.items())
        return Insert(project, table, statement.overwrite, partition, statement.hints)

    def _columns(self, statement: syntax.Insert, table: Table, fixed: tuple[str, ...]) -> list[str]:
        """The names of the columns that the query's columns are for."""
        known = table.written_row_type.names
        self._context.new_names(tuple(each.column for each in statement.partition), len(statement.partition), statement)
        for value in statement.partition:
            if value.column.text not in known:
                self._context.fail(value.column, f"no column {value.column.text!r}; columns: {', '.join(known)}")
        if not statement.columns:
            return [name for name in known if name not in fixed]
        names = []
        for path in statement.columns:
            name = path.texts[0]
            if len(path.names) > 1:
                self._context.fail(path, "rows are written by whole columns, not by fields of them")
            if name not in known:
                self._context.fail(path, f"no column {name!r} that is written; columns: {', '.join(known)}")
            if name in names or name in fixed:
                self._context.fail(path, f"column {name!r} is written twice")
            names.append(name)
        return names


def _literal(node: object) -> object:
    if isinstance(node, Number):
        return node.text
    return node.value if isinstance(node, Text) else node


def execute_ddl(catalog: Catalog, sql: str) -> None:
    """Add the table or view of one CREATE TABLE or CREATE VIEW to a catalog."""
    statement = parse_statement(sql)
    binder = Binder(catalog, sql)
    if isinstance(statement, syntax.CreateTable):
        catalog.add(binder.table(statement)[0], replaces=bool(statement.replaces))
    elif isinstance(statement, syntax.CreateView):
        catalog.add(binder.view(statement))
    else:
        raise InvalidProgramError("this takes CREATE TABLE and CREATE VIEW")


def bind_query(catalog: Catalog, sql: str, *, warns: bool = True) -> Plan:
    """The plan of the one query of a text; `warns`: hints that have no effect are in the log."""
    statement = parse_statement(sql)
    if not isinstance(statement, syntax.QueryStatement):
        raise InvalidProgramError("this takes a query: SELECT, VALUES or TABLE")
    return Binder(catalog, sql, warns=warns).query(statement)


def bind_expression(catalog: Catalog, sql: str, rows: RowType) -> BoundExpression:
    """The expression of a text over the columns of rows, as the Table API takes them."""
    context = Context(sql, catalog)
    return ExpressionBinder(context, scope_of(rows, ()), QueryPlanner(context).bind, "an expression").bind(
        parse_expression(sql)
    )
