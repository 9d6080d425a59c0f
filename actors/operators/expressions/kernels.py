"""What each function of an expression computes: one kernel per name, on whole Arrow arrays (or scalars)."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.expressions.number_kernels import (
    Datum,
    common_decimal,
    compare,
    decimal_quotient,
    decimal_remainder,
    digits_of_product,
    digits_of_sum,
    exact,
    members_among,
)
from flinkray.batches.numpy_arrays import as_numpy, fixed_width, from_numpy, numpy_dtype
from flinkray.types.arrow_types import is_text

_MILLIS = pa.timestamp("ms")
_DAY_MS = 86_400_000


class Unsuited(Exception):
    """A function does not take arguments of these types; the message says what it takes."""


# -- arithmetic --------------------------------------------------------------------------------------------------


def _add(left: Datum, right: Datum) -> Datum:
    texts = [value for value in (left, right) if is_text(value.type)]
    if texts and all(is_text(value.type) or _is_untyped(value) for value in (left, right)):
        is_large = any(pa.types.is_large_string(text.type) for text in texts)
        target = pa.large_string() if is_large else pa.string()
        return pc.binary_join_element_wise(_cast(left, target), _cast(right, target), pa.scalar("", target))
    return _ADD(left, right)


def _with_nulls(kernel: Callable[[Datum, Datum], Datum]) -> Callable[[Datum, Datum], Datum]:
    """Untyped nulls beside a time or a decimal give untyped nulls.

    Arrow would give them the type of the time; but other batches may hold a duration there, or a date. As to decimals,
    it depends on the type of both how many digits the result has.
    """

    def checked(left: Datum, right: Datum) -> Datum:
        if (_is_untyped(left) and _decides_type(right)) or (_is_untyped(right) and _decides_type(left)):
            return _nulls(left, right)
        return kernel(left, right)

    return checked


def _decides_type(value: Datum) -> bool:
    return bool(pa.types.is_temporal(value.type) or pa.types.is_decimal(value.type))


def _divide(left: Datum, right: Datum) -> Datum:
    # Unchecked: a double divided by zero is infinity or NaN, as numpy has it.
    return pc.divide(_as_double(left), _as_double(right))


def _as_double(value: Datum) -> Datum:
    if pa.types.is_boolean(value.type) or not _is_number(value):
        raise Unsuited("division needs numbers")
    return value.cast(pa.float64(), safe=False)


def _with_floor(
    function: Callable[..., npt.NDArray[Any]], of_decimals: Callable[[Datum, Datum], Datum]
) -> Callable[[Datum, Datum], Datum]:
    """Division that rounds towards minus infinity, which Arrow lacks: numpy's, which is Python's.

    Args:
        function: computes it on int64 or float64 arrays, for divisors that neither divide by zero nor overflow.
        of_decimals: computes it where one argument is a decimal, and none a float.
    """

    def kernel(left: Datum, right: Datum) -> Datum:
        for value in (left, right):
            if not _is_number(value):
                raise Unsuited("// and % need numbers")
        is_float = pa.types.is_floating(left.type) or pa.types.is_floating(right.type)
        if not is_float and (pa.types.is_decimal(left.type) or pa.types.is_decimal(right.type)):
            return of_decimals(left, right)
        target = pa.float64() if is_float else pa.int64()
        left, right = _cast(left, target), _cast(right, target)
        if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
            both = pa.array([left.as_py()], target), pa.array([right.as_py()], target)
            return kernel(*both)[0]
        if any(isinstance(value, pa.Scalar) and not value.is_valid for value in (left, right)):
            return pa.nulls(len(right if isinstance(left, pa.Scalar) else left), target)
        is_null = _is_null(left, right)
        dividend, divisor = _numbers(left), _numbers(right)
        if is_null is not None and not isinstance(right, pa.Scalar):
            divisor = np.where(is_null, np.ones_like(divisor), divisor)  # nulls may hold any number, 0 as well
        if not is_float:
            _check_divisor(dividend, divisor, is_null)
        with np.errstate(all="ignore"):
            return from_numpy(function(dividend, divisor), is_null)

    return kernel


def _check_divisor(
    dividend: npt.NDArray[np.int64], divisor: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_] | None
) -> None:
    if divisor.ndim == 0 and divisor != 0 and divisor != -1:
        return
    if not np.all(divisor if divisor.ndim or is_null is None else divisor | is_null) and dividend.size:
        raise pa.ArrowInvalid("divide by zero")
    overflows = (divisor == -1) & (dividend == np.iinfo(np.int64).min)
    if np.any(overflows if is_null is None else overflows & ~is_null):
        raise pa.ArrowInvalid("overflow")


def _modulo(dividend: npt.NDArray[Any], divisor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The remainder. numpy has a vectorised division by a constant, but no such remainder, so it is computed by
    that."""
    remainder: npt.NDArray[Any]
    if divisor.ndim or divisor.dtype != np.int64 or divisor in (0, -1):
        remainder = np.mod(dividend, divisor)
        return remainder
    if divisor > 0 and not divisor & (divisor - 1):
        remainder = dividend & (divisor - 1)
        return remainder
    # Where the product wraps around, the difference wraps back: the remainder is exact for every int64.
    multiple = np.floor_divide(dividend, divisor)
    multiple *= divisor
    remainder = np.subtract(dividend, multiple, out=multiple)
    return remainder


