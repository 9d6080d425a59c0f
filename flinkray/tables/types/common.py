"""The type that several types meet in, and the digits of computed decimals: Flink's `LogicalTypeMerging`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

from flinkray.tables.types import logical
from flinkray.tables.types.logical import (
    APPROXIMATE,
    BYTE_STRINGS,
    DATETIMES,
    INTERVALS,
    MAX_LENGTH,
    MAX_PRECISION,
    NUMBERS,
    TEXTS,
    CollectionType,
    DecimalType,
    IntervalType,
    LengthType,
    LogicalType,
    MapType,
    RowField,
    RowType,
    TimestampType,
    TimeType,
    TypeRoot,
    Unit,
)

_LEAST_SCALE = 6
"""Decimal places that a decimal keeps where its digits do not all fit, if it has as many."""
_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INTEGER: 10, TypeRoot.BIGINT: 19}
_WIDTHS = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INTEGER,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
)
"""Numbers that are no decimals, each with those before it as its subtypes."""


class Meeting(enum.Enum):
    """What values of several types meet for: Flink has three rules beside the one without loss."""

    COMPARISON = "no loss"
    # Flink's LogicalTypeMerging, as for COALESCE and GREATEST.
    ARGUMENTS = "FLOAT behind decimals makes them FLOAT"
    # Calcite's least restrictive type, as of CASE, VALUES and UNION.
    RESULTS = "of FLOAT and DOUBLE the first, of both kinds of timestamps the last, or if of one precision the first"
    BRANCHES = "as RESULTS, but of two times, which IF has, the first with its digits"


# -- the common type -----------------------------------------------------------------------------------------------


def common_type(types: Sequence[LogicalType], meeting: Meeting = Meeting.COMPARISON) -> LogicalType | None:
    """The type that values of all these types have; None: they have nothing in common. Nothing is lost, but where
    Flink has it so.

    It is nullable if one of them is, or if one is NULL. Texts of different lengths meet in the longest, as VARCHAR.
    """
    nullable = any(one.nullable or one.root is TypeRoot.NULL for one in types)
    known = [one for one in types if one.root is not TypeRoot.NULL]
    if not known:
        return logical.NULL if types else None
    common: LogicalType | None = known[0]
    for one in known[1:]:
        common = None if common is None else _common_of_two(common, one, meeting)
    return None if common is None else common.with_nullability(nullable)


def _common_of_two(left: LogicalType, right: LogicalType, meeting: Meeting) -> LogicalType | None:
    nullable = left.nullable or right.nullable
    left, right = left.with_nullability(nullable), right.with_nullability(nullable)
    if left == right:
        return left
    for family, common in _FAMILIES:
        if left.root in family and right.root in family:
            return common(left, right, meeting)
    return _common_nested(left, right, meeting)


def _common_number(left: LogicalType, right: LogicalType, meeting: Meeting) -> LogicalType:
    if left.root is not TypeRoot.DECIMAL and right.root is not TypeRoot.DECIMAL:
        is_first = meeting in (Meeting.RESULTS, Meeting.BRANCHES)
        if is_first and left.is_one_of(APPROXIMATE) and right.is_one_of(APPROXIMATE):
            return left
        return max(left, right, key=lambda one: _WIDTHS.index(one.root))
    if meeting is Meeting.ARGUMENTS and right.is_one_of(APPROXIMATE):
        return right
    if left.is_one_of(APPROXIMATE) or right.is_one_of(APPROXIMATE):
        return logical.DOUBLE.with_nullability(left.nullable)
    first, second = as_decimal(left), as_decimal(right)
    scale = max(first.scale, second.scale)
    whole = max(first.precision - first.scale, second.precision - second.scale)
    return fitted(whole + scale, scale).with_nullability(left.nullable)


def _common_length(fixed: TypeRoot, varying: TypeRoot, left: LogicalType, right: LogicalType) -> LogicalType:
    assert isinstance(left, LengthType)
    assert isinstance(right, LengthType)
    is_fixed = left.is_fixed and right.is_fixed and left.length == right.length
    kind = fixed if is_fixed else varying
    return LengthType(kind, max(left.length, right.length), nullable=left.nullable)


def _common_text(left: LogicalType, right: LogicalType, _: Meeting) -> LogicalType:
    return _common_length(TypeRoot.CHAR, TypeRoot.VARCHAR, left, right)


def _common_bytes(left: LogicalType, right: LogicalType, _: Meeting) -> LogicalType:
    return _common_length(TypeRoot.BINARY, TypeRoot.VARBINARY, left, right)


def _common_datetime(left: LogicalType, right: LogicalType, meeting: Meeting) -> LogicalType | None:
    are_timestamps = isinstance(left, TimestampType) and isinstance(right, TimestampType)
    if meeting is Meeting.BRANCHES and (are_timestamps or left.root is right.root):
        return left
    if left.root is right.root:
        if isinstance(left, TimeType) and isinstance(right, TimeType):
            return TimeType(max(left.precision, right.precision), nullable=left.nullable)
        if isinstance(left, TimestampType) and isinstance(right, TimestampType):
            return TimestampType(left.kind, max(left.precision, right.precision), nullable=left.nullable)
        return left
    if isinstance(left, TimestampType) and isinstance(right, TimestampType):
        precision = max(left.precision, right.precision)
        kind = TypeRoot.TIMESTAMP_LTZ
        if meeting is Meeting.RESULTS:
            kind = left.kind if left.precision == right.precision else right.kind
        return TimestampType(kind, precision, nullable=left.nullable)
    return None  # Flink compares no date with a timestamp


def _common_interval(left: LogicalType, right: LogicalType, _: Meeting) -> LogicalType | None:
    if left.root is not right.root or not isinstance(left, IntervalType) or not isinstance(right, IntervalType):
        return None
    units = list(Unit)
    start = min(left.start, right.start, key=units.index)
    end = max(left.end, right.end, key=units.index)
    precision, fraction = max(left.precision, right.precision), max(left.fraction, right.fraction)
    return IntervalType(start, end, precision, fraction, nullable=left.nullable)


def _common_nested(left: LogicalType, right: LogicalType, meeting: Meeting) -> LogicalType | None:
    match left, right:
        case CollectionType(kind=kind), CollectionType() if kind is right.root:
            element = common_type([left.element, right.element], meeting)
            return None if element is None else CollectionType(kind, element, nullable=left.nullable)
        case MapType(), MapType():
            key = common_type([left.key, right.key], meeting)
            value = common_type([left.value, right.value], meeting)
            return None if key is None or value is None else MapType(key, value, nullable=left.nullable)
        case RowType(), RowType() if len(left.fields) == len(right.fields):
            fields = []
            for ours, theirs in zip(left.fields, right.fields, strict=True):
                common = common_type([ours.type, theirs.type], meeting)
                if common is None:
                    return None
                fields.append(RowField(ours.name, common))
            return RowType(tuple(fields), nullable=left.nullable)
    return None


_FAMILIES: tuple[tuple[frozenset[TypeRoot], Callable[[LogicalType, LogicalType, Meeting], LogicalType | None]], ...] = (
    (NUMBERS, _common_number),
    (TEXTS, _common_text),
    (BYTE_STRINGS, _common_bytes),
    (DATETIMES, _common_datetime),
    (INTERVALS, _common_interval),
)


# -- decimals ------------------------------------------------------------------------------------------------------


def as_decimal(number: LogicalType) -> DecimalType:
    """The decimal that holds all values of an integer type, or the decimal itself."""
    if isinstance(number, DecimalType):
        return number
    return DecimalType(_DIGITS[number.root], 0, nullable=number.nullable)


def fitted(precision: int, scale: int) -> DecimalType:
    """A decimal of these digits. If there are more than 38, decimal places go, but six of them stay."""
    if precision <= MAX_PRECISION:
        return DecimalType(precision, scale)
    whole = precision - scale
    return DecimalType(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _LEAST_SCALE)))


def type_of_sum(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of sums and differences of two decimals."""
    scale = max(left.scale, right.scale)
    return fitted(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)


def type_of_product(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of products of two decimals."""
    return fitted(left.precision + right.precision + 1, left.scale + right.scale)


def type_of_quotient(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of quotients of two decimals."""
    scale = max(_LEAST_SCALE, left.scale + right.precision + 1)
    return fitted(left.precision - left.scale + right.scale + scale, scale)


def type_of_remainder(left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of remainders of two decimals."""
    scale = max(left.scale, right.scale)
    return fitted(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def type_of_rounded(number: DecimalType, digits: int) -> DecimalType:
    """The type of a decimal rounded to so many decimal places."""
    if digits >= number.scale:
        return DecimalType(number.precision, number.scale)
    whole = number.precision - number.scale + 1
    if digits < 0:
        return DecimalType(min(MAX_PRECISION, whole), 0)
    return DecimalType(min(MAX_PRECISION, whole + digits), digits)


def concatenated_length(left: LengthType, right: LengthType) -> int:
    """The length of two texts or byte strings in one."""
    return min(MAX_LENGTH, left.length + right.length)
