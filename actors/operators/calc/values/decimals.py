"""Decimals: computed exactly, rounded half away from zero to the digits of the result, NULL where they do not fit."""

from __future__ import annotations

import decimal
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc.values.evaluation import Datum, kept_where, nulls_where
from flinkray.tables.types.common import type_of_sum
from flinkray.tables.types.logical import DecimalType

_MOST_DIGITS = 38
_WIDE_DIGITS = 76
_PLACES_OF_QUOTIENT = 4
"""Decimal places that Arrow gives a quotient at least."""
_EXACT_IN_DOUBLE = 15
"""Digits of whole numbers that doubles are sure to hold."""
_LARGEST_SURE = 2.0**40
_NEAR = 1e-4
"""Below 2**40 a product with a power of ten is wrong by less than this."""
_CONTEXT = decimal.Context(prec=_WIDE_DIGITS + 40, rounding=decimal.ROUND_HALF_UP)


def add(left: Datum, right: Datum, result: DecimalType) -> Datum:
    """Sums of decimals."""
    return _sum(pc.add, left, right, result)


def subtract(left: Datum, right: Datum, result: DecimalType) -> Datum:
    """Differences of decimals."""
    return _sum(pc.subtract, left, right, result)


def _sum(kernel: Callable[[Datum, Datum], Datum], left: Datum, right: Datum, result: DecimalType) -> Datum:
    if type_of_sum(_type_of(left), _type_of(right)).precision < _MOST_DIGITS:
        return kernel(left, right)
    scale = max(left.type.scale, right.type.scale)
    return fitted(kernel(_at_scale(left, scale), _at_scale(right, scale)), result)


def multiply(left: Datum, right: Datum, result: DecimalType) -> Datum:
    """Products of decimals."""
    if left.type.precision + right.type.precision < _MOST_DIGITS:
        return pc.multiply(left, right)
    return fitted(pc.multiply(_factor(left), _factor(right)), result)


def divide(left: Datum, right: Datum, result: DecimalType) -> Datum:
    """Quotients of decimals. Dividing by zero is an error."""
    # Arrow gives as many decimal places as the digits that the divisor is said to have ask for, and rounds none of
    # them: with one more than wanted, what is rounded is right.
    scale = max(result.scale + 1, left.type.scale + 2)
    digits = left.type.precision + right.type.scale + scale - left.type.scale
    if digits > _WIDE_DIGITS:
        return _row_by_row(_CONTEXT.divide, left, right, result)
    places = right.type.scale
    make = pa.decimal128 if digits <= _MOST_DIGITS else pa.decimal256
    dividend = left.cast(make(left.type.precision, left.type.scale))
    divisor = right.cast(make(right.type.precision, places))
    divisor = divisor.cast(make(scale - left.type.scale + places - 1, places), safe=False)
    return fitted(pc.divide(dividend, divisor), result)


def remainder(left: Datum, right: Datum, result: DecimalType) -> Datum:
    """What is left of a division whose quotient is whole; it has the sign of `left`."""
    scale = max(left.type.scale, right.type.scale)
    digits = left.type.precision - left.type.scale + scale
    if digits + _PLACES_OF_QUOTIENT > _WIDE_DIGITS:
        return _row_by_row(_CONTEXT.remainder, left, right, result)
    # The digits that the divisor is said to have, which nobody checks, decide how many decimal places Arrow computes.
    wide, divisor = _at_scale(left, scale, digits), _at_scale(right, scale, 1)
    quotient = pc.trunc(pc.divide(wide, divisor)).cast(pa.decimal256(_MOST_DIGITS, 0), safe=False)
    rest = pc.subtract(_at_scale(left, scale), _at_scale(pc.multiply(quotient, divisor), scale))
    return fitted(rest, result)


def _at_scale(value: Datum, scale: int, precision: int = _WIDE_DIGITS - 1) -> Datum:
    """The numbers with so many decimal places, said to have so many digits: Arrow refuses types that might overflow
    where these numbers cannot."""
    return value.cast(pa.decimal256(_WIDE_DIGITS, scale), safe=False).cast(pa.decimal256(precision, scale), safe=False)


def _row_by_row(
    compute: Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal],
    left: Datum,
    right: Datum,
    result: DecimalType,
) -> pa.Array:
    """For the few types whose results no decimal of Arrow's holds on the way."""
    rows = max(len(value) for value in (left, right) if not isinstance(value, pa.Scalar))
    columns = [[value.as_py()] * rows if isinstance(value, pa.Scalar) else value.to_pylist() for value in (left, right)]
    exponent = decimal.Decimal(1).scaleb(-result.scale)
    largest = 10 ** (result.precision - result.scale)

    def one(first: decimal.Decimal | None, second: decimal.Decimal | None) -> decimal.Decimal | None:
        if first is None or second is None:
            return None
        if not second:
            raise ValueError("a division by zero")
        value = compute(first, second).quantize(exponent, context=_CONTEXT)
        return value if abs(value) < largest else None

    values = [one(first, second) for first, second in zip(*columns, strict=True)]
    return pa.array(values, pa.decimal128(result.precision, result.scale))