def _cast(value: Datum, target: pa.DataType) -> Datum:
    return value if value.type.equals(target) else value.cast(target)


def _cast_as_asked(value: Datum, target: pa.DataType) -> Datum:
    if pa.types.is_integer(value.type) and pa.types.is_decimal(target):
        # Arrow wants room for all numbers of the integer's type; whether these ones fit is what counts.
        value = value.cast(pa.decimal256(76, target.scale))
    if pa.types.is_dictionary(target) and isinstance(value, pa.Array):
        encoded = value.cast(target.value_type).dictionary_encode()  # Arrow casts texts only into dictionaries
        indices = encoded.indices.cast(target.index_type)
        return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=target.ordered)
    return value.cast(target)


def _is_null(*values: Datum) -> npt.NDArray[np.bool_] | None:
    """Whether one of the arrays is null, row by row; None: in no row."""
    masks = [value.is_null() for value in values if isinstance(value, pa.Array) and value.null_count]
    if not masks:
        return None
    found = [as_numpy(mask) for mask in masks]
    return found[0] if len(found) == 1 else found[0] | found[1]


def _numbers(value: Datum) -> npt.NDArray[Any]:
    """The numbers as a numpy array, with any number in place of nulls. A constant has no dimension."""
    if isinstance(value, pa.Scalar):
        return np.asarray(value.as_py(), numpy_dtype(value.type))
    return fixed_width(value, numpy_dtype(value.type))


def _rounded(value: Datum, digits: int) -> Datum:
    if digits < 0 or not pa.types.is_floating(value.type):
        return pc.round(value, digits, "half_to_even")
    # Arrow multiplies by 10**digits, and what overflows there is an error; but such floats have nothing to round.
    largest = float(np.finfo(numpy_dtype(value.type)).max)
    if digits > math.log10(largest):
        return value
    limit = pa.scalar(min(2.0**52, largest / 10.0**digits), value.type)
    is_whole = pc.greater_equal(pc.abs(value), limit)
    rounded = pc.round(pc.if_else(is_whole, pa.scalar(0, value.type), value), digits, "half_to_even")
    return pc.if_else(is_whole, value, rounded)


