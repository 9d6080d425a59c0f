"""Functions that give expressions: columns, constants, and functions of SQL that begin with none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.columns import ColumnRange, ColumnSet
from flinkray.tables.api.data_types import type_name
from flinkray.tables.api.expression import Expression, as_expression, col, combined, function_call, lit
from flinkray.tables.api.words import word
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.parsing.parser import parse_expression

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "e",
    "from_unixtime",
    "if_then_else",
    "json_array",
    "json_array_agg",
    "json_object",
    "json_object_agg",
    "json_string",
    "lag",
    "lead",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "map_from_arrays",
    "negative",
    "not_",
    "null_of",
    "or_",
    "pi",
    "rand",
    "rand_integer",
    "range_",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_all_columns",
    "with_columns",
    "without_columns",
]


class Bound(syntax.Expression, frozen=True):
    """How far the frame of a window reaches, where it is no interval."""

    unit: str
    rows: int | None = None
    """None: without a bound; 0: to the current row."""


UNBOUNDED_ROW = Expression(Bound("ROWS"))
UNBOUNDED_RANGE = Expression(Bound("RANGE"))
CURRENT_ROW = Expression(Bound("ROWS", 0))
CURRENT_RANGE = Expression(Bound("RANGE", 0))


def row_interval(rows: int) -> Expression:
    """So many rows, for the frame of a window."""
    return Expression(Bound("ROWS", rows))


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    return combined("AND", predicate0, predicate1, *predicates)


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    return combined("OR", predicate0, predicate1, *predicates)


def not_(expression: Any) -> Expression:
    return ~as_expression(expression)


def negative(v: Any) -> Expression:
    return -as_expression(v)


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression:
    return as_expression(condition).then(if_true, if_false)


def null_of(data_type: Any) -> Expression:
    """NULL of a type."""
    return Expression(syntax.Cast(syntax.Null(), type_name(data_type)))


def with_all_columns() -> Expression:
    """All columns of the table: `*`."""
    return Expression(syntax.Star())


def with_columns(head: Any, *tails: Any) -> Expression:
    """These columns, each by its name, its place from 1, or as a `range_` of such."""
    return Expression(ColumnSet(tuple(map(_columns, (head, *tails)))))


def without_columns(head: Any, *tails: Any) -> Expression:
    """All columns but these, which are given as for `with_columns`."""
    return Expression(ColumnSet(tuple(map(_columns, (head, *tails))), negated=True))


def range_(start: str | int, end: str | int) -> Expression:
    """The columns from one to another one, by their names or places from 1, for `with_columns`."""
    return Expression(ColumnRange(start, end))


def _columns(given: Any) -> ColumnRange:
    node = as_expression(col(given) if isinstance(given, str) else given)._node
    if isinstance(node, ColumnRange):
        return node
    if isinstance(node, syntax.Reference):
        return ColumnRange(node.path.texts[-1], node.path.texts[-1])
    if isinstance(node, syntax.Number):
        return ColumnRange(int(node.text), int(node.text))
    raise InvalidProgramError(f"with_columns takes columns by name, place from 1, or range_, not {given!r}")


def call_sql(sql_expression: str) -> Expression:
    """An expression as SQL writes it.

    Raises:
        SqlParserError: it is none; shows where.
    """
    return Expression(parse_expression(sql_expression))


def call(f: Any, *args: Any) -> Expression:
    """A call of a function by its name, or of one of the user's."""
    if isinstance(f, str):
        return function_call(f, *args)
    called: Expression = f(*args)
    return called


def array(head: Any, *tail: Any) -> Expression:
    return lit([head, *tail])


def row(head: Any, *tail: Any) -> Expression:
    given = [as_expression(each) for each in (head, *tail)]
    return Expression(syntax.Row(tuple(each._node for each in given)))


def map_(key: Any, value: Any, *tail: Any) -> Expression:
    given = [as_expression(each)._node for each in (key, value, *tail)]
    return Expression(syntax.MapOf(tuple(given)))


def _constant(name: str) -> Expression:
    return Expression(syntax.Call(Path((Name(name),))))


def current_date() -> Expression:
    return _constant("CURRENT_DATE")


def current_time() -> Expression:
    return _constant("CURRENT_TIME")


def current_timestamp() -> Expression:
    return _constant("CURRENT_TIMESTAMP")


def local_time() -> Expression:
    return _constant("LOCALTIME")


def local_timestamp() -> Expression:
    return _constant("LOCALTIMESTAMP")


def pi() -> Expression:
    return function_call("PI")


def e() -> Expression:
    return function_call("E")


def current_database() -> Expression:
    return _constant("CURRENT_DATABASE")


def current_watermark(rowtimeAttribute: Any) -> Expression:
    """The watermark of a time attribute; NULL before the first one."""
    return function_call("CURRENT_WATERMARK", rowtimeAttribute)


