"""Logical types of SQL: values, which are equal where they mean the same, nullability included.

`str(type)` is Flink's summary string: `BIGINT NOT NULL`, `DECIMAL(10, 2)`, ``ROW<`a` INT, `b` STRING>``,
`TIMESTAMP(3) *ROWTIME*`. Types are made with the constants and functions in capitals at the end, which carry the names
that a statement has: `BIGINT`, `DECIMAL(10, 2)`, `ARRAY(INT).not_null()`.
"""

from __future__ import annotations

import enum
from typing import ClassVar, Self

from msgspec import Struct
from msgspec.structs import replace

MAX_LENGTH = 2**31 - 1
"""The length of STRING and BYTES."""
MAX_PRECISION = 38
"""Digits of a decimal at most."""


class TypeRoot(enum.Enum):
    """What a type is without its parameters; the value is its name in a statement."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    INTERVAL_YEAR_MONTH = "INTERVAL YEAR TO MONTH"
    INTERVAL_DAY_TIME = "INTERVAL DAY TO SECOND"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    RAW = "RAW"
    NULL = "NULL"


class TimeAttribute(enum.Enum):
    """What makes a timestamp column an attribute of its table."""

    ROWTIME = "ROWTIME"
    PROCTIME = "PROCTIME"


_INTEGERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
INTEGERS = frozenset(_INTEGERS)
APPROXIMATE = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
NUMBERS = INTEGERS | APPROXIMATE | {TypeRoot.DECIMAL}
TEXTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BYTE_STRINGS = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
INTERVALS = frozenset({TypeRoot.INTERVAL_YEAR_MONTH, TypeRoot.INTERVAL_DAY_TIME})
DATETIMES = TIMESTAMPS | {TypeRoot.DATE, TypeRoot.TIME}


class LogicalType(Struct, frozen=True, kw_only=True):
    """A type of SQL. Never made itself: see the names in capitals at the end of the module."""

    nullable: bool = True

    @property
    def root(self) -> TypeRoot:
        """What it is without its parameters."""
        raise NotImplementedError

    def with_nullability(self, nullable: bool) -> Self:
        """The same type that may hold NULL, or may not."""
        return self if nullable == self.nullable else replace(self, nullable=nullable)

    def not_null(self) -> Self:
        """The same type, which never holds NULL."""
        return self.with_nullability(False)

    def as_nullable(self) -> Self:
        """The same type, which may hold NULL."""
        return self.with_nullability(True)

    def summary(self) -> str:
        """How it is written without its nullability and without being a time attribute."""
        return self.root.value

    def is_one_of(self, *roots: TypeRoot | frozenset[TypeRoot]) -> bool:
        """Whether its root is one of these, or in one of these sets."""
        return any(self.root in root if isinstance(root, frozenset) else self.root is root for root in roots)

    def __str__(self) -> str:
        return self.summary() if self.nullable else f"{self.summary()} NOT NULL"


class SimpleType(LogicalType, frozen=True):
    """A type without parameters: BOOLEAN, the integers, FLOAT, DOUBLE, DATE and NULL."""

    kind: TypeRoot

    @property
    def root(self) -> TypeRoot:
        return self.kind


class DecimalType(LogicalType, frozen=True):
    """Numbers of at most `precision` digits (1 to 38), `scale` of them after the point."""

    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= MAX_PRECISION:
            raise ValueError(f"DECIMAL has a precision of 1 to {MAX_PRECISION}, not {self.precision}")
        if not 0 <= self.scale <= self.precision:
            raise ValueError(f"DECIMAL({self.precision}) has a scale of 0 to {self.precision}, not {self.scale}")

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.DECIMAL

    def summary(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


class LengthType(LogicalType, frozen=True):
    """Texts and byte strings: CHAR and BINARY of exactly `length`, VARCHAR and VARBINARY of at most that.

    The length counts code points, or bytes. Only the literals '' and x'' have length 0.
    """

    kind: TypeRoot
    length: int = 1

    _UNBOUNDED: ClassVar[dict[TypeRoot, str]] = {TypeRoot.VARCHAR: "STRING", TypeRoot.VARBINARY: "BYTES"}

    def __post_init__(self) -> None:
        if not 0 <= self.length <= MAX_LENGTH:
            raise ValueError(f"{self.kind.value} has a length of 1 to {MAX_LENGTH}, not {self.length}")

    @property
    def root(self) -> TypeRoot:
        return self.kind

    @property
    def is_fixed(self) -> bool:
        """Whether all values have the length."""
        return self.kind in (TypeRoot.CHAR, TypeRoot.BINARY)

    def summary(self) -> str:
        if self.length == MAX_LENGTH and not self.is_fixed:
            return self._UNBOUNDED[self.kind]
        return f"{self.kind.value}({self.length})"


class TimeType(LogicalType, frozen=True):
    """A time of day with `precision` (0 to 9) digits of a second. Flink computes with milliseconds of it."""

    precision: int = 0

    def __post_init__(self) -> None:
        _check_fraction("TIME", self.precision)

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.TIME

    def summary(self) -> str:
        return f"TIME({self.precision})"


class TimestampType(LogicalType, frozen=True):
    """A date and time (TIMESTAMP), or an instant (TIMESTAMP_LTZ), with `precision` (0 to 9) digits of a second."""

    kind: TypeRoot
    precision: int = 6
    attribute: TimeAttribute | None = None

    def __post_init__(self) -> None:
        _check_fraction(self.kind.value, self.precision)

    @property
    def root(self) -> TypeRoot:
        return self.kind

    def summary(self) -> str:
        return f"{self.kind.value}({self.precision})"

    def as_attribute(self, attribute: TimeAttribute | None) -> TimestampType:
        """The same type as a time attribute, or as none."""
        return replace(self, attribute=attribute)

    def __str__(self) -> str:
        plain = super().__str__()
        return plain if self.attribute is None else f"{plain} *{self.attribute.value}*"


def is_rowtime(kind: LogicalType) -> bool:
    """Whether a column of that type is a rowtime attribute."""
    return isinstance(kind, TimestampType) and kind.attribute is TimeAttribute.ROWTIME


def is_proctime(kind: LogicalType) -> bool:
    """Whether a column of that type is the clock."""
    return isinstance(kind, TimestampType) and kind.attribute is TimeAttribute.PROCTIME


def without_attribute(kind: LogicalType) -> LogicalType:
    """The type of a column that is no time attribute any more."""
    return kind.as_attribute(None) if isinstance(kind, TimestampType) else kind


class Unit(enum.Enum):
    """Units of intervals, the largest first."""

    YEAR = "YEAR"
    MONTH = "MONTH"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"


class IntervalType(LogicalType, frozen=True):
    """A span of months (`start` YEAR or MONTH) or of milliseconds (`start` DAY to SECOND); `end` is its smallest unit.

    Args:
        precision: digits of years, or of days.
        fraction: digits of a second.
    """

    start: Unit
    end: Unit
    precision: int = 2
    fraction: int = 6

    @property
    def root(self) -> TypeRoot:
        is_months = self.start in (Unit.YEAR, Unit.MONTH)
        return TypeRoot.INTERVAL_YEAR_MONTH if is_months else TypeRoot.INTERVAL_DAY_TIME

    def summary(self) -> str:
        first = f"{self.start.value}({self.precision})" if self.start in (Unit.YEAR, Unit.DAY) else self.start.value
        last = f"SECOND({self.fraction})" if self.end is Unit.SECOND else self.end.value
        return f"INTERVAL {last if self.start is self.end is Unit.SECOND else first}" + (
            "" if self.start is self.end else f" TO {last}"
        )


class CollectionType(LogicalType, frozen=True):
    """ARRAY or MULTISET of elements."""

    kind: TypeRoot
    element: LogicalType

    @property
    def root(self) -> TypeRoot:
        return self.kind

    def summary(self) -> str:
        return f"{self.kind.value}<{self.element}>"


class MapType(LogicalType, frozen=True):
    """Keys, each with its value."""

    key: LogicalType
    value: LogicalType

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.MAP

    def summary(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


class RowField(Struct, frozen=True):
    """A field of a ROW."""

    name: str
    type: LogicalType
    description: str | None = None

    def __str__(self) -> str:
        escaped = self.name.replace("`", "``")
        return f"`{escaped}` {self.type}" + (" '...'" if self.description is not None else "")


class RowType(LogicalType, frozen=True):
    """Named fields in order; also the type of a table's rows."""

    fields: tuple[RowField, ...] = ()

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.ROW

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """The types of the fields."""
        return tuple(field.type for field in self.fields)

    def summary(self) -> str:
        return f"ROW<{', '.join(map(str, self.fields))}>"


