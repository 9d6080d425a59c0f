"""Reads parts of the snapshot, and the log, on a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.connectors.fetcher import Fetched, FetchingReader, SplitFetcher
from flinkray.connectors.postgres.changes.enumerator import ReaderStarted, SplitRead
from flinkray.connectors.postgres.changes.log import Log
from flinkray.connectors.postgres.changes.metadata import with_metadata
from flinkray.connectors.postgres.changes.settings import ChangesSettings
from flinkray.connectors.postgres.changes.slots import check_position, check_published
from flinkray.connectors.postgres.changes.splits import (
    ChangesSplit,
    LogSplit,
    Piece,
    SnapshotSplit,
    lsn_of,
    pieces_query,
    query_of,
)
from flinkray.connectors.postgres.changes.stream import LogStream
from flinkray.connectors.postgres.columns import as_arrow, schema_of
from flinkray.connectors.postgres.connections import columnar, control, shown, tried
from flinkray.connectors.postgres.splits import POSITION, pieces
from flinkray.connectors.source import SourceReaderContext
from flinkray.connectors.subtask import subtask_label

_FETCHED_BYTES = 4 << 20
"""Rows of the snapshot come from ADBC in batches of about so many bytes."""
_MESSAGES = 10_000
"""Messages of the log are taken so many at a time, where there are so many."""
_LOOK_S = 30.0
"""How often the server is asked whether table and publication are there: without them the log is just silent."""


class ChangesReader(FetchingReader[ChangesSplit]):
    """Reads the parts of the snapshot that it asks for, and the log if it is given that."""

    def __init__(self, context: SourceReaderContext, settings: ChangesSettings) -> None:
        where = subtask_label(context)
        self._ended = threading.Event()
        fetcher = _ChangesFetcher(context, settings, where, self._ended)
        super().__init__(context, fetcher, f"changes of {where}", tells_checkpoints=True)
        self._read: dict[str, ChangesSplit] = {}
        """Splits that are read to their ends: the enumerator may have to hear of them again."""

    def start(self) -> None:
        super().start()
        self._context.send_source_event(ReaderStarted(self._context.has_checkpoints))
        for split in self._read.values():
            self._report(split)
        if not self._splits:
            self._context.send_split_request()

    def add_splits(self, splits: Sequence[ChangesSplit]) -> None:
        self._read.update((split.split_id, split) for split in splits if split.is_read)
        super().add_splits([split for split in splits if not split.is_read])

    def snapshot_state(self, checkpoint_id: int) -> list[ChangesSplit]:
        self._untold[checkpoint_id] = [*self._splits.values(), *self._read.values()]
        return self._untold[checkpoint_id]

    def close(self) -> None:
        self._ended.set()
        super().close()

    def _next(self) -> Fetched[ChangesSplit] | None:
        fetched = super()._next()
        if fetched is not None and fetched.is_end:
            self._read[fetched.split.split_id] = fetched.split
            self._report(fetched.split)
            if len(self._splits) == 1:
                self._context.send_split_request()
        return fetched

    def _report(self, split: ChangesSplit) -> None:
        if isinstance(split, SnapshotSplit):
            self._context.send_source_event(SplitRead(split))


class _ChangesFetcher(SplitFetcher[ChangesSplit]):
    """Has a connection for the snapshot, then one for the log.

    Args:
        ended: set where nobody wants anything more.
    """

    def __init__(
        self, context: SourceReaderContext, settings: ChangesSettings, where: str, ended: threading.Event
    ) -> None:
        self._settings = settings
        self._where = where
        self._ended = ended
        self._batch_rows = context.batch_rows
        self._has_checkpoints = context.has_checkpoints
        self._count = lambda: context.count("reads_retried")
        self._schema = schema_of(settings.columns)
        self._snapshots: deque[SnapshotSplit] = deque()
        self._reading: Iterator[Fetched[ChangesSplit]] | None = None
        self._connection: Any = None
        self._log_split: LogSplit | None = None
        self._log: Log | None = None
        self._stream: LogStream | None = None
        self._looked_at = 0.0

    def open(self) -> None: ...

    def add_splits(self, splits: Sequence[ChangesSplit]) -> Sequence[Fetched[ChangesSplit]]:
        for split in splits:
            if isinstance(split, LogSplit):
                self._log_split = split
            else:
                self._snapshots.append(split)
        return ()

    @property
    def has_splits(self) -> bool:
        return bool(self._snapshots) or (self._log_split is not None and not self._log_split.is_read)

    def fetch(self) -> Iterator[Fetched[ChangesSplit]]:
        return self._fetch_snapshot() if self._snapshots else self._fetch_log()

    def pending_bytes(self, split: ChangesSplit) -> int | None:
        stream = self._stream
        return max(0, stream.end - split.lsn) if isinstance(split, LogSplit) and stream is not None else None

    def checkpoint_complete(self, splits: Sequence[ChangesSplit]) -> None:
        for split in splits:
            if isinstance(split, LogSplit):
                self._confirm(split)

    def close(self) -> None:
        self._close_snapshot()
        self._close_log()

    # -- the snapshot

    def _fetch_snapshot(self) -> Iterator[Fetched[ChangesSplit]]:
        split = self._snapshots[0]
        what = f"cannot read {split.split_id} of {self._settings.relation} of {shown(self._settings.uri)}"
        fetched = tried(self._next_of_snapshot, self._where, what, self._ended, on_retry=self._count)
        assert isinstance(fetched.split, SnapshotSplit)
        self._snapshots[0] = fetched.split
        if fetched.is_end:
            self._snapshots.popleft()
            self._reading = None
        if not self._snapshots:
            self._close_snapshot()
        yield fetched

    def _next_of_snapshot(self) -> Fetched[ChangesSplit]:
        """The next batch; where reading fails, it begins anew behind the last one, at another moment."""
        try:
            if self._reading is None:
                self._reading = self._read_snapshot(self._snapshots[0])
            return next(self._reading)
        except BaseException:
            self._close_snapshot()
            raise

    def _read_snapshot(self, split: SnapshotSplit) -> Iterator[Fetched[ChangesSplit]]:
        if self._connection is None:
            self._connection = columnar(self._settings.uri, self._where)
        with self._connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Before the moment is taken, as rows that others write anew after it (ALTER TABLE) would not be there.
            cursor.execute(f"LOCK TABLE {self._settings.relation} IN ACCESS SHARE MODE")
            cursor.execute("SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text")
            ((snapshot, lsn),) = cursor.fetchall()

        def piece(high: str | None, includes_high: bool) -> tuple[Piece, ...]:
            return (*split.pieces, Piece(high, includes_high, snapshot, lsn_of(lsn)))

        split_key = self._settings.split_key
        assert split_key is not None
        with self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": _FETCHED_BYTES})
            cursor.execute(query_of(split, self._settings))
            with cursor.fetch_record_batch() as batches:
                keys = _Keys(split_key.is_unique)
                for data, number in pieces(keys.numbered(batches), self._batch_rows, is_unique=False):
                    after = keys.text(number)
                    batch = Batch(self._fitted(data), times=split.time_ms)
                    yield Fetched(replace(split, after=after, pieces=piece(after, True)), batch)
        self._connection.commit()
        yield Fetched(replace(split, pieces=piece(split.high, False), is_read=True), is_end=True)

    def _fitted(self, data: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            as_arrow(column, field, self._where, "leave the column out (columns=), or cast it where it is written")
            for column, field in zip(data.columns, self._schema, strict=True)
        ]
        return with_metadata(pa.RecordBatch.from_arrays(columns, schema=self._schema), self._settings)

    def _close_snapshot(self) -> None:
        self._reading = None
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                connection.close()

    # -- the log

    def _fetch_log(self) -> Iterator[Fetched[ChangesSplit]]:
        what = f"cannot read slot {self._settings.slot!r} of {shown(self._settings.uri)}"
        for fetched in tried(self._receive, self._where, what, self._ended, on_retry=self._count):
            self._log_split = fetched.split
            yield fetched
        if not self._has_checkpoints and self._log_split is not None:
            self._confirm(self._log_split)

    def _receive(self) -> list[Fetched[Any]]:
        """What has come; where something fails, the log is read anew behind what was given."""
        assert self._log_split is not None
        try:
            if self._stream is None or self._log is None:
                self._open_log(self._log_split)
            assert self._stream is not None
            assert self._log is not None
            if time.monotonic() >= self._looked_at + _LOOK_S:
                self._looked_at = time.monotonic()
                with control(self._settings.uri, self._where, delays_s=()) as connection:
                    check_published(connection, self._settings, self._where)
            return list(self._log.take(self._stream.receive(_MESSAGES)))
        except BaseException:
            self._close_log()
            raise

    def _open_log(self, split: LogSplit) -> None:
        settings = self._settings
        with control(settings.uri, self._where, delays_s=()) as connection:
            check_position(connection, settings, split.lsn, self._where)
            check_published(connection, settings, self._where)
        self._looked_at = time.monotonic()
        self._log = Log(split, settings, self._where, self._find_pieces)
        self._stream = LogStream(settings.uri, settings.slot, settings.publication, split.lsn, self._where)

    def _find_pieces(self, keys: list[str]) -> list[int]:
        assert self._log is not None
        assert self._settings.split_key is not None
        with control(self._settings.uri, self._where, delays_s=()) as connection:
            query = pieces_query(self._log.split.pieces, self._settings.split_key)
            return [place for (place,) in connection.execute(query, (keys,)).fetchall()]

    def _confirm(self, split: LogSplit) -> None:
        if self._stream is not None:
            with contextlib.suppress(Exception):  # the next checkpoint tries again
                self._stream.confirm(split.lsn)

    def _close_log(self) -> None:
        stream, self._stream, self._log = self._stream, None, None
        if stream is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                stream.close()


class _Keys:
    """Numbers the keys of rows that come in the order of keys: what stands for their positions.

    Args:
        are_unique: no two rows have one; else the second column says whether a row has that of the row before.
    """

    def __init__(self, are_unique: bool) -> None:
        self._are_unique = are_unique
        self._numbers = np.zeros(1, np.int64)
        self._texts: Any = pa.array([None], pa.string())
        self._former: tuple[int, Any] = (0, None)

    def numbered(self, batches: Any) -> Iterator[pa.RecordBatch]:
        """The batches with numbers in place of the keys, which are in front."""
        in_front = 1 if self._are_unique else 2
        for batch in batches:
            if not batch.num_rows:
                continue
            self._former = int(self._numbers[-1]), self._texts[-1].as_py()
            differs = np.ones(batch.num_rows, np.int64) if self._are_unique else 1 - as_numpy(batch.column(1))
            self._numbers, self._texts = self._former[0] + np.cumsum(differs), batch.column(0)
            columns = [from_numpy(self._numbers), *batch.columns[in_front:]]
            yield pa.RecordBatch.from_arrays(columns, names=[POSITION, *batch.schema.names[in_front:]])

    def text(self, number: int) -> str:
        """The key of such a number, of the last two batches."""
        place = int(np.searchsorted(self._numbers, number))
        found = self._former[1] if number < self._numbers[0] else self._texts[place].as_py()
        return str(found)
