"""Integers in order: as numpy sorts them, in a fraction of the time."""

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
"""So few integers numpy sorts in less time."""
_PLACES_PER_VALUE = 8
"""With that many numbers per value or fewer from the lowest value to the highest one, an array with a place for each
of them tells in less time than an order which of them there are."""
_NUMBERS_PER_PLACE = 4
"""With more numbers than that per place, counting the places of each number costs more than searching."""


def order_by(first: Integers, *others: Integers) -> Indices:
    """Where the lowest row is, the one after that, ...: by the first column, where that is equal by the next one, and
    so on; rows that are equal in all stay as they are. As `np.lexsort`, which takes the first column last."""
    columns = [first, *others]
    order = _stable_order(columns.pop())
    while columns:
        order = order.take(_stable_order(columns.pop().take(order)))
    return order


def order_below(numbers: Integers, bound: int) -> Indices:
    """As `order_by` of one column; the numbers are known to be 0 ... bound - 1.

    numpy sorts integers of up to 16 bits by counting digits, several times faster than wider ones, which thus go in
    several turns.
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
    if bound <= _PLACES_PER_VALUE * len(values):
        is_there = np.zeros(bound, np.bool_)
        is_there[distances.view(np.int64)] = True
        found: npt.NDArray[Integer] = np.flatnonzero(is_there).astype(values.dtype) + values.min()
        return found
    ascending = values.take(order_below(distances, bound))
    return ascending[differs_from_previous(ascending)]


def partners_of(first: Integers, second: Integers, bound: int) -> tuple[Indices, Indices, Indices]:
    """Where the second column has the numbers of the first one, which may occur several times in both.

    Args:
        bound: all numbers are 0 ... bound - 1.
    Returns:
        The second's places by number, each number's in their order; for each element of the first where its partners
        begin among these, and how many there are.
    """
    order = order_by(second)
    if bound > _NUMBERS_PER_PLACE * (len(first) + len(second)):
        ordered = second.take(order)
        begins = np.searchsorted(ordered, first, "left")
        return order, begins, np.searchsorted(ordered, first, "right") - begins
    counts = np.bincount(second, minlength=bound)
    return order, (np.cumsum(counts) - counts)[first], counts[first]


def differs_from_previous(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which element is not the same as the one before it: where equal ones lie together, the first one of each."""
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
    """How far each is above the lowest one, and one more than the largest distance."""
    lowest = int(values.min())
    # Modulo 2**64, so that no distance is too large.
    return values.astype(np.uint64) - np.uint64(lowest % (1 << 64)), int(values.max()) - lowest + 1
