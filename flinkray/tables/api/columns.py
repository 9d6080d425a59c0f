"""Columns of `select`: sets of them by names, places and ranges, and what those are called that have no name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.api.expression import Expression
from flinkray.tables.binding.constants import type_of
from flinkray.tables.binding.context import Context
from flinkray.tables.catalog import Catalog
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.functions.signatures import FunctionKind
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.nodes import Node

PROPERTIES = ("START", "END", "ROWTIME", "PROCTIME")
"""What there is to know of a window."""


class ColumnRange(syntax.Expression, frozen=True):
    """The columns from one to another one, each by its name or its place from 1."""

    first: str | int
    last: str | int


class ColumnSet(syntax.Expression, frozen=True):
    """Several columns, or all but these."""

    ranges: tuple[ColumnRange, ...]
    negated: bool = False


def columns_of(node: syntax.Expression, names: Sequence[str]) -> list[syntax.Expression]:
    """The columns that a set stands for among those of a table; any other expression alone.

    Raises:
        InvalidProgramError: there is no such column.
    """
    if not isinstance(node, ColumnSet):
        return [_with_columns(node, names)]
    found = [each for some in node.ranges for each in range(_place(some.first, names), _place(some.last, names) + 1)]
    if node.negated:
        found = [each for each in range(len(names)) if each not in found]
    return [syntax.Reference(Path((Name(names[each]),))) for each in found]


def _place(column: str | int, names: Sequence[str]) -> int:
    if isinstance(column, int) and 1 <= column <= len(names):
        return column - 1
    if column in names:
        return list(names).index(str(column))
    hint = did_you_mean(column, names) if isinstance(column, str) else ""
    raise InvalidProgramError(f"with_columns: no column {column!r}{hint}; columns: {', '.join(names)}")


def _with_columns(node: Any, names: Sequence[str]) -> Any:
    """A node with the columns of sets in the places of these, as further arguments of calls."""
    if not isinstance(node, Node):
        return node
    changed = {}
    for field in node.__struct_fields__:
        value = getattr(node, field)
        if isinstance(value, tuple):
            made = tuple(
                each
                for item in value
                for each in (columns_of(item, names) if isinstance(item, syntax.Expression) else [item])
            )
        else:
            made = _with_columns(value, names)
        if made != value:
            changed[field] = made
    return replace(node, **changed) if changed else node


# -- names


def with_names(expressions: Sequence[Expression], catalog: Catalog) -> list[Expression]:
    """The expressions with names: aggregates and properties of windows are EXPR$0, EXPR$1, ..., as they are found in
    all of them; a column has its own name, a cast that of what it casts, and
    anything else that of its place: _c0, _c1, ..."""
    numbers: dict[Node, int] = {}
    for each in expressions:
        for call in _aggregates(each._node, catalog):
            numbers.setdefault(call, len(numbers))
    found = []
    for place, each in enumerate(expressions):
        if each._names or isinstance(each._node, syntax.Reference | syntax.Star):
            found.append(each)
        else:
            found.append(each.alias(_name_of(each._node, numbers) or f"_c{place}"))
    return found


def _name_of(node: syntax.Expression, numbers: Mapping[Node, int]) -> str | None:
    """The name of a column, aggregate or property, also behind a cast of it; None: it is something else."""
    if node in numbers:
        return f"EXPR${numbers[node]}"
    if isinstance(node, syntax.Reference):
        return node.path.texts[-1]
    if not isinstance(node, syntax.Cast) or node.tries:
        return None
    inner = _name_of(node.operand, numbers)
    return None if inner is None else f"{inner}-{type_of(node.type, Context('', Catalog()))}"


def _aggregates(node: Any, catalog: Catalog) -> Iterator[syntax.Call]:
    if isinstance(node, tuple):
        for each in node:
            yield from _aggregates(each, catalog)
    if not isinstance(node, Node):
        return
    if isinstance(node, syntax.Call) and node.over is None and _is_aggregate(node, catalog):
        yield node
        return
    for name in node.__struct_fields__:
        yield from _aggregates(getattr(node, name), catalog)


def _is_aggregate(call: syntax.Call, catalog: Catalog) -> bool:
    user = catalog.function(call.function.texts)
    if user is not None:
        return user.kind == "aggregate"
    name = call.function.texts[-1].upper()
    known = FUNCTIONS.get(name)
    return name in PROPERTIES or (known is not None and known.kind is FunctionKind.AGGREGATE)
