"""SELECT: its clauses in the order in which they apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from flinkray.tables.binding.constants import constant
from flinkray.tables.binding.context import Context
from flinkray.tables.binding.expressions import GROUPING_FUNCTIONS, ExpressionBinder, QueryBinder
from flinkray.tables.binding.grouping import Grouping, Late
from flinkray.tables.binding.outputs import OutputBinder, has_aggregate, nulls_first
from flinkray.tables.binding.relations import ONE_ROW, Bound, RelationBinder, ViewBinder
from flinkray.tables.binding.scope import Scope, field_of, is_column, known_as, repeated_names
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.functions.signatures import FunctionKind
from flinkray.tables.plans.expressions import BoundExpression, Column, Constant, Plan, SortKey, WindowCall, rewritten
from flinkray.tables.plans.hints import WrongHintError, check_hints, state_ttls, warn_of_hints
from flinkray.tables.plans.nodes import Distinct, Filter, Limit, Project, Sort, Window, unique_names
from flinkray.tables.plans.rules.folding import folded
from flinkray.tables.syntax import queries as syntax
from flinkray.tables.syntax.expressions import Call, Number, OrderItem, Reference, Star
from flinkray.tables.syntax.names import Path
from flinkray.tables.types.logical import RowType


class Output(Struct, frozen=True):
    """A column of the result."""

    expression: BoundExpression
    name: str


class Ending(Struct, frozen=True):
    """What stands behind a query's body."""

    order_by: tuple[OrderItem, ...] = ()
    offset: int = 0
    limit: int | None = None


