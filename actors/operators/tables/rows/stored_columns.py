"""Columns to which batches of rows are appended, in chunks of which there are few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from actors.columns.large_columns import take_batch, take_rows_as_table
from actors.keys.index import Ids

_MERGED_AT_ONCE = 4
"""So many chunks of about as many rows become one: there are few to look into, and a row is copied few times."""
_LARGEST_ROWS = 1 << 18
_LARGEST_BYTES = 256 << 20
"""Larger chunks are not merged any more."""


class StoredColumns:
    """Rows by number, in the order in which they were appended. What is appended is never changed, so that a snapshot
    may go on reading the chunks as they are."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._chunks: list[pa.RecordBatch] = []
        self.retained = 0
        """How many rows `retain` has left at last."""
        self._starts = np.zeros(1, np.int64)
        """Where each chunk begins; and the number of rows."""

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def chunks(self) -> Sequence[pa.RecordBatch]:
        """All rows, in order."""
        return tuple(self._chunks)

    @property
    def bytes_per_row(self) -> int:
        """About how many bytes a row takes, on average."""
        return int(sum(chunk.nbytes for chunk in self._chunks)) // max(1, len(self))

    def append(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:  # a table of nothing but such chunks has no batches
            return
        self._chunks.append(rows)
        while (count := self._to_merge()) > 1:
            self._chunks[-count:] = [pa.concat_batches(self._chunks[-count:])]
        self._starts = np.cumsum([0, *(chunk.num_rows for chunk in self._chunks)])

    def _to_merge(self) -> int:
        """How many of the last chunks become one: those that are not larger than the last one, where there are
        several."""
        last = self._chunks[-1]
        count = 0
        for chunk in reversed(self._chunks):
            if chunk.num_rows > max(_MERGED_AT_ONCE * last.num_rows // 2, 1) or _is_large(chunk):
                break
            count += 1
        return count if count >= _MERGED_AT_ONCE else 0

    def take(self, numbers: Ids, columns: Sequence[int] | None = None) -> pa.RecordBatch:
        """The rows of these numbers, which must be there; all columns, or those at these places."""
        chunks = self._chunks if columns is None else [chunk.select(columns) for chunk in self._chunks]
        if len(chunks) == 1:
            return take_batch(chunks[0], numbers)
        if not chunks:
            schema = self.schema if columns is None else pa.schema([self.schema.field(each) for each in columns])
            return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
        return take_batch(pa.Table.from_batches(chunks), numbers)

    def retain(self, numbers: Ids) -> None:
        """Forgets all other rows; these, which ascend, become 0, 1, ..."""
        taken = taken_of(self._chunks, numbers)
        self._chunks = taken.to_batches() if taken is not None and len(numbers) else []
        self._starts = np.cumsum([0, *(chunk.num_rows for chunk in self._chunks)])
        self.retained = len(self)


def taken_of(chunks: Sequence[pa.RecordBatch], numbers: Ids) -> pa.Table | None:
    """The rows of these numbers, which ascend, of chunks that are counted through; any thread may call it.

    None: there are no chunks.
    """
    if not chunks:
        return None
    ends = np.cumsum([chunk.num_rows for chunk in chunks])
    bounds = [0, *np.searchsorted(numbers, ends).tolist()]
    tables = []
    for place, chunk in enumerate(chunks):
        own = numbers[bounds[place] : bounds[place + 1]] - (ends[place] - chunk.num_rows)
        tables.append(take_rows_as_table(chunk, own) if len(own) < chunk.num_rows else pa.Table.from_batches([chunk]))
    return pa.concat_tables(tables)


def _is_large(chunk: pa.RecordBatch) -> bool:
    return bool(chunk.num_rows >= _LARGEST_ROWS or chunk.nbytes >= _LARGEST_BYTES)
