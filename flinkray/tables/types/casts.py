"""Which casts a query may write, and which happen by themselves: Flink's `LogicalTypeCasts`."""

from __future__ import annotations

from collections.abc import Callable

from flinkray.tables.types.logical import (
    BYTE_STRINGS,
    INTEGERS,
    NUMBERS,
    TEXTS,
    TIMESTAMPS,
    CollectionType,
    LogicalType,
    MapType,
    RowType,
    TypeRoot,
)

_BOOLEAN, _DATE, _TIME = TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.TIME
_NESTED = frozenset({TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW})
_MONTHS, _MILLIS = TypeRoot.INTERVAL_YEAR_MONTH, TypeRoot.INTERVAL_DAY_TIME
_TO_NUMBER = NUMBERS | TEXTS | {_BOOLEAN}
_EXPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    TypeRoot.CHAR: frozenset(TypeRoot),
    TypeRoot.VARCHAR: frozenset(TypeRoot),
    TypeRoot.BINARY: TEXTS | BYTE_STRINGS | {TypeRoot.RAW},
    TypeRoot.VARBINARY: TEXTS | BYTE_STRINGS | {TypeRoot.RAW},
    _BOOLEAN: TEXTS | NUMBERS | {_BOOLEAN},
    TypeRoot.TINYINT: _TO_NUMBER,
    TypeRoot.SMALLINT: _TO_NUMBER,
    TypeRoot.INTEGER: _TO_NUMBER,
    TypeRoot.BIGINT: _TO_NUMBER,
    TypeRoot.FLOAT: _TO_NUMBER,
    TypeRoot.DOUBLE: _TO_NUMBER,
    TypeRoot.DECIMAL: _TO_NUMBER,
    _DATE: TEXTS | TIMESTAMPS | {_DATE},
    _TIME: TEXTS | TIMESTAMPS | {_TIME},
    TypeRoot.TIMESTAMP: TEXTS | TIMESTAMPS | {_DATE, _TIME},
    TypeRoot.TIMESTAMP_LTZ: TEXTS | TIMESTAMPS | {_DATE, _TIME},
    _MONTHS: frozenset({_MONTHS}),
    _MILLIS: frozenset({_MILLIS}),
    TypeRoot.RAW: frozenset({TypeRoot.RAW}),
    TypeRoot.NULL: frozenset({TypeRoot.NULL}),
}
_IMPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    TypeRoot.VARCHAR: TEXTS,
    TypeRoot.VARBINARY: BYTE_STRINGS,
    TypeRoot.SMALLINT: frozenset({TypeRoot.TINYINT}),
    TypeRoot.INTEGER: frozenset({TypeRoot.TINYINT, TypeRoot.SMALLINT}),
    TypeRoot.BIGINT: INTEGERS,
    TypeRoot.DECIMAL: NUMBERS,
    TypeRoot.FLOAT: NUMBERS - {TypeRoot.DOUBLE},
    TypeRoot.DOUBLE: NUMBERS,
    _DATE: frozenset({TypeRoot.TIMESTAMP}),
    _TIME: frozenset({TypeRoot.TIMESTAMP}),
    TypeRoot.TIMESTAMP: frozenset({TypeRoot.TIMESTAMP_LTZ, _DATE}),
    TypeRoot.TIMESTAMP_LTZ: frozenset({TypeRoot.TIMESTAMP, _DATE}),
}


def can_cast(source: LogicalType, target: LogicalType) -> bool:
    """Whether `CAST(source AS target)` may be written; that a value does not fit shows when it runs."""
    if source.root is TypeRoot.NULL:
        return target.nullable
    if target.root in _NESTED:
        return _holds_for_children(can_cast, source, target)
    return source.root in _EXPLICIT[target.root]


def can_cast_implicitly(source: LogicalType, target: LogicalType) -> bool:
    """Whether a value becomes one of `target` without a cast in the statement, as an argument or in an INSERT."""
    if source.nullable and not target.nullable:
        return False
    if source.root is TypeRoot.NULL:
        return True
    if target.root in _NESTED:
        return _holds_for_children(can_cast_implicitly, source, target)
    return source.root is target.root or source.root in _IMPLICIT.get(target.root, frozenset())


def _holds_for_children(
    rule: Callable[[LogicalType, LogicalType], bool], source: LogicalType, target: LogicalType
) -> bool:
    match source, target:
        case CollectionType(kind=kind), CollectionType() if kind is target.root:
            return rule(source.element, target.element)
        case MapType(), MapType():
            return rule(source.key, target.key) and rule(source.value, target.value)
        case RowType(), RowType() if len(source.fields) == len(target.fields):
            pairs = zip(source.types, target.types, strict=True)
            return all(rule(ours, theirs) for ours, theirs in pairs)
    return False
