"""Expressions of statements to expressions of plans."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatchmethod

from flinkray.tables.binding.calls import call, cast_to, plain, user_call, with_json_clauses
from flinkray.tables.binding.constants import constant, number, symbol, type_of
from flinkray.tables.binding.context import Context
from flinkray.tables.binding.scope import Scope, resolve, with_fields
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.functions.signatures import FunctionKind
from flinkray.tables.plans.expressions import (
    BoundExpression,
    Call,
    Constant,
    Plan,
    Subquery,
    conjunction,
)
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.types.common import common_type
from flinkray.tables.types.logical import (
    ARRAY,
    BOOLEAN,
    INTERVAL,
    MAP,
    MULTISET,
    STRING,
    TEXTS,
    LogicalType,
    RowType,
    TypeRoot,
)

QueryBinder = Callable[[syntax.Query, Scope], Plan]
"""Binds a query whose columns may be those of a scope around it."""
GROUPING_FUNCTIONS = frozenset({"GROUPING", "GROUPING_ID", "GROUP_ID"})
"""What tells of a group of which of the keys it is."""


class ExpressionBinder:
    """Binds expressions over the columns of a scope.

    Args:
        where: the clause, for messages about what may not stand in it.
    """

    def __init__(self, context: Context, scope: Scope, query: QueryBinder, where: str) -> None:
        self.context = context
        self.scope = scope
        self.query = query
        self.where = where

    def bind(self, node: syntax.Expression) -> BoundExpression:
        """The expression with its type.

        Raises:
            SqlValidationError: a name is unknown or may be several, or types do not fit.
        """
        found = constant(node, self.context)
        return self._bind(node) if found is None else found

    def condition(self, node: syntax.Expression) -> BoundExpression:
        """The expression, which has to be a condition."""
        found = self.bind(node)
        if found.type.root is TypeRoot.NULL:
            return Constant(BOOLEAN, None)
        if found.type.root is not TypeRoot.BOOLEAN:
            self.context.fail(node, f"{self.where} takes a condition, and this is {found.type}")
        return found

    def call(self, node: Node, name: str, *arguments: BoundExpression) -> BoundExpression:
        """A call of a built-in function."""
        return call(node, name, arguments, self.context)

    def all(self, nodes: tuple[syntax.Expression, ...]) -> tuple[BoundExpression, ...]:
        """Several expressions."""
        return tuple(self.bind(each) for each in nodes)

    @singledispatchmethod
    def _bind(self, node: syntax.Expression) -> BoundExpression:
        self.context.fail(node, f"this cannot stand in {self.where}")

    # -- columns and fields

    @_bind.register
    def _(self, node: syntax.Reference) -> BoundExpression:
        return resolve(node.path, self.scope, self.context)

    @_bind.register
    def _(self, node: syntax.Field) -> BoundExpression:
        return with_fields(self.bind(node.operand), (node.name,), self.context)

    @_bind.register
    def _(self, node: syntax.Subscript) -> BoundExpression:
        operand, index = self.bind(node.operand), self.bind(node.index)
        if not isinstance(operand.type, RowType):
            return self.call(node, "ITEM", operand, index)
        names, place = operand.type.names, index.value if isinstance(index, Constant) else None
        if not isinstance(place, int) or not 1 <= place <= len(names):
            self.context.fail(node.index, f"a field of this ROW has a number from 1 to {len(names)}")
        return with_fields(operand, (Name(names[place - 1]),), self.context)

    # -- operators

    @_bind.register
    def _(self, node: syntax.Prefix) -> BoundExpression:
        if node.operator == "-" and isinstance(node.operand, syntax.Number):
            return number(node.operand, self.context, negative=True)
        operand = self.bind(node.operand)
        return operand if node.operator == "+" else self.call(node, node.operator, operand)

    @_bind.register
    def _(self, node: syntax.Infix) -> BoundExpression:
        if isinstance(node.left, syntax.Row) and isinstance(node.right, syntax.Row):
            return self._rows(node, node.left, node.right)
        operands = self.all((node.left, node.right))
        if node.operator == "+" and self.context.joins_texts and any(each.type.root in TEXTS for each in operands):
            texts = [each if each.type.root in TEXTS else cast_to(each, STRING) for each in operands]
            return self.call(node, "||", *texts)
        return self.call(node, node.operator, *operands)

    @_bind.register
    def _(self, node: syntax.Apart) -> BoundExpression:
        is_months = node.units.first in ("YEAR", "MONTH")
        target = INTERVAL("MONTH") if is_months else INTERVAL("SECOND", fraction=3)
        return call(node, "-", [self.bind(node.end), self.bind(node.begin)], self.context, target)

    def _rows(self, node: syntax.Infix, left: syntax.Row, right: syntax.Row) -> BoundExpression:
        if node.operator == "OVERLAPS":
            return self.call(node, "OVERLAPS", *self.all(left.items), *self.all(right.items))
        if node.operator not in ("=", "<>") or len(left.items) != len(right.items):
            self.context.fail(node, "rows are compared with = or <>, and have the same number of columns")
        return self._equal_rows(node, self.all(left.items), self.all(right.items), node.operator == "<>")

    def _equal_rows(
        self, node: Node, left: tuple[BoundExpression, ...], right: tuple[BoundExpression, ...], negated: bool
    ) -> BoundExpression:
        pairs = [self.call(node, "=", *pair) for pair in zip(left, right, strict=True)]
        found = conjunction(pairs)
        assert found is not None
        return self.call(node, "NOT", found) if negated else found

    @_bind.register
    def _(self, node: syntax.Junction) -> BoundExpression:
        return self.call(node, node.operator, *(self._operand(each, node.operator) for each in node.operands))

    def _operand(self, node: syntax.Expression, operator: str) -> BoundExpression:
        found = self.bind(node)
        if found.type.root not in (TypeRoot.BOOLEAN, TypeRoot.NULL):
            self.context.fail(node, f"{operator} takes conditions, and this is {found.type}")
        return found

    @_bind.register
    def _(self, node: syntax.Is) -> BoundExpression:
        operand = self.bind(node.operand)
        if node.test.startswith("JSON"):
            found = self.call(node, "IS JSON", operand, symbol(node.test.partition(" ")[2]))
            return self.call(node, "NOT", found) if node.negated else found
        return self.call(node, f"IS {'NOT ' if node.negated else ''}{node.test}", operand)

    @_bind.register
    def _(self, node: syntax.Between) -> BoundExpression:
        operand, low, high = self.bind(node.operand), self.bind(node.low), self.bind(node.high)
        found = self._between(node, operand, low, high, node.negated)
        if not node.symmetric:
            return found
        turned = self._between(node, operand, high, low, node.negated)
        return self.call(node, "AND" if node.negated else "OR", found, turned)

    def _between(
        self, node: Node, operand: BoundExpression, low: BoundExpression, high: BoundExpression, negated: bool
    ) -> BoundExpression:
        """Two comparisons, of which rules can see that they are bounds."""
        least = self.call(node, "<" if negated else ">=", operand, low)
        most = self.call(node, ">" if negated else "<=", operand, high)
        return self.call(node, "OR" if negated else "AND", least, most)

    @_bind.register
    def _(self, node: syntax.InList) -> BoundExpression:
        if isinstance(node.operand, syntax.Row):
            found = self._in_rows(node, self.all(node.operand.items))
        else:
            found = self.call(node, "IN", self.bind(node.operand), *self.all(node.items))
        return self.call(node, "NOT", found) if node.negated else found

    def _in_rows(self, node: syntax.InList, operands: tuple[BoundExpression, ...]) -> BoundExpression:
        found = []
        for item in node.items:
            if not isinstance(item, syntax.Row) or len(item.items) != len(operands):
                self.context.fail(item, f"this has to be a row of {len(operands)} values")
            found.append(self._equal_rows(item, operands, self.all(item.items), negated=False))
        return found[0] if len(found) == 1 else self.call(node, "OR", *found)

    @_bind.register
    def _(self, node: syntax.Like) -> BoundExpression:
        arguments = [self.bind(node.operand), self.bind(node.pattern)]
        arguments += [] if node.escape is None else [self.bind(node.escape)]
        found = self.call(node, node.operator, *arguments)
        return self.call(node, "NOT", found) if node.negated else found

    # -- CASE, casts, constructors

    @_bind.register
    def _(self, node: syntax.Case) -> BoundExpression:
        arguments = []
        operand = None if node.operand is None else self.bind(node.operand)
        for when in node.whens:
            if operand is None:
                arguments.append(self._operand(when.condition, "WHEN"))
            else:
                arguments.append(self.call(when, "=", operand, self.bind(when.condition)))
            arguments.append(self.bind(when.result))
        if node.otherwise is not None:
            arguments.append(self.bind(node.otherwise))
        return self.call(node, "CASE", *arguments)

    @_bind.register
    def _(self, node: syntax.Cast) -> BoundExpression:
        target = type_of(node.type, self.context)
        operand = self.bind(node.operand)
        if isinstance(operand, Constant) and operand.value is None:
            return Constant(target.as_nullable(), None)
        return call(node, "TRY_CAST" if node.tries else "CAST", [operand], self.context, target)

    @_bind.register
    def _(self, node: syntax.Row) -> BoundExpression:
        return self.call(node, "ROW", *self.all(node.items))

    @_bind.register
    def _(self, node: syntax.ArrayOf) -> BoundExpression:
        return self.call(node, "ARRAY", *self.all(node.items))

    @_bind.register
    def _(self, node: syntax.MapOf) -> BoundExpression:
        return self.call(node, "MAP", *self.all(node.items))

    # -- queries

    def plan(self, query: syntax.Query) -> Plan:
        """A query in an expression, whose names may be those of this scope."""
        return self.query(query, self.scope)

    @_bind.register
    def _(self, node: syntax.Exists) -> BoundExpression:
        return Subquery(BOOLEAN.not_null(), "EXISTS", self.plan(node.query))

    @_bind.register
    def _(self, node: syntax.Subquery) -> BoundExpression:
        plan = self.plan(node.query)
        kind = self._single_column(node, plan)
        return Subquery(plain(kind).as_nullable(), "SCALAR", plan)

    def _single_column(self, node: Node, plan: Plan) -> LogicalType:
        types = plan.row_type.types
        if len(types) != 1:
            self.context.fail(node, f"a query that is a value has one column, and this has {len(types)}")
        return types[0]

    @_bind.register
    def _(self, node: syntax.InQuery) -> BoundExpression:
        items = node.operand.items if isinstance(node.operand, syntax.Row) else (node.operand,)
        found = self._compared(node, "IN", items, node.query)
        return self.call(node, "NOT", found) if node.negated else found

    @_bind.register
    def _(self, node: syntax.Quantified) -> BoundExpression:
        if (node.operator, node.quantifier) == ("=", "ANY"):
            return self._compared(node, "IN", (node.operand,), node.query)
        if (node.operator, node.quantifier) == ("<>", "ALL"):
            return self.call(node, "NOT", self._compared(node, "IN", (node.operand,), node.query))
        return self._compared(node, f"{node.operator} {node.quantifier}", (node.operand,), node.query)

    def _compared(
        self, node: Node, kind: str, items: tuple[syntax.Expression, ...], query: syntax.Query
    ) -> BoundExpression:
        operands = list(self.all(items))
        plan = self.plan(query)
        types = plan.row_type.types
        if len(types) != len(operands):
            self.context.fail(node, f"{len(operands)} values are compared with a query of {len(types)} columns")
        for place, (operand, column) in enumerate(zip(operands, types, strict=True)):
            common = common_type([plain(operand.type), plain(column)])
            if common is None:
                self.context.fail(node, f"{operand.type} cannot be compared with {column}; CAST one of them")
            operands[place] = cast_to(operand, common)
        nullable = any(each.nullable for each in types) or any(each.type.nullable for each in operands)
        return Subquery(BOOLEAN.with_nullability(nullable), kind, plan, tuple(operands))

    @_bind.register
    def _(self, node: syntax.CollectionOfQuery) -> BoundExpression:
        plan = self.plan(node.query)
        types = plan.row_type.types
        if node.kind == "MAP":
            if len(types) != 2:
                self.context.fail(node, f"MAP takes a query of keys and values, and this has {len(types)} columns")
            return Subquery(MAP(types[0], types[1]).not_null(), "MAP", plan)
        element: LogicalType = types[0] if len(types) == 1 else RowType(plan.row_type.fields, nullable=False)
        make = ARRAY if node.kind == "ARRAY" else MULTISET
        return Subquery(make(element).not_null(), node.kind, plan)

    # -- calls

    @_bind.register
    def _(self, node: syntax.Call) -> BoundExpression:
        if node.over is not None:
            return self.window_call(node)
        user = self.context.catalog.function(node.function.texts)
        if user is not None:
            if user.kind == "aggregate":
                return self.aggregate_call(node)
            if user.kind == "table":
                self.context.fail(node, f"{user.name} gives rows: write LATERAL TABLE({user.name}(...)) in FROM")
            arguments = user_call(node, user, self.all(node.arguments), self.context)
            return Call(user.result, user.name, arguments, user.is_deterministic)
        name = node.function.texts[-1].upper()
        known = FUNCTIONS.get(name)
        if name == "JSON":
            self.context.fail(node, "JSON stands among the values of JSON_OBJECT and JSON_ARRAY alone")
        if name in GROUPING_FUNCTIONS or (known is not None and known.kind is FunctionKind.AGGREGATE):
            return self.aggregate_call(node)
        if known is not None and known.kind is FunctionKind.RANKING:
            self.context.fail(node, f"{name} is called OVER a window: {name}() OVER (PARTITION BY ... ORDER BY ...)")
        if node.distinct or node.filter is not None or node.within_group or node.ignore_nulls is not None:
            self.context.fail(node, f"DISTINCT, FILTER, WITHIN GROUP and NULLS are for aggregates, and {name} is none")
        return self.scalar_call(node, name)

    def scalar_call(self, node: syntax.Call, name: str) -> BoundExpression:
        """A call of a function that takes a row's values."""
        return call(node, name, self.arguments(node, name), self.context, self._returned(node))

    def _json_value(self, node: syntax.Expression) -> BoundExpression:
        """A value of JSON_OBJECT or JSON_ARRAY, where alone a call of JSON stands."""
        if not isinstance(node, syntax.Call) or node.function.texts[-1].upper() != "JSON" or node.over is not None:
            return self.bind(node)
        is_users = self.context.catalog.function(node.function.texts) is not None
        return self.bind(node) if is_users else self.scalar_call(node, "JSON")

    def _returned(self, node: syntax.Call) -> LogicalType | None:
        returning = next((each.type for each in node.clauses if each.type is not None), None)
        return None if returning is None else type_of(returning, self.context)

    def arguments(self, node: syntax.Call, name: str) -> list[BoundExpression]:
        """The arguments of a call, in the order in which the function takes them."""
        bind = self._json_value if name in ("JSON_OBJECT", "JSON_ARRAY") else self.bind
        found: list[BoundExpression] = []
        for argument in node.arguments:
            if isinstance(argument, syntax.KeyValue):
                found += [self.bind(argument.key), bind(argument.value)]
            elif isinstance(argument, syntax.NamedArgument):
                self.context.fail(argument, f"{name} takes its arguments by their order, not by names")
            elif not isinstance(argument, syntax.Star):
                found.append(bind(argument))
            elif name != "COUNT" or argument.path is not None:
                self.context.fail(argument, f"* is an argument of COUNT alone, not of {name}")
        if name == "TRIM" and len(found) < 3:
            where, text = (symbol("BOTH"), found[0]) if len(found) == 1 else (found[0], found[1])
            return [where, symbol(" "), text]
        if name.startswith("JSON_"):
            defaults = {
                each.words.rpartition(" ")[2]: self.bind(each.value) for each in node.clauses if each.value is not None
            }
            return with_json_clauses(node, name, found, defaults)
        return found

    def aggregate_call(self, node: syntax.Call) -> BoundExpression:
        """A call of an aggregate, which only SELECT, HAVING and ORDER BY have."""
        name = node.function.texts[-1].upper()
        self.context.fail(node, f"{name} is an aggregate, and cannot stand in {self.where}")

    def window_call(self, node: syntax.Call) -> BoundExpression:
        """A call OVER a window, which only SELECT and ORDER BY have."""
        self.context.fail(node, f"a call OVER a window cannot stand in {self.where}; filter a subquery of it instead")
