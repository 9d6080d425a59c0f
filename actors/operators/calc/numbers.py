"""Arithmetic and functions of numbers: integers wrap, division goes towards zero, halves are rounded away from zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.calc import shifts
from actors.operators.calc.values import decimals
from actors.operators.calc.values.casts import cast
from actors.operators.calc.values.evaluation import (
    Datum,
    Kernel,
    KernelCall,
    as_array,
    kept_where,
    nulls_where,
    plain,
    with_call,
)
from flinkray.tables.types.common import as_decimal
from flinkray.tables.types.logical import (
    DATETIMES,
    INTEGERS,
    INTERVALS,
    DecimalType,
    LogicalType,
)

_UNSCALED_DIGITS = 15
"""Digits after the point up to which a double is rounded as a decimal of its shortest text."""

_LARGEST_ROUNDED = 1e18
"""Doubles from here on are whole numbers of hundreds, which nobody rounds."""


# -- arithmetic ----------------------------------------------------------------------------------------------------

_OF_NUMBERS = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
_OF_DECIMALS = {
    "+": decimals.add,
    "-": decimals.subtract,
    "*": decimals.multiply,
    "/": decimals.divide,
    "%": decimals.remainder,
}


def _arithmetic(call: KernelCall, left: Datum, right: Datum) -> Datum:
    result = call.result_type
    if result.root in INTERVALS | DATETIMES:
        return shifts.combined(call, left, right)
    if isinstance(result, DecimalType):
        first, second = call.types
        return _OF_DECIMALS[call.name](_decimal(left, first), _decimal(right, second), result)
    left, right = (_as_type(side, kind, result) for side, kind in zip((left, right), call.types, strict=True))
    if call.name == "/" and result.root in INTEGERS:
        return _quotient(left, right)
    return _OF_NUMBERS[call.name](left, right)


def _subtract(call: KernelCall, left: Datum, right: Datum | None = None) -> Datum:
    return pc.negate(left) if right is None else _arithmetic(call, left, right)


def _as_type(value: Datum, source: LogicalType, target: LogicalType) -> Datum:
    return value if source.root is target.root else cast(value, source, target)


def _decimal(value: Datum, source: LogicalType) -> Datum:
    return value if isinstance(source, DecimalType) else decimals.from_number(value, as_decimal(source))


def _quotient(left: Datum, right: Datum) -> Datum:
    """Whole quotients, towards zero. Arrow gives 0 for the one that overflows, where Java has it wrap to itself."""
    try:
        quotient = pc.divide(left, right)
    except pa.ArrowInvalid as error:
        raise ValueError("a division by zero") from error
    is_minus_one = pc.equal(right, pa.scalar(-1, right.type))
    if pc.any(is_minus_one).as_py() if isinstance(is_minus_one, pa.Array) else is_minus_one.as_py():
        return pc.if_else(is_minus_one, pc.negate(left), quotient)
    return quotient


def _remainder(call: KernelCall, left: Datum, right: Datum) -> Datum:
    if isinstance(call.result_type, DecimalType):
        return _arithmetic(call, left, right)
    wide = left.type if left.type.bit_width >= right.type.bit_width else right.type
    left, right = left.cast(wide), right.cast(wide)
    rest = pc.subtract(left, pc.multiply(_quotient(left, right), right))
    return rest.cast(call.arrow_type, safe=False)


# -- rounding ------------------------------------------------------------------------------------------------------


def _rounding(decimal_mode: str, whole: Callable[[npt.NDArray[Any], int], npt.NDArray[Any]]) -> Callable[..., Datum]:
    def kernel(call: KernelCall, value: pa.Array, digits: int = 0) -> Datum:
        if isinstance(call.result_type, DecimalType):
            rounded = decimals.rounded(value, digits, decimal_mode) if digits < value.type.scale else value
            return decimals.fitted(rounded, call.result_type)
        if call.result_type.root in INTEGERS:
            return value if digits >= 0 else _with_numbers(value, lambda numbers: whole(numbers, -digits))
        # Java rounds the decimal that the shortest text of the number is.
        return pc.add(_rounded_double(value, digits, decimal_mode), pa.scalar(0.0, value.type))  # decimals have no -0.0

    return kernel


def _rounded_double(value: pa.Array, digits: int, mode: str) -> pa.Array:
    """Floats rounded as the decimals that their shortest texts are; infinities and NaN stay.

    Floating point is as exact, unless a number lies near the middle between two results, or near a result where digits
    are cut: such rows alone go through decimals.
    """
    if digits > _UNSCALED_DIGITS:
        return value
    border = 0.5 if mode == "half_towards_infinity" else 0.0
    places = min(max(digits, 0), _UNSCALED_DIGITS)
    numbers = value.fill_null(0.0).to_numpy(zero_copy_only=False)
    whole, is_sure = decimals.rounded_doubles(numbers.astype(np.float64), places, border)
    if digits < 0 or numbers.dtype != np.float64:
        is_sure[:] = False
    quick = _with_numbers(value, lambda _: whole / 10.0**places)
    if is_sure.all():
        return quick
    unsure = pa.array(~is_sure)
    return pc.replace_with_mask(quick, unsure, _rounded_text(value.filter(unsure), digits, mode))


def _rounded_text(value: pa.Array, digits: int, mode: str) -> pa.Array:
    doubles = value.cast(pa.float64())
    fits = pc.fill_null(pc.less(pc.abs(doubles), _LARGEST_ROUNDED), False)
    texts = kept_where(fits, value.cast(pa.string()))
    rounded = pc.round(decimals.parsed(texts), digits, mode).cast(pa.string()).cast(pa.float64())
    return pc.if_else(fits, rounded, doubles).cast(value.type, safe=False)


def _round_integers(numbers: npt.NDArray[Any], zeros: int) -> npt.NDArray[Any]:
    step = 10**zeros
    if step > np.iinfo(np.int64).max // 10:
        return np.zeros_like(numbers)
    wide = numbers.astype(np.int64)
    rest = np.fmod(wide, step)
    found: npt.NDArray[Any] = wide - rest + np.where(np.abs(rest) * 2 >= step, np.sign(wide) * step, 0)
    return found


def _truncate_integers(numbers: npt.NDArray[Any], zeros: int) -> npt.NDArray[Any]:
    step = 10**zeros
    if step > np.iinfo(np.int64).max // 10:
        return np.zeros_like(numbers)
    wide = numbers.astype(np.int64)
    found: npt.NDArray[Any] = wide - np.fmod(wide, step)
    return found


def _with_numbers(value: pa.Array, compute: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> pa.Array:
    """numpy's function of the numbers; nulls stay. Results wrap into the type."""
    mask = value.is_null().to_numpy(zero_copy_only=False) if value.null_count else None
    numbers = value.fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        result = compute(numbers)
    return pa.array(result.astype(numbers.dtype), value.type, mask=mask)


