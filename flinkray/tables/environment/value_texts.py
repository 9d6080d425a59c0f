"""Values of SQL as texts, as Flink prints them: what CAST to STRING gives."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from flinkray.tables.types.logical import (
    CollectionType,
    LogicalType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    TypeRoot,
)
from flinkray.tables.types.number_texts import double_text, float_text
from flinkray.time.zones import to_local

NULL_TEXT = "<NULL>"
"""How NULL is printed in a column; within a value it is NULL."""
_EPOCH = datetime.datetime(1970, 1, 1)


def texts_of(column: pa.Array, kind: LogicalType, null_text: str = NULL_TEXT, time_zone: str = "UTC") -> list[str]:
    """The texts of a column's values; of instants, what clocks in the time zone show."""
    text = _text_of(kind)
    if kind.root is TypeRoot.TIMESTAMP_LTZ:
        column = to_local(column, time_zone)
    if isinstance(kind, TimestampType | TimeType):
        column = column.cast(pa.int64() if not pa.types.is_time32(column.type) else pa.int32())
    return [null_text if value is None else text(value) for value in column.to_pylist()]


def _text_of(kind: LogicalType) -> Callable[[Any], str]:
    """What makes the text of a value that is not NULL. Times come as whole numbers in the unit of their precision."""
    match kind:
        case TimestampType(precision=precision):
            return lambda value: _timestamp_text(value, precision)
        case TimeType(precision=precision):
            return lambda value: _time_text(value, precision)
        case CollectionType(kind=TypeRoot.ARRAY, element=element):
            return lambda values: f"[{_joined(values, _nested(element))}]"
        case CollectionType(element=element):
            inner = _nested(element)
            return lambda values: "{" + ", ".join(f"{inner(each)}={count}" for each, count in values) + "}"
        case MapType(key=key, value=of_value):
            keys, values = _nested(key), _nested(of_value)
            return lambda pairs: "{" + ", ".join(f"{keys(each)}={values(value)}" for each, value in pairs) + "}"
        case RowType(names=names, types=types):
            fields = [(name, _nested(each)) for name, each in zip(names, types, strict=True)]
            return lambda row: "(" + ", ".join(text(row[name]) for name, text in fields) + ")"
    return _PLAIN.get(kind.root, str)


def _nested(kind: LogicalType) -> Callable[[Any], str]:
    """The text of a value within another one: times are Python's there."""
    if isinstance(kind, TimestampType | TimeType):
        return lambda value: "NULL" if value is None else str(value)
    text = _text_of(kind)
    return lambda value: "NULL" if value is None else text(value)


def _joined(values: Iterable[Any], text: Callable[[Any], str]) -> str:
    return ", ".join(text(value) for value in values)


def _timestamp_text(value: int, precision: int) -> str:
    digits = _stored_digits(precision)
    seconds, fraction = divmod(value, 10**digits)
    return f"{_EPOCH + datetime.timedelta(seconds=seconds)}{_fraction(fraction, digits, precision)}"


def _time_text(value: int, precision: int) -> str:
    digits = _stored_digits(precision)
    seconds, fraction = divmod(value, 10**digits)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return clock + _fraction(fraction, digits, precision)


def _stored_digits(precision: int) -> int:
    return 0 if precision == 0 else 3 if precision <= 3 else 6 if precision <= 6 else 9


def _fraction(fraction: int, digits: int, precision: int) -> str:
    return f".{str(fraction).rjust(digits, '0')[:precision]}" if precision else ""


def _day_time_text(value: datetime.timedelta) -> str:
    millis = value // datetime.timedelta(milliseconds=1)
    sign, millis = "-" if millis < 0 else "+", abs(millis)
    seconds, rest = divmod(millis, 1000)
    clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"
    return f"{sign}{seconds // 86400} {clock}"


def _year_month_text(value: int) -> str:
    return f"{'-' if value < 0 else '+'}{abs(value) // 12}-{abs(value) % 12:02}"


_PLAIN: dict[TypeRoot, Callable[[Any], str]] = {
    TypeRoot.BOOLEAN: lambda value: "TRUE" if value else "FALSE",
    TypeRoot.DOUBLE: double_text,
    TypeRoot.FLOAT: float_text,
    TypeRoot.DECIMAL: lambda value: format(value, "f"),
    TypeRoot.BINARY: lambda value: f"x'{value.hex()}'",
    TypeRoot.VARBINARY: lambda value: f"x'{value.hex()}'",
    TypeRoot.INTERVAL_DAY_TIME: _day_time_text,
    TypeRoot.INTERVAL_YEAR_MONTH: _year_month_text,
}
