"""Functions of numbers."""

from __future__ import annotations

from flinkray.tables.functions.parameters import (
    AS_BIGINT,
    AS_DOUBLE,
    AS_INT,
    NUMBER,
    TEXT,
    always,
    of_argument,
)
from flinkray.tables.functions.signatures import Function, Nullability, Parameter, TypedCall
from flinkray.tables.types.common import type_of_rounded
from flinkray.tables.types.logical import (
    BYTES,
    DATETIMES,
    DOUBLE,
    INT,
    INTEGERS,
    NUMBERS,
    STRING,
    TEXTS,
    DecimalType,
    LogicalType,
)

_TO_ROUND = Parameter("a number, or a date, time or timestamp with a unit", NUMBERS | DATETIMES)
_UNIT = Parameter("a unit", TEXTS)
_HEXADECIMAL = Parameter("a whole number or a text", INTEGERS | TEXTS)


def _rounded(call: TypedCall) -> LogicalType:
    number = call.types[0]
    if not isinstance(number, DecimalType):
        return number
    if len(call.arguments) == 1:
        return type_of_rounded(number, 0)
    digits = call.arguments[1].literal
    return type_of_rounded(number, digits) if isinstance(digits, int) else number


def _whole(call: TypedCall) -> LogicalType:
    """The type of FLOOR and CEIL: decimals lose their decimal places, and times keep their type."""
    value = call.types[0]
    if (len(call.arguments) == 2) != (value.root in DATETIMES):
        raise ValueError("a date, time or timestamp is rounded to a unit, and a number without one")
    return DecimalType(value.precision, 0) if isinstance(value, DecimalType) else value


_OF_DOUBLE = (
    *("SQRT", "LN", "LOG10", "LOG2", "EXP", "SIN", "COS", "TAN", "COT", "ASIN", "ACOS", "ATAN"),
    *("SINH", "COSH", "TANH", "DEGREES", "RADIANS"),
)

NUMERIC_FUNCTIONS = (
    *(Function(name, (AS_DOUBLE,), always(DOUBLE)) for name in _OF_DOUBLE),
    Function("ABS", (NUMBER,), of_argument(0)),
    Function("SIGN", (NUMBER,), of_argument(0)),
    Function("ROUND", (NUMBER, AS_INT), _rounded, optional=1),
    Function("TRUNCATE", (NUMBER, AS_INT), _rounded, optional=1),
    Function("FLOOR", (_TO_ROUND, _UNIT), _whole, optional=1),
    Function("CEIL", (_TO_ROUND, _UNIT), _whole, optional=1, synonyms=("CEILING",)),
    Function("POWER", (AS_DOUBLE, AS_DOUBLE), always(DOUBLE)),
    Function("LOG", (AS_DOUBLE, AS_DOUBLE), always(DOUBLE), optional=1),
    Function("ATAN2", (AS_DOUBLE, AS_DOUBLE), always(DOUBLE)),
    Function("PI", (), always(DOUBLE)),
    Function("E", (), always(DOUBLE)),
    Function("RAND", (AS_INT,), always(DOUBLE), optional=1, is_deterministic=False),
    Function("RAND_INTEGER", (AS_INT, AS_INT), always(INT), optional=1, is_deterministic=False),
    Function("UUID", (), always(STRING), Nullability.NEVER, is_deterministic=False),
    Function("BIN", (AS_BIGINT,), always(STRING)),
    Function("HEX", (_HEXADECIMAL,), always(STRING)),
    Function("UNHEX", (TEXT,), always(BYTES), Nullability.ALWAYS),
)
