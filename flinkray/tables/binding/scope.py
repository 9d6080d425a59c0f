"""The columns that a name may be, and which one it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from msgspec import Struct

from flinkray.errors import did_you_mean
from flinkray.tables.binding.context import Context
from flinkray.tables.plans.expressions import BoundExpression, Column, FieldAccess, OuterColumn
from flinkray.tables.syntax.expansion import Expansion
from flinkray.tables.syntax.expressions import Query, QueryBody, Star
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.queries import Select, SetOperation, own_name
from flinkray.tables.types.logical import LogicalType, RowType


class ScopeColumn(Struct, frozen=True):
    """A column of a relation in FROM.

    Args:
        table: the names before its name: the alias, or the path of its table.
        index: its number among the columns of the plan.
        in_star: whether `*` has it, and its name alone means it: not where USING has made one column of two.
    """

    name: str
    type: LogicalType
    table: tuple[str, ...]
    index: int
    in_star: bool = True


class Scope(Struct, frozen=True):
    """The columns that names may be, and the scope of the query around."""

    columns: tuple[ScopeColumn, ...] = ()
    outer: Scope | None = None
    aliases: tuple[str, ...] = ()
    """The names that SELECT gives, which mean nothing here."""

    def beside(self, other: Scope, by: int) -> Scope:
        """This scope with the columns of another, whose plan's stand `by` places further right."""
        moved = tuple(
            ScopeColumn(each.name, each.type, each.table, each.index + by, each.in_star) for each in other.columns
        )
        return Scope(self.columns + moved, self.outer)

    @property
    def table_names(self) -> frozenset[str]:
        """The names or aliases of its tables, as hints have them."""
        return frozenset(each.table[-1] for each in self.columns if each.table)

    def tables(self) -> dict[tuple[str, ...], list[ScopeColumn]]:
        """The columns of each table."""
        found: dict[tuple[str, ...], list[ScopeColumn]] = {}
        for column in self.columns:
            if column.table:
                found.setdefault(column.table, []).append(column)
        return found


def scope_of(rows: RowType, table: tuple[str, ...], outer: Scope | None = None) -> Scope:
    """The scope of one relation."""
    columns = (ScopeColumn(name, kind, table, place) for place, (name, kind) in enumerate(_pairs(rows)))
    return Scope(tuple(columns), outer)


def _pairs(rows: RowType) -> Iterable[tuple[str, LogicalType]]:
    return zip(rows.names, rows.types, strict=True)


def repeated_names(query: QueryBody) -> dict[str, list[int]]:
    """The names that a query gives several columns, with the places of these; `*` gives each another one."""
    while isinstance(query, Query | SetOperation):
        query = query.body if isinstance(query, Query) else query.left
    places: dict[str, list[int]] = {}
    items = query.items if isinstance(query, Select) else ()
    if not any(isinstance(item.expression, Star) for item in items):
        for place, item in enumerate(items):
            places.setdefault(own_name(item), []).append(place)
    return {name: found for name, found in places.items() if name and len(found) > 1}


def resolve(path: Path, scope: Scope, context: Context) -> BoundExpression:
    """The column that a path is, or the field of one.

    Raises:
        SqlValidationError: there is none, with the nearest one there is; or there are several.
    """
    found = _found(path, scope, context)
    if found is None:
        return _fail_unknown(path, scope, context)
    if context.expansion is not None:
        context.expansion.column(path, _written_out(path, found, scope, context))
    column, level = found.column, found.level
    bound: BoundExpression = Column(column.type, column.index)
    if level:
        bound = OuterColumn(column.type, column.index, level)
    return with_fields(bound, path.names[len(path.names) - found.fields :], context)


class _Found(Struct, frozen=True):
    """What a path is: a column of a scope so many levels around, and how many names behind it are of fields."""

    column: ScopeColumn
    level: int
    fields: int


def _found(path: Path, scope: Scope, context: Context) -> _Found | None:
    """As in Flink the path of a table in any scope goes before the field of a column in a nearer one."""
    for has_table in (True, False):
        level, current = 0, scope
        while True:
            counts = range(len(path.names) - 1, 0, -1) if has_table else (0,)
            for count in counts:
                column = _in_one(path, count, current, context)
                if column is not None:
                    return _Found(column, level, len(path.names) - count - 1)
            if current.outer is None:
                break
            level, current = level + 1, current.outer
    return None