class RawType(LogicalType, frozen=True):
    """Any Python object, pickled; no function looks into it."""

    name: str = "object"

    @property
    def root(self) -> TypeRoot:
        return TypeRoot.RAW

    def summary(self) -> str:
        return f"RAW('{self.name}', ?)"


def _check_fraction(name: str, precision: int) -> None:
    if not 0 <= precision <= 9:
        raise ValueError(f"{name} has a precision of 0 to 9, not {precision}")


BOOLEAN = SimpleType(TypeRoot.BOOLEAN)
TINYINT = SimpleType(TypeRoot.TINYINT)
SMALLINT = SimpleType(TypeRoot.SMALLINT)
INT = SimpleType(TypeRoot.INTEGER)
BIGINT = SimpleType(TypeRoot.BIGINT)
FLOAT = SimpleType(TypeRoot.FLOAT)
DOUBLE = SimpleType(TypeRoot.DOUBLE)
DATE = SimpleType(TypeRoot.DATE)
NULL = SimpleType(TypeRoot.NULL)


def DECIMAL(precision: int = 10, scale: int = 0) -> DecimalType:
    return DecimalType(precision, scale)


def CHAR(length: int = 1) -> LengthType:
    return LengthType(TypeRoot.CHAR, length)


def VARCHAR(length: int = 1) -> LengthType:
    return LengthType(TypeRoot.VARCHAR, length)


