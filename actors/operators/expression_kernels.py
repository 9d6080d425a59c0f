"""What each function of an expression computes: one kernel per name, on whole Arrow arrays (or scalars)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Datum = Any
"""A pa.Array or, for a constant, a pa.Scalar."""
_MILLIS = pa.timestamp("ms")


class Unsuited(Exception):
    """The arguments' types have no such function; the message says what it takes."""


# -- arithmetic --------------------------------------------------------------------------------------------------


def _add(left: Datum, right: Datum) -> Datum:
    if _is_text(left) and _is_text(right):
        return pc.binary_join_element_wise(left, right, "")
    return pc.add_checked(left, right)


def _divide(left: Datum, right: Datum) -> Datum:
    # Unchecked: a double divided by zero is infinity or NaN, as numpy has it.
    return pc.divide(_as_double(left), _as_double(right))


def _as_double(value: Datum) -> Datum:
    if pa.types.is_boolean(value.type) or not _is_number(value):
        raise Unsuited("division needs numbers")
    return value.cast(pa.float64(), safe=False)


def _with_floor(function: Callable[..., npt.NDArray[Any]]) -> Callable[[Datum, Datum], Datum]:
    """Division that rounds towards minus infinity, which Arrow lacks: numpy's, which is Python's."""

    def kernel(left: Datum, right: Datum) -> Datum:
        for value in (left, right):
            if not _is_number(value) or pa.types.is_decimal(value.type):
                raise Unsuited("// and % need integers or doubles; cast decimals first")
        is_float = pa.types.is_floating(left.type) or pa.types.is_floating(right.type)
        target = pa.float64() if is_float else pa.int64()
        left, right = left.cast(target), right.cast(target)
        is_null = pc.or_(pc.is_null(left), pc.is_null(right))
        dividend, divisor = _numbers(left, 0), _numbers(right, 1)
        skipped = np.asarray(
            is_null.as_py() if isinstance(is_null, pa.Scalar) else is_null.to_numpy(zero_copy_only=False)
        )
        divisor = np.where(skipped, np.ones_like(divisor), divisor)
        if not is_float and not np.all(divisor):
            raise pa.ArrowInvalid("divide by zero")
        if not is_float and np.any((divisor == -1) & (dividend == np.iinfo(np.int64).min)):
            raise pa.ArrowInvalid("overflow")
        with np.errstate(all="ignore"):
            result = function(dividend, divisor)
        if isinstance(is_null, pa.Scalar):
            return pa.scalar(None if is_null.as_py() else result[()], target)
        return pa.array(result, target, mask=skipped)

    return kernel


def _numbers(value: Datum, null: int) -> npt.NDArray[Any]:
    """As numpy, nulls replaced by a number that does no harm; a constant has no dimension."""
    filled = pc.fill_null(value, pa.scalar(null, value.type))
    if isinstance(filled, pa.Scalar):
        return np.asarray(filled.as_py(), filled.type.to_pandas_dtype())
    numbers: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _rounded(value: Datum, digits: int) -> Datum:
    return pc.round(value, digits, "half_to_even")


def _unless_integer(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """Integers stay as they are, where Arrow would make doubles of them."""
    return lambda value: value if pa.types.is_integer(value.type) else kernel(value)


# -- logic and nulls ---------------------------------------------------------------------------------------------


def _if_else(condition: Datum, then: Datum, otherwise: Datum) -> Datum:
    # SQL's CASE: a null condition does not hold.
    return pc.if_else(pc.fill_null(condition, False), *_same_type(then, otherwise))


def _coalesce(*values: Datum) -> Datum:
    return pc.coalesce(*_same_type(*values))


def _least(*values: Datum) -> Datum:
    return pc.min_element_wise(*_same_type(*values), skip_nulls=True)


def _greatest(*values: Datum) -> Datum:
    return pc.max_element_wise(*_same_type(*values), skip_nulls=True)


def _same_type(*values: Datum) -> list[Datum]:
    """Untyped nulls take the type of the others."""
    typed = [value.type for value in values if not pa.types.is_null(value.type)]
    if not typed:
        return list(values)
    return [value.cast(typed[0]) if pa.types.is_null(value.type) else value for value in values]


def _is_in(value: Datum, values: tuple[Any, ...]) -> Datum:
    members = pa.array(values)
    if pa.types.is_null(members.type):
        members = members.cast(value.type)
    return pc.is_in(value, value_set=members)


# -- text --------------------------------------------------------------------------------------------------------


def _strip(value: Datum, characters: str | None) -> Datum:
    return pc.utf8_trim_whitespace(value) if characters is None else pc.utf8_trim(value, characters)


def _split(value: Datum, separator: str | None) -> Datum:
    return pc.utf8_split_whitespace(value) if separator is None else pc.split_pattern(value, separator)


def _on_text(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    def checked(value: Datum, **options: Any) -> Datum:
        if pa.types.is_null(value.type):
            value = value.cast(pa.string())
        if pa.types.is_dictionary(value.type):
            value = value.cast(value.type.value_type)
        if not _is_text(value):
            raise Unsuited("text is needed")
        return kernel(value, **options)

    return checked


# -- time --------------------------------------------------------------------------------------------------------


def _part(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    return lambda value: kernel(_as_time(value)).cast(pa.int64())


def _as_time(value: Datum) -> Datum:
    """A timestamp (or a time of day): dates at midnight, int64 as epoch milliseconds."""
    arrow_type = value.type
    if pa.types.is_timestamp(arrow_type) or pa.types.is_time(arrow_type):
        return value
    if pa.types.is_date(arrow_type) or arrow_type.equals(pa.int64()) or pa.types.is_null(arrow_type):
        return value.cast(_MILLIS)
    raise Unsuited("a timestamp, a date or int64 epoch milliseconds is needed")


def _floor_time(value: Datum, unit: str | int) -> Datum:
    time = _as_time(value)
    if isinstance(unit, str):
        floored = pc.floor_temporal(time, unit=unit)
    elif getattr(time.type, "unit", "") in ("s", "ms") or not pa.types.is_timestamp(time.type):
        floored = _floor_epoch(time.cast(pa.timestamp("ms", getattr(time.type, "tz", None))), unit)
    else:
        floored = _floor_epoch(time, unit * {"us": 1_000, "ns": 1_000_000}[time.type.unit])
    return floored.cast(value.type)


def _floor_epoch(time: Datum, length: int) -> Datum:
    ticks = time.cast(pa.int64())
    return pc.subtract(ticks, _MODULO(ticks, pa.scalar(length, pa.int64()))).cast(time.type)


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


def _is_text(value: Datum) -> bool:
    return bool(pa.types.is_string(value.type) or pa.types.is_large_string(value.type))


_FLOOR_DIVIDE = _with_floor(np.floor_divide)
_MODULO = _with_floor(np.mod)

KERNELS: dict[str, Callable[..., Datum]] = {
    "add": _add,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
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
    "equal": pc.equal,
    "not_equal": pc.not_equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.greater,
    "greater_equal": pc.greater_equal,
    "and": pc.and_kleene,
    "or": pc.or_kleene,
    "invert": pc.invert,
    "is_null": pc.is_null,
    "is_not_null": pc.is_valid,
    "is_nan": pc.is_nan,
    "is_in": _is_in,
    "if_else": _if_else,
    "coalesce": _coalesce,
    "least": _least,
    "greatest": _greatest,
    "cast": lambda value, target: value.cast(target),
    "field": lambda value, name: pc.struct_field(value, [name]),
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
