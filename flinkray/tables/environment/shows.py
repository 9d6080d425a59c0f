"""SHOW and DESCRIBE: what catalogs have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError, SqlUnsupportedError, SqlValidationError
from flinkray.tables.catalog import Catalog, View
from flinkray.tables.environment.answers import Answer, listed, tabled, text
from flinkray.tables.environment.create_texts import (
    create_catalog_text,
    create_table_text,
    create_view_text,
    metadata_text,
)
from flinkray.tables.environment.schema_changes import partition_name, partition_of
from flinkray.tables.functions.registry import FUNCTIONS
from flinkray.tables.plans.tables import ColumnKind, Table, TableColumn
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.names import Path
from flinkray.tables.types.logical import RowType, TimeAttribute, TimestampType

T = TypeVar("T")
_DESCRIBED = ("name", "type", "null", "key", "extras", "watermark")
_DESCRIBED_TYPES = (str, str, bool, str, str, str)


def is_unnamed(name: str) -> bool:
    """Whether a name was given to what a program has given none."""
    return name.startswith("*")


class Shows:
    """Answers one SHOW or DESCRIBE; reads the catalog only.

    Args:
        is_batch: whether statements run in batch mode, where no column is a rowtime attribute.
    """

    def __init__(self, catalog: Catalog, sql: str, is_batch: bool) -> None:
        self.catalog = catalog
        self.sql = sql
        self.is_batch = is_batch

    def show(self, node: syntax.Show) -> Answer:
        """The answer of SHOW.

        Raises:
            SqlValidationError: what it is of is not there.
            SqlUnsupportedError: there is no such thing here.
        """
        answers: dict[str, Callable[[syntax.Show], Answer]] = {
            "CATALOGS": lambda _: listed("catalog name", self.catalog.catalogs()),
            "DATABASES": self._databases,
            "TABLES": lambda _: listed("table name", self._names(node, Table, View)),
            "VIEWS": lambda _: listed("view name", self._names(node, View)),
            "FUNCTIONS": lambda _: listed("function name", {*self._user_functions(), *map(str.lower, _callable())}),
            "USER FUNCTIONS": lambda _: listed("function name", self._user_functions()),
            "CURRENT CATALOG": lambda _: listed("current catalog name", [self.catalog.current_catalog]),
            "CURRENT DATABASE": lambda _: listed("current database name", [self.catalog.current_database]),
            "MODULES": lambda _: listed("module name", ["core"]),
            "FULL MODULES": lambda _: tabled(("module name", "used"), [("core", True)], (str, bool)),
            "MATERIALIZED TABLES": lambda _: listed("materialized table", []),
            "MODELS": lambda _: listed("model name", []),
            "PROCEDURES": lambda _: listed("procedure name", []),
            "JARS": lambda _: listed("jars", []),
            "COLUMNS": self._columns,
            "PARTITIONS": self._partitions,
            "CREATE TABLE": self._create,
            "CREATE VIEW": self._create,
            "CREATE CATALOG": self._create_catalog,
        }
        if node.subject not in answers:
            message = f"SHOW {node.subject} is not there"
            raise SqlUnsupportedError(message, self.sql, node.span.start, node.span.end)
        answer = answers[node.subject](node)
        if node.operator:
            matches = _like(node.operator, node.pattern)
            answer = tabled_as(answer, (row for row in answer.rows if matches(row[0])))
        return answer if node.subject in _ORDERED else tabled_as(answer, sorted(answer.rows))

    def describe(self, node: syntax.Describe) -> Answer:
        """The answer of DESCRIBE."""
        if node.kind == "TABLE":
            return self._described(self._table(node.path))
        if node.kind == "CATALOG":
            return self._describe_catalog(node)
        if node.kind == "DATABASE":
            return self._describe_database(node)
        message = f"DESCRIBE {node.kind} is not there; DESCRIBE tables, views, databases and catalogs"
        raise SqlUnsupportedError(message, self.sql, node.span.start, node.span.end)

    # -- names

    def _databases(self, node: syntax.Show) -> Answer:
        catalog = self.catalog.current_catalog if node.path is None else node.path.texts[0]
        return listed("database name", self._found(node.path, lambda: self.catalog.databases(catalog)))

    def _names(self, node: syntax.Show, *kinds: type[Table | View]) -> list[str]:
        """Tables of these kinds in the database that the statement names, or the current one."""
        path, database = node.path, (self.catalog.current_catalog, self.catalog.current_database)
        if path is not None:
            catalog, named = self._found(path, lambda: self.catalog.database(path.texts))
            database = (catalog, named.name)
        inside = [each for each in self.catalog.tables() if each.path[:2] == database and isinstance(each, kinds)]
        return [each.path[2] for each in inside if not is_unnamed(each.path[2])]

    def _user_functions(self) -> list[str]:
        return [each.name.lower() for each in self.catalog.functions() if not is_unnamed(each.name)]

    def _found(self, path: Path | None, find: Callable[[], T]) -> T:
        try:
            return find()
        except InvalidProgramError as error:
            span = (0, len(self.sql)) if path is None else (path.span.start, path.span.end)
            raise SqlValidationError(str(error), self.sql, *span) from error

    # -- tables

    def _table(self, path: Path) -> Table | View:
        return self._found(path, lambda: self.catalog.get(path.texts))

    def _columns(self, node: syntax.Show) -> Answer:
        assert node.path is not None
        return self._described(self._table(node.path))

    def _partitions(self, node: syntax.Show) -> Answer:
        assert node.path is not None
        table = self._table(node.path)
        if isinstance(table, View) or not table.partitioned_by:
            message = f"{table.path[2]!r} has no partitions"
            raise SqlValidationError(message, self.sql, node.path.span.start, node.path.span.end)
        wanted = set(partition_of(table, node.partition, self.sql))
        found = [each for each in self.catalog.partitions(table.path) if wanted <= set(each)]
        return listed("partition name", map(partition_name, found))

    def _described(self, table: Table | View) -> Answer:
        if isinstance(table, View):
            return described(table.row_type, self.is_batch)
        rows = [(*_described_column(column, table, self.is_batch), column.comment) for column in table.columns]
        if any(column.comment is not None for column in table.columns):
            return tabled((*_DESCRIBED, "comment"), rows, (*_DESCRIBED_TYPES, str), null_text="")
        return tabled(_DESCRIBED, [row[:-1] for row in rows], _DESCRIBED_TYPES, null_text="")

    def _create(self, node: syntax.Show) -> Answer:
        assert node.path is not None
        table, wanted = self._table(node.path), node.subject.rpartition(" ")[2]
        if isinstance(table, View) != (wanted == "VIEW"):
            is_it = "view" if isinstance(table, View) else "table"
            message = f"{table.path[2]!r} is a {is_it}: SHOW CREATE {is_it.upper()}"
            raise SqlValidationError(message, self.sql, node.path.span.start, node.path.span.end)
        if isinstance(table, View) and table.plan is not None:
            message = f"{table.path[2]!r} was made in Python, and has no statement that creates it"
            raise SqlValidationError(message, self.sql, node.path.span.start, node.path.span.end)
        temporary = self.catalog.is_temporary(table.path)
        write = create_view_text(table, temporary) if isinstance(table, View) else create_table_text(table, temporary)
        return text(write)

    # -- catalogs and databases

    def _create_catalog(self, node: syntax.Show) -> Answer:
        assert node.path is not None
        name = node.path.texts[0]
        return text(create_catalog_text(self._found(node.path, lambda: self.catalog.catalog(name))))

    def _describe_catalog(self, node: syntax.Describe) -> Answer:
        found = self._found(node.path, lambda: self.catalog.catalog(node.path.texts[0]))
        options = dict(found.options)
        rows: list[tuple[str, str | None]]
        rows = [("name", found.name), ("type", options.pop("type")), ("comment", found.comment)]
        if node.extended:
            rows += [(f"option:{key}", value) for key, value in sorted(options.items())]
        return tabled(("info name", "info value"), rows)

    def _describe_database(self, node: syntax.Describe) -> Answer:
        catalog, found = self._found(node.path, lambda: self.catalog.database(node.path.texts))
        rows = [("name", found.name), ("catalog", catalog), ("comment", found.comment or "")]
        if node.extended:
            rows += [(f"option:{key}", value) for key, value in sorted(found.options)]
        return tabled(("info name", "info value"), rows)


_ORDERED = frozenset({"COLUMNS", "CREATE TABLE", "CREATE VIEW", "CREATE CATALOG"})
"""What is shown in the order that it has."""


def tabled_as(answer: Answer, rows: Iterable[tuple[object, ...]]) -> Answer:
    """The answer with other rows."""
    return replace(answer, rows=tuple(rows))


def described(rows: RowType, is_batch: bool) -> Answer:
    """DESCRIBE of rows that are no table's."""
    columns = [_described_column(TableColumn(field.name, field.type), None, is_batch) for field in rows.fields]
    return tabled(_DESCRIBED, columns, _DESCRIBED_TYPES, null_text="")