def _to_whole(unary: Callable[[Datum], Datum], name: str) -> Callable[..., Datum]:
    def kernel(call: KernelCall, value: Datum, unit: str | None = None) -> Datum:
        if unit is not None:
            return shifts.rounded_to_unit(call, value, unit, name)
        if isinstance(call.result_type, DecimalType):
            return decimals.fitted(unary(decimals.widened(value)), call.result_type)
        return value if call.result_type.root in INTEGERS else unary(value)

    return kernel


# -- functions of doubles ------------------------------------------------------------------------------------------


def _of_doubles(compute: Callable[..., npt.NDArray[Any]]) -> Kernel:
    """numpy's function on doubles: what it is not defined for is NaN or infinite."""

    def kernel(call: KernelCall, *values: Datum) -> pa.Array:
        columns = [as_array(value, call.rows) for value in values]
        numbers = [column.fill_null(1.0).to_numpy(zero_copy_only=False) for column in columns]
        with np.errstate(all="ignore"):
            result = pa.array(compute(*numbers))
        for column in columns:
            if column.null_count:
                result = nulls_where(column.is_null(), result)
        return result

    return with_call(kernel)


def _logarithm(first: npt.NDArray[Any], *second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """LOG(x) is the natural logarithm, LOG(base, x) that to a base."""
    result: npt.NDArray[Any] = np.log(second[0]) / np.log(first) if second else np.log(first)
    return result


def _sign(call: KernelCall, value: pa.Array) -> Datum:
    if isinstance(call.result_type, DecimalType):
        return pc.sign(value).cast(pa.decimal128(38, 0)).cast(call.arrow_type)
    # Java's keeps the sign of -0.0.
    return pc.if_else(pc.equal(value, pa.scalar(0, value.type)), value, pc.sign(value).cast(call.arrow_type))


# -- chance --------------------------------------------------------------------------------------------------------


def _random(call: KernelCall, seed: int | None = None) -> pa.Array:
    return pa.array(np.random.default_rng(seed).random(call.rows))


def _random_integer(call: KernelCall, first: int, second: int | None = None) -> pa.Array:
    """RAND_INTEGER(bound) or RAND_INTEGER(seed, bound)."""
    seed, bound = (None, first) if second is None else (first, second)
    return pa.array(np.random.default_rng(seed).integers(0, bound, call.rows, dtype=np.int32))


def _binary(value: pa.Array) -> pa.Array:
    """Base 2, of negative numbers the two's complement in 64 digits."""
    words = value.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype(">i8").view(np.uint8)
    return without_zeros(np.unpackbits(words) + ord("0"), 64, value)


def without_zeros(characters: npt.NDArray[np.uint8], width: int, like: pa.Array) -> pa.Array:
    """Texts of so many digits each, without the zeros that they begin with; NULL where `like` is."""
    offsets = pa.array(np.arange(len(like) + 1, dtype=np.int64) * width)
    texts = pa.LargeStringArray.from_buffers(len(like), offsets.buffers()[1], pa.py_buffer(characters))
    digits = pc.utf8_ltrim(texts, "0").cast(pa.string())
    digits = pc.if_else(pc.equal(digits, ""), "0", digits)
    return nulls_where(like.is_null(), digits)


_DOUBLES: dict[str, Callable[..., npt.NDArray[Any]]] = {
    "SQRT": lambda x: np.sqrt(x) + 0.0,  # of -0.0, too, 0.0
    "LN": np.log,
    "LOG10": np.log10,
    "LOG2": np.log2,
    "LOG": _logarithm,
    "EXP": np.exp,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "COT": lambda x: 1.0 / np.tan(x),
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "ATAN2": np.arctan2,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "TANH": np.tanh,
    "DEGREES": np.degrees,
    "RADIANS": np.radians,
    "POWER": lambda x, y: pc.power(pa.array(x), pa.array(y)).to_numpy(),  # numpy's is off by more than Java's
}
NUMBER_KERNELS = {
    **{name: with_call(_arithmetic) for name in ("+", "*", "/")},
    "-": with_call(_subtract),
    "%": with_call(_remainder),
    **{name: _of_doubles(compute) for name, compute in _DOUBLES.items()},
    "ABS": plain(pc.abs),
    "SIGN": with_call(_sign),
    "ROUND": with_call(_rounding("half_towards_infinity", _round_integers), 1),
    "TRUNCATE": with_call(_rounding("towards_zero", _truncate_integers), 1),
    "FLOOR": with_call(_to_whole(pc.floor, "floor"), 1),
    "CEIL": with_call(_to_whole(pc.ceil, "ceil"), 1),
    "PI": plain(lambda: pa.scalar(math.pi)),
    "E": plain(lambda: pa.scalar(math.e)),
    "RAND": with_call(_random, 0),
    "RAND_INTEGER": with_call(_random_integer, 0, 1),
    "BIN": plain(_binary),
}
