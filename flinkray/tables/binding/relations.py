"""FROM: tables, queries, table functions and joins, and the columns that they bring into scope."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from flinkray.errors import InvalidProgramError
from flinkray.tables.binding.calls import call, cast_to, user_call
from flinkray.tables.binding.context import Context
from flinkray.tables.binding.expressions import ExpressionBinder, QueryBinder
from flinkray.tables.binding.matches import MatchBinder
from flinkray.tables.binding.scope import Scope, ScopeColumn, repeated_names, scope_of
from flinkray.tables.binding.window_functions import (
    TABLE_FUNCTIONS,
    changelog_function,
    table_argument,
    window_table_function,
)
from flinkray.tables.catalog import View
from flinkray.tables.plans.expressions import TRUE, BoundExpression, Column, Plan, conjunction
from flinkray.tables.plans.hints import hints_of_lookup, state_ttls
from flinkray.tables.plans.nodes import (
    Correlate,
    Filter,
    Join,
    Project,
    Scan,
    TableFunctionCall,
    TemporalJoin,
    Unnest,
    Values,
    WatermarkAssigner,
    row_type,
    unique_names,
)
from flinkray.tables.plans.tables import ColumnKind, Table
from flinkray.tables.syntax import queries as syntax
from flinkray.tables.syntax.expressions import Expression, Query
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node, without_places
from flinkray.tables.types.logical import INT, CollectionType, LogicalType, MapType, RowType, is_rowtime
from flinkray.types.records import Millis

ViewBinder = Callable[[View], Plan]
NO_COLUMNS = RowType((), nullable=False)
ONE_ROW = Values(((),), NO_COLUMNS)
"""One row without columns: what a SELECT without FROM reads."""


class Bound(Struct, frozen=True):
    """A relation's plan, and its columns by name."""

    plan: Plan
    scope: Scope


