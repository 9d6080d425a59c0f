"""Queries in which every name says of what it is, so that they mean the same wherever and whenever they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from flinkray.tables.syntax.expressions import Call, Query, Reference, Star, TableArgument
from flinkray.tables.syntax.names import Name, Path, TypeName
from flinkray.tables.syntax.nodes import Node, Span
from flinkray.tables.syntax.queries import (
    Alias,
    DerivedTable,
    ExplicitTable,
    MatchRecognize,
    Select,
    SelectItem,
    TableFunction,
    TableReference,
    own_name,
)


class Expansion:
    """What binding a query has found: by their places in the text, what its names are.

    A column is known by the last name of its table. Where two tables of one query have the same, both are known by all
    of their names; and columns that USING has made of two, or whose relation has no name, by their own.
    """

    def __init__(self) -> None:
        self._columns: dict[Span, Path] = {}
        self._stars: dict[Span, tuple[Path, ...]] = {}
        self._tables: dict[Span, tuple[str, ...]] = {}
        self._aliases: dict[Span, str] = {}
        self._whole: set[tuple[str, ...]] = set()

    def column(self, written: Path, names: tuple[str, ...]) -> None:
        """A path is a column or a field of one, by all of its names."""
        self._columns[written.span] = _path(names)

    def star(self, written: Node, columns: Sequence[tuple[str, ...]]) -> None:
        """`*`, or the query `TABLE t`, is these columns."""
        self._stars[written.span] = tuple(map(_path, columns))

    def fields(self, written: Node, row: Path, names: Sequence[str]) -> None:
        """`row.*` is these fields of a path, which has been found to be a column."""
        self.star(written, [(*self._columns[row.span].texts, name) for name in names])

    def table(self, written: Path, names: tuple[str, ...]) -> None:
        """A path is a table of the catalog, or one of WITH."""
        self._tables[written.span] = names

    def alias(self, relation: Node) -> str:
        """The name that a relation without one is given."""
        return self._aliases.setdefault(relation.span, f"EXPR${len(self._aliases)}")

    def name_of(self, table: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        """What a table is known by beside others."""
        if any(each[-1:] == table[-1:] and each != table for each in others):
            self.name_whole(table)
            return table
        return table[-1:]

    def name_whole(self, table: tuple[str, ...]) -> None:
        """Has a table keep all of its names."""
        self._whole.add(table)

    def expanded(
        self, query: Query, unique_names: Callable[[list[str]], list[str]], function: Callable[[Path], Path]
    ) -> Query:
        """The query with what was found.

        Args:
            unique_names: gives the names of columns of which several would have the same.
            function: gives the name of a function in full.
        """
        self._unique_names, self._function = unique_names, function
        expanded: Query = self._of(query)
        return expanded

    def _of(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._of(each) for each in value)
        if not isinstance(value, Node):
            return value
        if isinstance(value, Reference):
            return replace(value, path=self._columns.get(value.path.span, value.path))
        if isinstance(value, TableReference):
            return self._table(value)
        if isinstance(value, ExplicitTable):
            items = tuple(SelectItem(Reference(each)) for each in self._stars[value.span])
            return self._select(Select(items, source=self._table(TableReference(value.path))))
        if isinstance(value, MatchRecognize):
            return self._named(replace(value, source=self._of(value.source)), value)
        found = replace(value, **{name: self._of(getattr(value, name)) for name in value.__struct_fields__})
        if isinstance(found, DerivedTable | TableFunction):
            return self._named(found, value)
        if isinstance(found, Call):
            return replace(found, function=self._function(found.function))
        if isinstance(found, TypeName) and found.name == "INT":
            return replace(found, name="INTEGER")
        if isinstance(found, TableArgument) and isinstance(found.table, Path):
            return replace(found, table=_path(self._tables[found.table.span]))
        return self._select(found) if isinstance(found, Select) else found

    def _table(self, node: TableReference) -> TableReference:
        names = self._tables[node.path.span]
        alias = node.alias
        if alias is None and names not in self._whole:
            alias = Alias(Name(names[-1]))
        return replace(node, path=_path(names), alias=alias, as_of=self._of(node.as_of))

    def _named(self, found: Any, written: Node) -> Any:
        name = self._aliases.get(written.span)
        return found if name is None else replace(found, alias=Alias(Name(name)))

    def _select(self, select: Select) -> Select:
        """The columns of stars one by one, with other names where names are there twice."""
        items: list[SelectItem] = []
        for item in select.items:
            columns = self._stars.get(item.expression.span, ()) if isinstance(item.expression, Star) else ()
            items += [SelectItem(Reference(each)) for each in columns] or [item]
        own = [own_name(item) or f"EXPR${place}" for place, item in enumerate(items)]
        return replace(
            select,
            items=tuple(
                item if name == first else replace(item, alias=Name(name))
                for item, first, name in zip(items, own, self._unique_names(own), strict=True)
            ),
        )


def _path(names: tuple[str, ...]) -> Path:
    return Path(tuple(map(Name, names)))
