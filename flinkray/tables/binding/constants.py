"""Literals to constants with their types, and names of types to types."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable

from flinkray.errors import did_you_mean
from flinkray.tables.binding.context import Context
from flinkray.tables.plans.expressions import Constant
from flinkray.tables.syntax.expressions import Binary, Expression, Interval, Null, Number, Symbol, Temporal, Text, Truth
from flinkray.tables.syntax.names import TypeName
from flinkray.tables.types import logical
from flinkray.tables.types.arrow import unit_of
from flinkray.tables.types.logical import MAX_LENGTH, MAX_PRECISION, LengthType, LogicalType, RowField, RowType

_EPOCH = datetime.datetime(1970, 1, 1)
_TIMES = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?")
_IN_SECOND = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MILLIS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000, "WEEK": 7 * 86_400_000}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_SEPARATORS = {"MONTH": "-", "HOUR": " ", "MINUTE": ":", "SECOND": ":"}


def constant(literal: Expression, context: Context) -> Constant | None:
    """The constant of a literal; None: it is no literal."""
    match literal:
        case Number():
            return number(literal, context)
        case Text(value=value):
            return Constant(logical.CHAR(len(value)).not_null(), value)
        case Symbol(name=name):
            return symbol(name)
        case Binary(value=value):
            return Constant(logical.BINARY(len(value)).not_null(), value)
        case Truth(value=None):
            return Constant(logical.BOOLEAN, None)
        case Truth(value=value):
            return Constant(logical.BOOLEAN.not_null(), value)
        case Null():
            return Constant(logical.NULL, None)
        case Temporal():
            return _temporal(literal, context)
        case Interval():
            return interval(literal, context)
    return None


def symbol(name: str) -> Constant:
    """A keyword as an argument."""
    return Constant(logical.CHAR(len(name)).not_null(), name)


def number(literal: Number, context: Context, negative: bool = False) -> Constant:
    """INT, BIGINT or DECIMAL by its digits, DOUBLE with an exponent."""
    text = ("-" if negative else "") + literal.text
    if "e" in text.lower():
        return Constant(logical.DOUBLE.not_null(), float(text))
    value = decimal.Decimal(text)
    if "." not in literal.text.rstrip("."):
        whole = int(value)
        for kind, bits in ((logical.INT, 31), (logical.BIGINT, 63)):
            if -(1 << bits) <= whole < 1 << bits:
                return Constant(kind.not_null(), whole)
    # Calcite counts the digits as written, a 0 before the point among them.
    digits, scale = len(re.sub(r"\D", "", literal.text)), len(literal.text.rstrip(".").partition(".")[2])
    if digits > MAX_PRECISION:
        context.fail(literal, f"a number has at most {MAX_PRECISION} digits, and this one {digits}")
    return Constant(logical.DECIMAL(max(digits, 1), scale).not_null(), value)


def _temporal(literal: Temporal, context: Context) -> Constant:
    try:
        return _temporal_value(literal)
    except ValueError:
        context.fail(literal, f"{literal.text!r} is no {literal.kind}; {_EXAMPLES[literal.kind]}")


_EXAMPLES = {
    "DATE": "write it as DATE '2024-02-29'",
    "TIME": "write it as TIME '12:30:00'",
    "TIMESTAMP": "write it as TIMESTAMP '2024-02-29 12:30:00.123'",
    "TIMESTAMP_LTZ": "write it as TIMESTAMP WITH LOCAL TIME ZONE '2024-02-29 12:30:00.123'",
}


def _temporal_value(literal: Temporal) -> Constant:
    if literal.kind == "DATE":
        days = (datetime.date.fromisoformat(literal.text) - _EPOCH.date()).days
        return Constant(logical.DATE.not_null(), days)
    text = literal.text.strip()
    if literal.kind != "TIME" and ":" not in text:
        text = f"{text} 00:00:00"
    date, _, time = text.rpartition(" ") if literal.kind != "TIME" else ("", "", text)
    parts = _TIMES.fullmatch(time)
    if parts is None or (literal.kind != "TIME" and not date):
        raise ValueError(literal.text)
    hour, minute, second = int(parts[1]), int(parts[2]), int(parts[3])
    datetime.time(hour, minute, second)  # a ValueError where there is no such time
    fraction = parts[4] or ""
    days = 0 if literal.kind == "TIME" else (datetime.date.fromisoformat(date) - _EPOCH.date()).days
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    digits = _IN_SECOND[unit_of(len(fraction))]
    value = seconds * 10**digits + int(fraction.ljust(digits, "0") or 0)
    makers = {"TIME": logical.TIME, "TIMESTAMP": logical.TIMESTAMP, "TIMESTAMP_LTZ": logical.TIMESTAMP_LTZ}
    return Constant(makers[literal.kind](len(fraction)).not_null(), value)


def interval(literal: Interval, context: Context) -> Constant:
    """An interval in months or milliseconds."""
    units = literal.units
    sizes = _MONTHS if units.first in _MONTHS else _MILLIS
    order = ["YEAR", "MONTH"] if sizes is _MONTHS else ["DAY", "HOUR", "MINUTE", "SECOND"]
    names = [units.first]
    if units.last is not None:
        names = order[order.index(units.first) : order.index(units.last) + 1]
    pattern = r"\s*([+-]?)\s*(\d+)" + "".join(f"{_SEPARATORS[name]}(\\d+)" for name in names[1:])
    pattern += r"(?:\.(\d{1,9}))?\s*" if names[-1] == "SECOND" else r"\s*"
    found = re.fullmatch(pattern, literal.text)
    if found is None:
        last = "" if units.last is None else f" TO {units.last}"
        context.fail(literal, f"{literal.text!r} is no length of an INTERVAL {units.first}{last}")
    numbers = found.groups()[1 : len(names) + 1]
    length = sum(int(each) * sizes[name] for each, name in zip(numbers, names, strict=True))
    if names[-1] == "SECOND" and found.groups()[-1] is not None:
        length += int(found.groups()[-1].ljust(3, "0")[:3])
    sign = -1 if literal.negative != (found[1] == "-") else 1
    # Flink reads all intervals as months or milliseconds, whatever their units are.
    kind = logical.INTERVAL("MONTH") if sizes is _MONTHS else logical.INTERVAL("SECOND", fraction=3)
    return Constant(kind.not_null(), sign * length)


# -- types ---------------------------------------------------------------------------------------------------------


_SIMPLE = {
    "BOOLEAN": logical.BOOLEAN,
    "TINYINT": logical.TINYINT,
    "SMALLINT": logical.SMALLINT,
    "INT": logical.INT,
    "BIGINT": logical.BIGINT,
    "FLOAT": logical.FLOAT,
    "DOUBLE": logical.DOUBLE,
    "STRING": logical.STRING,
    "BYTES": logical.BYTES,
    "DATE": logical.DATE,
    "NULL": logical.NULL,
}
_WITH_NUMBERS: dict[str, Callable[..., LogicalType]] = {
    "DECIMAL": logical.DECIMAL,
    "CHAR": logical.CHAR,
    "VARCHAR": logical.VARCHAR,
    "BINARY": logical.BINARY,
    "VARBINARY": logical.VARBINARY,
    "TIME": logical.TIME,
    "TIMESTAMP": logical.TIMESTAMP,
    "TIMESTAMP_LTZ": logical.TIMESTAMP_LTZ,
}

_OF_OTHERS = {
    "BIT": "BOOLEAN",
    "BLOB": "BYTES",
    "BYTEA": "BYTES",
    "FLOAT64": "DOUBLE",
    "INT16": "SMALLINT",
    "INT32": "INT",
    "INT64": "BIGINT",
    "JSON": "STRING",
    "LONG": "BIGINT",
    "NUMBER": "DECIMAL(precision, scale)",
    "SERIAL": "BIGINT",
    "TEXT": "STRING",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ",
    "UUID": "STRING",
}
"""What types of other databases are called here."""


def type_of(name: TypeName, context: Context) -> LogicalType:
    """The type of a name; nullable unless the name says NOT NULL.

    Raises:
        SqlValidationError: a precision, scale or length is out of range, or there is no such type here.
    """
    try:
        found = _type_of(name, context)
    except ValueError as error:
        context.fail(name, str(error))
    return found.with_nullability(not name.not_null)


def _type_of(name: TypeName, context: Context) -> LogicalType:
    if name.name in _SIMPLE:
        return _SIMPLE[name.name]
    if name.name in ("VARCHAR", "VARBINARY") and not name.numbers:
        return logical.STRING if name.name == "VARCHAR" else logical.BYTES
    if name.name in _WITH_NUMBERS:
        found = _WITH_NUMBERS[name.name](*name.numbers)
        if isinstance(found, LengthType) and not found.length:
            context.fail(name, f"{name.name} has a length of 1 to {MAX_LENGTH}, not 0")
        return found
    elements = [type_of(each, context) for each in name.elements]
    if name.name == "ARRAY":
        return logical.ARRAY(elements[0])
    if name.name == "MULTISET":
        return logical.MULTISET(elements[0])
    if name.name == "MAP":
        return logical.MAP(elements[0], elements[1])
    if name.name in ("ROW", "STRUCTURED"):
        fields = [RowField(each.name.text, type_of(each.type, context), each.comment) for each in name.fields]
        return RowType(tuple(fields))
    if name.name == "RAW":
        return logical.RAW(name.texts[0])
    if name.interval is not None:
        units = name.interval
        precision = 2 if units.precision is None else units.precision
        return logical.INTERVAL(units.first, units.last, precision, 6 if units.fraction is None else units.fraction)
    written = name.name or ".".join(name.texts)
    meant = _OF_OTHERS.get(written.upper())
    way_out = f"; it is {meant} here" if meant else did_you_mean(written.upper(), (*_SIMPLE, *_WITH_NUMBERS))
    return context.fail(name, f"there is no type {written} here{way_out}")
