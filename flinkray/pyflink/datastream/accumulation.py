"""`sum`, `min`, `max`, `min_by` and `max_by` of keyed values that have no declared type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import ReduceFunction
from flinkray.types.rows import Row


def _sum(first: Any, second: Any) -> Any:
    return first + second


def _smaller(first: Any, second: Any) -> Any:
    return second if second < first else first


def _larger(first: Any, second: Any) -> Any:
    return second if second > first else first


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": _sum,
    "min": _smaller,
    "max": _larger,
    "min_by": _smaller,
    "max_by": _larger,
}


class Accumulation(ReduceFunction):
    """Reduces one field of tuples, lists and rows, or whole bare values at position 0; `..._by` keeps whole values."""

    def __init__(self, mode: str, position: int | str) -> None:
        if isinstance(position, bool) or not isinstance(position, int | str):
            raise InvalidProgramError(f"{mode} takes a position or the name of a field, not {position!r}")
        self._mode = mode
        self._position = position

    def reduce(self, value1: Any, value2: Any) -> Any:
        combine = _COMBINE[self._mode]
        if not isinstance(value2, tuple | list):
            if self._position != 0:
                raise InvalidProgramError(
                    f"{self._mode}: values such as {value2!r} have no field {self._position!r}; only position 0, the "
                    "value itself"
                )
            return combine(value1, value2)
        position: Any = self._position  # of rows it may be a name
        first, second = value1[position], value2[position]
        combined = combine(first, second)
        if self._mode.endswith("_by"):
            return value1 if combined is first else value2
        items = list(value1)
        items[value1._fields.index(position) if isinstance(position, str) else position] = combined
        if isinstance(value1, Row):
            return type(value1)._maker()(tuple(items))
        return tuple(items) if isinstance(value1, tuple) else items
