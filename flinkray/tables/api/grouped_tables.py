"""Tables in groups or windows, whose `select` gives a table again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.columns import PROPERTIES
from flinkray.tables.api.expression import Expression
from flinkray.tables.api.queries import SELF, STAR, item, reference, rewritten, select, table
from flinkray.tables.api.windows import GroupWindow, OverWindow
from flinkray.tables.plans import nodes
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax import queries
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.types.logical import CollectionType, RowType

_ROWS = "$rows"
"""The column of the rows that a table aggregate gives."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Grouped(Protocol[T_co]):
    """What groups need of the table that they are of; T is the class of tables."""

    def _known(self, given: Any) -> Expression:
        """The expression of what a method was given."""

    def _keyed(self, fields: Sequence[Any]) -> tuple[Grouped[T_co], tuple[Expression, ...]]:
        """The table that has keys with an alias as columns, and the keys of its groups."""

    def _named(self, given: Sequence[Any]) -> list[Expression]:
        """Columns of `select` with their names."""

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
        if self._aggregates:
            selected: T = self._aggregated().select(*fields)  # type: ignore[attr-defined]
            return selected
        return self._grouped([item(self._expanded(each)) for each in self._source._named(fields)])

    def aggregate(self, func: Any) -> GroupedTable[T]:
        """An aggregate of each group, for `select`: `col("a").sum.alias("total")`."""
        found = self._source._known(self._source._called(func))
        made = GroupedTable(self._source, self._keys, self._window)
        made._aggregates = (*self._aggregates, found)
        return made

    def flat_aggregate(self, func: Any) -> FlatAggregateTable[T]:
        """The rows that a table aggregate, made by `udtaf`, gives of each group, for `select`.

        On a stream, a group's rows are deleted, and the new ones inserted, each time it changes.
        """
        return FlatAggregateTable(self, self._source._known(self._source._called(func)))

    def _aggregated(self) -> T:
        """A table of keys and aggregates; of one that is a ROW its fields."""
        keys = [item(each) for each in self._keys if not self._is_window(each)]
        names = [f"$agg{number}" for number in range(len(self._aggregates))]
        results = [self._expanded(each).alias(name) for each, name in zip(self._aggregates, names, strict=True)]
        found: Any = self._grouped([*keys, *map(item, results)])
        columns = [Expression(reference(key)) for key in found.columns[: len(keys)]]
        for each, name, number in zip(self._aggregates, names, range(len(names)), strict=True):
            kind = found.row_type.types[len(keys) + number]
            value = Expression(reference(name))
            if not isinstance(kind, RowType):
                columns.append(value.alias(each._names[0] if each._names else f"f{number}"))
                continue
            new = each._names or kind.names
            if len(new) != len(kind.names):
                raise InvalidProgramError(f"aggregate: {len(new)} names for {len(kind.names)} columns")
            columns += [value.get(field).alias(alias) for field, alias in zip(kind.names, new, strict=True)]
        selected: T = found.select(*columns)
        return selected

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
            if kind not in PROPERTIES:
                return node
            name = Name(f"{window.call.function.texts[0]}_{kind}")
            return replace(node, function=Path((name,)), arguments=window.call.arguments)

        return Expression(rewritten(expression._node, change), expression._names, expression._functions)


class FlatAggregateTable(Generic[T]):
    """A table in groups of which a table aggregate gives rows."""

    def __init__(self, grouped: GroupedTable[T], call: Expression) -> None:
        self._grouped = grouped
        self._call = call

    def select(self, *fields: Any) -> T:
        """Keys of the group, and columns of its rows."""
        selected: T = self._rows().select(*fields)
        return selected

    def _rows(self) -> Any:
        """A row for each that the function gives: keys, and its columns."""
        grouped, call = self._grouped, self._call
        keys = [item(each) for each in grouped._keys if not grouped._is_window(each)]
        found: Any = grouped._grouped([*keys, item(grouped._expanded(call).alias(_ROWS))])
        kind = found.row_type.types[-1]
        if not isinstance(kind, CollectionType) or not isinstance(kind.element, RowType):
            raise InvalidProgramError("flat_aggregate takes a table aggregate, which udtaf makes")
        names = call._names or kind.element.names
        unnested = queries.Unnest((reference(_ROWS),), alias=queries.Alias(Name("rows"), tuple(map(Name, names))))
        joined = found._made(select(STAR, queries.Join("INNER", table(SELF), unnested, condition=syntax.Truth(True))))
        joined._query = replace(joined._query, plan=_replacing(joined._plan))
        return joined.drop_columns(Expression(reference(_ROWS)))


def _replacing(plan: Plan) -> Plan:
    """The plan of rows of arrays, in which those of one that is updated are deleted, and others inserted."""
    if isinstance(plan, nodes.Unnest):
        return replace(plan, replaces=True)
    return plan.with_inputs(tuple(map(_replacing, plan.inputs)))


class WindowedTable(Generic[T]):
    """A table in windows, which `group_by` takes by their name."""

    def __init__(self, source: Grouped[T], window: GroupWindow) -> None:
        self._source = source
        self._window = window

    def group_by(self, *fields: Any) -> GroupedTable[T]:
        """The rows in groups, of which the window's name is one key."""
        grouped = GroupedTable(*self._source._keyed(fields), self._window)
        if not any(map(grouped._is_window, grouped._keys)):
            raise InvalidProgramError(f"group_by after window takes the window: col({self._window.name!r})")
        return grouped


class OverWindowedTable(Generic[T]):
    """A table with windows that `select` has by their names."""

    def __init__(self, source: Grouped[T], windows: tuple[OverWindow, ...]) -> None:
        self._source = source
        self._windows = windows

    def select(self, *fields: Any) -> T:
        """Columns, and aggregates over the windows: `col("a").sum.over(col("w"))`."""
        found = self._source._named(fields)
        return self._source._made(select(tuple(map(item, found)), windows=named_windows(self._windows)))


def named_windows(windows: Sequence[OverWindow]) -> tuple[queries.NamedWindow, ...]:
    """The windows of WINDOW."""
    return tuple(queries.NamedWindow(Name(each.name), each.window) for each in windows)
