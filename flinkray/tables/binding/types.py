"""Names of types to types."""

from __future__ import annotations

from collections.abc import Callable

from flinkray.errors import did_you_mean
from flinkray.tables.binding.context import Context
from flinkray.tables.syntax.names import TypeName
from flinkray.tables.types import logical
from flinkray.tables.types.logical import MAX_LENGTH, LengthType, LogicalType, RowField, RowType

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
