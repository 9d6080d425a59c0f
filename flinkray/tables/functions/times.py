"""Functions of dates, times, timestamps and intervals; the times of a query and of its batches."""

from __future__ import annotations

from flinkray.tables.functions.parameters import (
    AS_INT,
    DATETIME,
    SYMBOL,
    TEXT,
    TIMESTAMP_,
    always,
)
from flinkray.tables.functions.signatures import Function, Nullability, Parameter, TypedCall
from flinkray.tables.types.logical import (
    BIGINT,
    BOOLEAN,
    DATE,
    DATETIMES,
    INT,
    INTEGERS,
    INTERVALS,
    NUMBERS,
    STRING,
    TEXTS,
    TIME,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TIMESTAMPS,
    LogicalType,
    TimeAttribute,
    TimestampType,
    TypeRoot,
)

CALENDAR_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"})
CLOCK_UNITS = frozenset({"HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND"})
_DIGITS = {"MILLISECOND": 3, "MICROSECOND": 6}
_MORE_PARTS = {"DOW", "ISODOW", "DOY", "ISOYEAR", "EPOCH", "DECADE", "CENTURY", "MILLENNIUM"}
PARTS = CALENDAR_UNITS | CLOCK_UNITS | _MORE_PARTS
"""Units that EXTRACT takes."""

_TIME_OR_INTERVAL = Parameter("a date, time, timestamp or interval", DATETIMES | INTERVALS)
_TO_FORMAT = Parameter("a timestamp, or a text that is one", TEXTS | TIMESTAMPS)
_INSTANT = Parameter("a number of seconds or milliseconds, or a text", TEXTS | NUMBERS)
_PRECISION = Parameter("0 for seconds, 3 for milliseconds and so on to 9, or a pattern", INTEGERS | TEXTS)
_SECONDS = Parameter("a number of seconds", NUMBERS, BIGINT)


def _unit_of(call: TypedCall, known: frozenset[str] | set[str]) -> str:
    unit = call.arguments[0].literal
    if not isinstance(unit, str) or unit not in known:
        raise ValueError(f"{unit!r} is no unit here; those there are: {', '.join(sorted(known))}")
    return unit


def _added(call: TypedCall) -> LogicalType:
    unit, value = _unit_of(call, CALENDAR_UNITS | CLOCK_UNITS), call.types[2]
    if value.root is TypeRoot.DATE and unit in CLOCK_UNITS:
        return TIMESTAMP(6)
    if isinstance(value, TimestampType) and unit in _DIGITS:
        return TimestampType(value.kind, max(value.precision, _DIGITS[unit]), nullable=value.nullable)
    return value


def _apart(call: TypedCall) -> LogicalType:
    _unit_of(call, CALENDAR_UNITS | CLOCK_UNITS)
    return INT


def _extracted(call: TypedCall) -> LogicalType:
    _unit_of(call, PARTS)
    return BIGINT


def _instant(call: TypedCall) -> LogicalType:
    """TO_TIMESTAMP_LTZ gives milliseconds, or more digits where the numbers have more."""
    if call.types[0].root in TEXTS and len(call.types) == 2 and call.types[1].root not in TEXTS:
        raise ValueError("a text comes with a pattern")
    digits = call.arguments[1].literal if len(call.arguments) > 1 and call.types[0].root in NUMBERS else 3
    return TIMESTAMP_LTZ(max(3, digits)) if isinstance(digits, int) and digits <= 9 else TIMESTAMP_LTZ(3)


def _watermark(call: TypedCall) -> LogicalType:
    rowtime = call.types[0]
    assert isinstance(rowtime, TimestampType)
    if rowtime.attribute is not TimeAttribute.ROWTIME:
        raise ValueError("it needs a rowtime attribute")
    return TimestampType(rowtime.kind, 3)


PARTS_BY_NAME = {
    "YEAR": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "WEEK": "WEEK",
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "SECOND": "SECOND",
}
"""Functions that are EXTRACT of a unit."""


def _now(name: str, result: LogicalType, *synonyms: str) -> Function:
    return Function(name, (), always(result), Nullability.NEVER, synonyms, is_deterministic=False)


_SPAN = Parameter("a date, time or timestamp, or an interval", DATETIMES | INTERVALS)

SOURCE_WATERMARK = "SOURCE_WATERMARK"
"""Stands for the watermarks that the source of a table gives; in WATERMARK FOR only, and never computed."""

TIME_FUNCTIONS = (
    Function("EXTRACT", (SYMBOL, _TIME_OR_INTERVAL), _extracted),
    *(Function(name, (_TIME_OR_INTERVAL,), always(BIGINT)) for name in PARTS_BY_NAME),
    Function("TIMESTAMPADD", (SYMBOL, AS_INT, DATETIME), _added),
    Function("TIMESTAMPDIFF", (SYMBOL, DATETIME, DATETIME), _apart),
    Function("OVERLAPS", (DATETIME, _SPAN, DATETIME, _SPAN), always(BOOLEAN)),
    Function("DATE_FORMAT", (_TO_FORMAT, TEXT), always(STRING), Nullability.ALWAYS),
    Function("TO_DATE", (TEXT, TEXT), always(DATE), Nullability.ALWAYS, optional=1),
    Function("TO_TIMESTAMP", (TEXT, TEXT), always(TIMESTAMP(3)), Nullability.ALWAYS, optional=1),
    Function("TO_TIMESTAMP_LTZ", (_INSTANT, _PRECISION, TEXT), _instant, Nullability.ALWAYS, optional=2),
    Function("FROM_UNIXTIME", (_SECONDS, TEXT), always(STRING), Nullability.ALWAYS, optional=1),
    Function("UNIX_TIMESTAMP", (TEXT, TEXT), always(BIGINT), optional=2),
    Function("CONVERT_TZ", (TEXT, TEXT, TEXT), always(STRING), Nullability.ALWAYS),
    _now("CURRENT_TIMESTAMP", TIMESTAMP_LTZ(3), "NOW"),
    _now("CURRENT_ROW_TIMESTAMP", TIMESTAMP_LTZ(3)),
    _now("LOCALTIMESTAMP", TIMESTAMP(3)),
    _now("CURRENT_DATE", DATE),
    _now("CURRENT_TIME", TIME(0), "LOCALTIME"),
    _now("PROCTIME", TIMESTAMP_LTZ(3).as_attribute(TimeAttribute.PROCTIME)),
    _now("CURRENT_DATABASE", STRING),
    _now(SOURCE_WATERMARK, TIMESTAMP(3)),
    Function("CURRENT_WATERMARK", (TIMESTAMP_,), _watermark, Nullability.ALWAYS, is_deterministic=False),
)
