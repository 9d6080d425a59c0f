"""Checks of values: what Arrow's casts would lose, and what the server would refuse."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pyarrow as pa
import pyarrow.compute as pc

from flinkray.connectors.postgres.columns import digits_of

_LONGEST_TEXTS: dict[pa.DataType, int] = {pa.float32(): 16, pa.float64(): 24, pa.timestamp("us", "UTC"): 48}
"""See `longest_text`."""
_EXACT_SCALE = 6
"""Up to it Arrow writes decimals as the server does."""
_BOUNDS: dict[pa.DataType, tuple[int, int]] = {
    pa.date32(): (-2_440_588, 2_145_042_905),
    pa.timestamp("us"): (-210_866_803_200_000_000, 2**63 - 1),
    pa.timestamp("us", "UTC"): (-210_866_803_200_000_000, 2**63 - 1),
}
"""The first and last day, or moment, of the server's calendar as Arrow counts them."""


def longest_text(given: pa.DataType) -> float:
    """Characters that the server's text for a value has at most, where Arrow's text is another one; 0: it is none."""
    if pa.types.is_decimal(given):
        digits = max(given.precision, given.scale, given.precision - given.scale)
        # Beside them a sign, a point, and a zero before it.
        return 0 if 0 <= given.scale <= _EXACT_SCALE else digits + 3
    return math.inf if pa.types.is_binary(given) or pa.types.is_list(given) else _LONGEST_TEXTS.get(given, 0)


def check_length(values: pa.Array, length: int) -> None:
    """Refuses texts that are too long, and other values whose texts are.

    Raises:
        ArrowInvalid: there is one; says which.
    """
    values = pc.list_flatten(values) if pa.types.is_list(values.type) else values
    if longest_text(values.type):
        return
    texts = values.cast(pa.string())
    if pa.types.is_time(values.type) or pa.types.is_timestamp(values.type):
        texts = pc.replace_substring_regex(texts, r"\.?0*$", "")
    texts = pc.utf8_rtrim(texts, " ")
    is_too_long = pc.greater(pc.utf8_length(texts), length)
    if pc.any(is_too_long).as_py():
        raise pa.ArrowInvalid(f"{texts.filter(is_too_long)[0].as_py()!r} has more than {length} characters")


def check_kept(given: pa.Array, cast: pa.Array) -> None:
    """Refuses what Arrow's casts lose without a word.

    Raises:
        ArrowInvalid: a time of day, or a number that is too large for a narrower type.
    """
    while pa.types.is_dictionary(given.type) or pa.types.is_list(cast.type):
        if pa.types.is_dictionary(given.type):
            given = given.dictionary_decode()
        else:
            given, cast = pc.list_flatten(given), pc.list_flatten(cast)
    is_day = pa.types.is_timestamp(given.type) and pa.types.is_date(cast.type)
    if is_day and pc.any(pc.not_equal(cast.cast(given.type), given)).as_py():
        raise pa.ArrowInvalid("a time of day would be lost")
    if pa.types.is_float64(given.type) and pa.types.is_float32(cast.type):
        is_too_large = pc.and_(pc.is_inf(cast), pc.invert(pc.is_inf(given)))
        if pc.any(is_too_large).as_py():
            raise pa.ArrowInvalid("a number is too large for it")


def check_bounds(values: pa.Array, modifier: int) -> None:
    """Refuses what the server has no place for: NUL in texts, times before its calendar, and numbers with more digits
    before the point than the column, once they are rounded.

    Args:
        values: as they are sent.
        modifier: of the column's type, or of its elements'; it says the digits of `numeric(p, s)`.
    Raises:
        ArrowInvalid: there is one.
    """
    values = pc.list_flatten(values) if pa.types.is_list(values.type) else values
    if pa.types.is_string(values.type):
        if pc.any(pc.match_substring(values, "\0")).as_py():
            raise pa.ArrowInvalid("no text has the character NUL there; replace it")
    elif bounds := _BOUNDS.get(values.type):
        span = pc.min_max(values.cast(pa.int64() if values.type.bit_width == 64 else pa.int32()))
        if values.null_count < len(values) and not bounds[0] <= span["min"].as_py() <= span["max"].as_py() <= bounds[1]:
            raise pa.ArrowInvalid("a date is outside of what the server has, 4713 BC to 5874897 AD")
    elif pa.types.is_decimal(values.type) and modifier >= 0:
        _check_digits(values, *digits_of(modifier))


def _check_digits(values: pa.Array, precision: int, scale: int) -> None:
    given = values.type
    digits = precision - scale
    if given.precision - given.scale < digits or (given.scale <= scale and given.precision - given.scale == digits):
        return
    with localcontext(prec=100):
        # From half a unit of the last place below on, the server rounds up.
        limit = Decimal(10) ** digits - Decimal(5).scaleb(-scale - 1)
    for extreme in pc.min_max(values).values():
        value = extreme.as_py()
        if value is not None and abs(value) >= limit:
            raise pa.ArrowInvalid(f"{value} has more than {digits} digits before the point")
