"""`str.split` of a whole column of text: what a flat_map with it gives, without a Python object per word."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import pairwise
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SPACES = bytes(code for code in range(128) if chr(code).isspace())
_IS_SPACE = np.isin(np.arange(256), np.frombuffer(_SPACES, np.uint8))
_LAST_SPACE = max(_SPACES)
# Bytes of text that are split at a time: so many, and what is computed from them, stay in the cache of a core.
_BLOCK_BYTES = 64 << 10
_OTHER_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


def _split(text: str) -> list[str]:
    return text.split()


def is_split(function: Any) -> bool:
    """Whether the function is `str.split`, or does nothing but call it: `lambda line: line.split()`.

    Equal instructions, which name nothing but that method, do the same with every `str`.
    """
    if function is str.split:
        return True
    if type(function) is not FunctionType:
        return False
    code, known = function.__code__, _split.__code__
    return (
        code.co_code == known.co_code
        and code.co_names == known.co_names
        and code.co_argcount == 1
        and not code.co_kwonlyargcount
        and not code.co_flags & _OTHER_KINDS
    )


def split_texts(texts: pa.StringArray) -> tuple[pa.StringArray, npt.NDArray[np.int64]] | None:
    """The words of all rows, in order, and how many each row has; None where there are nulls or more than ASCII."""
    if texts.null_count or not len(texts):
        return None
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(texts) + 1, texts.offset * 4)
    first, last = int(offsets[0]), int(offsets[-1])
    if first == last:
        return pa.nulls(0, pa.string()), np.zeros(len(texts), np.int64)
    data = np.frombuffer(data_buffer, np.uint8, last - first, first)
    if data.max() > 127:
        return None
    lengths: list[npt.NDArray[np.int64]] = []
    counts: list[npt.NDArray[np.int64]] = []
    for rows in _blocks(offsets):
        begin, end = int(offsets[rows.start]), int(offsets[rows.stop])
        text_ends = offsets[rows.start + 1 : rows.stop + 1].astype(np.int64)
        text_ends -= begin
        some_lengths, some_counts = _words_in(data[begin - first : end - first], text_ends)
        lengths.append(some_lengths)
        counts.append(some_counts)
    word_offsets = np.zeros(sum(map(len, lengths)) + 1, np.int32)
    np.concatenate(lengths, out=word_offsets[1:], casting="same_kind")
    np.cumsum(word_offsets, out=word_offsets)
    # Without the spaces, the words lie one behind the other.
    words = pa.py_buffer(data.tobytes().translate(None, _SPACES))
    column = pa.StringArray.from_buffers(len(word_offsets) - 1, pa.py_buffer(word_offsets), words)
    return column, np.concatenate(counts)


def _blocks(offsets: npt.NDArray[np.int32]) -> Iterator[slice]:
    """Ranges of rows whose texts have about `_BLOCK_BYTES` together."""
    rows, first, last = len(offsets) - 1, int(offsets[0]), int(offsets[-1])
    inner = np.searchsorted(offsets, np.arange(first + _BLOCK_BYTES, last, _BLOCK_BYTES)).tolist()
    for start, stop in pairwise([0, *inner, rows]):
        if start < stop:
            yield slice(start, stop)


def _words_in(
    data: npt.NDArray[np.uint8], text_ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The length of each word of texts that lie one behind the other, and how many words each text has."""
    # A word ends at a space, which takes up a byte, or at the end of its text, which takes up none and goes before a
    # space at the same position.
    spaces = _spaces_in(data)
    spaces <<= 1
    spaces += 1
    text_ends <<= 1
    ends = np.concatenate([spaces, text_ends])
    ends.sort(kind="stable")  # two sorted runs, which this merges
    last_words = np.flatnonzero((ends & 1) == 0)
    lengths = ends >> 1
    ends += 1
    ends >>= 1
    lengths[1:] -= ends[:-1]
    if lengths.all():
        last_words[1:] -= last_words[:-1].copy()
        last_words[:1] += 1
        return lengths, last_words
    is_word = lengths > 0
    return lengths[is_word], np.diff(np.cumsum(is_word)[last_words], prepend=0)


def _spaces_in(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """The positions of the spaces."""
    low = np.flatnonzero(data <= _LAST_SPACE)
    if len(data) and data.min() == _LAST_SPACE:  # as most text is
        return low
    is_space = _IS_SPACE[data[low]]
    return low if is_space.all() else low[is_space]  # other control characters belong to words
