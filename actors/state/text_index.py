"""Dense numbers for texts and bytes: 0 for the first that came, 1 for the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.keys import key_hashes
from actors.state.integer_index import Ids, IntegerIndex

# Takes a hash on to another one, for a text whose own is that of another text. Odd, so that it loses nothing.
_NEXT_HASH = np.int64(0x2545F4914F6CDD1D)

_FIRST_CAPACITY = 1024


class TextIndex:
    """Numbers hashes, and compares what is found with what was asked for, so that texts with equal hashes are told
    apart. Takes 8 bytes beside a text's own, and what IntegerIndex takes. Belongs to one thread."""

    def __init__(self) -> None:
        self._numbers = IntegerIndex()
        self._offsets: Ids = np.zeros(_FIRST_CAPACITY + 1, np.int64)
        self._data: npt.NDArray[np.uint8] = np.empty(_FIRST_CAPACITY, np.uint8)
        self._stored = 0

    @property
    def size(self) -> int:
        return self._numbers.size

    def ids(self, column: pa.Array) -> Ids:
        """The number of each row's text; null has one too."""
        if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
            column = column.cast(pa.large_binary())  # encoded as views, null and "" would be the same
        encoded = column.dictionary_encode(null_encoding="encode")
        texts = encoded.dictionary.cast(pa.large_binary())
        hashes = key_hashes(pa.RecordBatch.from_arrays([texts], names=["text"])).view(np.int64)
        distinct = self._ids(texts, hashes)
        numbers: Ids = distinct[encoded.indices.to_numpy(zero_copy_only=False)]
        return numbers

    def _ids(self, texts: pa.Array, hashes: Ids) -> Ids:
        nulls = texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else None
        ids = self._numbers.ids(hashes, nulls)
        if self._numbers.size > self._stored:
            self._store_new(texts, ids)
        is_other = pc.not_equal(self._texts().take(pa.array(ids)), texts).fill_null(False)
        if pc.any(is_other).as_py():
            rows = np.flatnonzero(is_other.to_numpy(zero_copy_only=False))
            ids[rows] = self._ids(texts.take(pa.array(rows)), hashes[rows] * _NEXT_HASH + 1)
        return ids

    def _store_new(self, texts: pa.Array, ids: Ids) -> None:
        rows = np.flatnonzero(ids >= self._stored)[::-1]
        first_rows = np.empty(self._numbers.size - self._stored, np.int64)
        first_rows[ids[rows] - self._stored] = rows  # the last write wins, which is the first row of each
        added = texts.take(pa.array(first_rows)).fill_null(b"")
        _, offsets_buffer, data_buffer = added.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64, len(added) + 1, added.offset * 8)
        begin, end = int(self._offsets[self._stored]), int(offsets[-1] - offsets[0])
        self._reserve(self._stored + len(added), begin + end)
        self._offsets[self._stored + 1 : self._stored + len(added) + 1] = offsets[1:] - offsets[0] + begin
        if end:
            data = np.frombuffer(data_buffer, np.uint8)[int(offsets[0]) : int(offsets[-1])]
            self._data[begin : begin + end] = data
        self._stored += len(added)

    def _reserve(self, texts: int, size: int) -> None:
        # In place where the system can move pages, so that there are no two copies on the way. Arrow's views of these
        # arrays do not outlive `_ids`.
        if texts + 1 > len(self._offsets):
            self._offsets.resize(max(texts + 1, 2 * len(self._offsets)), refcheck=False)
        if size > len(self._data):
            self._data.resize(max(size, 2 * len(self._data)), refcheck=False)

    def _texts(self) -> pa.Array:
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), self._stored, buffers)
