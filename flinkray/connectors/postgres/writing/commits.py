"""Rows of an epoch that become visible together, once: by a table of commits, or as a prepared transaction.

Both write a mark into the table of commits, in the very transaction that has the rows: whoever commits again after a
failure finds it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
from msgspec import Struct

from flinkray.connectors.committer import CommitRequest, Committer
from flinkray.connectors.postgres.connections import (
    PostgresError,
    columnar,
    control,
    explained,
    is_of_server,
    is_transient,
    refuse,
    shown,
    sqlstate,
)
from flinkray.connectors.postgres.writing.rows import TargetRows
from flinkray.connectors.postgres.writing.staging import Staging
from flinkray.connectors.postgres.writing.target import Target

_UNDEFINED_OBJECT = "42704"
_FOREIGN_KEY = "23503"
_WAY_OUT = (
    "The checkpoint has these rows, so that each restart tries again: change the table so that it takes them, or start "
    "from an earlier checkpoint or savepoint"
)
_MARKS_KEPT = 1_000
"""For so many checkpoints a writer's marks are kept. All of them, and not the last alone: after a change of the
parallelism, the commits of one writer for two checkpoints may be with two committers, and come in any order."""
_COMMIT_LOCK = 0x666C696E  # of the sessions that make the table of commits, which IF NOT EXISTS alone lets collide


class Mark(Struct, frozen=True):
    """What says that a checkpoint is committed: the name of a writer, which no other ever has, and the checkpoint."""

    writer: str
    checkpoint_id: int


class PostgresRows(Struct, frozen=True):
    """The rows of a writer for one checkpoint, as streams of Arrow, one per schema; `where` names the writer."""

    mark: Mark
    where: str
    streams: tuple[bytes, ...]


class PostgresTransaction(Struct, frozen=True):
    """A transaction that was prepared under a name; `where` names its writer."""

    mark: Mark
    where: str
    name: str


# -- the table of commits


def make_table(connection: Any, table: str) -> None:
    """Makes the table of commits, if there is none."""
    if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()[0] is not None:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_COMMIT_LOCK,))
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (writer text, checkpoint bigint, "
            "committed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (writer, checkpoint))"
        )


def marking(table: str, mark: Mark) -> str:
    """A statement that adds a mark and gives a row; none where it is there already."""
    return (
        f"INSERT INTO {table} (writer, checkpoint) VALUES ('{mark.writer}', {mark.checkpoint_id}) "
        "ON CONFLICT DO NOTHING RETURNING checkpoint"
    )


def _finding(table: str, mark: Mark) -> str:
    return f"SELECT 1 FROM {table} WHERE writer = '{mark.writer}' AND checkpoint = {mark.checkpoint_id}"


def _forgetting(table: str, mark: Mark) -> str:
    """A statement that deletes marks which nobody will look for, as no job goes back so far."""
    return f"DELETE FROM {table} WHERE writer = '{mark.writer}' AND checkpoint < {mark.checkpoint_id - _MARKS_KEPT}"


# -- committers


class RowsCommitter(Committer):
    """Writes the rows of a checkpoint and their mark in one transaction.

    Args:
        describe: asks for the target on a psycopg connection.
    """

    def __init__(self, uri: str, table: str, describe: Callable[[Any], Target]) -> None:
        self._uri = uri
        self._table = table
        self._describe = describe
        self._target: Target | None = None
        self._connection: Any = None

    def commit(self, requests: Sequence[CommitRequest[PostgresRows]]) -> None:
        for request in requests:
            rows = request.committable
            what = f"cannot commit checkpoint {rows.mark.checkpoint_id} to {shown(self._uri)}"
            try:
                if not self._write(rows):
                    request.already_committed()
            except Exception as error:
                self.close()  # what the transaction did is undone, and the table may have changed
                # The row that it refers to may be one that another sink is about to commit.
                if not is_transient(error) and sqlstate(error) != _FOREIGN_KEY:
                    if not is_of_server(error):
                        raise
                    raise PostgresError(f"{rows.where}: {what}: {explained(error)}. {_WAY_OUT}") from error
                way_out = "" if is_transient(error) else f". {_WAY_OUT}"
                request.retry_later(f"{rows.where}: {what}: {explained(error)}{way_out}")

    def close(self) -> None:
        connection, self._connection, self._target = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                connection.close()

    def _write(self, rows: PostgresRows) -> bool:
        """Whether they had not been written before."""
        if self._target is None:
            with control(self._uri, rows.where, delays_s=()) as connection:
                self._target = self._describe(connection)
            self._connection = columnar(self._uri, rows.where)
        with self._connection.cursor() as cursor:
            cursor.execute(marking(self._table, rows.mark))
            is_new = bool(cursor.fetchall())
            if is_new:
                for stream in rows.streams:
                    table = pa.ipc.open_stream(stream).read_all()
                    target_rows = TargetRows(self._target, table.schema, rows.where, is_stored=True)
                    for batch in table.combine_chunks().to_batches():
                        # Batches had one row of each key; all of them together are to have one.
                        target_rows.write(cursor, target_rows.fitted(batch), Staging())
                cursor.execute(_forgetting(self._table, rows.mark))
        self._connection.commit()
        return is_new


class TransactionCommitter(Committer):
    """Commits prepared transactions, and the rows of writers that could prepare none.

    Args:
        rows: commits those.
    """

    def __init__(self, uri: str, table: str, rows: RowsCommitter) -> None:
        self._uri = uri
        self._table = table
        self._rows = rows

    def commit(self, requests: Sequence[CommitRequest[PostgresTransaction | PostgresRows]]) -> None:
        for request in requests:
            committable = request.committable
            if isinstance(committable, PostgresRows):
                self._rows.commit([cast("CommitRequest[PostgresRows]", request)])
            else:
                self._commit_prepared(request, committable)

    def close(self) -> None:
        self._rows.close()

    def _commit_prepared(self, request: CommitRequest[Any], transaction: PostgresTransaction) -> None:
        what = f"cannot commit transaction {transaction.name!r} of {shown(self._uri)}"
        try:
            with control(self._uri, transaction.where, delays_s=()) as connection:
                if not self._commit(connection, transaction):
                    request.already_committed()
        except Exception as error:
            if not is_transient(error):
                refuse(error, transaction.where, what)
            request.retry_later(f"{transaction.where}: {what}: {explained(error)}")

    def abort(self, committables: Sequence[PostgresTransaction | PostgresRows]) -> None:
        prepared = [each for each in committables if isinstance(each, PostgresTransaction)]
        if prepared:
            with control(self._uri, prepared[0].where, delays_s=()) as connection:
                for transaction in prepared:
                    roll_back(connection, transaction.name)

    def _commit(self, connection: Any, transaction: PostgresTransaction) -> bool:
        """Whether it had not been committed before."""
        is_new = True
        try:
            connection.execute(f"COMMIT PREPARED '{transaction.name}'")
        except Exception as error:
            if sqlstate(error) != _UNDEFINED_OBJECT:
                raise
            is_new = False
            if connection.execute(_finding(self._table, transaction.mark)).fetchone() is None:
                raise PostgresError(
                    f"{transaction.where}: transaction {transaction.name!r} is not there any more, and was never "
                    f"committed: somebody rolled it back at {shown(self._uri)}, and so the rows of checkpoint "
                    f"{transaction.mark.checkpoint_id} are lost there. Start from an earlier checkpoint, which writes "
                    "them again"
                ) from error
        connection.execute(_forgetting(self._table, transaction.mark))
        return is_new


def roll_back(connection: Any, name: str) -> None:
    """Rolls a prepared transaction back, if there is one of that name."""
    try:
        connection.execute(f"ROLLBACK PREPARED '{name}'")
    except Exception as error:
        if sqlstate(error) != _UNDEFINED_OBJECT:
            raise


def prepared_after(connection: Any, lineage: str, checkpoint_id: int) -> Iterator[str]:
    """Names of transactions that writers of a lineage prepared for later checkpoints."""
    prefix = f"flinkray-{lineage}-"
    names = connection.execute(
        "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, %s) AND database = current_database()", (prefix,)
    ).fetchall()
    for (name,) in names:
        if int(name.removeprefix(prefix).split("-")[0]) > checkpoint_id:
            yield name
