"""Tables in groups or windows, whose `select` gives a table again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.expression import Expression
from flinkray.tables.api.queries import SELF, item, read_expression, rewritten, select, table
from flinkray.tables.api.windows import GroupWindow, OverWindow
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax import queries
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node

_PROPERTIES = ("START", "END", "ROWTIME", "PROCTIME")


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Grouped(Protocol[T_co]):
    """What groups need of the table that they are of; T is the class of tables."""

    def _known(self, given: Any) -> Expression:
        """The expression of what a method was given."""

    def _made(self, query: syntax.Query) -> T_co:
        """The table of a query over this one."""

    def _called(self, function: Any) -> Expression:
        """A call of a function, which gets the whole row where it is given alone."""


class GroupedTable(Generic[T]):
    """A table in groups."""

    def __init__(self, source: Grouped[T], keys: tuple[Expression, ...], window: GroupWindow | None = None) -> None:
        self._source = source
        self._keys = keys
        self._window = window
        self._aggregates: tuple[Expression, ...] = ()

    def select(self, *fields: Any) -> T:
        """A row for each group: keys, aggregates, and of a window its `start`, `end` and so on."""
        found = [self._expanded(self._source._known(each)) for each in fields]
        if self._aggregates:
            selected: T = self._aggregated().select(*fields)  # type: ignore[attr-defined]
            return selected
        return self._grouped([item(each) for each in found])

    def aggregate(self, aggregate_function: Any) -> GroupedTable[T]:
        """An aggregate of each group, for `select`: `col("a").sum.alias("total")`."""
        found = self._source._known(self._source._called(aggregate_function))
        made = GroupedTable(self._source, self._keys, self._window)
        made._aggregates = (*self._aggregates, found)
        return made

    def flat_aggregate(self, table_aggregate_function: Any) -> GroupedTable[T]:
        """There are no table aggregate functions here.

        Raises:
            InvalidProgramError: always.
        """
        raise InvalidProgramError("flat_aggregate: there are no table aggregate functions; write ROW_NUMBER() OVER ...")

    def _aggregated(self) -> T:
        """A table of keys and aggregates."""
        keys = [item(each) for each in self._keys if not self._is_window(each)]
        return self._grouped([*keys, *(item(self._expanded(each)) for each in self._aggregates)])

    def _grouped(self, items: list[Any]) -> T:
        keys = tuple(self._expanded(each)._node for each in self._keys)
        return self._source._made(select(tuple(items), table(SELF), group_by=keys or None))

    # -- windows

    def _is_window(self, key: Expression) -> bool:
        node = key._node
        return (
            self._window is not None and isinstance(node, syntax.Reference) and node.path.texts == (self._window.name,)
        )

    def _expanded(self, expression: Expression) -> Expression:
        """The expression with the window's call in the place of its name, and calls of its properties."""
        if self._window is None:
            return expression
        window = self._window

        def change(node: Node) -> Node:
            if isinstance(node, syntax.Reference) and node.path.texts == (window.name,):
                return window.call
            if not isinstance(node, syntax.Call) or node.arguments != (window.call,):
                return node
            kind = node.function.texts[-1]
            if kind not in _PROPERTIES:
                return node
            name = Name(f"{window.call.function.texts[0]}_{kind}")
            return replace(node, function=Path((name,)), arguments=window.call.arguments)

        return Expression(rewritten(expression._node, change), expression._names, expression._functions)


class WindowedTable(Generic[T]):
    """A table in windows, which `group_by` takes by their name."""

    def __init__(self, source: Grouped[T], window: GroupWindow) -> None:
        self._source = source
        self._window = window

    def group_by(self, *fields: Any) -> GroupedTable[T]:
        """The rows in groups, of which the window's name is one key."""
        keys = tuple(self._source._known(each) for each in fields)
        grouped = GroupedTable(self._source, keys, self._window)
        if not any(map(grouped._is_window, keys)):
            raise InvalidProgramError(f"group_by after window takes the window: col({self._window.name!r})")
        return grouped


class OverWindowedTable(Generic[T]):
    """A table with windows that `select` has by their names."""

    def __init__(self, source: Grouped[T], windows: tuple[OverWindow, ...]) -> None:
        self._source = source
        self._windows = windows

    def select(self, *fields: Any) -> T:
        """Columns, and aggregates over the windows: `col("a").sum.over(col("w"))`."""
        found = [self._source._known(read_expression(each)) for each in fields]
        return self._source._made(select(tuple(map(item, found)), windows=named_windows(self._windows)))


def named_windows(windows: Sequence[OverWindow]) -> tuple[queries.NamedWindow, ...]:
    """The windows of WINDOW."""
    return tuple(queries.NamedWindow(Name(each.name), each.window) for each in windows)
