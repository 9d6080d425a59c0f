"""CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from flinkray.tables.syntax.expressions import Interval, Query
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.queries import QueryParser
from flinkray.tables.syntax.statements import (
    AlterTable,
    Change,
    ChangePartitions,
    ChangeSchema,
    Column,
    ColumnChange,
    ComputedColumn,
    CreateMaterializedTable,
    CreateTable,
    Distribution,
    DropFromSchema,
    LikeOption,
    LikeTable,
    MetadataColumn,
    Options,
    PartitionValue,
    PhysicalColumn,
    PlainColumn,
    Position,
    PrimaryKey,
    Refresh,
    Rename,
    RenameColumn,
    ResetOptions,
    SetComment,
    SetFreshness,
    SetOptions,
    SetQuery,
    Watermark,
)

_FEATURES = ("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")


class Schema(Struct):
    """What the parentheses of CREATE TABLE or ALTER TABLE hold, as it is read."""

    columns: list[ColumnChange] = []
    watermarks: list[Watermark] = []
    keys: list[PrimaryKey] = []
    distributions: list[Distribution] = []

    def plain_columns(self) -> tuple[Column, ...]:
        """The columns without the places that they go to."""
        return tuple(each.column for each in self.columns)


class TableParser(QueryParser):
    """Reads CREATE TABLE and ALTER TABLE."""

    # -- parts of many statements

    def options(self) -> Options:
        """`('key' = 'value', ...)`."""
        return self.in_parentheses(self._option)

    def _option(self) -> tuple[str, str]:
        key = self.string("an option in single quotes")
        self.expect("=")
        return key, self.string("the value of the option in single quotes")

    def with_options(self) -> Options:
        """`WITH ('key' = 'value', ...)`, where it comes next."""
        return self.options() if self.accept("WITH") else ()

    def comment(self) -> str | None:
        """`COMMENT 'text'`, where it comes next."""
        return self.string() if self.accept("COMMENT") else None

    def if_not_exists(self) -> bool:
        """Whether IF NOT EXISTS comes next."""
        return self.accept("IF", "NOT", "EXISTS")

    def partition(self) -> tuple[PartitionValue, ...]:
        """`PARTITION (name = value, ...)`, where it comes next."""
        return self.in_parentheses(self._partition_value) if self.accept("PARTITION") else ()

    def _partition_value(self) -> PartitionValue:
        mark = self.mark()
        column = self.name("a column")
        value = self.expression() if self.accept("=") else None
        return PartitionValue(column, value, span=self.since(mark))

    # -- schema

    def _schema_in_parentheses(self) -> Schema:
        schema = Schema()
        self.in_parentheses(lambda: self._schema_part(schema))
        return schema

    def _schema_part(self, schema: Schema) -> None:
        if self.at("WATERMARK"):
            schema.watermarks.append(self._watermark())
        elif self.at("CONSTRAINT") or self.at("PRIMARY", "KEY") or self.at("UNIQUE"):
            schema.keys.append(self._key(has_columns=True))
        else:
            mark = self.mark()
            column = self._column()
            position = self._column_position()
            schema.columns.append(ColumnChange(column, position, span=self.since(mark)))

    def _column_position(self) -> Position | None:
        mark = self.mark()
        if self.accept("FIRST"):
            return Position(span=self.since(mark))
        if self.accept("AFTER"):
            return Position(self.name("a column"), span=self.since(mark))
        return None

    def _watermark(self) -> Watermark:
        mark = self.mark()
        self.expect("WATERMARK", "FOR")
        column = self.path("a column")
        self.expect("AS")
        expression = self.expression()
        return Watermark(column, expression, span=self.since(mark))

    def _key(self, has_columns: bool) -> PrimaryKey:
        mark = self.mark()
        name = self.name("the name of a constraint") if self.accept("CONSTRAINT") else None
        kind = self.expect_any("PRIMARY", "UNIQUE")
        if kind == "PRIMARY":
            self.expect("KEY")
            kind = "PRIMARY KEY"
        columns = self.names() if has_columns else ()
        enforced: bool | None = None
        if self.accept("NOT", "ENFORCED"):
            enforced = False
        elif self.accept("ENFORCED"):
            enforced = True
        return PrimaryKey(columns, name, kind, enforced, span=self.since(mark))

    def _column(self) -> Column:
        mark = self.mark()
        name = self.name("a column")
        if self.accept("AS"):
            expression = self.expression()
            return ComputedColumn(name, expression, self.comment(), span=self.since(mark))
        if self.at(",") or self.at(")"):
            return PlainColumn(name, span=self.since(mark))
        kind = self.type_name()
        if self.accept("METADATA"):
            key = self.string("the key of the metadata in single quotes") if self.accept("FROM") else None
            virtual = self.accept("VIRTUAL")
            return MetadataColumn(name, kind, key, virtual, self.comment(), span=self.since(mark))
        has_key = self.at("CONSTRAINT") or self.at("PRIMARY") or self.at("UNIQUE")
        primary = self._key(has_columns=False) if has_key else None
        return PhysicalColumn(name, kind, primary, self.comment(), span=self.since(mark))

    def _distribution(self) -> Distribution | None:
        """`DISTRIBUTED BY HASH (a) INTO 4 BUCKETS`, `DISTRIBUTED INTO 4 BUCKETS`, and the same behind DISTRIBUTION."""
        mark = self.mark()
        if not self.accept_any("DISTRIBUTED", "DISTRIBUTION"):
            return None
        kind, columns = "", tuple[Name, ...]()
        if self.accept("BY"):
            kind = self.accept_any("HASH", "RANGE")
            columns = self.names()
        buckets = None
        if self.accept("INTO"):
            buckets = self.integer()
            self.expect("BUCKETS")
        return Distribution(kind, columns, buckets, span=self.since(mark))

    # -- CREATE TABLE

    def create_table(self, mark: int, temporary: bool, replaces: str) -> CreateTable:
        """What stands behind `CREATE TABLE`."""
        if_not_exists = self.if_not_exists()
        table = self.path("a table")
        schema = self._schema_in_parentheses() if self.at("(") else Schema()
        comment = self.comment()
        distribution = self._distribution()
        partitioned_by = self.names() if self.accept("PARTITIONED", "BY") else ()
        options = self.with_options()
        like = self._like() if self.at("LIKE") else None
        query = self.query() if like is None and self.accept("AS") else None
        return CreateTable(
            table,
            schema.plain_columns(),
            tuple(schema.watermarks),
            tuple(schema.keys),
            comment,
            distribution,
            partitioned_by,
            options,
            like,
            query,
            temporary,
            if_not_exists,
            replaces,
            span=self.since(mark),
        )

    def _like(self) -> LikeTable:
        mark = self.mark()
        self.expect("LIKE")
        table = self.path("a table")
        options: list[LikeOption] = []
        if self.accept("("):
            while not self.at(")"):
                options.append(self._like_option())
                self.accept(",")
            self.expect(")")
        return LikeTable(table, tuple(options), span=self.since(mark))

    def _like_option(self) -> LikeOption:
        mark = self.mark()
        strategy = self.expect_any("INCLUDING", "EXCLUDING", "OVERWRITING")
        return LikeOption(strategy, self.expect_any(*_FEATURES), span=self.since(mark))

    def create_materialized_table(self, mark: int, or_alter: bool) -> CreateMaterializedTable:
        """What stands behind `CREATE MATERIALIZED TABLE`."""
        if_not_exists = self.if_not_exists()
        table = self.path("a table")
        schema = self._schema_in_parentheses() if self.at("(") else Schema()
        comment = self.comment()
        distribution = self._distribution()
        partitioned_by = self.names() if self.accept("PARTITIONED", "BY") else ()
        options = self.with_options()
        freshness = self._freshness() if self.accept("FRESHNESS", "=") else None
        refresh_mode = self.expect_any("FULL", "CONTINUOUS") if self.accept("REFRESH_MODE", "=") else ""
        self.expect("AS")
        query = self.query()
        return CreateMaterializedTable(
            table,
            query,
            schema.plain_columns(),
            tuple(schema.watermarks),
            tuple(schema.keys),
            comment,
            distribution,
            partitioned_by,
            options,
            freshness,
            refresh_mode,
            or_alter,
            if_not_exists,
            span=self.since(mark),
        )

    def _freshness(self) -> Interval:
        found = self.expression()
        if not isinstance(found, Interval):
            self.fail("FRESHNESS takes an interval, such as INTERVAL '1' HOUR", self.ahead(-1))
        return found

    # -- ALTER TABLE

    def alter_table(self, mark: int, kind: str) -> AlterTable:
        """What stands behind `ALTER TABLE`."""
        if_exists = self.accept("IF", "EXISTS")
        table = self.path("a table")
        place = self.mark()
        change = self._table_change(place)
        return AlterTable(table, change, if_exists, kind, span=self.since(mark))

    def _table_change(self, mark: int) -> Change:
        readers: dict[str, Callable[[int], Change]] = {
            "ADD": self._add,
            "MODIFY": self._modify,
            "DROP": self._drop,
            "RENAME": self._rename,
            "SET": self._set,
            "RESET": self.reset_options,
            "AS": self.as_query,
            "SUSPEND": self._refresh,
            "RESUME": self._refresh,
            "REFRESH": self._refresh,
        }
        for word, read in readers.items():
            if self.at(word):
                return read(mark)
        return self.fail_expecting("ADD, MODIFY, DROP, RENAME, SET or RESET")

    def _add(self, mark: int) -> Change:
        self.expect("ADD")
        if self.at("PARTITION") or self.at("IF"):
            exists = self.if_not_exists()
            partitions: list[tuple[PartitionValue, ...]] = []
            options: list[Options] = []
            while not partitions or self.at("PARTITION"):
                partitions.append(self.partition() or self.fail_expecting("PARTITION"))
                options.append(self.with_options())
            return ChangePartitions("ADD", tuple(partitions), tuple(options), exists, span=self.since(mark))
        return self._change_schema("ADD", mark)

    def _modify(self, mark: int) -> Change:
        self.expect("MODIFY")
        return self._change_schema("MODIFY", mark)

    def _change_schema(self, verb: str, mark: int) -> Change:
        schema = Schema()
        distribution = self._distribution()
        if distribution is None and self.at("("):
            schema = self._schema_in_parentheses()
        elif distribution is None:
            self._schema_part(schema)
        return ChangeSchema(
            verb,
            tuple(schema.columns),
            tuple(schema.keys),
            tuple(schema.watermarks),
            distribution,
            span=self.since(mark),
        )

    def _drop(self, mark: int) -> Change:
        self.expect("DROP")
        for what in ("PRIMARY KEY", "WATERMARK", "DISTRIBUTION"):
            if self.accept(*what.split()):
                return DropFromSchema(what, span=self.since(mark))
        if self.accept("CONSTRAINT"):
            name = self.path("the name of a constraint")
            return DropFromSchema("CONSTRAINT", (name,), span=self.since(mark))
        if self.at("PARTITION") or self.at("IF"):
            exists = self.accept("IF", "EXISTS")
            partitions = self.separated(lambda: self.partition() or self.fail_expecting("PARTITION"))
            return ChangePartitions("DROP", partitions, (), exists, span=self.since(mark))

        def column() -> Path:
            return self.path("a column")

        columns = self.in_parentheses(column) if self.at("(") else (column(),)
        return DropFromSchema("", columns, span=self.since(mark))

    def _rename(self, mark: int) -> Change:
        self.expect("RENAME")
        if self.at("TO"):
            return self.rename_to(mark)
        old = self.path("a column")
        self.expect("TO")
        new: Name = self.name("the new name")
        return RenameColumn(old, new, span=self.since(mark))

    def rename_to(self, mark: int) -> Rename:
        """`[RENAME] TO name`."""
        self.accept("RENAME")
        self.expect("TO")
        return Rename(self.path("the new name"), span=self.since(mark))

    def _set(self, mark: int) -> Change:
        self.expect("SET")
        if self.accept("FRESHNESS", "="):
            return SetFreshness(self._freshness(), span=self.since(mark))
        if self.accept("REFRESH_MODE", "="):
            mode = self.expect_any("FULL", "CONTINUOUS")
            return SetFreshness(None, mode, span=self.since(mark))
        return SetOptions(self.options(), span=self.since(mark))

    def set_options(self, mark: int) -> SetOptions:
        """`SET (...)`."""
        self.expect("SET")
        return SetOptions(self.options(), span=self.since(mark))

    def reset_options(self, mark: int) -> ResetOptions:
        """`RESET ('key', ...)`."""
        self.expect("RESET")
        keys = self.in_parentheses(lambda: self.string("an option in single quotes"))
        return ResetOptions(keys, span=self.since(mark))

    def set_comment(self, mark: int) -> SetComment:
        """`COMMENT 'text'`."""
        self.expect("COMMENT")
        return SetComment(self.string(), span=self.since(mark))

    def as_query(self, mark: int) -> SetQuery:
        """`AS query`."""
        self.expect("AS")
        query: Query = self.query()
        return SetQuery(query, span=self.since(mark))

    def _refresh(self, mark: int) -> Change:
        verb = self.expect_any("SUSPEND", "RESUME", "REFRESH")
        options = self.with_options() if verb == "RESUME" else ()
        partition = self.partition() if verb == "REFRESH" else ()
        return Refresh(verb, options, partition, span=self.since(mark))
