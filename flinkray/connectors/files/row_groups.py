"""Row groups of Parquet files, made of many batches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pyarrow as pa

from flinkray.batches.batch import FEW_ROWS
from flinkray.batches.sizes import data_bytes

_MOST_ROWS = 131_072
_MOST_BYTES = 64 << 20
DICTIONARY_BYTES = 256 << 10
"""A column whose different values take more is written without a dictionary from there on. Parquet's own limit is what
a row group of different numbers takes: all are then in a dictionary, in half as much space and time again."""
_MOST_OF_FEW_ROWS = 64
"""So many small batches may wait for their row group one by one before they are coalesced."""


class RowGroups:
    """Collects batches until they make a row group: each write makes one, and small row groups make slow files.

    Args:
        write: takes the rows of a row group.
    """

    def __init__(self, write: Callable[[pa.Table], None]) -> None:
        self._write = write
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self.waiting_bytes = 0
        """What the rows that wait take in memory."""
        self._few_rows = 0
        """The number of small batches at the end of those that wait."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows, and writes a row group when there are enough."""
        self._waiting.append(batch)
        self._few_rows = self._few_rows + 1 if batch.num_rows < FEW_ROWS else 0
        if self._few_rows == _MOST_OF_FEW_ROWS:
            self._coalesce_last()
        self._rows += batch.num_rows
        self.waiting_bytes += data_bytes(batch)
        if self._rows >= _MOST_ROWS or self.waiting_bytes >= _MOST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what waits as a row group, however small."""
        waiting, rows = self._waiting, self._rows
        self._waiting = []
        self._rows = self.waiting_bytes = self._few_rows = 0
        if rows:
            self._write(pa.Table.from_batches(waiting))

    def _coalesce_last(self) -> None:
        """Coalesces the small batches at the end: one by one they take far more memory than their rows do, and may keep
        the buffers of others."""
        count, self._few_rows = self._few_rows, 0
        # Dictionaries may have more values together than there are indices.
        with contextlib.suppress(pa.ArrowInvalid):
            self._waiting[-count:] = pa.Table.from_batches(self._waiting[-count:]).combine_chunks().to_batches()
