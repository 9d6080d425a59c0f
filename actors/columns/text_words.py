"""Texts and bytes as the 64-bit words that they are made of, eight bytes each, the first byte lowest.

A text of up to eight bytes is one integer, which other columns' kernels are quick with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

WORD_BYTES = 8

# Words that are read at a time: they and what they are made of stay in the cache of a core, in memory that is not asked
# of the system anew each time.
WORDS_AT_ONCE = 12 << 10

# Of fewer words, two reads of each cost more than they save.
_FEW_WORDS = 2048

_TAIL_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(WORD_BYTES + 1)], dtype=np.uint64)
_ONE = np.uint64(1)
_HIGHEST_SHIFT = np.uint64(63)


class TextWords:
    """Reads words from anywhere in some bytes.

    Args:
        base: the place of the first of these bytes, for who counts places from elsewhere.
    """

    def __init__(self, data: npt.NDArray[np.uint8], base: int = 0) -> None:
        self._base = base
        # With a word behind the last that is read.
        padded = np.zeros(len(data) // WORD_BYTES + 2, dtype="<u8")
        padded.view(np.uint8)[: len(data)] = data
        self._words: Words = padded
        self._words_anywhere: Words = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))

    def at(self, starts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> Words:
        """The first bytes, up to eight, of the texts at these places; where they are fewer, zeros are behind them."""
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
        # What is longer than a word has the last mask, all ones.
        np.bitwise_and(words, _TAIL_MASKS.take(lengths, mode="clip"), out=read)