def _unless_integer(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """The kernel for numbers that are no integers: those stay as they are, while Arrow would make doubles of them."""
    return lambda value: value if pa.types.is_integer(value.type) else kernel(value)


# -- logic and nulls ---------------------------------------------------------------------------------------------


def _logical(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    """The kernel, to which untyped nulls are null booleans."""
    return lambda *values: kernel(*map(_as_condition, values))


def _as_condition(value: Datum) -> Datum:
    return value.cast(pa.bool_()) if _is_untyped(value) else value


def _comparison(name: str) -> Callable[[Datum, Datum], Datum]:
    """The kernel of a comparison. Arrow cannot compare two columns of untyped nulls, which count as booleans here."""

    def compared(left: Datum, right: Datum) -> Datum:
        if _is_untyped(left) and _is_untyped(right):
            return compare(name, _as_condition(left), _as_condition(right))
        return compare(name, left, right)

    return compared


def _if_else(condition: Datum, then: Datum, otherwise: Datum) -> Datum:
    # SQL's CASE: a null condition does not hold.
    return pc.if_else(pc.fill_null(_as_condition(condition), False), *_same_type(then, otherwise))


def _coalesce(*values: Datum) -> Datum:
    return pc.coalesce(*_same_type(*values))


def _extreme(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    def checked(*values: Datum) -> Datum:
        if all(map(_is_untyped, values)):
            return _nulls(*values)
        return kernel(*_same_type(*values), skip_nulls=True)

    return checked


def _same_type(*values: Datum) -> list[Datum]:
    """The values, of which untyped nulls get the type of the others."""
    typed = [value.type for value in values if not _is_untyped(value)]
    if not typed:
        return list(values)
    return [value.cast(typed[0]) if _is_untyped(value) else value for value in values]


def _is_untyped(value: Datum) -> bool:
    """Whether it is null in each row, of Arrow's type `null`: any column of which a batch has no value may be."""
    return bool(pa.types.is_null(value.type))


def _nulls(*values: Datum) -> Datum:
    """Untyped nulls, one for each row of the values."""
    rows = [len(value) for value in values if not isinstance(value, pa.Scalar)]
    return pa.nulls(rows[0]) if rows else pa.scalar(None)


def _field(value: Datum, name: str) -> Datum:
    return value if _is_untyped(value) else pc.struct_field(value, [name])


def _is_in(value: Datum, values: tuple[Any, ...]) -> Datum:
    numbers = members_among(value.type, values)
    if numbers is not None:
        return pc.is_in(_cast(value, numbers.type), value_set=numbers)
    value, members = _same_type(value, _members(values))
    if not value.type.equals(members.type):
        common = common_decimal(value, members) or _common_type(value.type, members.type)
        value, members = _cast(value, common), _cast(members, common)
    return pc.is_in(value, value_set=members)


def _members(values: tuple[Any, ...]) -> pa.Array:
    return pa.array(values, next(filter(None, map(nanosecond_type, values)), None))


def nanosecond_type(value: Any) -> pa.DataType | None:
    """The type of a pandas time that has nanoseconds, which Arrow would drop: it takes it for Python's own class."""
    if isinstance(value, dt.datetime):
        time: Any = value
        has_more = getattr(time, "nanosecond", None)
        return pa.timestamp("ns", pa.scalar(time.replace(nanosecond=0)).type.tz) if has_more else None
    return pa.duration("ns") if isinstance(value, dt.timedelta) and getattr(value, "nanoseconds", None) else None


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which Arrow compares both; raises where it cannot compare them."""
    samples = pa.nulls(1, left), pa.nulls(1, right)
    pc.equal(*samples)
    return pc.coalesce(*samples).type


# -- text --------------------------------------------------------------------------------------------------------


def _strip(value: Datum, characters: str | None) -> Datum:
    return pc.utf8_trim_whitespace(value) if characters is None else pc.utf8_trim(value, characters)


def _split(value: Datum, separator: str | None) -> Datum:
    if separator is not None:
        return pc.split_pattern(value, separator)
    # As Python's; Arrow has empty parts before the first word and behind the last one, and one where there is no word.
    trimmed = pc.utf8_trim_whitespace(value)
    words = pc.utf8_split_whitespace(trimmed)
    return pc.if_else(pc.equal(pc.binary_length(trimmed), 0), pa.scalar([], words.type), words)


def _on_text(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    def checked(value: Datum, **options: Any) -> Datum:
        if _is_untyped(value):
            value = value.cast(pa.string())
        if pa.types.is_dictionary(value.type):
            value = value.cast(value.type.value_type)
        if not is_text(value.type):
            raise Unsuited("text is needed")
        return kernel(value, **options)

    return checked


# -- time --------------------------------------------------------------------------------------------------------


def _part(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    return lambda value: kernel(_as_time(value)).cast(pa.int64())


def _as_time(value: Datum) -> Datum:
    """The value as a timestamp, or as the time of day that it is: dates at midnight, int64 as epoch milliseconds."""
    arrow_type = value.type
    if pa.types.is_timestamp(arrow_type) or pa.types.is_time(arrow_type):
        return value
    if pa.types.is_date(arrow_type) or arrow_type.equals(pa.int64()) or pa.types.is_null(arrow_type):
        return value.cast(_MILLIS)
    raise Unsuited("a timestamp, a date or int64 epoch milliseconds is needed")


def _floor_time(value: Datum, unit: str | int) -> Datum:
    if _is_untyped(value):
        return value
    time = _as_time(value)
    if isinstance(unit, str):
        has_zone = pa.types.is_timestamp(time.type) and time.type.tz not in (None, "UTC")
        floored = _floor_local(time, unit) if has_zone else pc.floor_temporal(time, unit=unit)
    elif pa.types.is_date(value.type) and unit < _DAY_MS:
        return value  # a day is all that a date can say
    else:
        floored = _floor_epoch(time, unit)
    return floored.cast(value.type)


def _floor_local(time: Datum, unit: str) -> Datum:
    """Floors a time as the clocks of its zone show it; Arrow's floor refuses times that clocks show twice or never.

    A start in a gap moves to the gap's end. An hour (or less) that comes twice starts twice; a day starts once.
    """
    floored = pc.floor_temporal(pc.local_timestamp(time), unit=unit)
    first = pc.assume_timezone(floored, time.type.tz, ambiguous="earliest", nonexistent="latest")
    if unit not in ("second", "minute", "hour"):
        return first
    second = pc.assume_timezone(floored, time.type.tz, ambiguous="latest", nonexistent="latest")
    return pc.if_else(pc.less_equal(second, time), second, first)


def _floor_epoch(time: Datum, millis: int) -> Datum:
    """Floors to multiples of so many milliseconds: of timestamps since the epoch, of times of day since midnight."""
    arrow_type = time.type
    if arrow_type.unit == "s":
        is_timestamp = pa.types.is_timestamp(arrow_type)
        arrow_type = pa.timestamp("ms", arrow_type.tz) if is_timestamp else pa.time32("ms")
        time = time.cast(arrow_type)
    length = pa.scalar(millis * {"ms": 1, "us": 1_000, "ns": 1_000_000}[arrow_type.unit], pa.int64())
    storage = pa.int32() if pa.types.is_time32(arrow_type) else pa.int64()
    ticks = time.cast(storage).cast(pa.int64())
    return pc.subtract(ticks, _MODULO(ticks, length)).cast(storage).cast(arrow_type)


def _epoch_ms(value: Datum) -> Datum:
    time = _as_time(value)
    if not pa.types.is_timestamp(time.type):
        raise Unsuited("a timestamp or a date is needed")
    if time.type.unit in ("s", "ms"):
        return time.cast(pa.timestamp("ms", time.type.tz)).cast(pa.int64())
    per_milli = {"us": 1_000, "ns": 1_000_000}[time.type.unit]
    return _FLOOR_DIVIDE(time.cast(pa.int64()), pa.scalar(per_milli, pa.int64()))


# -- the table ---------------------------------------------------------------------------------------------------


def _is_number(value: Datum) -> bool:
    arrow_type = value.type
    is_plain = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_null(arrow_type)
    return bool(is_plain or pa.types.is_decimal(arrow_type))


_ADD = _with_nulls(exact(pc.add_checked, digits_of_sum))
_FLOOR_DIVIDE = _with_floor(np.floor_divide, _with_nulls(decimal_quotient))
_MODULO = _with_floor(_modulo, _with_nulls(decimal_remainder))

KERNELS: dict[str, Callable[..., Datum]] = {
    "add": _add,
    "subtract": _with_nulls(exact(pc.subtract_checked, digits_of_sum)),
    "multiply": _with_nulls(exact(pc.multiply_checked, digits_of_product)),
    "divide": _divide,
    "floor_divide": _FLOOR_DIVIDE,
    "modulo": _MODULO,
    "power": pc.power_checked,
    "negate": pc.negate_checked,
    "abs": pc.abs_checked,
    "round": _rounded,
    "floor": _unless_integer(pc.floor),
    "ceil": _unless_integer(pc.ceil),
    "sign": pc.sign,
    "sqrt": pc.sqrt,
    "exp": pc.exp,
    "log": pc.ln,
    "log2": pc.log2,
    "log10": pc.log10,
    "equal": _comparison("equal"),
    "not_equal": _comparison("not_equal"),
    "less": _comparison("less"),
    "less_equal": _comparison("less_equal"),
    "greater": _comparison("greater"),
    "greater_equal": _comparison("greater_equal"),
    "and": _logical(pc.and_kleene),
    "or": _logical(pc.or_kleene),
    "invert": _logical(pc.invert),
    "is_null": pc.is_null,
    "is_not_null": pc.is_valid,
    "is_nan": pc.is_nan,
    "is_in": _is_in,
    "if_else": _if_else,
    "coalesce": _coalesce,
    "least": _extreme(pc.min_element_wise),
    "greatest": _extreme(pc.max_element_wise),
    "cast": _cast_as_asked,
    "field": _field,
    "struct": lambda *values, names: pc.make_struct(*values, field_names=names),
    "str.lower": _on_text(pc.utf8_lower),
    "str.upper": _on_text(pc.utf8_upper),
    "str.strip": _on_text(_strip),
    "str.contains": _on_text(lambda value, text: pc.match_substring(value, text)),
    "str.matches": _on_text(lambda value, pattern: pc.match_substring_regex(value, pattern)),
    "str.startswith": _on_text(lambda value, prefix: pc.starts_with(value, prefix)),
    "str.endswith": _on_text(lambda value, suffix: pc.ends_with(value, suffix)),
    "str.replace": _on_text(lambda value, old, new: pc.replace_substring(value, old, new)),
    "str.split": _on_text(_split),
    "str.length": _on_text(lambda value: pc.utf8_length(value).cast(pa.int64())),
    "str.slice": _on_text(lambda value, start, stop: pc.utf8_slice_codeunits(value, start, stop)),
    "dt.year": _part(pc.year),
    "dt.month": _part(pc.month),
    "dt.day": _part(pc.day),
    "dt.hour": _part(pc.hour),
    "dt.minute": _part(pc.minute),
    "dt.second": _part(pc.second),
    "dt.day_of_week": _part(pc.day_of_week),
    "dt.floor": _floor_time,
    "dt.epoch_ms": _epoch_ms,
}
