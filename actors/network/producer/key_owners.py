"""Which channel the rows of a key go to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.keys.hashes import key_owners
from flinkray.batches.numpy_arrays import fixed_width, from_numpy

Integers = npt.NDArray[np.int64]

# A table is made after so many times as many rows as there are places between the keys of some of them: that hashes
# little more than half as many keys again at most.
_ROWS_PER_PLACE = 2

# It has so many places for one more on each side: rows to come have keys beyond those of the ones that were looked at.
_PLACES_PER_SPARE = 32

# Larger tables leave the cache, and looking up takes as long as hashing.
_MOST_PLACES = 1 << 21

_FIRST_LOOK = 1 << 16

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
        """The owners of the integers from `_low` on."""
        self._hashed = 0
        """Rows since the table was made."""
        self._look_at = _FIRST_LOOK
        """After so many it is asked whether another table is worth it."""

    def of(self, columns: pa.RecordBatch) -> npt.NDArray[Any]:
        """The owner of each row's key.

        Raises:
            TypeMismatchError: a column's type cannot be a key; names the column.
        """
        integers = _integers(columns)
        if integers is None or not len(integers):
            return key_owners(columns, self._owners)
        places = integers - self._low if self._low else integers
        if places.view(np.uint64).max() < len(self._table):
            owners: npt.NDArray[Any] = self._table.take(places, mode="clip")  # checked: clipping costs nothing
            return owners
        self._hashed += len(integers)
        if self._hashed >= self._look_at:
            self._look(int(integers.min()), int(integers.max()))
        return key_owners(columns, self._owners)

    def _look(self, low: int, high: int) -> None:
        """Makes a table of what there was and these integers, if there have been enough rows."""
        if len(self._table):
            low, high = min(low, self._low), max(high, self._low + len(self._table) - 1)
        places = high - low + 1
        self._look_at = 2 * self._hashed
        if places <= _MOST_PLACES and _ROWS_PER_PLACE * places <= self._hashed:
            spare = places // _PLACES_PER_SPARE
            # Where no key is below 0, the table begins there if it can: then an integer is its place.
            low, high = max(low - spare, 0 if low >= 0 else _LOWEST), min(high + spare, _HIGHEST)
            integers = pa.RecordBatch.from_arrays([from_numpy(np.arange(high - low + 1) + low)], names=["key"])
            self._low, self._table = low, key_owners(integers, self._owners)
            self._hashed, self._look_at = 0, _FIRST_LOOK


def _integers(columns: pa.RecordBatch) -> Integers | None:
    """The keys, where they are one column of integers without nulls."""
    if columns.num_columns != 1:
        return None
    column = columns.column(0)
    arrow_type = column.type
    if column.null_count or not pa.types.is_integer(arrow_type) or pa.types.is_uint64(arrow_type):
        return None
    return fixed_width(column, np.dtype(arrow_type.to_pandas_dtype())).astype(np.int64, copy=False)
