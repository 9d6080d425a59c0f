"""What values mean to aggregates: as numpy arrays, their order, NaN, and sums that overflow.

The rules are the same for accumulators of windows and for running aggregates:

- Nulls are left out.
- An extreme is NaN only where there is nothing but NaN, as in Arrow; where values are sorted, NaN comes last. 0.0 and
  -0.0 are one value.
- Sums of integers and durations are int64, sums of decimals have 38 digits (76 for decimal256). A sum that does not fit
  is an error, never a wrong number. Sums of floats become inf or NaN as in Python.
- Means are doubles; of decimals they are decimals with at least 6 digits behind the point, exact but for the last one,
  which is rounded half up, as in Flink SQL.
- A column whose type changes is merged into the type that holds both; a value that does not fit it is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.casting import stored_type
from actors.operators.aggregates.accumulators import Values
from flinkray.batches.numpy_arrays import as_numpy, fixed_width, from_numpy
from flinkray.batches.unification import cast_to_unified

Flags = npt.NDArray[np.bool_]

MOST_INT64 = 2**63 - 1
_LEAST_INT64 = -(2**63)
_MOST_DIGITS = 76
_LEAST_MEAN_SCALE = 6


class AggregateTypeError(Exception):
    """An aggregate cannot take this type, or a result does not fit; the operator adds where it happened."""


# -- values as numpy arrays


def is_fixed_width(arrow_type: pa.DataType) -> bool:
    """Whether values of the type are numbers to numpy: booleans, integers, floats and times."""
    types = pa.types
    is_time = types.is_temporal(arrow_type) and not types.is_interval(arrow_type)
    return bool(
        types.is_boolean(arrow_type) or types.is_integer(arrow_type) or types.is_floating(arrow_type) or is_time
    )


def numpy_type(arrow_type: pa.DataType) -> np.dtype[Any]:
    """The type of the array that `to_numpy` gives."""
    if pa.types.is_floating(arrow_type):
        return np.dtype(np.float64)
    return np.dtype(np.uint64 if pa.types.is_uint64(arrow_type) else np.int64)


def to_numpy(values: pa.Array) -> Values:
    """Fixed-width values without nulls as int64, uint64 or float64; without a copy where they are that already."""
    raw = _as_64_bits(values)
    return fixed_width(raw, numpy_type(raw.type))


def _as_64_bits(values: pa.Array) -> pa.Array:
    types, arrow_type = pa.types, values.type
    if types.is_float64(arrow_type) or types.is_int64(arrow_type) or types.is_uint64(arrow_type):
        return values
    if types.is_floating(arrow_type):
        return values.cast(pa.float64())
    if types.is_boolean(arrow_type):
        return values.cast(pa.int8()).cast(pa.int64())
    if types.is_temporal(arrow_type) and arrow_type.bit_width == 32:
        return values.cast(pa.int32()).cast(pa.int64())
    return values.cast(pa.int64())


def to_arrow(values: Values, arrow_type: pa.DataType, is_null: Flags) -> pa.Array:
    """The way back from `to_numpy`."""
    array = from_numpy(values, is_null=is_null if is_null.any() else None)
    if array.type.equals(arrow_type):
        return array
    if pa.types.is_boolean(arrow_type):
        return pc.not_equal(array, 0)
    if pa.types.is_temporal(arrow_type) and arrow_type.bit_width == 32:
        array = array.cast(pa.int32())
    return array.cast(arrow_type)


def numbers_of(values: pa.Array) -> Values:
    """Fixed-width values as `to_numpy` gives them; nulls as 0."""
    if values.null_count:
        zero = to_arrow(np.zeros(1, numpy_type(values.type)), values.type, np.zeros(1, np.bool_))
        values = values.fill_null(zero[0])
    return to_numpy(values)


def valid_flags(values: pa.Array) -> Flags:
    """Which values are not null."""
    flags: Flags = as_numpy(values.is_valid())
    return flags


def cast_exactly(values: Any, arrow_type: pa.DataType) -> Any:
    """Values (an array, chunked or not) of a column whose type changed, in the type merged from all of its types.

    Raises:
        AggregateTypeError: one of them does not fit it.
    """
    try:
        return cast_to_unified(values, arrow_type)
    except pa.ArrowException as error:
        raise AggregateTypeError(
            f"the type of its column changed, and not every {values.type} fits {arrow_type} ({error}); cast it to one "
            "type on the operator that makes it, or set output_type= there"
        ) from error


# -- order and NaN


def has_order(arrow_type: pa.DataType) -> bool:
    """Whether values of the type can be sorted."""
    return not (pa.types.is_nested(stored_type(arrow_type)) or pa.types.is_interval(arrow_type))


def extreme_of(dtype: np.dtype[Any], is_max: bool) -> tuple[np.ufunc, Any]:
    """The function that picks the extreme, and what it starts from; NaN loses against all numbers."""
    if dtype.kind == "f":
        return (np.fmax if is_max else np.fmin), np.nan
    limits = np.iinfo(dtype)
    return (np.maximum, limits.min) if is_max else (np.minimum, limits.max)


def are_better(numbers: Values, before: Values, is_max: bool) -> Flags:
    """Whether each number is strictly nearer to the extreme than the one before; any number is better than NaN."""
    is_better: Flags = numbers > before if is_max else numbers < before
    if numbers.dtype.kind == "f":
        is_better |= np.isnan(before) & ~np.isnan(numbers)
    return is_better


def has_ranks(arrow_type: pa.DataType) -> bool:
    """Whether `ranks_of` takes values of the type."""
    return bool(pa.types.is_integer(arrow_type) or pa.types.is_float64(arrow_type))


def ranks_of(values: pa.ChunkedArray, direction: str) -> npt.NDArray[Any]:
    """Integers that sort as these numbers do in that direction ("ascending" or "descending"), NaN last; no nulls."""
    numbers: npt.NDArray[Any] = values.to_numpy()
    if not pa.types.is_float64(values.type):
        return numbers if direction == "ascending" else ~numbers
    ranks: npt.NDArray[Any] = (numbers + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0: both are one value
    ranks ^= ranks >> 63 & MOST_INT64  # of negative numbers, whose bits ascend as they descend
    if direction == "descending":
        ranks = ~ranks
    ranks[np.isnan(numbers)] = MOST_INT64
    return ranks


def with_one_zero(values: Any) -> Any:
    """The values with 0.0 in place of -0.0."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


