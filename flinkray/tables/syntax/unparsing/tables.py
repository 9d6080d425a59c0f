"""The parts of CREATE TABLE and ALTER TABLE to text."""

from __future__ import annotations

from functools import singledispatch

from flinkray.tables.syntax.statements import (
    Change,
    ChangePartitions,
    ChangeSchema,
    Column,
    ComputedColumn,
    Distribution,
    DropFromSchema,
    LikeTable,
    MetadataColumn,
    Options,
    PartitionValue,
    PhysicalColumn,
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
from flinkray.tables.syntax.unparsing.expressions import (
    expression_text,
    name_text,
    names_text,
    path_text,
    string_text,
    type_text,
)
from flinkray.tables.syntax.unparsing.queries import query_text


def options_text(options: Options) -> str:
    """`('key' = 'value', ...)`."""
    return f"({', '.join(f'{string_text(key)} = {string_text(value)}' for key, value in options)})"


def partition_text(values: tuple[PartitionValue, ...]) -> str:
    """`PARTITION (name = value, ...)`."""
    texts = [
        name_text(each.column) + ("" if each.value is None else f" = {expression_text(each.value)}") for each in values
    ]
    return f"PARTITION ({', '.join(texts)})"


def schema_text(columns: tuple[Column, ...], watermarks: tuple[Watermark, ...], keys: tuple[PrimaryKey, ...]) -> str:
    """What stands in the parentheses of CREATE TABLE, a line for each; nothing where there is none."""
    lines = [column_text(each) for each in columns]
    lines += [watermark_text(each) for each in watermarks]
    lines += [key_text(each) for each in keys]
    return "(\n  " + ",\n  ".join(lines) + "\n)" if lines else ""


def column_text(column: Column) -> str:
    """A column with its type, key and comment."""
    text = name_text(column.name)
    comment: str | None = None
    if isinstance(column, PhysicalColumn):
        text += f" {type_text(column.type)}"
        text += "" if column.key is None else f" {key_text(column.key)}"
        comment = column.comment
    elif isinstance(column, MetadataColumn):
        text += f" {type_text(column.type)} METADATA"
        text += "" if column.key is None else f" FROM {string_text(column.key)}"
        text += " VIRTUAL" if column.virtual else ""
        comment = column.comment
    elif isinstance(column, ComputedColumn):
        text += f" AS {expression_text(column.expression)}"
        comment = column.comment
    return text if comment is None else f"{text} COMMENT {string_text(comment)}"


def key_text(key: PrimaryKey) -> str:
    """`CONSTRAINT name PRIMARY KEY (columns) NOT ENFORCED`."""
    text = "" if key.name is None else f"CONSTRAINT {name_text(key.name)} "
    text += key.kind
    text += f" {names_text(key.columns)}" if key.columns else ""
    return text + {None: "", False: " NOT ENFORCED", True: " ENFORCED"}[key.enforced]


def watermark_text(watermark: Watermark) -> str:
    """`WATERMARK FOR column AS expression`."""
    return f"WATERMARK FOR {path_text(watermark.column)} AS {expression_text(watermark.expression)}"


def distribution_text(distribution: Distribution) -> str:
    """`BY HASH (a) INTO 4 BUCKETS`."""
    parts = []
    if distribution.columns:
        kind = f"{distribution.kind} " if distribution.kind else ""
        parts.append(f"BY {kind}{names_text(distribution.columns)}")
    if distribution.buckets is not None:
        parts.append(f"INTO {distribution.buckets} BUCKETS")
    return " ".join(parts)


def like_text(like: LikeTable) -> str:
    """`LIKE table (INCLUDING ALL ...)`."""
    options = [f"{each.strategy} {each.feature}" for each in like.options]
    return f"LIKE {path_text(like.table)}" + (f" ({' '.join(options)})" if options else "")


# -- ALTER


@singledispatch
def change_text(change: Change) -> str:
    """What stands behind `ALTER TABLE name`."""
    raise NotImplementedError(type(change).__name__)


@change_text.register
def _(change: ChangeSchema) -> str:
    if change.distribution is not None:
        return f"{change.verb} DISTRIBUTION {distribution_text(change.distribution)}"
    parts = []
    for each in change.columns:
        text = column_text(each.column)
        if each.position is not None:
            text += " FIRST" if each.position.after is None else f" AFTER {name_text(each.position.after)}"
        parts.append(text)
    parts += [key_text(each) for each in change.keys]
    parts += [watermark_text(each) for each in change.watermarks]
    return f"{change.verb} ({', '.join(parts)})"


@change_text.register
def _(change: DropFromSchema) -> str:
    if change.what == "CONSTRAINT":
        return f"DROP CONSTRAINT {path_text(change.names[0])}"
    return f"DROP {change.what}" if change.what else f"DROP ({', '.join(path_text(each) for each in change.names)})"


@change_text.register
def _(change: RenameColumn) -> str:
    return f"RENAME {path_text(change.old)} TO {name_text(change.new)}"


@change_text.register
def _(change: Rename) -> str:
    return f"RENAME TO {path_text(change.new)}"


@change_text.register
def _(change: SetOptions) -> str:
    return f"SET {options_text(change.options)}"


@change_text.register
def _(change: ResetOptions) -> str:
    return f"RESET ({', '.join(string_text(key) for key in change.keys)})"


@change_text.register
def _(change: SetComment) -> str:
    return f"COMMENT {string_text(change.comment)}"


@change_text.register
def _(change: ChangePartitions) -> str:
    if change.verb == "DROP":
        exists = "IF EXISTS " if change.if_exists else ""
        return f"DROP {exists}{', '.join(partition_text(each) for each in change.partitions)}"
    parts = ["ADD IF NOT EXISTS" if change.if_exists else "ADD"]
    for values, options in zip(change.partitions, change.options, strict=True):
        parts.append(partition_text(values))
        if options:
            parts.append(f"WITH {options_text(options)}")
    return " ".join(parts)


@change_text.register
def _(change: SetQuery) -> str:
    return f"AS {query_text(change.query)}"


@change_text.register
def _(change: Refresh) -> str:
    text = change.verb + (f" WITH {options_text(change.options)}" if change.options else "")
    return text + (f" {partition_text(change.partition)}" if change.partition else "")


@change_text.register
def _(change: SetFreshness) -> str:
    if change.freshness is not None:
        return f"SET FRESHNESS = {expression_text(change.freshness)}"
    return f"SET REFRESH_MODE = {change.refresh_mode}"