STRING = VARCHAR(MAX_LENGTH)


def BINARY(length: int = 1) -> LengthType:
    return LengthType(TypeRoot.BINARY, length)


def VARBINARY(length: int = 1) -> LengthType:
    return LengthType(TypeRoot.VARBINARY, length)


BYTES = VARBINARY(MAX_LENGTH)


def TIME(precision: int = 0) -> TimeType:
    return TimeType(precision)


def TIMESTAMP(precision: int = 6) -> TimestampType:
    return TimestampType(TypeRoot.TIMESTAMP, precision)


def TIMESTAMP_LTZ(precision: int = 6) -> TimestampType:
    return TimestampType(TypeRoot.TIMESTAMP_LTZ, precision)


def INTERVAL(start: str | Unit, end: str | Unit | None = None, precision: int = 2, fraction: int = 6) -> IntervalType:
    """INTERVAL `start` TO `end`, or INTERVAL `start`."""
    first = Unit(start)
    return IntervalType(first, first if end is None else Unit(end), precision, fraction)


def ARRAY(element: LogicalType) -> CollectionType:
    return CollectionType(TypeRoot.ARRAY, element)


def MULTISET(element: LogicalType) -> CollectionType:
    return CollectionType(TypeRoot.MULTISET, element)


def MAP(key: LogicalType, value: LogicalType) -> MapType:
    return MapType(key, value)


def ROW(*fields: tuple[str, LogicalType]) -> RowType:
    """ROW of pairs of name and type."""
    return RowType(tuple(RowField(name, field_type) for name, field_type in fields))


def RAW(name: str = "object") -> RawType:
    return RawType(name)
