"""ALTER TABLE: the table that a changed CREATE TABLE of it would make, and partitions that statements name."""

from __future__ import annotations

from typing import Any, NoReturn

from msgspec.structs import replace

from flinkray.errors import SqlUnsupportedError, SqlValidationError, did_you_mean
from flinkray.tables.binding.binder import Binder
from flinkray.tables.catalog import Catalog, Partition
from flinkray.tables.environment.create_texts import create_table_text
from flinkray.tables.plans.tables import Table
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.expressions import Number, Prefix, Reference, Text
from flinkray.tables.syntax.names import Path
from flinkray.tables.syntax.nodes import Node
from flinkray.tables.syntax.parsing.parser import parse_statement
from flinkray.tables.syntax.unparsing.statements import statement_text


def altered(table: Table, node: syntax.AlterTable, catalog: Catalog, sql: str) -> Table:
    """The table after ALTER TABLE.

    Raises:
        SqlError: the change does not fit the table, or cannot be made here.
    """
    change = node.change
    if isinstance(change, syntax.SetOptions):
        return replace(table, options=tuple((dict(table.options) | dict(change.options)).items()))
    if isinstance(change, syntax.ResetOptions):
        if "connector" in change.keys:
            message = "a table keeps its connector: SET another one"
            raise SqlValidationError(message, sql, change.span.start, change.span.end)
        return replace(table, options=tuple((key, value) for key, value in table.options if key not in change.keys))
    if isinstance(change, syntax.SetComment):
        return replace(table, comment=change.comment)
    created = parse_statement(create_table_text(table))
    assert isinstance(created, syntax.CreateTable)
    changed = _Schema(created, sql).changed(change)
    # Written and read again, so that an error shows the table that it would be.
    text = statement_text(changed)
    again = parse_statement(text)
    assert isinstance(again, syntax.CreateTable)
    return Binder(catalog, text).table(again)[0]


_COMMENTED = syntax.PhysicalColumn | syntax.MetadataColumn | syntax.ComputedColumn
"""Columns that may have a comment."""