class SelectBinder:
    """Binds one SELECT with the ORDER BY and LIMIT behind it."""

    def __init__(self, context: Context, query: QueryBinder, view: ViewBinder, outer: Scope) -> None:
        self.context = context
        self.query = query
        self.view = view
        self.outer = outer if outer.columns or outer.outer else None

    def bind(self, node: syntax.Select, ending: Ending) -> Plan:
        """The plan of a SELECT."""
        source = Bound(ONE_ROW, Scope((), self.outer))
        relations = RelationBinder(self.context, self.query, self.view, node.hints)
        try:
            if node.source is not None:
                source = relations.bind(node.source, self.outer)
            idle = check_hints(node.hints, source.scope.table_names, relations.looked_up)
        except WrongHintError as error:
            self.context.fail(error.hint, str(error))
        if self.context.warns:
            warn_of_hints(idle)
        aliases = tuple(item.alias.text for item in node.items if item.alias is not None)
        scope = replace(source.scope, aliases=aliases)
        inputs = ExpressionBinder(self.context, scope, self.query, "WHERE")
        plan = source.plan
        if node.where is not None:
            plan = Filter(plan, inputs.condition(node.where))
        grouping = self._grouping(node, ending, scope)
        windows = {each.name.text: each.window for each in node.windows}
        binder = OutputBinder(self.context, scope, self.query, grouping, windows)
        outputs = self._outputs(node, binder)
        binder.where = "HAVING"
        having = None if node.having is None else binder.condition(node.having)
        binder.where = "QUALIFY"
        qualify = None if node.qualify is None else binder.condition(node.qualify)
        binder.where = "ORDER BY"
        order = [self._order_key(item, outputs, binder) for item in ending.order_by]
        if node.distinct and any(key not in [each.expression for each in outputs] for key in order):
            self.context.fail(ending.order_by[0], "ORDER BY of SELECT DISTINCT takes columns that are selected")
        width = len(plan.row_type.fields)
        if grouping is not None:
            plan = grouping.plan(plan, *state_ttls(node.hints, [source.scope.table_names]))
            width = len(plan.row_type.fields)
            if having is not None:
                plan = Filter(plan, numbered(having, grouping, width))
        plan = self._windows(plan, binder.window_calls, grouping, width)
        if qualify is not None:
            plan = Filter(plan, numbered(qualify, grouping, width))
        expressions = [numbered(each.expression, grouping, width) for each in outputs]
        keys = [numbered(each, grouping, width) for each in order]
        names = unique_names([each.name for each in outputs])
        return self._ended(plan, expressions, names, keys, node.distinct, ending)

    # -- GROUP BY

    def _grouping(self, node: syntax.Select, ending: Ending, scope: Scope) -> Grouping | None:
        parts = (node.items, node.having, node.qualify, ending.order_by)
        if node.group_by is None and not has_aggregate(parts, self._is_aggregate):
            if node.having is not None:
                self.context.fail(node.having, "HAVING is for groups; write WHERE, or GROUP BY")
            return None
        grouping = Grouping(ExpressionBinder(self.context, scope, self.query, "GROUP BY"))
        grouping.group_by(node.group_by or ())
        return grouping

    def _is_aggregate(self, call: Call) -> bool:
        user = self.context.catalog.function(call.function.texts)
        if user is not None:
            return user.kind == "aggregate"
        name = call.function.texts[-1].upper()
        known = FUNCTIONS.get(name)
        return name in GROUPING_FUNCTIONS or (known is not None and known.kind is FunctionKind.AGGREGATE)

    # -- the selected columns

    def _outputs(self, node: syntax.Select, binder: OutputBinder) -> list[Output]:
        found: list[Output] = []
        for item in node.items:
            if isinstance(item.expression, Star):
                # Of several columns of a name `*` gives all but the first another one, which ORDER BY may have.
                own, known = self._star(item.expression, node, binder), [each.name for each in found]
                names = unique_names([*dict.fromkeys(known), *(each.name for each in own)])[-len(own) :]
                found += [Output(each.expression, name) for each, name in zip(own, names, strict=True)]
                continue
            name = syntax.own_name(item) or f"EXPR${len(found)}"
            found.append(Output(binder.bind(item.expression), name))
        return found

    def _star(self, star: Star, node: syntax.Select, binder: OutputBinder) -> list[Output]:
        columns = [each for each in binder.scope.columns if each.in_star]
        if star.path is not None:
            written = star.path.texts
            columns = [each for each in binder.scope.columns if each.table[-len(written) :] == written]
            if not columns and is_column(star.path, binder.scope):
                return self._fields(star, star.path, binder)
            if not columns:
                known = ", ".join(table[-1] for table in binder.scope.tables())
                self.context.fail(star, f"no table {'.'.join(written)!r} in FROM; tables: {known or 'none'}")
        if not columns:
            self.context.fail(star, "* needs a table in FROM")
        counts = Counter((each.table, each.name) for each in columns if len(each.table) == 1)
        repeated = [(table[0], name) for (table, name), count in counts.items() if count > 1]
        if star.path is None:
            repeated += [("a query in FROM", name) for name in _repeated_without_alias(node.source)]
        for table, name in repeated:
            self.context.fail(star, f"{table} has several columns {name!r}: give them other names there")
        if self.context.expansion is not None:
            star_columns = [known_as(each, binder.scope, self.context.expansion) for each in columns]
            self.context.expansion.star(star, star_columns)
        return [Output(binder.star(Column(each.type, each.index), star), each.name) for each in columns]

    def _fields(self, star: Star, path: Path, binder: OutputBinder) -> list[Output]:
        """The fields of a column, or of a field of one, that is a ROW."""
        row = binder.bind(Reference(path, span=star.span))
        if not isinstance(row.type, RowType):
            self.context.fail(star, f"{'.'.join(path.texts)!r} is {row.type}, and only a ROW has fields")
        if self.context.expansion is not None:
            self.context.expansion.fields(star, path, row.type.names)
        return [Output(field_of(row, place), name) for place, name in enumerate(row.type.names)]

    # -- ORDER BY

    def _order_key(self, item: OrderItem, outputs: Sequence[Output], binder: OutputBinder) -> BoundExpression:
        """A selected column by its number or name, else an expression over what is selected from."""
        node = item.expression
        place = output_place(item, [each.name for each in outputs], self.context)
        return binder.bind(node) if place is None else outputs[place].expression

    # -- the plan

    def _windows(self, plan: Plan, calls: Sequence[WindowCall], grouping: Grouping | None, width: int) -> Plan:
        """Calls OVER windows behind the columns, and what they need that is no column in columns before."""
        if not calls:
            return plan
        rows = plan.row_type
        columns: list[BoundExpression] = [Column(kind, place) for place, kind in enumerate(rows.types)]

        def place(expression: BoundExpression) -> BoundExpression:
            expression = folded(numbered(expression, grouping, width))
            if isinstance(expression, Constant):
                return expression
            if expression not in columns:
                columns.append(expression)
            return Column(expression.type, columns.index(expression))

        placed = [
            replace(
                call,
                arguments=tuple(place(each) for each in call.arguments),
                partition_by=tuple(key for key in map(place, call.partition_by) if not isinstance(key, Constant)),
                order_by=tuple((place(each), descending, nulls) for each, descending, nulls in call.order_by),
                filter=None if call.filter is None else place(call.filter),
            )
            for call in calls
        ]
        if len(columns) > width:
            names = unique_names([*rows.names, *(f"$f{number}" for number in range(width, len(columns)))])
            plan = Project(plan, tuple(columns), tuple(names))
        window = Window(plan, tuple(placed), tuple(f"w{number}$" for number in range(len(placed))))
        # The columns of the windows come right behind those of the SELECT's input, where `numbered` looks for them.
        kept = [*range(width), *range(len(columns), len(columns) + len(placed))]
        if len(columns) == width:
            return window
        shown = window.row_type
        expressions = tuple(Column(shown.types[each], each) for each in kept)
        return Project(window, expressions, tuple(shown.names[each] for each in kept))

    def _ended(
        self,
        plan: Plan,
        expressions: list[BoundExpression],
        names: list[str],
        keys: list[BoundExpression],
        distinct: bool,
        ending: Ending,
    ) -> Plan:
        """The projection, DISTINCT, ORDER BY and LIMIT; what is only ordered by is taken away at the end."""
        columns = list(expressions)
        for key in keys:
            if key not in columns:
                columns.append(key)
        hidden = [f"order${number}" for number in range(len(columns) - len(expressions))]
        plan = Project(plan, tuple(columns), tuple(unique_names([*names, *hidden])))
        if distinct:
            plan = Distinct(plan)
        if keys:
            places = [columns.index(key) for key in keys]
            plan = Sort(plan, _sort_keys(places, ending.order_by))
        plan = limited(plan, ending)
        if hidden:
            kept = tuple(Column(each.type, place) for place, each in enumerate(expressions))
            plan = Project(plan, kept, tuple(names))
        return plan


