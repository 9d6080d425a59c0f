"""Texts and bytes as 64-bit words: eight bytes each, the first byte lowest.

A text of up to eight bytes is one such integer, and integers are hashed and compared many at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]

WORD_BYTES = 8

# How many words are read at a time: so many, and what they are computed from, stay in the cache of a core, and in
# memory that is not allocated anew each time.
WORDS_AT_ONCE = 12 << 10

# For fewer words than this, reading each of them twice costs more than it saves.
_FEW_WORDS = 2048

_TAIL_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(WORD_BYTES + 1)], dtype=np.uint64)
_ONE = np.uint64(1)
_HIGHEST_SHIFT = np.uint64(63)
_SIGN = np.uint64(1 << 63)


def ordered_words(texts: pa.Array) -> npt.NDArray[np.int64] | None:
    """Integers that ascend as the texts or bytes do, byte by byte; anything where one is null. None: they are of
    another type, or one of them is longer than a word or has a byte that is zero, which its word does not show."""
    is_large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    if not (is_large or pa.types.is_string(texts.type) or pa.types.is_binary(texts.type)):
        return None
    if not len(texts):
        return np.zeros(0, np.int64)
    dtype: Any = np.dtype(np.int64 if is_large else np.int32)
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype, len(texts) + 1, texts.offset * dtype.itemsize)
    lengths, first, last = np.diff(offsets), int(offsets[0]), int(offsets[-1])
    if lengths.max() > WORD_BYTES:
        return None
    data = np.frombuffer(data_buffer, np.uint8, last - first, first) if last > first else np.zeros(0, np.uint8)
    if len(data) and not data.min():
        return None
    return (TextWords(data, first).at(offsets[:-1], lengths).byteswap() ^ _SIGN).view(np.int64)


class TextWords:
    """Reads words from anywhere in some bytes.

    Args:
        base: the position of the first of these bytes, where callers count positions from another byte.
    """

    def __init__(self, data: npt.NDArray[np.uint8], base: int = 0) -> None:
        self._base = base
        # Padded, since a word behind the last one is read with it.
        padded = np.zeros(len(data) // WORD_BYTES + 2, dtype="<u8")
        padded.view(np.uint8)[: len(data)] = data
        self._words: Words = padded
        self._words_anywhere: Words = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))

    def at(self, starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Words:
        """The first eight bytes of the texts at these positions; a shorter text is followed by zeros."""
        if len(starts) < _FEW_WORDS:
            few: Words = self._words_anywhere[starts - self._base].astype(np.uint64, copy=False)
            few &= _TAIL_MASKS.take(lengths, mode="clip")
            return few
        read = np.empty(len(starts), np.uint64)
        for first in range(0, len(starts), WORDS_AT_ONCE):
            some = slice(first, first + WORDS_AT_ONCE)
            self._read(starts[some], lengths[some], read[some])
        return read

    def _read(self, starts: npt.NDArray[Any], lengths: npt.NDArray[Any], read: Words) -> None:
        # Two aligned reads are quicker than one that is not, which numpy makes byte by byte.
        at = starts.astype(np.int64)
        at -= self._base
        shifts = ((at & 7) << 3).view(np.uint64)
        at >>= 3
        words = self._words.take(at, mode="clip").astype(np.uint64, copy=False)
        words >>= shifts
        at += 1
        behind = self._words.take(at, mode="clip").astype(np.uint64, copy=False)
        behind <<= _ONE  # in two turns, since a shift by 64 has no meaning
        shifts ^= _HIGHEST_SHIFT
        behind <<= shifts
        words |= behind
        # Texts that are longer than a word get the last mask, which is all ones.
        np.bitwise_and(words, _TAIL_MASKS.take(lengths, mode="clip"), out=read)
