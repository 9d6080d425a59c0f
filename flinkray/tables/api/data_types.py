"""DataTypes: types of SQL by name, and what else may stand for one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.errors import InvalidProgramError
from flinkray.tables.binding.constants import type_of
from flinkray.tables.binding.context import Context
from flinkray.tables.catalog import Catalog
from flinkray.tables.syntax import expressions as syntax
from flinkray.tables.syntax.names import TypeName
from flinkray.tables.syntax.parsing.parser import parse_expression
from flinkray.tables.types import logical
from flinkray.tables.types.arrow import from_arrow
from flinkray.tables.types.logical import IntervalType, LogicalType, RowField, RowType, Unit


class Resolution(Struct, frozen=True):
    """A unit of an interval, with the digits of years, days, or fractions of a second."""

    unit: Unit
    precision: int | None = None


class DataTypes:
    """Makes types of SQL; each may be NULL unless `nullable` is False."""

    @staticmethod
    def NULL() -> LogicalType:
        return logical.NULL

    @staticmethod
    def STRING(nullable: bool = True) -> LogicalType:
        return logical.STRING.with_nullability(nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> LogicalType:
        return logical.CHAR(length).with_nullability(nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> LogicalType:
        return logical.VARCHAR(length).with_nullability(nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> LogicalType:
        return logical.BYTES.with_nullability(nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> LogicalType:
        return logical.BINARY(length).with_nullability(nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> LogicalType:
        return logical.VARBINARY(length).with_nullability(nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> LogicalType:
        return logical.BOOLEAN.with_nullability(nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> LogicalType:
        return logical.TINYINT.with_nullability(nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> LogicalType:
        return logical.SMALLINT.with_nullability(nullable)

    @staticmethod
    def INT(nullable: bool = True) -> LogicalType:
        return logical.INT.with_nullability(nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> LogicalType:
        return logical.BIGINT.with_nullability(nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> LogicalType:
        return logical.FLOAT.with_nullability(nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> LogicalType:
        return logical.DOUBLE.with_nullability(nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> LogicalType:
        return logical.DECIMAL(precision, scale).with_nullability(nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> LogicalType:
        return logical.DATE.with_nullability(nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> LogicalType:
        return logical.TIME(precision).with_nullability(nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> LogicalType:
        return logical.TIMESTAMP(precision).with_nullability(nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> LogicalType:
        return logical.TIMESTAMP_LTZ(precision).with_nullability(nullable)

    TIMESTAMP_WITH_LOCAL_TIME_ZONE = TIMESTAMP_LTZ

    @staticmethod
    def INTERVAL(upper_resolution: Resolution, lower_resolution: Resolution | None = None) -> LogicalType:
        """Spans from one unit to another: `DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3))`."""
        upper, lower = upper_resolution, lower_resolution or upper_resolution
        precision = 2 if upper.precision is None or upper.unit is Unit.SECOND else upper.precision
        fraction = lower.precision if lower.unit is Unit.SECOND and lower.precision is not None else 6
        return IntervalType(upper.unit, lower.unit, precision, fraction)

    @staticmethod
    def YEAR(precision: int = 2) -> Resolution:
        return Resolution(Unit.YEAR, precision)

    @staticmethod
    def MONTH() -> Resolution:
        return Resolution(Unit.MONTH)

    @staticmethod
    def DAY(precision: int = 2) -> Resolution:
        return Resolution(Unit.DAY, precision)

    @staticmethod
    def HOUR() -> Resolution:
        return Resolution(Unit.HOUR)

    @staticmethod
    def MINUTE() -> Resolution:
        return Resolution(Unit.MINUTE)

    @staticmethod
    def SECOND(precision: int = 6) -> Resolution:
        return Resolution(Unit.SECOND, precision)

    @staticmethod
    def ARRAY(element_type: Any, nullable: bool = True) -> LogicalType:
        return logical.ARRAY(logical_type(element_type)).with_nullability(nullable)

    @staticmethod
    def MULTISET(element_type: Any, nullable: bool = True) -> LogicalType:
        return logical.MULTISET(logical_type(element_type)).with_nullability(nullable)

    @staticmethod
    def MAP(key_type: Any, value_type: Any, nullable: bool = True) -> LogicalType:
        return logical.MAP(logical_type(key_type), logical_type(value_type)).with_nullability(nullable)

    @staticmethod
    def FIELD(name: str, data_type: Any, description: str | None = None) -> RowField:
        return RowField(name, logical_type(data_type), description)

    @staticmethod
    def ROW(row_fields: Sequence[Any] = (), nullable: bool = True) -> RowType:
        """ROW of fields, or of types alone, which are then called f0, f1, and so on."""
        fields = [
            each if isinstance(each, RowField) else RowField(f"f{place}", logical_type(each))
            for place, each in enumerate(row_fields)
        ]
        return RowType(tuple(fields), nullable=nullable)


_PYTHON = {bool: logical.BOOLEAN, int: logical.BIGINT, float: logical.DOUBLE, str: logical.STRING, bytes: logical.BYTES}


def logical_type(given: Any) -> LogicalType:
    """The type that something stands for: one of `DataTypes`, its name in SQL, a type of Arrow, or bool, int, float,
    str and bytes.

    Raises:
        InvalidProgramError: it stands for none.
    """
    own = getattr(given, "logical_type", given)
    if isinstance(own, LogicalType):
        return own
    if isinstance(given, str):
        return _named(given)
    if isinstance(given, pa.DataType):
        return from_arrow(given)
    if isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    arrow = getattr(given, "arrow_type", None)
    if isinstance(arrow, pa.DataType):
        return from_arrow(arrow)
    raise InvalidProgramError(f"a type is one of DataTypes, a name such as 'DECIMAL(10, 2)', or Arrow's, not {given!r}")


def _named(text: str) -> LogicalType:
    return type_of(_parsed(text), Context(text, Catalog()))


def type_name(given: Any) -> TypeName:
    """The type as a statement has it."""
    return _parsed(str(logical_type(given)))


@cache
def _parsed(text: str) -> TypeName:
    found = parse_expression(f"CAST(NULL AS {text})")
    assert isinstance(found, syntax.Cast)
    return found.type