class Descending:
    """Orders Python values from the largest on, NaN after all."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __lt__(self, other: Descending) -> bool:
        return bool(other._value < self._value or (other._value != other._value and self._value == self._value))


# -- sums and overflow


def double_addends(values: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers as doubles, for a sum or a mean of these; nulls as 0."""
    if not pa.types.is_float64(values.type):
        values = values.cast(pa.float64(), safe=False)
    return numbers_of(values)


def int64_addends(values: pa.Array) -> npt.NDArray[np.int64]:
    """Integers, booleans or durations as int64, for a sum; nulls as 0.

    Raises:
        AggregateTypeError: a uint64 is too large.
    """
    if pa.types.is_uint64(values.type):
        try:
            values = values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise AggregateTypeError(
                f"a uint64 value does not fit an int64 sum ({error}); cast the column to double"
            ) from error
    return numbers_of(values)


def largest_size(values: npt.NDArray[np.int64]) -> int:
    """The largest absolute value; 0 where there are no values."""
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0


def can_overflow(largest_sum: int, added: int) -> bool:
    """Whether a sum of at most this size may leave int64 when at most so much is added."""
    return largest_sum + added > MOST_INT64


def check_sums(sums: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], addends: npt.NDArray[np.int64]) -> None:
    """Raises AggregateTypeError where `sums[rows[i]]`, with all of its addends `addends[i]`, does not fit int64."""
    distinct, inverse = np.unique(rows, return_inverse=True)
    # Halves of 32 bits cannot overflow when fewer than 2**31 of them are added.
    high, low = np.zeros((2, len(distinct)), np.int64)
    np.add.at(high, inverse, addends >> 32)
    np.add.at(low, inverse, addends & 0xFFFFFFFF)
    for before, upper, lower in zip(sums[distinct].tolist(), high.tolist(), low.tolist(), strict=True):
        total = before + (upper << 32) + lower
        if not _LEAST_INT64 <= total <= MOST_INT64:
            raise AggregateTypeError(
                f"the sum {total} does not fit int64; cast the column to double or decimal128 before summing"
            )


def check_running_sums(
    sums: npt.NDArray[np.int64], addends: npt.NDArray[np.int64], carried: npt.NDArray[np.int64]
) -> None:
    """Raises AggregateTypeError where a running sum modulo 2**64 is not the sum.

    Args:
        sums: the sum at each row, its addend included.
        carried: what the sums began with.
    """
    largest = max(largest_size(addends), largest_size(carried))
    if not can_overflow(0, largest * (len(addends) + 1)):  # quick to tell, and mostly so
        return
    before = sums - addends  # wraps back to the exact sum before, also where the sum wrapped
    if np.any(((before ^ sums) & (addends ^ sums)) < 0):
        raise AggregateTypeError("an int64 sum overflows; cast the column to double or decimal128 before summing")


def decimal_sum_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type of a sum of such decimals: with all digits that their kind of decimal can have."""
    if pa.types.is_decimal256(arrow_type):
        return pa.decimal256(76, arrow_type.scale)
    return pa.decimal128(38, arrow_type.scale)


def decimal_mean_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type of a mean of such decimals."""
    scale = max(arrow_type.scale, _LEAST_MEAN_SCALE)
    return pa.decimal256(76, scale) if pa.types.is_decimal256(arrow_type) else pa.decimal128(38, scale)


def decimal_means(sums: pa.Array, counts: npt.NDArray[np.int64], mean_type: pa.DataType) -> pa.Array:
    """Sums divided by the numbers of values; null where there is no value.

    Raises:
        AggregateTypeError: a mean does not fit `mean_type`, or a sum has too many digits to be divided.
    """
    count_digits = len(str(counts.max(initial=1)))
    # Arrow's quotient has as many digits more than the dividend, all of them behind the point, as the divisor has.
    dividends = pa.decimal256(_MOST_DIGITS - 1 - count_digits, mean_type.scale)
    divisors = from_numpy(counts, is_null=counts == 0).cast(pa.decimal256(19, 0))
    try:
        quotients = pc.divide(sums.cast(dividends), divisors.cast(pa.decimal256(count_digits, 0)))
        return pc.round(quotients, mean_type.scale, "half_towards_infinity").cast(mean_type)
    except pa.ArrowInvalid as error:
        raise decimal_overflow(mean_type, "mean") from error


def decimals_of(doubles: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Doubles as the nearest decimals of the type.

    Raises:
        AggregateTypeError: one does not fit.
    """
    try:
        return doubles.cast(arrow_type)
    except pa.ArrowInvalid as error:
        raise decimal_overflow(arrow_type) from error


def decimal_overflow(arrow_type: pa.DataType, what: str = "sum") -> AggregateTypeError:
    """The error where a sum (or what it is) of decimals has more digits than its type."""
    return AggregateTypeError(f"a {what} does not fit {arrow_type}; cast the column to double before")
