"""The function's side of a Handover, which estimates the bytes of each value, so that a function does not run ahead of
its task by gigabytes."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from sys import getsizeof
from typing import Any

import pyarrow as pa

from flinkray.batches.row_codec import snapshot
from flinkray.batches.sizes import data_bytes
from flinkray.connectors.handover import Handover

_SMALL = frozenset({int, float, bool, type(None)})
_FLAT = (str, bytes, bytearray)
_CONTAINERS = (tuple, list, dict)
"""Containers whose items are measured; Row and NamedTuple are tuples."""
_WIDE_BYTES = 1024
"""Containers of at least so many bytes are always measured."""
_NARROW_BEFORE_SAMPLING = 64
"""After so many narrow containers in a row only a sample of them is measured."""
_MEASURED_ONE_OF = 16
"""One of so many is then measured."""
_MEASURED_ITEMS = 64
"""So many items of a list or dict are measured; the others are taken to be as large."""


class FunctionCollector:
    """Hands over what a function gives, with its size in bytes as its weight. Belongs to the function's thread.

    Measuring a tuple takes as long as handing it over, so once many have been narrow, most of them are taken to be like
    the last that was measured.

    Args:
        handover: takes values with their timestamps; its capacity is in bytes.
        row_weight: the fewest bytes that a row counts.
    """

    def __init__(self, handover: Handover[tuple[Any, int | None]], row_weight: int) -> None:
        self._handover = handover
        self._row_weight = row_weight
        self._narrow = 0
        """The number of containers measured since the last wide one."""
        self._unmeasured = 0
        """The number of containers that are still to be taken to have `_last_weight`."""
        self._last_weight = row_weight

    def collect(self, value: Any, timestamp: int | None) -> bool:
        """Waits for room. False: nobody wants more. What could still change is copied.

        Args:
            timestamp: event time in epoch milliseconds, or None.
        """
        weight = self._row_weight
        python_type = type(value)
        if python_type is str or python_type is bytes:
            size = getsizeof(value)
            if size > weight:  # several times as fast as max()
                weight = size
        elif isinstance(value, pa.RecordBatch):
            if not value.num_rows:
                return not self._handover.is_closed
            weight = max(value.num_rows * weight, data_bytes(value))
        elif self._unmeasured and isinstance(value, _CONTAINERS):
            self._unmeasured -= 1
            weight = self._last_weight
            value = snapshot(value)
        elif python_type not in _SMALL:
            weight = self._measured(value)
            value = snapshot(value)
        return self._handover.offer((value, timestamp), weight)

    def _measured(self, value: Any) -> int:
        size = _bytes_of(value)
        weight = max(size, self._row_weight)
        if isinstance(value, _CONTAINERS):
            self._last_weight = weight
            self._narrow = self._narrow + 1 if size < _WIDE_BYTES else 0
            if self._narrow >= _NARROW_BEFORE_SAMPLING:
                self._unmeasured = _MEASURED_ONE_OF - 1
        return weight

    @property
    def is_closed(self) -> bool:
        return self._handover.is_closed

    def finish(self, error: BaseException | None) -> None:
        self._handover.finish(error)


def _bytes_of(value: Any) -> int:
    """About how many bytes a value has; of a container, counted one level deep."""
    if isinstance(value, _FLAT):
        return getsizeof(value)
    if isinstance(value, _CONTAINERS):
        return _bytes_of_items(value.values() if isinstance(value, dict) else value)
    nbytes = getattr(value, "nbytes", 0)  # of arrays
    return nbytes if isinstance(nbytes, int) else 0


def _bytes_of_items(items: Collection[Any]) -> int:
    if len(items) <= _MEASURED_ITEMS:
        return sum(map(getsizeof, items))
    return sum(map(getsizeof, itertools.islice(items, _MEASURED_ITEMS))) * len(items) // _MEASURED_ITEMS
