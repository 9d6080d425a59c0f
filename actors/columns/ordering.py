"""Integers sorted, made distinct and matched: what numpy does with them, in a fraction of the time."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Integer = TypeVar("Integer", bound=np.integer[Any])
Integers = npt.NDArray[np.integer[Any]]
Indices = npt.NDArray[np.int64]

_OF_BYTE = 1 << 8
_OF_WORD = 1 << 16
_FEW = 1024
"""Fewer integers than this numpy sorts in less time."""
_RANGE_PER_VALUE = 8
"""While the range from the lowest value to the highest one is at most so many times as wide as there are values, an
array of flags over the range finds the distinct ones in less time than sorting."""
_NUMBERS_PER_ROW = 4
"""With more possible numbers per row than that, counting the rows of each number costs more than searching."""


def order_by(first: Integers, *others: Integers) -> Indices:
    """The indices of the rows in ascending order: by the first column, where that is equal by the next one, and so on;
    rows that are equal in all columns keep their order. As `np.lexsort`, which takes the first column last."""
    columns = [first, *others]
    order = _stable_order(columns.pop())
    while columns:
        order = order.take(_stable_order(columns.pop().take(order)))
    return order


def order_below(numbers: Integers, bound: int) -> Indices:
    """As `order_by` of one column; the numbers are known to be 0 ... bound - 1.

    numpy sorts integers of up to 16 bits by counting digits, several times faster than wider ones; so wider ones are
    sorted 16 bits at a time.
    """
    if bound <= _OF_BYTE:
        return np.argsort(numbers.astype(np.uint8), kind="stable")
    by_low = np.argsort(numbers.astype(np.uint16), kind="stable")
    if bound <= _OF_WORD:
        return by_low
    return by_low.take(order_below(numbers.take(by_low) >> 16, (bound - 1 >> 16) + 1))


def distinct(values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Each value once, ascending: as `np.unique`, which hashes integers and takes ten times as long."""
    if not len(values):
        return values
    distances, bound = _distances(values)
    if bound <= _RANGE_PER_VALUE * len(values):
        is_there = np.zeros(bound, np.bool_)
        is_there[distances.view(np.int64)] = True
        found: npt.NDArray[Integer] = np.flatnonzero(is_there).astype(values.dtype) + values.min()
        return found
    ascending = values.take(order_below(distances, bound))
    return ascending[differs_from_previous(ascending)]


def partners_of(first: Integers, second: Integers, bound: int) -> tuple[Indices, Indices, Indices]:
    """The rows of the second column that have the same number as each row of the first one; numbers may occur several
    times in both.

    Args:
        bound: all numbers are 0 ... bound - 1.
    Returns:
        The second column's row indices in ascending order of their numbers; for each row of the first one where its
        partners begin among these, and how many there are.
    """
    order = order_by(second)
    if bound > _NUMBERS_PER_ROW * (len(first) + len(second)):
        ordered = second.take(order)
        begins = np.searchsorted(ordered, first, "left")
        return order, begins, np.searchsorted(ordered, first, "right") - begins
    counts = np.bincount(second, minlength=bound)
    return order, (np.cumsum(counts) - counts)[first], counts[first]


def differs_from_previous(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each element differs from the one before it; true for the first. Of equal elements that lie together it
    marks the first."""
    is_other = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_other[1:])
    return is_other


def _stable_order(values: Integers) -> Indices:
    if len(values) < _FEW:
        return np.argsort(values, kind="stable")
    if (values[1:] >= values[:-1]).all():
        return np.arange(len(values))
    return order_below(*_distances(values))


def _distances(values: Integers) -> tuple[npt.NDArray[np.uint64], int]:
    """How far each value is above the lowest one, and one more than the largest distance."""
    lowest = int(values.min())
    # Modulo 2**64, so that no distance is too large.
    return values.astype(np.uint64) - np.uint64(lowest % (1 << 64)), int(values.max()) - lowest + 1