def fitted(values: Datum, result: DecimalType) -> Datum:
    """Numbers of any decimal type in the type of the result: rounded half away from zero, NULL where too large."""
    target = pa.decimal128(result.precision, result.scale)
    if values.type.equals(target):
        return values
    if isinstance(values, pa.Scalar):
        return fitted(pa.array([values.as_py()], values.type), result)[0]
    whole = result.precision - result.scale
    if values.type.scale > result.scale:
        values = rounded(values, result.scale, "half_towards_infinity")
    if values.type.precision - values.type.scale <= whole:
        return values.cast(target, safe=False)
    is_narrow = values.type.bit_width == 128 and result.precision < _MOST_DIGITS and values.type.scale >= result.scale
    wide = pa.decimal128(_MOST_DIGITS, result.scale) if is_narrow else pa.decimal256(_WIDE_DIGITS, result.scale)
    values = (values if is_narrow else widened(values)).cast(wide, safe=False)
    too_large = pc.greater_equal(pc.abs(values), pa.scalar(decimal.Decimal(10) ** whole).cast(wide))
    return nulls_where(too_large, values).cast(target) if pc.any(too_large).as_py() else values.cast(target)


def rounded(values: Datum, digits: int, mode: str) -> Datum:
    """Rounded to so many decimal places. The digit that rounding up may add has room in a wider type."""
    precision, scale = values.type.precision, values.type.scale
    is_narrow = values.type.bit_width == 128 and precision < _MOST_DIGITS and precision - scale >= -digits
    wider = values.cast(pa.decimal128(precision + 1, scale)) if is_narrow else widened(values)
    return pc.round(wider, digits, mode)


def widened(values: Datum) -> Datum:
    """The same numbers in the type with the most digits."""
    return values.cast(pa.decimal256(_WIDE_DIGITS, values.type.scale))


def rounded_doubles(
    numbers: npt.NDArray[np.float64], digits: int, border: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Doubles times a power of ten as whole numbers, and which of these are sure to be those of the decimals that the
    doubles are written as: not those near the border between two.

    Args:
        border: 0.5 to round halves away from zero, 0 to cut what is behind the point.
    """
    with np.errstate(all="ignore"):
        scaled = numbers * 10.0**digits
        size = np.abs(scaled)
        distance = np.abs(size - border - np.rint(size - border))
        is_sure = ((size < _LARGEST_SURE) & (distance > _NEAR)) | (size == 0)
        return np.copysign(np.floor(size + border), scaled), is_sure


def from_doubles(values: pa.Array, result: DecimalType) -> pa.Array:
    """The decimals that doubles are written as; NULL for infinities and NaN."""
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    whole, is_sure = rounded_doubles(numbers, result.scale, 0.5)
    integers = pa.array(np.where(is_sure, whole, 0.0).astype(np.int64)).cast(pa.decimal128(_MOST_DIGITS, 0))
    quick = fitted(_with_point(integers, result.scale), result)
    if not is_sure.all():
        unsure = pa.array(~is_sure)
        others = values.filter(unsure)
        texts = kept_where(pc.is_finite(others), others.cast(pa.string()))
        quick = pc.replace_with_mask(quick, unsure, fitted(parsed(texts), result))
    return nulls_where(values.is_null(), quick) if values.null_count else quick


def _with_point(values: pa.Array, scale: int) -> pa.Array:
    """Decimals of scale 0 with a point before the last digits."""
    return pa.Array.from_buffers(pa.decimal128(_MOST_DIGITS, scale), len(values), values.buffers())


def from_number(values: Datum, result: DecimalType) -> Datum:
    """Whole numbers or decimals as decimals."""
    if not pa.types.is_decimal(values.type):
        values = values.cast(pa.int64()).cast(pa.decimal128(19, 0))
    return fitted(values, result)


def parsed(texts: pa.Array) -> pa.Array:
    """Texts that are numbers as decimals of 38 places and digits; NULL where there are more before the point.

    Places after the 38th are cut, which matters to no result that is rounded to fewer.
    """
    try:
        return texts.cast(pa.decimal256(_WIDE_DIGITS, _MOST_DIGITS))
    except pa.ArrowInvalid:
        exponent = decimal.Decimal(1).scaleb(-_MOST_DIGITS)

        def one(text: str | None) -> decimal.Decimal | None:
            number = None if text is None else decimal.Decimal(text)
            if number is None or number.adjusted() >= _MOST_DIGITS:
                return None
            return number.quantize(exponent, decimal.ROUND_DOWN, _CONTEXT)

        return pa.array(map(one, texts.to_pylist()), pa.decimal256(_WIDE_DIGITS, _MOST_DIGITS))


def to_double(values: pa.Array) -> pa.Array:
    """The nearest doubles, which Arrow's own cast does not always give."""
    if values.type.precision > _EXACT_IN_DOUBLE:
        return values.cast(pa.string()).cast(pa.float64())
    numbers = unscaled(values).cast(pa.float64())
    return pc.divide(numbers, pa.scalar(10.0**values.type.scale)) if values.type.scale else numbers


def unscaled(values: pa.Array) -> pa.Array:
    """Decimals without their point, as int64: of those with more digits the lowest bits."""
    words = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset : 2 * (values.offset + len(values)) : 2]
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(words, mask=mask)


def without_point(values: pa.Array) -> pa.Array:
    """Decimals without their point, as decimals of scale 0."""
    return pa.Array.from_buffers(pa.decimal128(_MOST_DIGITS, 0), len(values), values.buffers(), offset=values.offset)


def _type_of(value: Datum) -> DecimalType:
    return DecimalType(value.type.precision, value.type.scale)


def _factor(value: Datum) -> Datum:
    """As a decimal256, said to have one digit less than it may have: else Arrow would refuse to multiply two."""
    scale = value.type.scale
    wide = value.cast(pa.decimal256(_MOST_DIGITS, scale))
    return wide.cast(pa.decimal256(max(_MOST_DIGITS - 1, scale), scale), safe=False)
