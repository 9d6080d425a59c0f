"""Which channel the rows of a key go to: the owner of its key group, looked up for integers and hashed for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.keys.hashes import key_owners
from flinkray.batches.numpy_arrays import fixed_width, from_numpy, numpy_dtype

Integers = npt.NDArray[np.int64]

# A table is made after so many times as many rows as it is going to have entries: that hashes little more than half as
# many keys again at most.
_ROWS_PER_ENTRY = 2

# A table gets one spare entry on each side per so many entries: rows to come have keys beyond those seen so far.
_ENTRIES_PER_SPARE = 32

# Larger tables leave the cache, and looking up takes as long as hashing.
_MOST_ENTRIES = 1 << 21

_FIRST_DECISION = 1 << 16

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


class KeyOwners:
    """Gives each key's owner, that of its key group. Belongs to one thread.

    Integers that lie together and come again are looked up instead of hashed.

    Args:
        owners: the owner of each key group, an unsigned integer of 8 or 16 bits.
    """

    def __init__(self, owners: npt.NDArray[Any]) -> None:
        self._owners = owners
        self._low = 0
        self._table = owners[:0]
        """The owners of the integers from `_low` on; empty: there is no table."""
        self._hashed = 0
        """How many rows were hashed since the table was made."""
        self._decide_at = _FIRST_DECISION
        """After how many hashed rows it is decided whether another table is worth it."""

    def of(self, columns: pa.RecordBatch) -> npt.NDArray[Any]:
        """The owner of each row's key.

        Raises:
            TypeMismatchError: a column's type cannot be a key; names the column.
        """
        integers = _integers(columns)
        if integers is None or not len(integers):
            return key_owners(columns, self._owners)
        offsets = integers - self._low if self._low else integers
        if offsets.view(np.uint64).max() < len(self._table):
            owners: npt.NDArray[Any] = self._table.take(offsets, mode="clip")  # checked: clipping costs nothing
            return owners
        self._hashed += len(integers)
        if self._hashed >= self._decide_at:
            self._decide(int(integers.min()), int(integers.max()))
        return key_owners(columns, self._owners)

    def _decide(self, low: int, high: int) -> None:
        """Makes a table that covers the present one and these integers, if there have been enough rows."""
        if len(self._table):
            low, high = min(low, self._low), max(high, self._low + len(self._table) - 1)
        entries = high - low + 1
        self._decide_at = 2 * self._hashed
        if entries <= _MOST_ENTRIES and _ROWS_PER_ENTRY * entries <= self._hashed:
            spare = entries // _ENTRIES_PER_SPARE
            # Where no key is below 0, the table begins at 0 if it can: then an integer is its own offset.
            low, high = max(low - spare, 0 if low >= 0 else _LOWEST), min(high + spare, _HIGHEST)
            integers = pa.RecordBatch.from_arrays([from_numpy(np.arange(high - low + 1) + low)], names=["key"])
            self._low, self._table = low, key_owners(integers, self._owners)
            self._hashed, self._decide_at = 0, _FIRST_DECISION


def _integers(columns: pa.RecordBatch) -> Integers | None:
    """The keys, where they are one column of integers without nulls."""
    if columns.num_columns != 1:
        return None
    column = columns.column(0)
    arrow_type = column.type
    if column.null_count or not pa.types.is_integer(arrow_type) or pa.types.is_uint64(arrow_type):
        return None
    return fixed_width(column, numpy_dtype(arrow_type)).astype(np.int64, copy=False)