class RelationBinder:
    """Binds what stands in FROM.

    Args:
        view: gives the plan of a view.
        query: gives the plan of a query, over the columns around it.
    """

    def __init__(self, context: Context, query: QueryBinder, view: ViewBinder, hints: tuple[syntax.Hint, ...]) -> None:
        self.context = context
        self.query = query
        self.view = view
        self.hints = hints
        self.looked_up: set[str] = set()
        """The names of tables that are joined FOR SYSTEM_TIME AS OF a processing time."""

    def bind(self, node: syntax.Relation, outer: Scope | None) -> Bound:
        """A relation; `outer` has the columns of the queries around."""
        if isinstance(node, syntax.Join):
            return self._join(node, outer)
        if isinstance(node, syntax.TableReference):
            if node.as_of is not None:
                self.context.fail(node, "FOR SYSTEM_TIME AS OF stands at the right table of a JOIN ... ON")
            return self._table(node, outer)
        if isinstance(node, syntax.DerivedTable):
            plan = self.query(node.query, outer or Scope())
            return self._aliased(plan, node.alias, outer, node)
        if isinstance(node, syntax.TableFunction) and self._takes_table(node):
            return self._of_table(node, outer)
        if isinstance(node, syntax.TableFunction | syntax.Unnest):
            return self._rows_of(node, Bound(ONE_ROW, Scope((), outer)), outer, is_outer=False)
        assert isinstance(node, syntax.MatchRecognize)
        source = self.bind(node.source, outer)
        plan = MatchBinder(self.context, source.scope, self.query).bind_match(node, source.plan)
        return self._aliased(plan, node.alias, outer, node)

    # -- one relation

    def _aliased(self, plan: Plan, alias: syntax.Alias | None, outer: Scope | None, node: Node | None = None) -> Bound:
        """The plan under an alias; names that a query in FROM gives several columns are of all of these."""
        expansion = self.context.expansion
        table = () if alias is None else (alias.name.text,)
        if alias is None and node is not None and expansion is not None:
            table = (expansion.alias(node),)
        rows = plan.row_type
        if alias is not None and alias.columns:
            rows = self.renamed(rows, alias.columns, alias)
        elif isinstance(node, syntax.DerivedTable) and expansion is None:
            names = list(rows.names)
            for name, places in repeated_names(node.query).items():
                for place in places:
                    names[place] = name
            rows = row_type(names, rows.types)
        return Bound(plan, scope_of(rows, table, outer))

    def renamed(self, rows: RowType, columns: tuple[Name, ...], node: Node) -> RowType:
        """The columns under other names, of which there have to be as many."""
        return row_type(self.context.new_names(columns, len(rows.fields), node), rows.types)

    def _table(self, node: syntax.TableReference, outer: Scope | None) -> Bound:
        names = node.path.texts
        common = self.context.common_tables.get(names[0]) if len(names) == 1 else None
        if common is not None:
            self._refuse_hints(node.hints, names[0])
            if common.plan is None:
                self.context.fail(node, f"{names[0]!r} reads itself, which is not there, as in Flink")
            plan, table = common.plan, names
        else:
            plan, table = self.named(node.path, node.hints)
        if self.context.expansion is not None:
            self.context.expansion.table(node.path, table)
        if node.alias is not None:
            return self._aliased(plan, node.alias, outer)
        return Bound(plan, scope_of(plan.row_type, table, outer))

    def _refuse_hints(self, hints: tuple[syntax.Hint, ...], name: str) -> None:
        if hints:
            self.context.fail(hints[0], f"{name!r} is a query; hints of a table stand where the query reads it")

    def named(self, path: Path, hints: tuple[syntax.Hint, ...] = ()) -> tuple[Plan, tuple[str, ...]]:
        """The plan of a table or view of the catalog, and its full path."""
        try:
            found = self.context.catalog.get(path.texts)
        except InvalidProgramError as error:
            self.context.fail(path, error)
        if isinstance(found, View):
            self._refuse_hints(hints, found.path[2])
            return self.view(found), found.path
        return table_plan(found, hints), found.path

    # -- table functions

    def _takes_table(self, node: syntax.TableFunction) -> bool:
        return node.call.function.texts[-1].upper() in TABLE_FUNCTIONS

    def _of_table(self, node: syntax.TableFunction, outer: Scope | None) -> Bound:
        table = table_argument(node.call, self.context).table
        if isinstance(table, Query):
            source = self._aliased(self.query(table, Scope()), None, None)
        else:
            source = self._table(syntax.TableReference(table, span=table.span), None)
        binder = ExpressionBinder(self.context, source.scope, self.query, "a function of a table")
        is_of_changes = node.call.function.texts[-1].upper().endswith("_CHANGELOG")
        function = changelog_function if is_of_changes else window_table_function
        return self._aliased(function(node.call, source.plan, binder), node.alias, outer, node)

    def _rows_of(
        self, node: syntax.TableFunction | syntax.Unnest, left: Bound, outer: Scope | None, is_outer: bool
    ) -> Bound:
        """The rows of a table function or a collection for each row of the left."""
        binder = ExpressionBinder(self.context, left.scope, self.query, "FROM")
        plan: Unnest | TableFunctionCall
        if isinstance(node, syntax.Unnest):
            plan = self._unnest(node, left.plan, binder, is_outer)
        else:
            plan = self._function(node, left.plan, binder, is_outer)
        added = plan.columns
        if node.alias is not None and node.alias.columns:
            added = self.renamed(added, node.alias.columns, node.alias)
        count = len(left.plan.row_type.fields)
        types = plan.row_type.types[count:]
        right = scope_of(row_type(added.names, types), (node.alias.name.text,) if node.alias else (), outer)
        return Bound(plan, left.scope.beside(right, count))

    def _unnest(self, node: syntax.Unnest, left: Plan, binder: ExpressionBinder, is_outer: bool) -> Unnest:
        if len(node.expressions) != 1:
            self.context.fail(node, "UNNEST takes one collection")
        collection = binder.bind(node.expressions[0])
        kind = collection.type
        if isinstance(kind, MapType):
            columns = row_type(["KEY", "VALUE"], [kind.key, kind.value])
        elif isinstance(kind, CollectionType):
            columns = _element_columns(kind.element)
        else:
            self.context.fail(node.expressions[0], f"UNNEST takes an array, a multiset or a map, and this is {kind}")
        if node.with_ordinality:
            columns = row_type([*columns.names, "ORDINALITY"], [*columns.types, INT.not_null()])
        return Unnest(left, collection, columns, is_outer, node.with_ordinality)

    def _function(
        self, node: syntax.TableFunction, left: Plan, binder: ExpressionBinder, is_outer: bool
    ) -> TableFunctionCall:
        function = self.context.catalog.function(node.call.function.texts)
        name = node.call.function.texts[-1]
        if function is None or function.kind != "table":
            problem = f"no table function {name!r}" if function is None else f"{name} gives one value, not rows"
            self.context.fail(node.call, problem)
        arguments = user_call(node.call, function, binder.all(node.call.arguments), self.context)
        rows = function.result
        columns = rows if isinstance(rows, RowType) else row_type(["EXPR$0"], [rows])
        return TableFunctionCall(left, function.name, arguments, columns, is_outer)

    # -- joins

    def _join(self, node: syntax.Join, outer: Scope | None) -> Bound:
        left = self.bind(node.left, outer)
        right = node.right
        kind = "INNER" if node.kind in ("CROSS", "COMMA") else node.kind
        is_function = isinstance(right, syntax.TableFunction) and not self._takes_table(right)
        if is_function or isinstance(right, syntax.Unnest):
            assert isinstance(right, syntax.TableFunction | syntax.Unnest)
            return self._join_with_rows_of(node, right, left, outer, kind)
        if isinstance(right, syntax.DerivedTable) and right.lateral:
            return self._lateral(node, right, left, outer, kind)
        if isinstance(right, syntax.TableReference) and right.as_of is not None:
            return self._temporal(node, right, left, outer, kind)
        found = self.bind(right, outer)
        scope = self._beside(left, found)
        using = self._common_names(left, found) if node.natural else tuple(each.text for each in node.using)
        if using:
            return self._join_using(node, left, found, kind, using)
        condition = None if node.condition is None else self._condition(node.condition, scope)
        return self._joined(Join(kind, left.plan, found.plan, condition, (), self._ttls(left, found)), scope)

    def _ttls(self, left: Bound, right: Bound) -> tuple[Millis | None, ...]:
        return state_ttls(self.hints, [left.scope.table_names, right.scope.table_names])

    def _condition(self, node: Expression, scope: Scope) -> BoundExpression:
        return ExpressionBinder(self.context, scope, self.query, "ON").condition(node)

    def _beside(self, left: Bound, right: Bound) -> Scope:
        return left.scope.beside(right.scope, len(left.plan.row_type.fields))

    def _joined(self, plan: Plan, scope: Scope) -> Bound:
        """The scope with the types that columns have behind the join."""
        types = plan.row_type.types
        columns = tuple(
            ScopeColumn(each.name, types[each.index], each.table, each.index, each.in_star) for each in scope.columns
        )
        return Bound(plan, Scope(columns, scope.outer))

    def _common_names(self, left: Bound, right: Bound) -> tuple[str, ...]:
        names = {each.name for each in right.scope.columns if each.in_star}
        return tuple(each.name for each in left.scope.columns if each.in_star and each.name in names)

    def _join_using(self, node: syntax.Join, left: Bound, right: Bound, kind: str, using: tuple[str, ...]) -> Bound:
        """A join whose columns of the same name become one: of the side that is there, or of the one that has it."""
        width = len(left.plan.row_type.fields)
        pairs = [(self._one(left, name, node), self._one(right, name, node)) for name in using]
        pairs = [(first, Column(second.type, second.index + width)) for first, second in pairs]
        equal = [call(node, "=", pair, self.context) for pair in pairs]
        join = self._joined(
            Join(kind, left.plan, right.plan, conjunction(equal), (), self._ttls(left, right)),
            self._beside(left, right),
        )
        types = join.plan.row_type.types
        merged: list[BoundExpression] = []
        for pair in pairs:
            first, second = (Column(types[each.index], each.index) for each in pair)
            if kind == "FULL":
                merged.append(call(node, "COALESCE", [first, second], self.context))
            else:
                is_right = kind == "RIGHT" or (kind == "INNER" and first.type.nullable)
                common = call(node, "COALESCE", [first, second], self.context).type
                merged.append(cast_to(second if is_right else first, common))
        names, all_types = join.plan.row_type.names, join.plan.row_type.types
        rest = tuple(Column(of, place) for place, of in enumerate(all_types))
        project = Project(join.plan, (*merged, *rest), tuple(unique_names([*using, *names])))
        columns = []
        for place, (name, each) in enumerate(zip(using, merged, strict=True)):
            columns.append(ScopeColumn(name, each.type, (), place))
        for column in join.scope.columns:
            in_star = column.in_star and column.name not in using
            index = column.index + len(merged)
            columns.append(ScopeColumn(column.name, column.type, column.table, index, in_star))
        return Bound(project, Scope(tuple(columns), join.scope.outer))

    def _one(self, side: Bound, name: str, node: syntax.Join) -> Column:
        found = [each for each in side.scope.columns if each.name == name and each.in_star]
        if len(found) != 1:
            problem = f"no column {name!r}" if not found else f"several columns {name!r}"
            self.context.fail(node, f"USING: {problem} on one side of the join")
        return Column(found[0].type, found[0].index)

    def _join_with_rows_of(
        self,
        node: syntax.Join,
        right: syntax.TableFunction | syntax.Unnest,
        left: Bound,
        outer: Scope | None,
        kind: str,
    ) -> Bound:
        if kind not in ("INNER", "LEFT"):
            self.context.fail(node, f"a table function or UNNEST is joined as INNER or LEFT, not {kind}")
        found = self._rows_of(right, left, outer, is_outer=kind == "LEFT")
        return self._chosen(node, found, kind)

    def _chosen(self, node: syntax.Join, found: Bound, kind: str) -> Bound:
        """The rows that ON keeps of what is computed for each row of the left."""
        condition = TRUE if node.condition is None else self._condition(node.condition, found.scope)
        if condition == TRUE:
            return found
        if kind != "INNER":
            what = "LATERAL, a table function or UNNEST"
            self.context.fail(node.condition or node, f"what is LEFT JOINed with {what} has ON TRUE")
        return Bound(Filter(found.plan, condition), found.scope)

    def _lateral(
        self, node: syntax.Join, right: syntax.DerivedTable, left: Bound, outer: Scope | None, kind: str
    ) -> Bound:
        if kind not in ("INNER", "LEFT"):
            self.context.fail(node, f"LATERAL is joined as INNER or LEFT, not {kind}")
        plan = self.query(right.query, left.scope)
        found = self._aliased(plan, right.alias, outer, right)
        scope = self._beside(left, found)
        return self._chosen(node, self._joined(Correlate(kind, left.plan, plan), scope), kind)

    def _temporal(
        self, node: syntax.Join, right: syntax.TableReference, left: Bound, outer: Scope | None, kind: str
    ) -> Bound:
        assert right.as_of is not None
        if node.condition is None or kind not in ("INNER", "LEFT"):
            self.context.fail(node, "FOR SYSTEM_TIME AS OF is for INNER and LEFT JOIN ... ON")
        time = ExpressionBinder(self.context, left.scope, self.query, "FOR SYSTEM_TIME AS OF").bind(right.as_of)
        if not isinstance(time, Column):
            self.context.fail(right.as_of, "the time is a time attribute of the left table")
        found = self._table(right, outer)
        scope = self._beside(left, found)
        condition = self._condition(node.condition, scope)
        hints: tuple[syntax.Hint, ...] = ()
        if not is_rowtime(time.type):
            self.looked_up |= found.scope.table_names
            hints = without_places(hints_of_lookup(self.hints, found.scope.table_names))
        return self._joined(TemporalJoin(kind, left.plan, found.plan, time, condition, (), hints), scope)


def _element_columns(element: LogicalType) -> RowType:
    if isinstance(element, RowType):
        return element
    return row_type(["EXPR$0"], [element])


def table_plan(table: Table, hints: tuple[syntax.Hint, ...] = ()) -> Plan:
    """A scan of a table with its computed columns, and its watermarks."""
    stored = table.stored_columns
    plan: Plan = Scan(table, tuple(range(len(stored))), hints)
    if any(each.kind is ColumnKind.COMPUTED for each in table.columns):
        places = {each.name: place for place, each in enumerate(stored)}
        expressions = [each.expression or Column(each.type, places[each.name]) for each in table.columns]
        plan = Project(plan, tuple(expressions), tuple(each.name for each in table.columns))
    strategy = table.watermark
    if strategy is not None:
        index = plan.row_type.names.index(strategy.column)
        plan = WatermarkAssigner(plan, index, strategy.expression, strategy.type)
    return plan
