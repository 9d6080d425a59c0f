"""Arithmetic of decimals and comparisons of numbers, where Arrow has no type that holds both sides."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Datum = Any
"""A pa.Array or, for a constant, a pa.Scalar."""
_Number = int | float
_MAX_DIGITS = 38
"""Digits of a decimal128 at most."""
_WIDE_DIGITS = 76
"""Digits of a decimal256 at most."""
_DIGITS = {
    pa.int8(): 3,
    pa.int16(): 5,
    pa.int32(): 10,
    pa.int64(): 19,
    pa.uint8(): 3,
    pa.uint16(): 5,
    pa.uint32(): 10,
    pa.uint64(): 20,
}
"""Digits of the longest integer of each type."""


# -- arithmetic of decimals --------------------------------------------------------------------------------------


def exact(
    kernel: Callable[[Datum, Datum], Datum], result_digits: Callable[[pa.DataType, pa.DataType], tuple[int, int]]
) -> Callable[[Datum, Datum], Datum]:
    """The kernel, whose results from decimals are decimals of at most 38 digits wherever they fit into these.

    Args:
        result_digits: precision and scale with which any result fits, given two decimals or a decimal and an integer.
    """

    def computed(left: Datum, right: Datum) -> Datum:
        if not _meet_as_decimals(left, right):
            return kernel(left, right)
        precision, scale = result_digits(left.type, right.type)
        is_wide = pa.types.is_decimal256(left.type) or pa.types.is_decimal256(right.type)
        if precision <= (_WIDE_DIGITS if is_wide else _MAX_DIGITS):
            return kernel(left, right)
        if is_wide:
            raise pa.ArrowInvalid(f"the result may have {precision} digits, {_WAY_OUT}")
        if scale > _MAX_DIGITS:
            scale = max(_scale(left.type), _scale(right.type))
        try:
            return kernel(_widened(left), _widened(right)).cast(pa.decimal128(_MAX_DIGITS, scale))
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"a result needs more than {_MAX_DIGITS} digits, {_WAY_OUT}: {error}") from error

    return computed


_WAY_OUT = (
    "which no decimal of Arrow's holds; cast to fewer decimal places before, for example with "
    '.cast(pa.decimal128(38, 2)), or to "float64"'
)


def digits_of_sum(left: pa.DataType, right: pa.DataType) -> tuple[int, int]:
    """Precision and scale of sums and differences, as of Arrow."""
    scale = max(_scale(left), _scale(right))
    return max(_whole_digits(left), _whole_digits(right)) + scale + 1, scale


def digits_of_product(left: pa.DataType, right: pa.DataType) -> tuple[int, int]:
    """Precision and scale of products, as of Arrow."""
    scale = _scale(left) + _scale(right)
    return _whole_digits(left) + _whole_digits(right) + scale + 1, scale


def _widened(value: Datum) -> Datum:
    # Arrow refuses a product whose declared digits might be 77, though decimal256 holds that of any two decimal128:
    # hence one digit less is declared than there may be, which is not checked, for what comes out is.
    return value.cast(pa.decimal256(_MAX_DIGITS - 1, _scale(value.type)), safe=False)


def decimal_quotient(left: Datum, right: Datum) -> Datum:
    """`//` of decimals, or of a decimal and an integer: as of Python's it loses its decimal places."""
    return _divided(left, right)[0]


def decimal_remainder(left: Datum, right: Datum) -> Datum:
    """`%` of decimals, or of a decimal and an integer: as of Python's it has the sign of `left`."""
    return _divided(left, right)[1]


def _divided(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    scale = max(_scale(left.type), _scale(right.type))
    try:
        left, right = (_with_scale(value, scale) for value in (left, right))
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"this needs more than {_MAX_DIGITS} digits, {_WAY_OUT}: {error}") from error
    wide = left.cast(pa.decimal256(_MAX_DIGITS, scale))
    # The digits that the divisor is said to have, which nobody checks, decide how many decimal places Arrow computes.
    # It rounds none of them, so that the whole ones are right.
    divisor = right.cast(pa.decimal256(1, scale), safe=False)
    quotient = pc.trunc(pc.divide_checked(wide, divisor)).cast(pa.decimal256(_MAX_DIGITS, 0))
    remainder = pc.subtract_checked(wide, pc.multiply_checked(quotient, divisor))
    return quotient.cast(pa.decimal128(_MAX_DIGITS, 0)), remainder.cast(pa.decimal128(_MAX_DIGITS, scale))


def _with_scale(value: Datum, scale: int) -> Datum:
    whole = value.cast(pa.decimal128(_DIGITS[value.type])) if is_integer(value) else value
    return whole.cast(pa.decimal128(_MAX_DIGITS, scale))


def _meet_as_decimals(left: Datum, right: Datum) -> bool:
    has_decimal = pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type)
    return has_decimal and all(pa.types.is_decimal(value.type) or is_integer(value) for value in (left, right))


def _whole_digits(arrow_type: pa.DataType) -> int:
    """Digits in front of the decimal point."""
    return arrow_type.precision - arrow_type.scale if pa.types.is_decimal(arrow_type) else _DIGITS[arrow_type]


