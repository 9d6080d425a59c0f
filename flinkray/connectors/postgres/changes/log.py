"""Follows the transactions of the log, and makes batches of their changes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.connectors.fetcher import Fetched
from flinkray.connectors.postgres.changes.messages import (
    HEADER,
    Begin,
    ChangedRows,
    Relation,
    begin_of,
    changed_rows,
    end_of,
    relation_of,
    table_of,
    truncated_tables,
)
from flinkray.connectors.postgres.changes.metadata import with_metadata
from flinkray.connectors.postgres.changes.settings import ChangesSettings
from flinkray.connectors.postgres.changes.splits import LogSplit, Moment
from flinkray.connectors.postgres.changes.values import from_texts
from flinkray.connectors.postgres.columns import Column
from flinkray.connectors.postgres.connections import PostgresError
from flinkray.errors import RecordError
from flinkray.types.rows import RowKind

_KEEPALIVE = b"k"[0]
_BEGIN, _COMMIT, _RELATION, _TRUNCATE = b"BCRT"
_ROWS = frozenset(b"IUD")

FindPieces = Callable[[list[str]], Sequence[int]]


class _Layout(Struct, frozen=True):
    """Where the columns are that are wanted in the rows that the log has."""

    width: int
    places: tuple[int, ...]


def _end_of_rows(messages: Sequence[bytes], begin: int) -> int:
    """Where messages with rows end that begin there."""
    for place in range(begin, len(messages)):
        message = messages[place]
        if message[0] == _KEEPALIVE or message[HEADER] not in _ROWS:
            return place
    return len(messages)


class Log:
    """Follows the log from a position on. Whole transactions come in the order of their commits, so that a position is
    the end of one, and how many rows of the next were given.

    Args:
        split: where to begin.
        find_pieces: finds the pieces of the split's snapshot for some keys.
    """

    def __init__(self, split: LogSplit, settings: ChangesSettings, where: str, find_pieces: FindPieces) -> None:
        self.split = split
        """Behind the last batch that was given."""
        self._settings = settings
        self._where = where
        self._find_pieces = find_pieces
        self._moments = [Moment(piece.snapshot) for piece in split.pieces]
        self._table = struct.pack(">I", settings.table_id)
        logged = settings.logged
        self._keys = [logged.index(name) for name in logged if name in settings.key or name == self._split_key]
        self._layout: _Layout | None = None
        self._lsn = split.lsn
        self._rows = 0
        """How many rows of the transaction that has begun have come."""
        self._rows_before = split.rows
        """How many rows of the first transaction were given before."""
        self._is_inside = False
        """Whether a transaction has begun and not ended."""
        self._begin: Begin | None = None
        """That transaction, unless it was read before."""
        self._messages: list[bytes] = []
        self._begins: list[Begin] = []
        self._counts: list[int] = []
        """For each transaction how many of the messages it has."""

    def take(self, messages: Sequence[bytes]) -> Iterator[Fetched[LogSplit]]:
        """What some messages of the server's give.

        Raises:
            PostgresError: the table is another one now, or was truncated.
            RecordError: there is a value that Arrow, or the log, does not have.
        """
        begin = 0
        while begin < len(messages) and not self._is_at_stop:
            message = messages[begin]
            operation = message[HEADER] if message[0] != _KEEPALIVE else _KEEPALIVE
            if operation in _ROWS:
                end = _end_of_rows(messages, begin)
                self._on_rows(messages[begin:end])
                begin = end
                continue
            begin += 1
            if operation == _BEGIN:
                self._on_begin(begin_of(message))
            elif operation == _COMMIT:
                self._on_commit(end_of(message))
            elif operation == _KEEPALIVE and not self._is_inside:
                # All that was committed before has come: where others write, and this table rests, it moves on, too.
                self._lsn = max(self._lsn, struct.unpack_from(">Q", message, 1)[0])
            elif operation == _RELATION:
                relation = relation_of(message)
                if relation.table_id == self._settings.table_id:
                    yield from self._given()
                    self._layout = self._layout_of(relation)
            elif operation == _TRUNCATE and self._begin is not None:
                self._on_truncation(self._begin, message)
        yield from self._given()

    @property
    def _split_key(self) -> str | None:
        return None if self._settings.split_key is None else self._settings.split_key.name

    @property
    def _is_at_stop(self) -> bool:
        return self.split.stop is not None and self._lsn >= self.split.stop

    # -- transactions

    def _on_begin(self, begin: Begin) -> None:
        stop = self.split.stop
        if stop is not None and begin.commit_lsn >= stop:
            self._lsn = max(self._lsn, stop)
            return
        self._is_inside = True
        # The record of a commit may begin right where the one before ends.
        if begin.commit_lsn >= self._lsn:
            self._begin = begin
            self._begins.append(begin)
            self._counts.append(0)

    def _on_rows(self, messages: Sequence[bytes]) -> None:
        if self._begin is None:
            return
        read_before = max(self._rows_before - self._rows, 0)
        self._rows += len(messages)
        ours = [message for message in messages[read_before:] if table_of(message) == self._table]
        self._messages += ours
        self._counts[-1] += len(ours)

    def _on_commit(self, end_lsn: int) -> None:
        self._is_inside = False
        if self._begin is not None:
            self._begin = None
            self._lsn = end_lsn
            self._rows = self._rows_before = 0

    def _on_truncation(self, begin: Begin, message: bytes) -> None:
        settings = self._settings
        if settings.skips_truncations or settings.table_id not in truncated_tables(message):
            return
        # What was gone before any row of the snapshot was read is nothing that a reader has.
        if not self._moments or not all(moment.sees(begin.xid) for moment in self._moments):
            raise PostgresError(
                f"{self._where}: table {settings.relation} was truncated, and the log does not say which rows it had. "
                "Start without the state of this source, so that the table is read anew, or with truncated='skip', "
                "where whoever reads the changes is to keep those rows"
            )

    # -- batches

    def _given(self) -> Iterator[Fetched[LogSplit]]:
        """The rows that have come since the last time, and the position behind them."""
        batch = self._batch() if self._messages else None
        is_read = self._is_at_stop
        pieces = self.split.pieces
        if pieces and self._lsn >= max(piece.lsn for piece in pieces):
            pieces, self._moments = (), []
        split = LogSplit(self._lsn, max(self._rows, self._rows_before), pieces, self.split.stop, is_read)
        self._messages = []
        self._begins, self._counts = ([], []) if self._begin is None else ([self._begin], [0])
        if split != self.split:
            self.split = split
            yield Fetched(split, batch, is_end=is_read)

    def _batch(self) -> Batch | None:
        assert self._layout is not None  # the server says what a table is before it has rows of it
        rows = changed_rows(self._messages, self._layout.width, self._layout.places, self._keys)
        self._check_before_images(rows.kinds)
        transactions = np.repeat(np.arange(len(self._begins)), self._counts)[rows.messages]
        if self._moments:
            kept = ~self._is_in_snapshot(rows, transactions)
            rows, transactions = rows.filter(kept), transactions[kept]
        if not len(transactions):
            return None
        columns = self._settings.columns
        for place, column in enumerate(columns):
            if rows.is_unknown(place):
                self._refuse_unknown(column)
        arrays = [from_texts(rows.texts(place), column, self._where) for place, column in enumerate(columns)]
        schema = pa.schema([(column.name, column.arrow_type) for column in columns])
        times = np.array([begin.time_ms for begin in self._begins], np.int64)[transactions]
        data = with_metadata(pa.RecordBatch.from_arrays(arrays, schema=schema), self._settings, times, rows.kinds)
        return Batch(data, times=from_numpy(times), kinds=from_numpy(rows.kinds))

    def _is_in_snapshot(self, rows: ChangedRows, transactions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which changes are in the rows of the snapshot already."""
        sees = np.array([[moment.sees(begin.xid) for moment in self._moments] for begin in self._begins])
        counts = sees.sum(axis=1)[transactions]
        is_seen: npt.NDArray[np.bool_] = counts == len(self._moments)
        doubtful = np.flatnonzero((counts > 0) & ~is_seen)
        if len(doubtful):
            assert self._split_key is not None
            keys = rows.texts(self._settings.logged.index(self._split_key)).take(from_numpy(doubtful))
            is_seen[doubtful] = sees[transactions[doubtful], np.asarray(self._find_pieces(keys.to_pylist()))]
        return is_seen

    # -- what the table is

    def _layout_of(self, relation: Relation) -> _Layout:
        places = {name: place for place, (name, _, _) in enumerate(relation.columns)}
        lacking = [name for name in self._settings.logged if name not in places]
        if lacking:
            self._refuse_table(f"has no column {lacking[0]!r} any more; its columns are {', '.join(places)}")
        for column, former_id in zip(self._settings.columns, self._settings.type_ids, strict=True):
            _, type_id, modifier = relation.columns[places[column.name]]
            now = Column(column.name, type_id, modifier)
            if type_id == former_id:
                now = column if type_id != column.type_id else replace(column, modifier=modifier)
            if now.arrow_type != column.arrow_type:
                self._refuse_table(
                    f"has column {column.name!r} as {now.arrow_type} now, where it was {column.arrow_type}"
                )
        if self._settings.is_full and not relation.is_full:
            self._refuse_table("has no REPLICA IDENTITY FULL any more")
        return _Layout(len(places), tuple(places[name] for name in self._settings.logged))

    def _refuse_table(self, what: str) -> None:
        raise PostgresError(
            f"{self._where}: table {self._settings.relation} {what}. Start the program anew, without the state of this "
            "source, so that the table is read anew, or change it back"
        )

    def _refuse_unknown(self, column: Column) -> None:
        relation = self._settings.relation
        raise RecordError(
            f"{self._where}: an update of table {relation} left a large value of column {column.name!r} as it was, and "
            f"so the log does not have it: ALTER TABLE {relation} REPLICA IDENTITY FULL, and start without the state "
            "of this source; or leave the column out (columns=)"
        )

    def _check_before_images(self, kinds: npt.NDArray[np.int8]) -> None:
        before, after = ((kinds == kind.value).sum() for kind in (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER))
        if self._settings.is_full and before != after:
            raise PostgresError(
                f"{self._where}: an update of table {self._settings.relation} lacks the row as it was before, as a "
                "partition of it has no REPLICA IDENTITY FULL: ALTER TABLE ... REPLICA IDENTITY FULL, and start "
                "without the state of this source"
            )