def numbered(expression: BoundExpression, grouping: Grouping | None, width: int) -> BoundExpression:
    """The expression with the numbers of late columns; those of windows stand behind `width` columns."""

    def number(each: BoundExpression) -> BoundExpression:
        if not isinstance(each, Late):
            return each
        if each.kind == "window":
            return Column(each.type, width + each.number)
        assert grouping is not None
        place = len(grouping.keys) + each.number
        return Column(each.type, place + len(grouping.calls) if each.kind == "property" else place)

    return rewritten(expression, number)


def output_place(item: OrderItem, names: Sequence[str], context: Context) -> int | None:
    """The place of the selected column that ORDER BY names, or gives the number of; None: it is another expression."""
    node = item.expression
    if isinstance(node, Number):
        found = constant(node, context)
        place = found.value if found is not None else None
        if not isinstance(place, int) or not 1 <= place <= len(names):
            context.fail(node, f"ORDER BY {node.text}: the selected columns have the numbers 1 to {len(names)}")
        return place - 1
    if isinstance(node, Reference) and len(node.path.names) == 1 and node.path.texts[0] in names:
        if names.count(node.path.texts[0]) > 1:
            context.fail(node, f"several selected columns are {node.path.texts[0]!r}: order by the number of one")
        return names.index(node.path.texts[0])
    return None


def _sort_keys(places: Sequence[int], items: Sequence[OrderItem]) -> tuple[SortKey, ...]:
    return tuple(SortKey(place, item.descending, nulls_first(item)) for place, item in zip(places, items, strict=True))


def sorted_by_outputs(plan: Plan, ending: Ending, context: Context) -> Plan:
    """A plan ordered by its own columns, with LIMIT: what stands behind a set operation."""
    names = plan.row_type.names
    places = []
    for item in ending.order_by:
        place = output_place(item, names, context)
        if place is None:
            context.fail(item, f"ORDER BY here takes columns of the result: {', '.join(names)}")
        places.append(place)
    if places:
        plan = Sort(plan, _sort_keys(places, ending.order_by))
    return limited(plan, ending)


def limited(plan: Plan, ending: Ending) -> Plan:
    """The plan with LIMIT and OFFSET, where there are any."""
    if ending.limit is None and not ending.offset:
        return plan
    return Limit(plan, ending.limit, ending.offset)


def _repeated_without_alias(node: syntax.Relation | None) -> list[str]:
    """Names that queries of FROM, which have none themselves, give several columns."""
    if isinstance(node, syntax.Join):
        return [*_repeated_without_alias(node.left), *_repeated_without_alias(node.right)]
    if isinstance(node, syntax.DerivedTable) and node.alias is None:
        return list(repeated_names(node.query))
    return []