def _written_out(path: Path, found: _Found, scope: Scope, context: Context) -> tuple[str, ...]:
    """The names of a column and its fields that mean the same wherever its table is: with the table's last name, or
    where that is another one's in between with all of its names, or else as they are written."""
    assert context.expansion is not None
    around = scope
    for _ in range(found.level):
        assert around.outer is not None
        around = around.outer
    rest = (found.column.name, *path.texts[len(path.texts) - found.fields :])
    short = (*context.expansion.name_of(found.column.table, list(around.tables())), *rest)
    whole = (*found.column.table, *rest)
    for names in (short, whole):
        if _found(Path(tuple(map(Name, names)), span=path.span), scope, context) == found:
            if names != short:
                context.expansion.name_whole(found.column.table)
            return names
    return path.texts


def known_as(column: ScopeColumn, scope: Scope, expansion: Expansion) -> tuple[str, ...]:
    """The names that mean a column wherever the tables of the scope are."""
    return (*expansion.name_of(column.table, list(scope.tables())), column.name)


def _in_one(path: Path, count: int, scope: Scope, context: Context) -> ScopeColumn | None:
    """The column that a path is in a scope, if so many of its names are of the table."""
    texts = path.texts
    found = [
        column
        for column in scope.columns
        if column.name == texts[count] and (_is_table(column.table, texts[:count]) if count else column.in_star)
    ]
    if len(found) > 1:
        tables = " and ".join(sorted({f"{each.table[-1]}.{each.name}" for each in found if each.table}))
        context.fail(path, f"{texts[count]!r} may be several columns: {tables or texts[count]}; say which one")
    return found[0] if found else None


def _is_table(table: tuple[str, ...], written: tuple[str, ...]) -> bool:
    return bool(written) and table[-len(written) :] == written


def with_fields(bound: BoundExpression, fields: Sequence[Name], context: Context) -> BoundExpression:
    """A field of a ROW, and a field of that, and so on."""
    for field in fields:
        kind = bound.type
        if not isinstance(kind, RowType):
            context.fail(field, f"{field.text!r} would be a field of a ROW, and this is {kind}")
        if field.text not in kind.names:
            hint = did_you_mean(field.text, kind.names)
            context.fail(field, f"no field {field.text!r}{hint}; fields: {', '.join(kind.names)}")
        bound = field_of(bound, kind.names.index(field.text))
    return bound


def field_of(row: BoundExpression, place: int) -> FieldAccess:
    """A field of a ROW by its number, which is NULL where the row is."""
    assert isinstance(row.type, RowType)
    kind = row.type.types[place]
    return FieldAccess(kind.with_nullability(kind.nullable or row.type.nullable), row, place, row.type.names[place])


def is_column(path: Path, scope: Scope) -> bool:
    """Whether a path is, or begins with, a column of the scope, rather than a table."""
    texts = path.texts
    return any(
        column.name == texts[count] and (_is_table(column.table, texts[:count]) if count else column.in_star)
        for count in range(len(texts))
        for column in scope.columns
    )


def _fail_unknown(path: Path, scope: Scope, context: Context) -> NoReturn:
    texts = path.texts
    tables = {table[-1]: columns for table, columns in scope.tables().items()}
    if len(texts) > 1 and texts[0] in tables:
        names = [each.name for each in tables[texts[0]]]
        hint = did_you_mean(texts[1], names)
        context.fail(path, f"no column {texts[1]!r} in {texts[0]}{hint}; columns: {', '.join(names)}")
    if len(texts) > 1:
        hint = did_you_mean(texts[0], tables)
        context.fail(path, f"no table {texts[0]!r} in FROM{hint}; tables: {', '.join(tables) or 'none'}")
    if texts[0] in scope.aliases:
        context.fail(
            path,
            f"{texts[0]!r} is a name that SELECT gives, and is known only behind it: write what it stands for, or "
            "select from a query that gives it",
        )
    names = list(dict.fromkeys(each.name for each in scope.columns))
    known = f"; columns: {', '.join(names)}" if names else "; there are none here"
    context.fail(path, f"no column {texts[0]!r}{did_you_mean(texts[0], names)}{known}")
