"""Parameters and types of results that many functions share."""

from __future__ import annotations

from collections.abc import Sequence

from flinkray.tables.functions.signatures import COMPARED, ORDERED, Parameter, ResultOf, TypedCall
from flinkray.tables.types.common import common_type
from flinkray.tables.types.logical import (
    BIGINT,
    BOOLEAN,
    BYTE_STRINGS,
    DATETIMES,
    DOUBLE,
    INT,
    INTEGERS,
    INTERVALS,
    NUMBERS,
    STRING,
    TEXTS,
    TIMESTAMPS,
    LogicalType,
    TypeRoot,
)

EVERY = frozenset(TypeRoot)
_ORDERED = NUMBERS | TEXTS | BYTE_STRINGS | DATETIMES | INTERVALS | {TypeRoot.BOOLEAN}

BOOLEAN_ = Parameter("a condition", frozenset({TypeRoot.BOOLEAN}), BOOLEAN)
NUMBER = Parameter("a number", NUMBERS)
EXACT = Parameter("a whole number or a decimal", INTEGERS | {TypeRoot.DECIMAL})
AS_DOUBLE = Parameter("a number", NUMBERS, DOUBLE)
AS_INT = Parameter("a whole number", INTEGERS, INT)
AS_BIGINT = Parameter("a whole number", INTEGERS, BIGINT)
TEXT = Parameter("a text", TEXTS, STRING)
TEXT_OR_BYTES = Parameter("a text or bytes", TEXTS | BYTE_STRINGS)
SYMBOL = Parameter("a keyword", TEXTS)
ANYTHING = Parameter("any value", EVERY)
ALIKE = Parameter("a value of the same type", EVERY, common="alike")
ORDERED_ALIKE = Parameter("a value of the same type that has an order", _ORDERED, common="alike")
COMPARABLE = Parameter("a value of the same type", EVERY, common=COMPARED)
ORDERED_COMPARABLE = Parameter("a value of the same type that has an order", _ORDERED, common=ORDERED)
ARRAY_ = Parameter("an array", frozenset({TypeRoot.ARRAY}))
MAP_ = Parameter("a map", frozenset({TypeRoot.MAP}))
TIMESTAMP_ = Parameter("a timestamp", TIMESTAMPS)
DATETIME = Parameter("a date, time or timestamp", DATETIMES)


def always(result: LogicalType) -> ResultOf:
    """The result has this type whatever the arguments are."""
    return lambda _: result


def of_argument(place: int) -> ResultOf:
    """The result has the type of the argument at that place."""
    return lambda call: call.types[place]


def of_common(call: TypedCall) -> LogicalType:
    """The result has the type that all arguments meet in."""
    return meeting(call.types)


def meeting(types: Sequence[LogicalType]) -> LogicalType:
    """The type that all of these meet in; a ValueError where there is none."""
    common = common_type(types)
    if common is None:
        raise ValueError(f"its arguments have no common type: {', '.join(map(str, types))}; CAST them to one")
    return common
