"""Random values as functions of an event's number: the same for the same seed, in whatever batch the event is made."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.datagen.source import random_bits

Longs = npt.NDArray[np.int64]
Characters = npt.NDArray[np.uint8]

_SPREAD = 0x2545F4914F6CDD1D
"""Makes the seeds of neighbouring fields far ones, as a bit pattern is that of its number plus its seed."""
_ROWS_AT_ONCE = 4096
"""Of texts: as many as stay in the cache."""

LETTERS = np.array([ord("a") + byte * 26 // 256 for byte in range(256)], np.uint8)
"""The letter that each byte stands for."""


def separated_letters(separator: str) -> Characters:
    """Letters, of which about each thirteenth is the separator."""
    found = LETTERS.copy()
    found[::13] = ord(separator)
    return found


def bits(numbers: Longs, seed: int) -> npt.NDArray[np.uint64]:
    """64 random bits for each number."""
    return random_bits(np.ascontiguousarray(numbers), seed * _SPREAD)


def below(numbers: Longs, seed: int, limit: Longs | int) -> Longs:
    """A whole number from 0 to below `limit`, which is below 2**31."""
    high: Longs = (bits(numbers, seed) >> np.uint64(33)).view(np.int64)
    high *= limit
    high >>= 31
    return high


def prices(numbers: Longs, seed: int) -> Longs:
    """Prices from 100 to 100,000,000, as many from 100 to 1,000 as from 1,000 to 10,000."""
    unit = (bits(numbers, seed) >> np.uint64(11)).astype(np.float64)
    unit *= 6 * np.log(10) * 2.0**-53
    found: Longs = np.rint(np.exp(unit) * 100).astype(np.int64)
    return found


def texts(numbers: Longs, seed: int, lengths: Longs, longest: int, alphabet: Characters = LETTERS) -> pa.Array:
    """Texts of random characters, of the given lengths, which are at most `longest`."""
    words = max(1, -(-longest // 8))
    parts = []
    for start in range(0, len(numbers), _ROWS_AT_ONCE):
        some = numbers[start : start + _ROWS_AT_ONCE]
        counters = some[:, None] * words + np.arange(words)
        characters = alphabet[bits(counters.ravel(), seed).view(np.uint8)].reshape(len(some), words * 8)
        parts.append(characters[np.arange(words * 8) < lengths[start : start + _ROWS_AT_ONCE, None]])
    offsets = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.concatenate(parts) if parts else LETTERS[:0])]
    return pa.Array.from_buffers(pa.string(), len(numbers), buffers)


def choices(values: pa.Array, numbers: Longs, seed: int) -> pa.Array:
    """One of the values for each number."""
    return values.take(from_numpy(below(numbers, seed, len(values))))