class _Schema:
    """Changes the columns, keys and watermark of a CREATE TABLE."""

    def __init__(self, created: syntax.CreateTable, sql: str) -> None:
        self.created = created
        self.sql = sql

    def _fail(self, node: Node, message: str) -> NoReturn:
        raise SqlValidationError(message, self.sql, node.span.start, node.span.end)

    def changed(self, change: syntax.Change) -> syntax.CreateTable:
        if isinstance(change, syntax.ChangeSchema) and change.distribution is None:
            return self._with(change)
        if isinstance(change, syntax.DropFromSchema) and change.what != "DISTRIBUTION":
            return self._without(change)
        if isinstance(change, syntax.RenameColumn):
            return self._renamed(change)
        message = "ALTER TABLE takes columns, keys, watermarks, options, a comment and names here, nothing else"
        raise SqlUnsupportedError(message, self.sql, change.span.start, change.span.end)

    def _with(self, change: syntax.ChangeSchema) -> syntax.CreateTable:
        columns = list(self.created.columns)
        for each in change.columns:
            place = self._place(each.column.name.text)
            if change.verb == "ADD" and place is not None:
                self._fail(each.column, f"there is a column {each.column.name.text!r} already: MODIFY it")
            if change.verb == "MODIFY" and place is None:
                self._fail(each.column, f"there is no column {each.column.name.text!r}: ADD it")
            names = [column.name.text for column in columns]
            at, column = len(columns), each.column
            if place is not None:
                at = names.index(column.name.text)
                if isinstance(column, _COMMENTED) and column.comment is None:  # what is not said anew stays
                    column = replace(column, comment=getattr(columns[at], "comment", None))
                del columns[at], names[at]
            if each.position is not None:
                after = each.position.after
                if after is not None and after.text not in names:
                    self._fail(after, f"there is no column {after.text!r}; columns: {', '.join(names)}")
                at = 0 if after is None else names.index(after.text) + 1
            columns.insert(at, column)
        if change.verb == "ADD" and ((change.keys and self.created.keys) or (change.watermarks and self._watermarks)):
            self._fail(change, "the table has one already: MODIFY it")
        lacks = (change.keys and not self.created.keys) or (change.watermarks and not self._watermarks)
        if change.verb == "MODIFY" and lacks:
            self._fail(change, "the table has none yet: ADD it")
        keys, watermarks = change.keys or self.created.keys, change.watermarks or self._watermarks
        return replace(self.created, columns=tuple(columns), keys=keys, watermarks=watermarks)

    @property
    def _watermarks(self) -> tuple[syntax.Watermark, ...]:
        return self.created.watermarks

    def _place(self, name: str) -> int | None:
        names = [column.name.text for column in self.created.columns]
        return names.index(name) if name in names else None

    def _without(self, change: syntax.DropFromSchema) -> syntax.CreateTable:
        if change.what in ("PRIMARY KEY", "CONSTRAINT"):
            if not self.created.keys:
                self._fail(change, "the table has no PRIMARY KEY")
            return replace(self.created, keys=())
        if change.what == "WATERMARK":
            if not self._watermarks:
                self._fail(change, "the table has no WATERMARK")
            return replace(self.created, watermarks=())
        dropped = [each.texts[0] for each in change.names]
        for each in change.names:
            if self._place(each.texts[0]) is None:
                self._fail_unknown(each)
            self._refuse_use(each, {name for name in dropped if name != each.texts[0]})
        columns = tuple(column for column in self.created.columns if column.name.text not in dropped)
        return replace(self.created, columns=columns)

    def _fail_unknown(self, path: Path) -> NoReturn:
        names = [column.name.text for column in self.created.columns]
        hint = did_you_mean(path.texts[0], names)
        self._fail(path, f"there is no column {path.texts[0]!r}{hint}; columns: {', '.join(names)}")

    def _refuse_use(self, column: Path, but: set[str]) -> None:
        """Raise where the watermark, or a column that is computed and not among these, is computed of a column."""
        name = column.texts[0]
        for each in self.created.columns:
            if isinstance(each, syntax.ComputedColumn) and each.name.text not in but and _reads(each.expression, name):
                self._fail(column, f"column {each.name.text!r} is computed of {name!r}: change or DROP that one first")
        for watermark in self._watermarks:
            if name in watermark.column.texts or _reads(watermark.expression, name):
                self._fail(column, f"the watermark is computed of {name!r}: DROP WATERMARK first")

    def _renamed(self, change: syntax.RenameColumn) -> syntax.CreateTable:
        old = change.old.texts[0]
        place = self._place(old)
        if place is None:
            self._fail_unknown(change.old)
        if self._place(change.new.text) is not None:
            self._fail(change.new, f"there is a column {change.new.text!r} already: DROP it, or give another name")
        self._refuse_use(change.old, set())
        columns = list(self.created.columns)
        columns[place] = replace(columns[place], name=change.new)
        if any(name.text == old for key in self.created.keys for name in key.columns):
            keys = tuple(
                replace(key, columns=tuple(change.new if name.text == old else name for name in key.columns))
                for key in self.created.keys
            )
            return replace(self.created, columns=tuple(columns), keys=keys)
        return replace(self.created, columns=tuple(columns))


def _reads(node: Any, column: str) -> bool:
    """Whether an expression names a column."""
    if isinstance(node, tuple):
        return any(_reads(each, column) for each in node)
    if isinstance(node, Reference):
        return column in node.path.texts
    return isinstance(node, Node) and any(_reads(getattr(node, name), column) for name in node.__struct_fields__)


# -- partitions


def partition_of(table: Table, values: tuple[syntax.PartitionValue, ...], sql: str) -> Partition:
    """What `PARTITION (name = value, ...)` says of the partition columns of a table, in their order.

    Raises:
        SqlValidationError: a column is none of these, or a value is no constant.
    """
    found = {}
    for each in values:
        name, value, sign = each.column.text, each.value, ""
        if isinstance(value, Prefix) and value.operator in "+-" and isinstance(value.operand, Number):
            sign, value = value.operator.strip("+"), value.operand
        if name not in table.partitioned_by:
            known = ", ".join(table.partitioned_by) or "none"
            message = f"{table.path[2]!r} has no partitions by {name!r}; it has them by: {known}"
            raise SqlValidationError(message, sql, each.span.start, each.span.end)
        if not isinstance(value, Number | Text):
            message = "the value of a partition is a number, or a text in single quotes"
            raise SqlValidationError(message, sql, each.span.start, each.span.end)
        found[name] = sign + value.text if isinstance(value, Number) else value.value
    return tuple((name, found[name]) for name in table.partitioned_by if name in found)


def partition_name(partition: Partition) -> str:
    """`day=2024-05-01/hour=3`."""
    return "/".join(f"{name}={value}" for name, value in partition)