def _described_column(
    column: TableColumn, table: Table | None, is_batch: bool
) -> tuple[str, str, bool, str | None, str | None, str | None]:
    kind, watermark, key = column.type, None, None
    if table is not None and table.watermark is not None and table.watermark.column == column.name:
        watermark, kind = table.watermark.text, table.watermark.type
    if table is not None and column.name in table.primary_key:
        key = f"PRI({', '.join(table.primary_key)})"
    shown = str(kind.as_nullable())
    if isinstance(kind, TimestampType) and kind.attribute is not None:
        is_shown = not is_batch or kind.attribute is TimeAttribute.PROCTIME
        shown = f"{kind.summary()} *{kind.attribute.value}*" if is_shown else kind.summary()
    extras = {ColumnKind.COMPUTED: f"AS {column.text}", ColumnKind.METADATA: metadata_text(column)}
    return column.name, shown, kind.nullable, key, extras.get(column.kind), watermark


def _callable() -> list[str]:
    """The functions that are called by a name, not by an operator."""
    return [name for name in FUNCTIONS if re.fullmatch(r"\w+", name)]


def _like(operator: str, pattern: str) -> Callable[[str], bool]:
    wild = "".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern)
    compiled = re.compile(wild, re.DOTALL | (re.IGNORECASE if "ILIKE" in operator else 0))
    negated = operator.startswith("NOT")
    return lambda name: (compiled.fullmatch(name) is None) == negated
