"""How many accumulators rows would need, estimated for a fraction of what numbering their keys costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.ordering import distinct
from actors.keys.hashes import key_hashes

# Of all keys, those are looked at whose hash begins with so many zeros: one in sixteen.
_BITS = np.uint64(4)
_KEYS_PER_SAMPLED = 1 << int(_BITS)
_SHIFT = np.uint64(64) - _BITS

_SLICE_MULTIPLIER = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


class DistinctSample:
    """Counts the accumulators, each of a key in a slice, for one key in sixteen, chosen by hashes. So a key that most
    rows have counts once, in whatever order rows come. After Gibbons, "Distinct Sampling for Highly-Accurate Answers to
    Distinct Values Queries", VLDB 2001, with a fixed level. Belongs to one thread."""

    def __init__(self) -> None:
        self.rows = 0
        """Rows that were added so far."""
        self._seen = np.empty(0, np.uint64)
        """Hashes of the keys that are looked at, each with its slice."""

    @property
    def accumulators(self) -> int:
        """About how many accumulators the rows need that were added."""
        return _KEYS_PER_SAMPLED * len(self._seen)

    def add(self, keys: pa.RecordBatch, starts: list[int], slice_indices: npt.NDArray[Any] | None) -> None:
        """Adds rows.

        Args:
            starts: the distinct slices of the rows.
            slice_indices: for each row the index of its slice in `starts`; None: they are all in the only one.

        Raises:
            TypeMismatchError: a column's type cannot be a key.
        """
        hashes = key_hashes(keys)
        rows = np.flatnonzero(hashes >> _SHIFT == 0)
        salts = np.array([start * _SLICE_MULTIPLIER & _WORD for start in starts], np.uint64)
        pairs = hashes[rows] ^ (salts[0] if slice_indices is None else salts[slice_indices[rows]])
        self._seen = distinct(np.concatenate([self._seen, pairs]))
        self.rows += keys.num_rows
