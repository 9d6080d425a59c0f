"""Rows that the server sees before a checkpoint has them, since what it refuses later would fail each restart."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from flinkray.batches.sizes import data_bytes
from flinkray.connectors.postgres.columns import quoted
from flinkray.connectors.postgres.connections import (
    columnar,
    control,
    explained,
    is_of_server,
    is_transient,
    shown,
    sqlstate,
    tried,
)
from flinkray.connectors.postgres.writing.rows import TargetRows, shown_row
from flinkray.connectors.postgres.writing.target import Target
from flinkray.errors import RecordError

log = logging.getLogger(__name__)

_ENOUGH_ROWS = 10_000
_ENOUGH_BYTES = 4 << 20
"""So many rows, or bytes, are tried out together: a batch of few rows costs as much as one of thousands."""
_OF_THE_TRIAL = ("0A", "25", "26", "3D", "42501", "42P", "53", "55", "57", "58", "XX")
"""What a server has against the table, the user or the connection; all else is about a row."""


class Trial:
    """Adds rows to a temporary table that has the types, the conditions and the partitions of the target, and no other
    row: the server says there which rows it would refuse for themselves. What depends on other rows, such as unique
    and foreign keys, and what triggers and policies do, shows at the commit alone: a row that is refused now may be
    allowed once the checkpoint before this one is committed, or the commit of another sink.

    Args:
        describe: asks for the target on a psycopg connection.
        where: names the operator and its subtask in errors.
    """

    def __init__(self, uri: str, where: str, describe: Callable[[Any], Target]) -> None:
        self._uri = uri
        self._where = where
        self._describe = describe
        self._rows: TargetRows | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._connection: Any = None
        self._table = self._name = ""
        self._is_allowed = True

    def add(self, rows: TargetRows, data: pa.RecordBatch) -> None:
        """Takes rows that are fitted; they are tried out now or by `finish`.

        Raises:
            RecordError: the server refuses one; names it.
            PostgresError: the server does not answer.
        """
        if rows.is_sure or not self._is_allowed:
            return
        if rows is not self._rows:
            self.finish()
            self._rows = rows
        self._waiting.append(data)
        if sum(map(len, self._waiting)) >= _ENOUGH_ROWS or sum(map(data_bytes, self._waiting)) >= _ENOUGH_BYTES:
            self.finish()

    def finish(self) -> None:
        """Tries out what waits; raises as `add` does."""
        waiting, self._waiting = self._waiting, []
        if not waiting or self._rows is None:
            return
        (data,) = pa.Table.from_batches(waiting).combine_chunks().to_batches()
        if self._refusal(data) is None:
            return
        self.close()  # the table may have changed since: a partition was added, a condition dropped
        while len(data) > 1:
            half = data.slice(0, len(data) // 2)
            data = data.slice(len(half)) if self._refusal(half) is None else half
        if (refusal := self._refusal(data)) is not None:
            raise RecordError(
                f"{self._where}: table {self._table} of {shown(self._uri)} takes no such row: {explained(refusal)}. "
                f"The row is {shown_row(data.to_pylist()[0])}"
            ) from refusal

    def close(self) -> None:
        """Releases the connection; it is made again when it is needed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                connection.close()

    def _refusal(self, data: pa.RecordBatch) -> Exception | None:
        """What the server has against one of the rows; None: nothing."""
        return tried(lambda: self._tried(data), self._where, f"cannot try out {len(data)} rows at {shown(self._uri)}")

    def _tried(self, data: pa.RecordBatch) -> Exception | None:
        assert self._rows is not None
        if self._connection is None:
            self._make_table()
        if not self._is_allowed:
            return None
        try:
            with self._connection.cursor() as cursor:
                self._rows.try_out(cursor, data, self._name)
            self._connection.commit()  # which empties the table
        except Exception as error:
            if is_transient(error) or not sqlstate(error) or sqlstate(error).startswith(_OF_THE_TRIAL):
                self._give_up(error)
                return None
            self._connection.rollback()
            return error
        return None

    def _make_table(self) -> None:
        with control(self._uri, self._where, delays_s=()) as connection:
            target = self._describe(connection)
        self._table, self._name = str(target), target.table  # by whose name the server calls it in what it says
        self._connection = columnar(self._uri, self._where)
        try:
            with self._connection.cursor() as cursor:
                for statement in _making(target):
                    cursor.execute(statement)
            self._connection.commit()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Tries nothing out any more, as the server does not let it; raises what may pass."""
        self.close()
        if not is_of_server(error) or is_transient(error):
            raise error
        self._is_allowed = False
        log.warning(
            "%s: rows are not tried out before checkpoints have them, so that a row which table %s refuses fails each "
            "restart: %s (SELECT on the table, TEMPORARY on the database, and a connection for itself)",
            self._where,
            self._table,
            explained(error),
        )


def _making(target: Target) -> list[str]:
    """Statements that make a table like the target, whose rows are gone with each transaction."""
    name = f"pg_temp.{quoted(target.table)}"
    like = f"LIKE {target.name} INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED"
    statements = [f"CREATE TEMPORARY TABLE {quoted(target.table)} ({like}) ON COMMIT DELETE ROWS"]
    for column in target.columns:
        if column.is_numbered:  # no number of its sequence is used up
            alter = f"ALTER TABLE {name} ALTER COLUMN {quoted(column.name)}"
            statements += [f"{alter} DROP DEFAULT", f"{alter} DROP NOT NULL"]
    if target.partitions:
        statements.append(f'ALTER TABLE {name} ADD CONSTRAINT "no partition has such rows" CHECK ({target.partitions})')
    return statements