def uuid() -> Expression:
    return function_call("UUID")


def source_watermark() -> Expression:
    return function_call("SOURCE_WATERMARK")


def rand(seed: Any = None) -> Expression:
    return function_call("RAND", *_given(seed))


def rand_integer(bound: Any, seed: Any = None) -> Expression:
    return function_call("RAND_INTEGER", *_given(seed), bound)


def atan2(y: Any, x: Any) -> Expression:
    return function_call("ATAN2", y, x)


def concat(first: Any, *others: Any) -> Expression:
    return function_call("CONCAT", first, *others)


def concat_ws(separator: Any, first: Any, *others: Any) -> Expression:
    return function_call("CONCAT_WS", separator, first, *others)


def coalesce(*args: Any) -> Expression:
    return function_call("COALESCE", *args)


def date_format(timestamp: Any, format: Any) -> Expression:
    return function_call("DATE_FORMAT", timestamp, format)


def to_date(date_str: Any, format: Any = None) -> Expression:
    return function_call("TO_DATE", date_str, *_given(format))


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression:
    return function_call("TO_TIMESTAMP", timestamp_str, *_given(format))


def to_timestamp_ltz(*args: Any) -> Expression:
    return function_call("TO_TIMESTAMP_LTZ", *args)


def from_unixtime(unixtime: Any, format: Any = None) -> Expression:
    return function_call("FROM_UNIXTIME", unixtime, *_given(format))


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression:
    return function_call("UNIX_TIMESTAMP", *_given(date_str), *_given(format))


def timestamp_diff(time_point_unit: Any, time_point1: Any, time_point2: Any) -> Expression:
    """How many units a time is after another one."""
    unit = syntax.Symbol(word(time_point_unit))
    return function_call("TIMESTAMPDIFF", Expression(unit), time_point1, time_point2)


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression:
    return function_call("CONVERT_TZ", date_str, tz_from, tz_to)


def map_from_arrays(key: Any, value: Any) -> Expression:
    return function_call("MAP_FROM_ARRAYS", key, value)


def log(v: Any, base: Any = None) -> Expression:
    return as_expression(v).log(base)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression:
    """Whether two spans of time have a moment in common; each is a begin with an end, or with an interval."""
    left, right = row(left_time_point, left_temporal), row(right_time_point, right_temporal)
    return Expression(syntax.Infix("OVERLAPS", left._node, right._node))


def lag(expr: Any, offset: int = 1, default: Any = None) -> Expression:
    """The value of so many rows before, for `over`."""
    return function_call("LAG", expr, offset, *_given(default))


def lead(expr: Any, offset: int = 1, default: Any = None) -> Expression:
    """The value of so many rows later, for `over`."""
    return function_call("LEAD", expr, offset, *_given(default))


def json_string(value: Any) -> Expression:
    return function_call("JSON_STRING", value)


def json_array(on_null: Any = "ABSENT", *args: Any) -> Expression:
    """A JSON array of values; `on_null` is ABSENT or NULL."""
    return _json("JSON_ARRAY", on_null, [as_expression(each)._node for each in args])


def json_object(on_null: Any = "NULL", *args: Any) -> Expression:
    """A JSON object of keys and values by turns; `on_null` is ABSENT or NULL."""
    nodes = [as_expression(each)._node for each in args]
    pairs = zip(nodes[::2], nodes[1::2], strict=True)
    return _json("JSON_OBJECT", on_null, [syntax.KeyValue(key, value) for key, value in pairs])


def json(value: Any) -> Expression:
    """A text that is JSON already, for `json_object` and `json_array`. It has to be imported by name: `import *` leaves
    the module `json` alone."""
    return function_call("JSON", value)


def json_object_agg(on_null: Any, key_expr: Any, value_expr: Any) -> Expression:
    """An aggregate: a JSON object of the keys and values of all rows; `on_null` is NULL or ABSENT."""
    pair = syntax.KeyValue(as_expression(key_expr)._node, as_expression(value_expr)._node)
    return _json("JSON_OBJECTAGG", on_null, [pair])


def json_array_agg(on_null: Any, item_expr: Any) -> Expression:
    """An aggregate: a JSON array of the values of all rows; `on_null` is ABSENT or NULL."""
    return _json("JSON_ARRAYAGG", on_null, [as_expression(item_expr)._node])


def _json(name: str, on_null: Any, nodes: Sequence[syntax.Expression]) -> Expression:
    clause = syntax.Clause(f"{word(on_null)} ON NULL")
    return Expression(syntax.Call(Path((Name(name),)), tuple(nodes), clauses=(clause,)))


def _given(argument: Any) -> tuple[Any, ...]:
    return () if argument is None else (argument,)
