"""Tables, views and catalogs as the statement that would create them: SHOW CREATE, which ALTER TABLE starts from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from flinkray.tables.catalog import CatalogDescription, View
from flinkray.tables.plans.tables import ColumnKind, Table, TableColumn
from flinkray.tables.syntax.names import Name
from flinkray.tables.syntax.unparsing.expressions import name_text, string_text
from flinkray.tables.types.logical import MAX_LENGTH, CollectionType, LogicalType, MapType, RowType


def quoted(name: str) -> str:
    """A name in backticks."""
    return name_text(Name(name))


def create_table_text(table: Table, temporary: bool = False) -> str:
    """CREATE TABLE with all that the table has; is read as the same table."""
    lines = [_column_text(column) for column in table.columns]
    if table.watermark is not None:
        lines.append(f"WATERMARK FOR {quoted(table.watermark.column)} AS {table.watermark.text}")
    if table.primary_key:
        name = f"PK_{'_'.join(table.primary_key)}"
        lines.append(f"CONSTRAINT {quoted(name)} PRIMARY KEY ({_names(table.primary_key)}) NOT ENFORCED")
    parts = [_head("TABLE", table.path, temporary, lines)]
    if table.comment is not None:
        parts.append(f"COMMENT {string_text(table.comment)}")
    if table.partitioned_by:
        parts.append(f"PARTITIONED BY ({_names(table.partitioned_by)})")
    if table.options:
        parts.append(_options_text(sorted(table.options)))
    return "\n".join(parts) + "\n"


def create_view_text(view: View, temporary: bool = False) -> str:
    """CREATE VIEW with the query as it was written."""
    parts = [_head("VIEW", view.path, temporary, [quoted(name) for name in view.row_type.names])]
    if view.comment is not None:
        parts.append(f"COMMENT {string_text(view.comment)}")
    return "\n".join([*parts, f"AS {view.sql}"]) + "\n"


def create_catalog_text(catalog: CatalogDescription) -> str:
    """CREATE CATALOG with its options."""
    parts = [f"CREATE CATALOG {quoted(catalog.name)}"]
    if catalog.comment is not None:
        parts.append(f"COMMENT {string_text(catalog.comment)}")
    return "\n".join([*parts, _options_text(sorted(catalog.options))]) + "\n"


def _head(kind: str, path: Sequence[str], temporary: bool, lines: Sequence[str]) -> str:
    what = f"{'TEMPORARY ' if temporary else ''}{kind}"
    inside = ",\n  ".join(lines)
    columns = f" (\n  {inside}\n)" if lines else ""
    return f"CREATE {what} {'.'.join(map(quoted, path))}{columns}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _options_text(options: Sequence[tuple[str, str]]) -> str:
    lines = ",\n  ".join(f"{string_text(key)} = {string_text(value)}" for key, value in options)
    return f"WITH (\n  {lines}\n)"


def _column_text(column: TableColumn) -> str:
    parts = [quoted(column.name)]
    parts.append(f"AS {column.text}" if column.kind is ColumnKind.COMPUTED else type_text(column.type))
    if column.kind is ColumnKind.METADATA:
        parts.append(metadata_text(column))
    if column.comment is not None:
        parts.append(f"COMMENT {string_text(column.comment)}")
    return " ".join(parts)


def metadata_text(column: TableColumn) -> str:
    """`METADATA FROM 'key' VIRTUAL`."""
    key = "" if column.metadata_key in ("", column.name) else f" FROM {string_text(column.metadata_key)}"
    return f"METADATA{key}{' VIRTUAL' if column.is_virtual else ''}"


_TYPE_WORDS = re.compile(r"`(?:[^`]|``)*`|'(?:[^']|'')*'|STRING|BYTES|TIMESTAMP_LTZ(\(\d\))| \*(?:ROW|PROC)TIME\*")


def type_text(kind: LogicalType) -> str:
    """A type as statements have it, in the words of the standard where there are some, as in Flink."""
    comments = _comments(kind)

    def text(word: re.Match[str]) -> str:
        match word[0]:
            case "STRING":
                return f"VARCHAR({MAX_LENGTH})"
            case "BYTES":
                return f"VARBINARY({MAX_LENGTH})"
            case "'...'":
                return string_text(next(comments))
        if word[1]:
            return f"TIMESTAMP{word[1]} WITH LOCAL TIME ZONE"
        return "" if word[0].startswith(" *") else word[0]

    return _TYPE_WORDS.sub(text, str(kind))


def _comments(kind: LogicalType) -> Iterator[str]:
    """The comments of fields in a type, in the order in which its text has them."""
    match kind:
        case RowType(fields=fields):
            for field in fields:
                yield from _comments(field.type)
                if field.description is not None:
                    yield field.description
        case CollectionType(element=element):
            yield from _comments(element)
        case MapType(key=key, value=value):
            yield from _comments(key)
            yield from _comments(value)
