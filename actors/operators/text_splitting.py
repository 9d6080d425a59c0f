"""`str.split` of a whole column of text: what a flat_map with it gives, without a Python object per word."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SPACES = bytes(code for code in range(128) if chr(code).isspace())
_IS_SPACE = np.isin(np.arange(256), np.frombuffer(_SPACES, np.uint8))
_LAST_SPACE = max(_SPACES)
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
        return pa.array([], pa.string()), np.zeros(len(texts), np.int64)
    data = np.frombuffer(data_buffer, np.uint8, last - first, first)
    if data.max() > 127:
        return None
    # What ends a word: a space, which takes up a byte, or before it the end of its text, which takes up none.
    ends = np.concatenate([2 * _spaces_in(data) + 1, 2 * (offsets[1:].astype(np.int64) - first)])
    ends.sort(kind="stable")  # two sorted runs, which are merged
    after = (ends + 1) >> 1
    lengths = ends >> 1
    lengths[1:] -= after[:-1]
    is_word = lengths > 0
    words_before = np.cumsum(is_word)
    counts = np.diff(words_before[(ends & 1) == 0], prepend=0)
    word_offsets = np.zeros(int(words_before[-1]) + 1, np.int32)
    np.cumsum(lengths[is_word], out=word_offsets[1:])
    # Without the spaces, the words lie one behind the other.
    words = pa.py_buffer(data.tobytes().translate(None, _SPACES))
    return pa.StringArray.from_buffers(len(word_offsets) - 1, pa.py_buffer(word_offsets), words), counts


def _spaces_in(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Their positions."""
    low = np.flatnonzero(data <= _LAST_SPACE)
    is_space = _IS_SPACE[data[low]]
    return low if is_space.all() else low[is_space]  # other control characters belong to words
