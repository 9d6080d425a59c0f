"""Users' Python values that a snapshot shares with the live state, until it is written or user code may change them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import pyarrow as pa

from actors.state.snapshots.values import value_of_bytes, value_to_bytes
from flinkray.batches.row_codec import short_repr
from flinkray.errors import CheckpointError

Values = TypeVar("Values", list[Any], dict[Any, Any])


class FrozenValues(Generic[Values]):
    """A shallow copy of a list or dict, for a snapshot. To be dropped when that is written."""

    __slots__ = ("__weakref__", "values")

    def __init__(self, values: Values) -> None:
        self.values: Values = values


class SharedValues(Generic[Values]):
    """Knows which values of a list or dict unwritten snapshots share: user code must get copies of those.

    After the copy on write of Flink's CopyOnWriteStateTable. Belongs to the task's thread; snapshots may be dropped
    by any.
    """

    def __init__(self) -> None:
        self._frozen: list[weakref.ref[FrozenValues[Values]]] = []

    def freeze(self, values: Values) -> FrozenValues[Values]:
        """A shallow copy of the values as they are now. They count as shared for as long as it lives."""
        frozen = FrozenValues(values.copy())
        self._frozen = [reference for reference in self._frozen if reference() is not None]
        self._frozen.append(weakref.ref(frozen))
        return frozen

    def current(self) -> list[Values]:
        """The values of all snapshots that are not written yet; mostly there is none."""
        if not self._frozen:
            return []
        alive = [frozen for reference in self._frozen if (frozen := reference()) is not None]
        if not alive:
            self._frozen = []
        return [frozen.values for frozen in alive]


def encoded(values: Iterable[Any], describe: Callable[[int], str]) -> pa.Array:
    """Each value as bytes (large_binary).

    Args:
        describe: names the i-th value in the error.
    Raises:
        CheckpointError: one cannot be pickled.
    """
    result: list[bytes] = []
    for value in values:
        try:
            result.append(value_to_bytes(value))
        except Exception as error:  # runs the value's own code
            raise CheckpointError(
                f"{describe(len(result))} cannot be pickled for a checkpoint: {short_repr(value)}: "
                f"{type(error).__name__}: {error}"
            ) from error
    return pa.array(result, pa.large_binary())


def decoded(column: pa.Array) -> list[Any]:
    """The values that `encoded` stored."""
    return [value_of_bytes(data) for data in column.to_pylist()]
