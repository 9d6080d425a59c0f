"""Writers of a PostgresSink, one for each guarantee."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.postgres.connections import columnar, control, refuse, shown, tried
from flinkray.connectors.postgres.writing.commits import (
    Mark,
    PostgresRows,
    PostgresTransaction,
    marking,
    prepared_after,
    roll_back,
)
from flinkray.connectors.postgres.writing.rows import KIND, TargetRows
from flinkray.connectors.postgres.writing.staging import Staging
from flinkray.connectors.postgres.writing.target import Target
from flinkray.connectors.postgres.writing.trials import Trial
from flinkray.connectors.sink import SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import TypeMismatchError
from flinkray.types.records import Kind

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class TargetWriter(SinkWriter):
    """What writers have in common: they know the table, and fit rows to it.

    Args:
        describe: asks for the target on a psycopg connection.
    """

    def __init__(self, context: SinkWriterContext, uri: str, describe: Callable[[Any], Target]) -> None:
        self.context = context
        self.uri = uri
        self.where = subtask_label(context)
        with control(uri, self.where) as connection:
            try:
                self._target = describe(connection)
            except Exception as error:
                refuse(error, self.where, f"cannot write to {shown(uri)}")
        self._connection: Any = None
        self._rows: TargetRows | None = None
        self._given: pa.Schema | None = None

    def fitted(self, batch: Batch) -> tuple[TargetRows, pa.RecordBatch]:
        """The rows as they are sent, and how they get into the table."""
        if batch.kind is Kind.OBJECT:
            raise TypeMismatchError(
                f"{self.where}: a table has columns, and these rows are Python objects; map them to rows first"
            )
        data = batch.data
        if batch.kinds is not None:
            data = pa.RecordBatch.from_arrays([*data.columns, batch.kinds], names=[*data.schema.names, KIND])
        if self._rows is None or data.schema != self._given:
            self._given = data.schema
            self._rows = TargetRows(self._target, data.schema, self.where)
        return self._rows, self._rows.fitted(data)

    def cursor(self) -> Any:
        """A cursor of the ADBC connection, which is made when it is first needed."""
        if self._connection is None:
            self._connection = columnar(self.uri, self.where)
        return self._connection.cursor()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                connection.close()


class DirectWriter(TargetWriter):
    """At least once: each batch is a transaction."""

    def write(self, batch: Batch) -> None:
        rows, data = self.fitted(batch)
        what = f"cannot write {len(data)} rows to {self._target} of {shown(self.uri)}"
        tried(lambda: self._write(rows, data), self.where, what, on_retry=self._count)

    def _write(self, rows: TargetRows, data: pa.RecordBatch) -> None:
        try:
            with self.cursor() as cursor:
                rows.write(cursor, data, Staging())
            self._connection.commit()
        except BaseException:
            self.close()
            raise

    def _count(self) -> None:
        self.context.count("writes_retried")


class _Kept:
    """Rows that wait for the checkpoint that commits them, as streams of Arrow, one per schema."""

    def __init__(self) -> None:
        self._streams: list[tuple[pa.BufferOutputStream, pa.ipc.RecordBatchStreamWriter]] = []
        self._schema: pa.Schema | None = None

    def __bool__(self) -> bool:
        return bool(self._streams)

    def add(self, data: pa.RecordBatch) -> None:
        if not self._streams or data.schema != self._schema:
            self._schema = data.schema
            sink = pa.BufferOutputStream()
            self._streams.append((sink, pa.ipc.new_stream(sink, data.schema, options=_COMPRESSED)))
        self._streams[-1][1].write_batch(data)

    def take(self) -> tuple[bytes, ...]:
        streams, self._streams = self._streams, []
        for _, writer in streams:
            writer.close()
        return tuple(sink.getvalue().to_pybytes() for sink, _ in streams)


class RowsWriter(TargetWriter):
    """Exactly once: keeps rows for the checkpoint that commits them."""

    def __init__(self, context: SinkWriterContext, uri: str, describe: Callable[[Any], Target]) -> None:
        super().__init__(context, uri, describe)
        self._name = uuid.uuid4().hex
        self._kept = _Kept()
        self._trial = Trial(uri, self.where, describe)

    def write(self, batch: Batch) -> None:
        rows, data = self.fitted(batch)
        self._trial.add(rows, data)
        self._kept.add(data)

    def prepare_commit(self, checkpoint_id: int) -> list[PostgresRows]:
        self._trial.finish()
        if not self._kept:
            return []
        return [PostgresRows(Mark(self._name, checkpoint_id), self.where, self._kept.take())]

    def close(self) -> None:
        self._trial.close()
        super().close()


class TransactionWriter(TargetWriter):
    """Exactly once: rows go into a transaction, which the checkpoint prepares, and its completion commits.

    What replaces or deletes rows would wait for the locks of the transaction that was prepared before. Such rows are
    kept until that is committed; where it is not by the next checkpoint, they go into that one, as a RowsWriter's do.

    A process that dies leaves prepared transactions behind, with locks. Those that no checkpoint has are rolled back by
    the attempts that follow, which know them by their lineage.

    Args:
        lineage: names this writer and the attempts before it, and no other writer.
        restored: the lineages of former writers.
    """

    def __init__(
        self,
        context: SinkWriterContext,
        uri: str,
        describe: Callable[[Any], Target],
        table: str,
        lineage: str,
        restored: Sequence[str],
    ) -> None:
        super().__init__(context, uri, describe)
        self._table = table
        self._name = uuid.uuid4().hex
        self._lineage = lineage
        self._staging = Staging(self._target.schema)
        self._kept = _Kept()
        self._trial = Trial(uri, self.where, describe)
        self._uncommitted = 0
        """The last checkpoint that something was prepared for; 0: all of that is committed."""
        with control(uri, self.where) as connection:
            for each in {lineage, *restored}:
                for name in prepared_after(connection, each, context.restored_checkpoint_id or 0):
                    roll_back(connection, name)

    def write(self, batch: Batch) -> None:
        rows, data = self.fitted(batch)
        if self._target.key and self._uncommitted:
            self._trial.add(rows, data)
            self._kept.add(data)
        else:
            self._write(rows, data)

    def prepare_commit(self, checkpoint_id: int) -> list[PostgresTransaction | PostgresRows]:
        mark = Mark(self._name, checkpoint_id)
        self._trial.finish()
        if self._kept:
            self._uncommitted = checkpoint_id
            return [PostgresRows(mark, self.where, self._kept.take())]
        if self._connection is None:
            return []
        name = f"flinkray-{self._lineage}-{checkpoint_id}-{self._name}"
        try:
            with self._connection.cursor() as cursor:
                self._staging.drop(cursor)
                cursor.execute(marking(self._table, mark))
                cursor.fetchall()
                cursor.execute(f"PREPARE TRANSACTION '{name}'")
        except Exception as error:
            refuse(error, self.where, f"cannot prepare transaction {name!r} of {shown(self.uri)}")
        # The transaction is the server's now, of which the driver knows nothing: the next one has another connection.
        self.close()
        self._uncommitted = checkpoint_id
        return [PostgresTransaction(mark, self.where, name)]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if checkpoint_id < self._uncommitted:
            return
        self._uncommitted = 0
        for stream in self._kept.take():
            table = pa.ipc.open_stream(stream).read_all()
            rows = TargetRows(self._target, table.schema, self.where)
            for data in table.combine_chunks().to_batches():
                self._write(rows, rows.fitted(data))

    def snapshot_state(self, checkpoint_id: int) -> str:
        return self._lineage

    def close(self) -> None:
        self._trial.close()
        super().close()

    def _write(self, rows: TargetRows, data: pa.RecordBatch) -> None:
        try:
            with self.cursor() as cursor:
                rows.write(cursor, data, self._staging)
        except Exception as error:
            refuse(error, self.where, f"cannot write to {self._target} of {shown(self.uri)}")
