"""Counts and sums: what is taken back is subtracted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.keys.index import Ids
from actors.operators.tables.aggregates.states.arguments import Taken
from actors.operators.tables.aggregates.states.group_state import Arrays
from actors.operators.tables.aggregates.states.grouped_rows import GroupedRows
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

_MOST_DIGITS = 38
_LOW = np.int64(0xFFFFFFFF)
_LIMBS = ("limb 0", "limb 1", "limb 2", "limb 3")


class Counts(Arrays):
    """How many rows each group has; fewer than none, where more were taken back than had come."""

    def __init__(self) -> None:
        super().__init__({"count": (np.int64, 0)})

    def add(self, taken: Taken) -> None:
        self.arrays["count"][taken.rows.groups] += taken.rows.sums()

    def merge(self, rows: GroupedRows, columns: Mapping[str, pa.Array]) -> None:
        self.arrays["count"][rows.groups] += rows.integer_sums(as_numpy(columns["count"]))

    def of(self, groups: Ids) -> Ids:
        return self.arrays["count"][groups]


class IntegerSums(Arrays):
    """Sums of integers modulo 2**64."""

    def __init__(self) -> None:
        super().__init__({"sum": (np.int64, 0)})

    def add(self, taken: Taken) -> None:
        self.arrays["sum"][taken.rows.groups] += taken.rows.integer_sums(taken.numbers)

    def merge(self, rows: GroupedRows, columns: Mapping[str, pa.Array]) -> None:
        self.arrays["sum"][rows.groups] += rows.integer_sums(as_numpy(columns["sum"]))

    def of(self, groups: Ids) -> Ids:
        return self.arrays["sum"][groups]


class FloatSums(Arrays):
    """Sums of numbers as doubles. The addends of a batch are added first."""

    def __init__(self) -> None:
        super().__init__({"sum": (np.float64, 0.0)})

    def add(self, taken: Taken) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            self.arrays["sum"][taken.rows.groups] += taken.rows.sums(doubles_of(taken))

    def merge(self, rows: GroupedRows, columns: Mapping[str, pa.Array]) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            self.arrays["sum"][rows.groups] += rows.sums(as_numpy(columns["sum"]))

    def of(self, groups: Ids) -> npt.NDArray[np.float64]:
        return self.arrays["sum"][groups]


def doubles_of(taken: Taken) -> npt.NDArray[np.float64]:
    """The numbers of the first argument as doubles."""
    values = taken.values[0]
    if not pa.types.is_decimal(values.type):
        return taken.numbers.astype(np.float64, copy=False)
    doubles: npt.NDArray[np.float64] = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    return doubles


class DecimalSums(Arrays):
    """Exact sums of decimals, as numbers of their last digit: 32 bits in each of the first three limbs, and all above
    them in the last one, so that neither a batch nor all of them overflow.

    Args:
        scale: how many digits stand behind the point.
    """

    def __init__(self, scale: int) -> None:
        super().__init__(dict.fromkeys(_LIMBS, (np.int64, 0)))
        self._type = pa.decimal128(_MOST_DIGITS, scale)

    def add(self, taken: Taken) -> None:
        self._add_limbs(taken.rows, _limbs(taken.values[0]))

    def merge(self, rows: GroupedRows, columns: Mapping[str, pa.Array]) -> None:
        self._add_limbs(rows, [as_numpy(columns[name]) for name in _LIMBS])

    def _add_limbs(self, rows: GroupedRows, limbs: Sequence[Ids]) -> None:
        groups, carry = rows.groups, np.zeros(len(rows.groups), np.int64)
        for name, limb in zip(_LIMBS, limbs, strict=True):
            total = self.arrays[name][groups] + rows.integer_sums(limb) + carry
            carry = total >> 32
            self.arrays[name][groups] = total if name == _LIMBS[-1] else total & _LOW

    def of(self, groups: Ids) -> pa.Array:
        """NULL where a sum has more digits than a decimal."""
        limbs = [self.arrays[name][groups] for name in _LIMBS]
        words = np.empty((len(groups), 2), np.int64)
        words[:, 0] = limbs[0] | limbs[1] << 32
        words[:, 1] = limbs[2] | limbs[3] << 32
        fits = limbs[3] == limbs[3] << 32 >> 32
        wide = pa.Array.from_buffers(self._type, len(groups), [None, pa.py_buffer(words)])
        return _within_digits(wide, fits)


def _limbs(decimals: pa.Array) -> tuple[Ids, Ids, Ids, Ids]:
    """The 32 bits of each of four limbs; the last one has the sign. NULLs have to be left out."""
    wide = decimals.cast(pa.decimal128(_MOST_DIGITS, decimals.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.int64, 2 * len(wide), 16 * wide.offset).reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    return low & _LOW, (low >> 32) & _LOW, high & _LOW, high >> 32


_MOST = (10**_MOST_DIGITS) - 1


def _within_digits(decimals: pa.Array, fits: npt.NDArray[np.bool_]) -> pa.Array:
    """The decimals, NULL where they are no such, or have more digits than 38."""
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    most_high, most_low = np.int64(_MOST >> 64), np.uint64(_MOST & 2**64 - 1)
    high, low = words[:, 1], words.view(np.uint64)[:, 0]
    is_large = (high > most_high) | ((high == most_high) & (low > most_low))
    # The least number is the largest one's complement plus one.
    is_small = (high < ~most_high) | ((high == ~most_high) & (low < ~most_low + np.uint64(1)))
    is_null = is_large | is_small | ~fits
    if not is_null.any():
        return decimals
    validity = from_numpy(~is_null).buffers()[1]
    return pa.Array.from_buffers(decimals.type, len(decimals), [validity, decimals.buffers()[1]])
