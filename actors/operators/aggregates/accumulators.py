"""Accumulators by number: arrays with an element for each of them, and how these grow and are renumbered.

An *accumulator* is what one key has in one slice, session or pane of a count window. Its number is its index in every
array of aggregate state, so no accumulator is a Python object.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from actors.columns.take import contiguous

Accumulators = npt.NDArray[np.int64]
"""Numbers of accumulators, mostly one for each of some rows."""

Selection = Accumulators | slice
"""Numbers of accumulators; a slice where they follow one another."""

Values = npt.NDArray[Any]

# Zeros of 16 or 32 MiB take no fresh memory until they are written over: an array of so many elements has room for as
# many at once, and need not be copied, page after page of fresh memory, each time that it doubles.
_WORTH_RESERVING = 1 << 17
_RESERVED = 1 << 22


def grown(array: Values, size: int, fill: Any) -> Values:
    """The array with at least `size` elements, new ones being `fill`; doubles, so that growing by little is cheap."""
    if size <= len(array):
        return array
    capacity = max(size, 2 * len(array), 64)
    if _is_zero(fill) and capacity >= _WORTH_RESERVING:
        capacity = max(capacity, _RESERVED)
    bigger = _filled(capacity, fill, array.dtype)
    bigger[: len(array)] = array
    return bigger


def renumbered(array: Values, old: Accumulators, new: Accumulators, size: int, fill: Any) -> Values:
    """An array with `array[old[i]]` at `new[i]`, else `fill`, and at least `size` elements.

    It has as many elements as `array` unless that is far more than `size`, since what stays is mostly about to grow as
    large again.
    """
    result = _filled(len(array) if size <= len(array) <= 4 * size else size, fill, array.dtype)
    result[contiguous(new)] = array[contiguous(old)]
    return result


def _is_zero(fill: Any) -> bool:
    return not fill and fill is not None


def _filled(size: int, fill: Any, dtype: np.dtype[Any]) -> Values:
    return np.zeros(size, dtype) if _is_zero(fill) else np.full(size, fill, dtype)


def selected(array: Values, selection: Selection) -> Values:
    """A copy of the elements of these accumulators."""
    return array[selection].copy() if isinstance(selection, slice) else array[selection]


def numbers_in(selection: Selection) -> Accumulators:
    """The selected accumulators one by one."""
    return np.arange(selection.start, selection.stop) if isinstance(selection, slice) else selection


def selection_size(selection: Selection) -> int:
    """How many accumulators are selected."""
    return selection.stop - selection.start if isinstance(selection, slice) else len(selection)