def _scale(arrow_type: pa.DataType) -> int:
    return arrow_type.scale if pa.types.is_decimal(arrow_type) else 0


# -- comparisons -------------------------------------------------------------------------------------------------

_COMPARISONS: dict[str, Callable[[Datum, Datum], Datum]] = {
    "equal": pc.equal,
    "not_equal": pc.not_equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.greater,
    "greater_equal": pc.greater_equal,
}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
"""The comparison with its sides exchanged, where that is another one."""
_HOLDS_ABOVE = frozenset({"not_equal", "less", "less_equal"})
"""Comparisons that hold between any integer and a number that is larger than all integers of its type."""
_HOLDS_BELOW = frozenset({"not_equal", "greater", "greater_equal"})
"""Comparisons that hold between any integer and a number that is smaller than all integers of its type."""


def compare(name: str, left: Datum, right: Datum) -> Datum:
    """Compares what Arrow can compare. Numbers that no type of Arrow holds both of are compared as well: exactly,
    but for columns of integers beside floats, which are compared as doubles."""
    if left.type.equals(right.type):
        return _COMPARISONS[name](left, right)
    if is_integer(left) and _is_constant(right):
        return _compare_to(name, left, right.as_py())
    if is_integer(right) and _is_constant(left):
        return _compare_to(_MIRRORED.get(name, name), right, left.as_py())
    return _COMPARISONS[name](*_made_comparable(left, right))


def is_integer(value: Datum) -> bool:
    return bool(pa.types.is_integer(value.type))


def _is_constant(value: Datum) -> bool:
    """Whether the value is a constant integer or float, and not null."""
    return isinstance(value, pa.Scalar) and value.is_valid and (is_integer(value) or _is_float(value))


def _is_float(value: Datum) -> bool:
    return bool(pa.types.is_floating(value.type))


def _compare_to(name: str, value: Datum, number: _Number) -> Datum:
    """Compares integers with a number, exactly: with an integer of their own type that gives the same answers."""
    lowest, highest = _limits(value.type)
    if math.isnan(number):
        return _same(value, name == "not_equal")
    if number > highest:
        return _same(value, name in _HOLDS_ABOVE)
    if number < lowest:
        return _same(value, name in _HOLDS_BELOW)
    below = math.floor(number)
    if below != number and name in ("equal", "not_equal"):
        return _same(value, name == "not_equal")
    bound = below if name in ("less_equal", "greater") else math.ceil(number)
    return _COMPARISONS[name](value, pa.scalar(bound, value.type))


def _same(value: Datum, answer: bool) -> Datum:
    """The same answer in each row that is not null."""
    lowest = pa.scalar(_limits(value.type)[0], value.type)
    return pc.greater_equal(value, lowest) if answer else pc.less(value, lowest)


def _limits(arrow_type: pa.DataType) -> tuple[int, int]:
    bits = arrow_type.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(arrow_type) else (0, 2**bits - 1)


def _made_comparable(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Two columns of different types, where these are numbers: in types that Arrow compares without a failure."""
    if (is_integer(left) and _is_float(right)) or (_is_float(left) and is_integer(right)):
        return left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
    if is_integer(left) and is_integer(right):
        is_mixed = pa.types.is_signed_integer(left.type) != pa.types.is_signed_integer(right.type)
        if not is_mixed or pa.uint64() not in (left.type, right.type):
            return left, right
        return left.cast(pa.decimal128(20)), right.cast(pa.decimal128(20))
    common = common_decimal(left, right)
    return (left, right) if common is None else (left.cast(common), right.cast(common))


def common_decimal(left: Datum, right: Datum) -> pa.DataType | None:
    """The decimal256 that both fit into, where they meet as decimals that no decimal128 holds; else None."""
    if not _meet_as_decimals(left, right):
        return None
    scale = max(_scale(left.type), _scale(right.type))
    digits = max(_whole_digits(left.type), _whole_digits(right.type)) + scale
    return pa.decimal256(digits, scale) if _MAX_DIGITS < digits <= _WIDE_DIGITS else None


def members_among(arrow_type: pa.DataType, values: tuple[Any, ...]) -> pa.Array | None:
    """Those of the values that a column of integers or floats can hold, nulls included; None: the column is neither, or
    a value is no number.

    They have the column's type if that is one of integers, else they are doubles.
    """
    is_whole, is_float = pa.types.is_integer(arrow_type), pa.types.is_floating(arrow_type)
    if not (is_whole or is_float) or not all(map(_is_plain_number, values)):
        return None
    if is_float:
        return pa.array([None if v is None else float(v) for v in values if _is_double(v)], pa.float64())
    lowest, highest = _limits(arrow_type)
    held = [v for v in values if v is None or (lowest <= v <= highest and v == math.floor(v))]
    return pa.array([None if v is None else int(v) for v in held], arrow_type)


def _is_plain_number(value: Any) -> bool:
    return value is None or (isinstance(value, numbers.Real) and not isinstance(value, bool))


def _is_double(value: Any) -> bool:
    """Whether a double holds the value exactly."""
    if not isinstance(value, numbers.Integral):
        return True
    return int(value).bit_length() <= 1023 and int(float(value)) == value
