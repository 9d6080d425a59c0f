"""A statement with `?` for values, as JDBC has them."""

from __future__ import annotations

import re

import pyarrow as pa
from msgspec import Struct

from flinkray.errors import InvalidProgramError

_TOKENS = re.compile(
    r"""(?P<skipped>
        (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\r\n]*
        | (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$
    )
    | (?P<comment>/\*) | (?P<operator>\?\?) | (?P<placeholder>\?) | (?P<open>['"]) | (?P<own>(?<![\w$])\$\d)""",
    re.VERBOSE | re.DOTALL,
)
_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "varchar",
    pa.binary(): "bytea",
}
"""What values are to the server, by the types of their columns. The driver leaves dates and times to the server."""


class Statement(Struct, frozen=True):
    """A statement, and the columns of the rows that it is executed for."""

    text: str
    """As it was given."""
    numbered: str
    """As the server takes it: with the numbers of its values, and their types."""
    schema: pa.Schema


def read_statement(text: str, schema: pa.Schema, types_texts: bool, where: str) -> Statement:
    """
    Args:
        schema: the columns whose values take the places of `?`, in this order.
        types_texts: texts are varchar; False: what their place wants.
        where: names the sink in errors.
    Raises:
        InvalidProgramError: there are more or fewer `?` than columns; or a column has no type of PostgreSQL's.
    """
    types = [_sql_type(field, types_texts, where) for field in schema]
    parts: list[str] = []
    count = start = 0
    while found := _TOKENS.search(text, start):
        parts.append(text[start : found.start()])
        start = found.end()
        match found.lastgroup:
            case "placeholder":
                parts.append(_numbered(count + 1, types[count]) if count < len(types) else "?")
                count += 1
            case "operator":
                parts.append("?")
            case "comment":
                start = _end_of_comment(text, start)
                parts.append(text[found.start() : start])
            case "open":
                raise InvalidProgramError(f"{where}: a quotation mark is not closed in the statement: {text}")
            case "own":
                raise InvalidProgramError(
                    f"{where}: values are ? in the statement, in the order of the row's fields, and not $1, $2: {text}"
                )
            case _:
                parts.append(found[0])
    if count != len(types):
        raise InvalidProgramError(
            f"{where}: the statement has {count} ? for values, and the rows {len(types)} fields "
            f"({', '.join(schema.names)}): give it one for each field, in their order (?? is the operator ?): {text}"
        )
    return Statement(text, "".join(parts) + text[start:], schema)


def _numbered(number: int, sql_type: str) -> str:
    return f"(${number}::{sql_type})" if sql_type else f"${number}"


def _sql_type(field: pa.Field, types_texts: bool, where: str) -> str:
    """Empty: the server finds it."""
    arrow_type = field.type
    if pa.types.is_list(arrow_type) and not pa.types.is_list(arrow_type.value_type):
        element = _sql_type(pa.field(field.name, arrow_type.value_type), types_texts, where)
        return f"{element}[]" if element else ""
    if pa.types.is_temporal(arrow_type) or (arrow_type == pa.string() and not types_texts):
        return ""
    if pa.types.is_decimal(arrow_type):
        return "numeric"
    if arrow_type not in _TYPES:
        raise InvalidProgramError(
            f"{where}: field {field.name!r} is {arrow_type}, which is no type of a column; map it to text, such as JSON"
        )
    return _TYPES[arrow_type]


def _end_of_comment(text: str, start: int) -> int:
    """Where a comment ends that begins before `start`; there may be others in it."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(text)
