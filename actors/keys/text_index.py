"""Dense numbers for texts and bytes: 0 for the first that came, 1 for the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.text_words import WORD_BYTES, TextWords
from actors.keys.hashes import key_hashes
from actors.keys.integer_index import Ids, IntegerIndex
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

# Leads from a hash to the next one to try, for a text whose own hash is that of another text. Odd, so that the
# multiplication loses nothing.
_NEXT_HASH = np.int64(0x2545F4914F6CDD1D)

# Up to so many bytes per text, hashing and comparing the text of every row costs less than finding the distinct ones.
_LONGEST_OF_ROWS = 48

# With so many rows per text, finding the distinct ones costs less, however short they are.
_MANY_ROWS_PER_TEXT = 8

_FIRST_CAPACITY = 1024

Flags = npt.NDArray[np.bool_]


class TextIndex:
    """Numbers texts by 64-bit words: a text of up to eight bytes is a word, a longer one has its hash as its word.

    A text that is found by its hash is compared with the one asked for, so that texts with equal hashes get numbers of
    their own. Beside its bytes a text takes 9 bytes here and what IntegerIndex takes. Belongs to one thread.
    """

    def __init__(self) -> None:
        self._numbers = IntegerIndex()
        self._offsets: Ids = np.zeros(_FIRST_CAPACITY + 1, np.int64)
        self._data: npt.NDArray[np.uint8] = np.empty(_FIRST_CAPACITY, np.uint8)
        self._is_hashed: Flags = np.zeros(_FIRST_CAPACITY, np.bool_)
        """Which texts, by number, are known by their hash and not by their own bytes."""
        self._has_hashed = False
        self._stored = 0

    @property
    def size(self) -> int:
        return self._numbers.size

    def ids(self, column: pa.Array) -> Ids:
        """The number of each row's text; null has a number too."""
        texts = _with_offsets(column)
        nulls = as_numpy(texts.is_null()) if texts.null_count else None
        words, hashed_rows = _words_of(texts, nulls)
        if len(hashed_rows) == len(texts):
            asked, codes = self._worth_hashing(texts)
            return self._hashed_ids(asked, _hashes(asked))[codes]
        if not len(hashed_rows):
            ids = self._numbers.ids(words, nulls)
            self._store_new(texts, ids, hashed_rows)
            others = hashed_rows
        else:
            asked, codes = self._worth_hashing(texts.take(from_numpy(hashed_rows)))
            words[hashed_rows] = _hashes(asked)[codes]
            ids = self._numbers.ids(words, nulls)
            self._store_new(texts, ids, hashed_rows)
            found = np.empty(len(asked), np.int64)
            found[codes] = ids[hashed_rows]
            others = hashed_rows[self._are_others(asked, found)[codes]]
        if self._has_hashed:
            # A text that is its own word is another one than the text whose hash is that word.
            is_other = self._is_hashed[ids]
            is_other[hashed_rows] = False
            if is_other.any():
                others = np.concatenate([others, np.flatnonzero(is_other)])
        if len(others):
            others.sort()
            ids[others] = self._hashed_ids(texts.take(from_numpy(others)), words[others] * _NEXT_HASH + 1)
        return ids

    def _worth_hashing(self, texts: pa.Array) -> tuple[pa.Array, Ids | slice]:
        """The texts to be hashed, and which of them each row has. Where texts are long, or few are known so far, each
        distinct text is hashed only once."""
        texts = texts.cast(pa.large_binary())
        are_few = self.size * _MANY_ROWS_PER_TEXT <= len(texts)
        if not are_few and pc.max(pc.binary_length(texts)).as_py() <= _LONGEST_OF_ROWS:
            return texts, slice(None)
        encoded = texts.dictionary_encode()
        return encoded.dictionary, as_numpy(encoded.indices)

    def _hashed_ids(self, texts: pa.Array, hashes: Ids) -> Ids:
        """The numbers of texts, none of them null, that are known by these hashes or by the next ones to try."""
        ids = self._numbers.ids(hashes)
        self._store_new(texts, ids, np.arange(len(texts)))
        rows = np.flatnonzero(self._are_others(texts.cast(pa.large_binary()), ids))
        if len(rows):
            ids[rows] = self._hashed_ids(texts.take(from_numpy(rows)), hashes[rows] * _NEXT_HASH + 1)
        return ids

    def _are_others(self, texts: pa.Array, ids: Ids) -> Flags:
        """Which of the texts differ from the text that is stored under their number."""
        flags: Flags = as_numpy(pc.not_equal(self._texts().take(from_numpy(ids)), texts))
        return flags

    def _store_new(self, texts: pa.Array, ids: Ids, hashed_rows: Ids) -> None:
        if self._numbers.size == self._stored:
            return
        rows = np.flatnonzero(ids >= self._stored)[::-1]
        first_rows = np.empty(self._numbers.size - self._stored, np.int64)
        first_rows[ids[rows] - self._stored] = rows  # the last write wins, which is the first row of each
        added = texts.take(from_numpy(first_rows)).cast(pa.large_binary()).fill_null(b"")
        _, offsets_buffer, data_buffer = added.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64, len(added) + 1, added.offset * 8)
        begin, end = int(self._offsets[self._stored]), int(offsets[-1] - offsets[0])
        self._reserve(self._stored + len(added), begin + end)
        self._offsets[self._stored + 1 : self._stored + len(added) + 1] = offsets[1:] - offsets[0] + begin
        if end:
            data = np.frombuffer(data_buffer, np.uint8)[int(offsets[0]) : int(offsets[-1])]
            self._data[begin : begin + end] = data
        if len(hashed_rows):
            is_hashed = np.zeros(len(texts), np.bool_)
            is_hashed[hashed_rows] = True
            self._is_hashed[self._stored : self._stored + len(added)] = is_hashed[first_rows]
            self._has_hashed = True
        self._stored += len(added)

    def _reserve(self, texts: int, size: int) -> None:
        # In place where the system can move pages, so that there are no two copies on the way. Arrow's views of these
        # arrays do not outlive the call that made them.
        if texts + 1 > len(self._offsets):
            capacity = max(texts + 1, 2 * len(self._offsets))
            self._offsets.resize(capacity, refcheck=False)
            self._is_hashed.resize(capacity, refcheck=False)
        if size > len(self._data):
            self._data.resize(max(size, 2 * len(self._data)), refcheck=False)

    def _texts(self) -> pa.Array:
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), self._stored, buffers)


