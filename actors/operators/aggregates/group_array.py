"""An array with an element per group, whose snapshot is taken without copying it in the task's thread."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.operators.aggregates.accumulators import Values, grown
from actors.operators.aggregates.segments import Ints


class GroupArray:
    """An element for each of the groups 0, 1, ...; belongs to the task's thread.

    Copying millions of elements at a barrier would keep the task waiting. Instead the thread that writes the snapshot
    copies the array while it goes on changing, and then puts back what the task set aside before changing it.

    Args:
        fill: the element of groups that nothing was written for.
    """

    def __init__(self, dtype: npt.DTypeLike, fill: Any) -> None:
        self._values: Values = np.zeros(0, dtype)
        self._fill = fill
        self._captured: list[weakref.ref[_Captured]] = []

    def __getitem__(self, groups: Ints) -> Values:
        elements: Values = self._values[groups]
        return elements

    def __setitem__(self, groups: Ints, elements: Any) -> None:
        """Sets the elements of distinct groups, for which there is room."""
        if self._captured:
            self._set_aside(groups)
        self._values[groups] = elements

    def grow(self, size: int) -> None:
        """Makes room for the groups 0 ... size - 1."""
        self._values = grown(self._values, size, self._fill)

    def replace(self, elements: Values) -> None:
        """Takes the place of all elements; the array is this object's from now on."""
        self._values = elements

    def capture(self, size: int) -> Callable[[], Values]:
        """A function that gives the elements of the groups 0 ... size - 1 as they are now; to be called once, on any
        thread.

        What the task changes is set aside for as long as it is neither called nor let go of. Elements that are Python
        objects are shared: they must not be changed themselves.
        """
        captured = _Captured(self._values, size, self._fill)
        self._captured.append(weakref.ref(captured))
        return captured.read

    def _set_aside(self, groups: Ints) -> None:
        self._captured = [each for each in self._captured if (captured := each()) is not None and captured.is_waiting]
        for each in self._captured:
            captured = each()
            if captured is not None:
                captured.set_aside(self._values, groups)


class _Captured:
    """An array at a barrier: the array itself, and what has been changed in it since."""

    __slots__ = ("__weakref__", "_before", "_fill", "_is_aside", "_size", "_values")

    def __init__(self, values: Values, size: int, fill: Any) -> None:
        self._values: Values | None = values
        self._size = size
        self._fill = fill
        self._before: list[tuple[Ints, Values]] = []
        self._is_aside = np.zeros(0, np.bool_)

    @property
    def is_waiting(self) -> bool:
        """Whether it has not been read yet."""
        return self._values is not None

    def set_aside(self, values: Values, groups: Ints) -> None:
        """Remembers the elements of these groups of `values`, which the task's thread is about to change."""
        if values is not self._values:
            return  # the array has been replaced by a bigger one, so that this one changes no more
        if not len(self._is_aside):
            self._is_aside = np.zeros(len(values), np.bool_)
        first_time = groups[~self._is_aside[groups]]
        self._is_aside[first_time] = True
        self._before.append((first_time, values[first_time]))

    def read(self) -> Values:
        values = self._values
        assert values is not None, "it is read once"
        elements = _resized(values, self._size, self._fill)
        # In this order: whatever change the copy shows was set aside before it was made.
        for groups, before in tuple(self._before):
            inside = groups < self._size
            elements[groups[inside]] = before[inside]
        self._values = None
        return elements


def _resized(array: Values, size: int, fill: Any) -> Values:
    """A copy with exactly `size` elements, `fill` where the array has no more."""
    result = np.empty(size, array.dtype)
    common = min(size, len(array))
    result[:common] = array[:common]
    result[common:] = fill
    return result
