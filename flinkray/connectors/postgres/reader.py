"""Reads splits, each by one query, on a thread that hands batches over to the task."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from flinkray.batches.batch import Batch
from flinkray.connectors.handover import Handover
from flinkray.connectors.postgres.columns import as_arrow, schema_of
from flinkray.connectors.postgres.connections import columnar, shown, tried
from flinkray.connectors.postgres.settings import PostgresSourceSettings
from flinkray.connectors.postgres.splits import PostgresSplit, pieces, query_of
from flinkray.connectors.source import SourceReaderContext
from flinkray.connectors.split_list import SplitListReader
from flinkray.connectors.subtask import subtask_label

_BATCHES_AHEAD = 2
"""The number of batches that the reading thread may be ahead of the task."""
_FETCHED_BYTES = 4 << 20
"""Rows come from ADBC in batches of about so many bytes."""
# Rows must come in the order of their pages. Neither workers in parallel, nor an index, nor a scan that joins another
# one in the middle of the table give them so.
_IN_ORDER_OF_PAGES = ", ".join(
    f"set_config('{name}', '{value}', false)"
    for name, value in {
        "max_parallel_workers_per_gather": 0,
        "synchronize_seqscans": "off",
        "enable_indexscan": "off",
        "enable_indexonlyscan": "off",
        "enable_seqscan": "on",
    }.items()
)


class PostgresReader(SplitListReader[PostgresSplit]):
    """One split after another, each on a thread of its own; they use one connection, unless it breaks."""

    def __init__(self, context: SourceReaderContext, settings: PostgresSourceSettings) -> None:
        super().__init__(context)
        self.context = context
        self.settings = settings
        self.where = subtask_label(context)
        self._schema = schema_of(settings.columns)
        self._idle: list[Any] = []
        """Connections that no thread uses."""

    def read_split(self, split: PostgresSplit) -> Iterator[tuple[Batch | None, PostgresSplit]]:
        thread = _ReadingThread(self, split)
        thread.start()
        try:
            while True:
                # Asked before, since the thread may add its last batch and finish in between.
                is_drained = thread.handover.is_drained
                taken = thread.handover.take_nowait(1)
                if taken:
                    split = taken[0][1]
                    yield Batch(taken.pop()[0]), split
                elif is_drained:
                    return
                else:
                    yield None, split
        finally:
            thread.end()

    def close(self) -> None:
        super().close()
        while self._idle:
            with contextlib.suppress(Exception):  # the server may have closed it
                self._idle.pop().close()

    # -- what threads use, of which there are several where splits were paused

    @property
    def rows_of_batches(self) -> int:
        """How many rows a batch is to have."""
        return self.context.batch_rows

    def take_connection(self) -> Any:
        """A connection that gives rows in the order of their pages."""
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        connection = columnar(self.settings.uri, self.where)
        if self.settings.key is None:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {_IN_ORDER_OF_PAGES}")
            connection.commit()
        return connection

    def give_back(self, connection: Any) -> None:
        """For the next split."""
        self._idle.append(connection)

    def fitted(self, data: pa.RecordBatch) -> pa.RecordBatch:
        """The columns in the types that the source says."""
        columns = [
            as_arrow(column, field, self.where) for column, field in zip(data.columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class _ReadingThread(threading.Thread):
    """Reads a split to its end, or until nobody wants more of it."""

    def __init__(self, reader: PostgresReader, split: PostgresSplit) -> None:
        name = f"read {split.split_id}"
        super().__init__(target=copy_context().run, args=(self._read,), name=name, daemon=True)
        self._reader = reader
        self._split = split
        self._ended = threading.Event()
        self._guard = threading.Lock()
        """Held by whoever makes, cancels or closes the cursor."""
        self._cursor: Any = None
        self.handover: Handover[tuple[pa.RecordBatch, PostgresSplit]] = Handover(
            _BATCHES_AHEAD, reader.context.notify_available
        )

    def end(self) -> None:
        """Waits until the thread has ended; a query that waits for the server is cancelled."""
        self._ended.set()
        self.handover.close()
        while self.is_alive():
            with self._guard, contextlib.suppress(Exception):  # it may just have ended by itself
                if self._cursor is not None:
                    self._cursor.adbc_cancel()
            self.join(0.05)

    def _read(self) -> None:
        error: BaseException | None = None
        what = f"cannot read {self._split.split_id} of {shown(self._reader.settings.uri)}"
        try:
            tried(self._read_on, self._reader.where, what, self._ended, on_retry=self._count)
        except BaseException as caught:  # the task must learn of every way in which the thread ends
            error = caught
        self.handover.finish(error)

    def _count(self) -> None:
        self._reader.context.count("reads_retried")

    def _read_on(self) -> None:
        """Reads what is left, on the reader's connection; one on which something failed is not used again."""
        reader = self._reader
        connection = reader.take_connection()
        try:
            cursor = connection.cursor()
            with self._guard:
                self._cursor = cursor
            try:
                is_complete = self._fetch(cursor)
            finally:
                with self._guard:
                    self._cursor = None
                    cursor.close()
            if is_complete:
                connection.commit()
        except BaseException:
            connection.close()
            raise
        if is_complete:
            reader.give_back(connection)
        else:
            connection.close()

    def _fetch(self, cursor: Any) -> bool:
        """Whether all was handed over; False: nobody wants more."""
        reader, settings = self._reader, self._reader.settings
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": _FETCHED_BYTES})
        cursor.execute(query_of(self._split, settings.columns, settings.key, settings.condition))
        with cursor.fetch_record_batch() as batches:
            for data, position in pieces(batches, reader.rows_of_batches, is_unique=self._split.by == "page"):
                left = replace(self._split, after=position)
                if not self.handover.offer((reader.fitted(data), left)):
                    return False
                self._split = left
                del data  # while further rows are waited for, what was given is the task's alone
        return True