def _with_offsets(column: pa.Array) -> pa.Array:
    """The texts in an array whose buffers are offsets and bytes."""
    types, arrow_type = pa.types, column.type
    has_offsets = not (
        types.is_string_view(arrow_type) or types.is_binary_view(arrow_type) or types.is_fixed_size_binary(arrow_type)
    )
    return column if has_offsets else column.cast(pa.large_binary())


def _words_of(texts: pa.Array, nulls: Flags | None) -> tuple[Ids, Ids]:
    """The word of each text that is a word of its own, and the rows that are to be hashed, whose words mean nothing.

    A text of up to eight bytes is known from its word unless it ends with zeros, which the word does not show.
    """
    is_large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    dtype: Any = np.dtype(np.int64 if is_large else np.int32)
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype, len(texts) + 1, texts.offset * dtype.itemsize)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.frombuffer(data_buffer, np.uint8, last - first, first) if last > first else np.empty(0, np.uint8)
    lengths = offsets[1:] - offsets[:-1]
    is_hashed = lengths > WORD_BYTES
    if len(data) and not data.min():
        ends_with_zero = np.concatenate([data == 0, [False]])[offsets[1:] - (first + 1)]
        is_hashed |= ends_with_zero & (lengths > 0)
    if nulls is not None:
        is_hashed &= ~nulls
    hashed_rows = np.flatnonzero(is_hashed)
    if len(hashed_rows) == len(texts):
        return np.empty(0, np.int64), hashed_rows
    return TextWords(data, first).at(offsets[:-1], lengths).view(np.int64), hashed_rows


def _hashes(texts: pa.Array) -> Ids:
    return key_hashes(pa.RecordBatch.from_arrays([texts], names=["text"])).view(np.int64)
