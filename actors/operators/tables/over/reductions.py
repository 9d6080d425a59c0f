"""Sums, extremes, first and last values over ranges of a column: of each range [begin, end) one, NULL where the range
has no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.ordering import Indices, order_by
from actors.operators.tables.ranks.sort_codes import sort_codes
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.tables.plans.expressions import SortKey

_LIMB = 32
_MASK = (1 << _LIMB) - 1
_TOO_LARGE = 10**38


def reduced(how: str, column: pa.Array, begin: Indices, end: Indices) -> pa.Array:
    """What each range of a column comes to.

    Args:
        how: "sum" (of int64, which wraps, doubles or decimals of 38 digits), "min", "max", "first" or "last".
    """
    if how == "sum":
        return _sums(column, begin, end)
    is_valid = as_numpy(column.is_valid())
    rows = np.arange(len(column))
    if how in ("first", "last"):
        valid = np.flatnonzero(is_valid)
        before = np.searchsorted(valid, end if how == "last" else begin) - (how == "last")
        found = np.append(valid, -1)[before]
        is_there = (found >= begin) & (found < end)
    else:
        order = order_by(*sort_codes([column], [SortKey(0, nulls_first=how == "max")]))
        places = np.empty(len(column), np.int64)
        places[order] = rows
        least, most = (np.minimum, len(column)) if how == "min" else (np.maximum, -1)
        place = over_ranges(np.where(is_valid, places, most), begin, end, least, most)
        is_there = (place >= 0) & (place < len(column))
        found = np.append(order, -1)[np.where(is_there, place, -1)]
    return column.take(from_numpy(np.where(is_there, found, 0), ~is_there))


def over_ranges(
    values: npt.NDArray[Any],
    begin: Indices,
    end: Indices,
    combine: Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]],
    nothing: Any,
) -> npt.NDArray[Any]:
    """What the values of each range combine to: those of each power of two rows are combined once, and each range is
    put together of few such pieces.

    So nothing that is not in a range has a part in its result, as it had in a difference of running sums: no large
    number that hides small ones, and no NaN.
    """
    size = 1 << max(1, (len(values) - 1).bit_length())
    pieces = np.full(2 * size, nothing, values.dtype)
    pieces[size : size + len(values)] = values
    level = size
    while level > 1:
        half = level // 2
        pieces[half:level] = combine(pieces[level : 2 * level : 2], pieces[level + 1 : 2 * level : 2])
        level = half
    first, last = begin + size, np.maximum(begin, end) + size
    left, right = np.full(len(begin), nothing, values.dtype), np.full(len(begin), nothing, values.dtype)
    while (first < last).any():
        odd = np.flatnonzero((first & 1 == 1) & (first < last))
        left[odd] = combine(left[odd], pieces[first[odd]])
        first[odd] += 1
        odd = np.flatnonzero((last & 1 == 1) & (first < last))
        last[odd] -= 1
        right[odd] = combine(pieces[last[odd]], right[odd])
        first, last = first >> 1, last >> 1
    return combine(left, right)


def _sums(column: pa.Array, begin: Indices, end: Indices) -> pa.Array:
    is_valid = as_numpy(column.is_valid())
    is_empty = _differences(is_valid.astype(np.int64), begin, end) == 0
    if pa.types.is_decimal(column.type):
        return _decimal_sums(column, is_valid, begin, end, is_empty)
    values = as_numpy(column.fill_null(0)) if column.null_count else as_numpy(column)
    if values.dtype.kind == "f":
        return from_numpy(over_ranges(values, begin, end, np.add, 0.0), is_empty)
    return from_numpy(_differences(values, begin, end), is_empty)


def _differences(values: npt.NDArray[Any], begin: Indices, end: Indices) -> npt.NDArray[Any]:
    """Sums of whole numbers, which are exact."""
    sums = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    found: npt.NDArray[Any] = sums[np.maximum(begin, end)] - sums[begin]
    return found


def _decimal_sums(
    column: pa.Array, is_valid: npt.NDArray[np.bool_], begin: Indices, end: Indices, is_empty: npt.NDArray[np.bool_]
) -> pa.Array:
    """Numbers of 128 bits are summed 32 bits at a time."""
    words = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset).reshape(-1, 2)
    words = np.where(is_valid[:, None], words, 0)
    low, high = words[:, 0], words[:, 1]
    carry = np.zeros(len(begin), np.int64)
    limbs = []
    for limb in (low & _MASK, low >> _LIMB & _MASK, high & _MASK, high >> _LIMB):
        total = _differences(limb, begin, end) + carry
        limbs.append(total & _MASK)
        carry = total >> _LIMB
    sums = np.stack([limbs[0] | limbs[1] << _LIMB, limbs[2] | limbs[3] << _LIMB], axis=1)
    validity = from_numpy(~(is_empty | _are_too_large(sums))).buffers()[1]
    return pa.Array.from_buffers(column.type, len(begin), [validity, pa.py_buffer(np.ascontiguousarray(sums))])


def _are_too_large(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether numbers of 128 bits, given as their low and high halves, have more than 38 digits."""
    low, high = numbers[:, 0].view(np.uint64), numbers[:, 1]
    is_negative = high < 0
    low, high = np.where(is_negative, ~low + np.uint64(1), low), np.where(is_negative, ~high + (low == 0), high)
    most_high, most_low = divmod(_TOO_LARGE, 1 << 64)
    found: npt.NDArray[np.bool_] = (high > most_high) | ((high == most_high) & (low >= np.uint64(most_low)))
    return found
