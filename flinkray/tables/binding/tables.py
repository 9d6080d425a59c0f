"""CREATE TABLE: columns, keys, watermarks, and what LIKE and AS bring."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from flinkray.errors import InvalidProgramError, did_you_mean
from flinkray.tables.binding.constants import type_of
from flinkray.tables.binding.context import Context
from flinkray.tables.binding.expressions import ExpressionBinder
from flinkray.tables.binding.queries import QueryPlanner
from flinkray.tables.binding.scope import Scope, scope_of
from flinkray.tables.catalog import View
from flinkray.tables.plans.expressions import Plan
from flinkray.tables.plans.nodes import row_type
from flinkray.tables.plans.tables import ColumnKind, Table, TableColumn, WatermarkStrategy
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.expressions import Query
from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.unparsing.expressions import expression_text
from flinkray.tables.types.logical import TIMESTAMP, TIMESTAMPS, RowType, TimeAttribute, TimestampType, TypeRoot

_MOST_DIGITS = 3
"""Digits of a second that a time attribute has: watermarks are milliseconds."""


class TableBinder:
    """Binds one CREATE TABLE."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def table(self, node: syntax.CreateTable, query: Plan | None) -> Table:
        """The table of a statement; `query` is the plan behind AS."""
        base = self._like(node)
        columns, key = self._columns(node, base, query)
        watermark = base.watermark if base is not None and not node.watermarks else None
        if node.watermarks:
            watermark = self._watermark(node.watermarks, columns)
        for name in node.partitioned_by:
            self._known(name, [each.name for each in columns], "PARTITIONED BY")
        options = dict(() if base is None else base.options) | dict(node.options)
        try:
            path = self.context.catalog.path(node.table.texts)
        except InvalidProgramError as error:
            self.context.fail(node.table, error)
        partitioned = tuple(each.text for each in node.partitioned_by) or (() if base is None else base.partitioned_by)
        # The comment of a table that this one is LIKE is that one's own, as in Flink.
        return Table(path, tuple(columns), watermark, key, partitioned, tuple(options.items()), node.comment)

    # -- columns

    def _columns(
        self, node: syntax.CreateTable, base: Table | None, query: Plan | None
    ) -> tuple[list[TableColumn], tuple[str, ...]]:
        """The columns, and which of them are the key: these are not null, also to what is computed of them."""
        columns = [] if base is None else list(base.columns)
        for column in node.columns:
            if isinstance(column, syntax.PlainColumn) and query is None:
                self.context.fail(column.name, f"column {column.name.text!r} has no type, which only AS gives it")
            if isinstance(column, syntax.ComputedColumn | syntax.PlainColumn):
                continue
            columns.append(self._stored(column))
        queried = {} if query is None else {each.name: each for each in self._queried(node, query)}
        # Those that the statement has besides come first, and it may give those of the query another type.
        said = {each.name: each for each in columns}
        columns = [each for each in columns if each.name not in queried]
        columns += [said.get(name, each) for name, each in queried.items()]
        key = self._primary_key(node, columns)
        if base is not None:
            for name in key:
                if any(each.name == name and each.type.nullable for each in base.columns):
                    problem = f"PRIMARY KEY: column {name!r} of {base.path[2]} may be NULL, and LIKE takes it as it is"
                    self.context.fail(node, problem)
            key = key or base.primary_key
        columns = [replace(each, type=each.type.not_null()) if each.name in key else each for each in columns]
        stored = row_type([each.name for each in columns], [each.type for each in columns])
        places = {each.name: place for place, each in enumerate(columns)}
        ordered: list[TableColumn] = [] if base is None else list(columns)
        for column in node.columns:
            if isinstance(column, syntax.ComputedColumn):
                ordered.append(self._computed(column, stored))
            elif base is None and column.name.text not in queried:
                ordered.append(columns[places[column.name.text]])
        ordered += [each for each in columns if each.name in queried]
        self._check_names(node, ordered)
        return ordered, key

    def _stored(self, column: syntax.Column) -> TableColumn:
        name = column.name.text
        if isinstance(column, syntax.MetadataColumn):
            kind = type_of(column.type, self.context)
            key = name if column.key is None else column.key
            return TableColumn(name, kind, ColumnKind.METADATA, None, key, column.virtual, column.comment)
        assert isinstance(column, syntax.PhysicalColumn)
        return TableColumn(name, type_of(column.type, self.context), comment=column.comment)

    def _computed(self, column: syntax.ComputedColumn, stored: RowType) -> TableColumn:
        bound = self._binder(stored, "a computed column").bind(column.expression)
        text = expression_text(column.expression)
        return TableColumn(column.name.text, bound.type, ColumnKind.COMPUTED, bound, comment=column.comment, text=text)

    def _binder(self, rows: RowType, where: str) -> ExpressionBinder:
        return ExpressionBinder(self.context, scope_of(rows, ()), self._no_query, where)

    def _no_query(self, query: Query, scope: Scope) -> Plan:
        self.context.fail(query, "columns and watermarks are computed of the row alone, without a query")

    def _queried(self, node: syntax.CreateTable, query: Plan) -> list[TableColumn]:
        """The columns of AS, in the order of the statement's names where it has some."""
        rows = query.row_type
        kinds = [each.as_attribute(None) if isinstance(each, TimestampType) else each for each in rows.types]
        found = {name: TableColumn(name, kind) for name, kind in zip(rows.names, kinds, strict=True)}
        names = [each.name for each in node.columns if isinstance(each, syntax.PlainColumn)]
        for name in names:
            self._known(name, list(found), "the query")
        if names and len(names) != len(found):
            self.context.fail(names[0], f"the statement names {len(names)} columns, and the query has {len(found)}")
        return [found[each.text] for each in names] if names else list(found.values())

    def _check_names(self, node: syntax.CreateTable, columns: Sequence[TableColumn]) -> None:
        names = [each.name for each in columns]
        for column in node.columns:
            if names.count(column.name.text) > 1:
                self.context.fail(column.name, f"there are several columns {column.name.text!r}")

    def _known(self, name: Name, names: Sequence[str], where: str) -> None:
        if name.text not in names:
            hint = did_you_mean(name.text, names)
            self.context.fail(name, f"{where}: no column {name.text!r}{hint}; columns: {', '.join(names)}")

    # -- keys and watermarks

    def _primary_key(self, node: syntax.CreateTable, columns: Sequence[TableColumn]) -> tuple[str, ...]:
        found: list[tuple[syntax.PrimaryKey, tuple[Name, ...]]] = [(each, each.columns) for each in node.keys]
        found += [
            (each.key, (each.name,))
            for each in node.columns
            if isinstance(each, syntax.PhysicalColumn) and each.key is not None
        ]
        if not found:
            return ()
        for key, _ in found:
            if key.kind != "PRIMARY KEY":
                self.context.fail(key, "a table has no UNIQUE, only a PRIMARY KEY")
            if key.enforced is not False:
                self.context.fail(key, "nobody checks a PRIMARY KEY: write PRIMARY KEY ... NOT ENFORCED")
        if len(found) > 1:
            self.context.fail(found[1][0], "a table has one PRIMARY KEY")
        _, names = found[0]
        stored = [each.name for each in columns if each.kind is ColumnKind.PHYSICAL]
        for name in names:
            self._known(name, stored, "PRIMARY KEY")
        return tuple(each.text for each in names)

    def _watermark(self, nodes: Sequence[syntax.Watermark], columns: Sequence[TableColumn]) -> WatermarkStrategy:
        if len(nodes) > 1:
            self.context.fail(nodes[1], "a table has one WATERMARK")
        node = nodes[0]
        names = [each.name for each in columns]
        if len(node.column.names) != 1:
            self.context.fail(node.column, "a rowtime attribute is a column: compute one of this field")
        self._known(node.column.names[0], names, "WATERMARK FOR")
        column = columns[names.index(node.column.texts[0])]
        kind = column.type
        if not isinstance(kind, TimestampType) or kind.precision > _MOST_DIGITS:
            problem = f"column {column.name!r} is {kind}; a rowtime attribute is TIMESTAMP(3) or TIMESTAMP_LTZ(3)"
            if kind.root is TypeRoot.BIGINT:
                problem += f": compute one, such as time_of AS TO_TIMESTAMP_LTZ({column.name}, 3) of milliseconds"
            elif kind.root is TypeRoot.VARCHAR:
                problem += f": compute one, such as time_of AS TO_TIMESTAMP({column.name})"
            self.context.fail(node.column, problem)
        rows = row_type(names, [each.type for each in columns])
        bound = self._binder(rows, "WATERMARK").bind(node.expression)
        if bound.type.root not in TIMESTAMPS:
            self.context.fail(node.expression, f"a watermark is a {TIMESTAMP(3)}, and this is {bound.type}")
        attribute = kind.as_attribute(TimeAttribute.ROWTIME)
        return WatermarkStrategy(column.name, bound, attribute, expression_text(node.expression))

    # -- LIKE

    def _like(self, node: syntax.CreateTable) -> Table | None:
        """What LIKE takes of the other table; None without LIKE."""
        if node.like is None:
            return None
        try:
            source = self.context.catalog.get(node.like.table.texts)
        except InvalidProgramError as error:
            self.context.fail(node.like.table, error)
        if isinstance(source, View):
            self.context.fail(node.like.table, f"LIKE takes a table, and {source.path[2]!r} is a view")
        left_out = {each.feature for each in node.like.options if each.strategy == "EXCLUDING"}
        taken = {each.feature for each in node.like.options if each.strategy != "EXCLUDING"}
        if "ALL" in left_out:
            left_out = {"CONSTRAINTS", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS"} - taken
        kinds = {ColumnKind.COMPUTED: "GENERATED", ColumnKind.METADATA: "METADATA"}
        columns = tuple(each for each in source.columns if kinds.get(each.kind) not in left_out)
        return replace(
            source,
            columns=columns,
            watermark=None if "WATERMARKS" in left_out else source.watermark,
            primary_key=() if "CONSTRAINTS" in left_out else source.primary_key,
            partitioned_by=() if "PARTITIONS" in left_out else source.partitioned_by,
            options=() if "OPTIONS" in left_out else source.options,
        )


def created_table(node: syntax.CreateTable, context: Context) -> tuple[Table, Plan | None]:
    """The table of CREATE TABLE, and the plan of the query that fills it, where there is one."""
    query = None if node.query is None else QueryPlanner(context).bind(node.query, Scope())
    return TableBinder(context).table(node, query), query
