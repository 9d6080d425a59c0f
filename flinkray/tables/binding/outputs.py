"""What SELECT, HAVING and ORDER BY compute: also aggregates of groups, and calls OVER windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from flinkray.errors import SqlValidationError
from flinkray.tables.binding.calls import cast_to, plain, resolved, user_call
from flinkray.tables.binding.context import Context
from flinkray.tables.binding.expressions import GROUPING_FUNCTIONS, ExpressionBinder, QueryBinder
from flinkray.tables.binding.grouping import Grouping, Late
from flinkray.tables.binding.scope import Scope
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.functions.signatures import FunctionKind
from flinkray.tables.plans.expressions import (
    AggregateCall,
    BoundExpression,
    Column,
    Constant,
    Frame,
    FrameBound,
    OuterColumn,
    Plan,
    WindowCall,
    columns_of,
)
from flinkray.tables.plans.rules.rewriting import with_outer_columns
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.types.logical import BIGINT, LogicalType

_WHOLE = Frame("ROWS", FrameBound("PRECEDING"), FrameBound("FOLLOWING"))
_TO_CURRENT = Frame("RANGE", FrameBound("PRECEDING"), FrameBound("CURRENT ROW"))
Order = tuple[tuple[BoundExpression, bool, bool], ...]


def has_aggregate(node: Any, is_aggregate: Callable[[syntax.Call], bool]) -> bool:
    """Whether an aggregate of groups is in a part of a statement, outside of its subqueries."""
    if isinstance(node, tuple):
        return any(has_aggregate(each, is_aggregate) for each in node)
    if not isinstance(node, Node) or isinstance(node, syntax.Query):
        return False
    if isinstance(node, syntax.Call) and node.over is None and is_aggregate(node):
        return True
    return any(has_aggregate(getattr(node, name), is_aggregate) for name in node.__struct_fields__)


class OutputBinder(ExpressionBinder):
    """Binds over groups where there is a grouping, else over rows; `Late` columns get their numbers afterwards."""

    def __init__(
        self,
        context: Context,
        scope: Scope,
        query: QueryBinder,
        grouping: Grouping | None,
        windows: Mapping[str, syntax.Window],
    ) -> None:
        super().__init__(context, scope, query, "SELECT")
        self.grouping = grouping
        self.named_windows = windows
        self.window_calls: list[WindowCall] = []

    def bind(self, node: syntax.Expression) -> BoundExpression:
        """The expression over groups, or over rows."""
        if self.grouping is None:
            return super().bind(node)
        key = self._key(node)
        if key is not None:
            return key
        if isinstance(node, syntax.Reference):
            bound = self.grouping.inputs.bind(node)
            if columns_of(bound):
                name = ".".join(node.path.texts)
                self.context.fail(node, f"{name!r} is neither in GROUP BY nor in an aggregate such as MAX({name})")
            return bound
        return super().bind(node)

    def _key(self, node: syntax.Expression) -> Column | None:
        assert self.grouping is not None
        try:
            return self.grouping.key(self.grouping.inputs.bind(node))
        except SqlValidationError:
            return None  # an aggregate, or what is wrong with a part of it: binding the parts says which

    def star(self, column: Column, node: Node) -> BoundExpression:
        """A column of `*`."""
        if self.grouping is None:
            return column
        key = self.grouping.key(column)
        if key is None:
            self.context.fail(node, "* has columns that are neither in GROUP BY nor in an aggregate; name columns")
        return key

    def plan(self, query: syntax.Query) -> Plan:
        """A query in an expression."""
        plan = super().plan(query)
        if self.grouping is None:
            return plan
        return with_outer_columns(plan, lambda each, level: self._of_group(each, query) if level == 1 else each)

    def _of_group(self, column: OuterColumn, query: syntax.Query) -> OuterColumn:
        """A column of the rows that are grouped, as one of the groups."""
        assert self.grouping is not None
        key = self.grouping.key(Column(column.type, column.index))
        if key is None:
            names = [each.name for each in self.scope.columns if each.index == column.index]
            self.context.fail(query, f"it reads {names[0]!r} of the query around it, which is not in GROUP BY")
        return OuterColumn(key.type, key.index, column.level)

    # -- aggregates

    def scalar_call(self, node: syntax.Call, name: str) -> BoundExpression:
        """A call of a function, among them properties of the group window."""
        if self.grouping is not None:
            found = self.grouping.window_property(node, name)
            if found is not None:
                return found
        return super().scalar_call(node, name)

    def aggregate_call(self, node: syntax.Call) -> BoundExpression:
        """The result of an aggregate of a group."""
        if self.grouping is None:
            return super().aggregate_call(node)
        name = node.function.texts[-1].upper()
        if name in GROUPING_FUNCTIONS:
            return self._grouping_call(node, name)
        inputs = replace_where(self.grouping.inputs, "another aggregate")
        condition = None if node.filter is None else replace_where(inputs, "FILTER").condition(node.filter)
        may_be_empty = self.grouping.has_empty_group or condition is not None
        function, arguments, result = self._typed(node, name, inputs, may_be_empty)
        order = self._order(node.within_group, inputs)
        call = AggregateCall(function, arguments, result, node.distinct, condition, order, node.ignore_nulls)
        return self.grouping.aggregate(call)

    def _grouping_call(self, node: syntax.Call, name: str) -> BoundExpression:
        """Which keys a group's set is without, as bits; of GROUP_ID, how many equal sets stand before it."""
        assert self.grouping is not None
        if name == "GROUP_ID":
            if node.arguments:
                self.context.fail(node, "GROUP_ID takes no arguments")
            if len({frozenset(each) for each in self.grouping.sets}) < len(self.grouping.sets):
                self.context.fail(node, "GROUP_ID tells sets that are there twice apart, which cannot be executed")
            return Constant(BIGINT.not_null(), 0)
        keys = []
        for argument in node.arguments:
            bound = self.grouping.inputs.bind(argument)
            if bound not in self.grouping.keys:
                self.context.fail(argument, "GROUPING takes expressions of GROUP BY")
            keys.append(bound)
        if not self.grouping.sets:
            return Constant(BIGINT.not_null(), 0)
        return self.grouping.aggregate(AggregateCall("GROUPING", tuple(keys), BIGINT.not_null()))

    def _typed(
        self, node: syntax.Call, name: str, binder: ExpressionBinder, may_be_empty: bool = True
    ) -> tuple[str, tuple[BoundExpression, ...], LogicalType]:
        """The function's own name, its arguments as it takes them, and the type of its result."""
        user = self.context.catalog.function(node.function.texts)
        if user is not None:
            return user.name, user_call(node, user, binder.all(node.arguments), self.context), user.result
        arguments = binder.arguments(node, name)
        found = resolved(node, name, arguments, self.context, may_be_empty=may_be_empty)
        cast = tuple(cast_to(each, kind) for each, kind in zip(arguments, found.argument_types, strict=True))
        return found.name, cast, plain(found.result_type)

    # -- windows

    def window_call(self, node: syntax.Call) -> BoundExpression:
        """The result of a call OVER a window."""
        assert node.over is not None
        name = node.function.texts[-1].upper()
        function = FUNCTIONS.get(name)
        is_ranking = function is not None and function.kind is FunctionKind.RANKING
        user = self.context.catalog.function(node.function.texts)
        if user is None and (function is None or function.kind is FunctionKind.SCALAR):
            self.context.fail(node, f"{name} is neither an aggregate nor a ranking function, and has no window")
        if node.within_group:
            self.context.fail(node, f"{name} OVER a window takes rows in the window's order, and has none of its own")
        window = self._window(node.over, node)
        order = self._order(window.order_by, self)
        if is_ranking and not order:
            self.context.fail(node.over, f"{name} needs an ORDER BY in its window")
        frame = None
        if not is_ranking:
            frame = (_TO_CURRENT if order else _WHOLE) if window.frame is None else self._frame(window.frame)
        has_row = frame is not None and frame.start.offset is None and frame.end.offset is None  # the current one
        function_name, arguments, result = self._typed(node, name, self, not has_row or node.filter is not None)
        call = WindowCall(
            function_name,
            arguments,
            result,
            self.all(window.partition_by),
            order,
            frame,
            node.distinct,
            None if node.filter is None else self.condition(node.filter),
            node.ignore_nulls,
        )
        if call not in self.window_calls:
            self.window_calls.append(call)
        return Late(result, "window", self.window_calls.index(call))

    def _window(self, window: syntax.Window, node: Node) -> syntax.Window:
        """The window with what the named window before it says."""
        if window.name is None:
            return window
        named = self.named_windows.get(window.name.text)
        if named is None:
            known = ", ".join(self.named_windows) or "none"
            self.context.fail(window.name, f"no window {window.name.text!r}; those of WINDOW: {known}")
        base = self._window(named, node)
        return replace(
            base,
            partition_by=window.partition_by or base.partition_by,
            order_by=window.order_by or base.order_by,
            frame=window.frame or base.frame,
        )

    def _order(self, items: tuple[syntax.OrderItem, ...], binder: ExpressionBinder) -> Order:
        return tuple((binder.bind(each.expression), each.descending, nulls_first(each)) for each in items)

    def _frame(self, frame: syntax.Frame) -> Frame:
        end = FrameBound("CURRENT ROW") if frame.end is None else self._bound(frame.end)
        return Frame(frame.unit, self._bound(frame.start), end)

    def _bound(self, bound: syntax.FrameBound) -> FrameBound:
        return FrameBound(bound.direction, None if bound.offset is None else self.bind(bound.offset))


def nulls_first(item: syntax.OrderItem) -> bool:
    """Whether NULLs come first: as the text says, else where the order is ascending, as Flink has it."""
    return not item.descending if item.nulls_first is None else item.nulls_first


def replace_where(binder: ExpressionBinder, where: str) -> ExpressionBinder:
    """The same binder for another clause."""
    return ExpressionBinder(binder.context, binder.scope, binder.query, where)
