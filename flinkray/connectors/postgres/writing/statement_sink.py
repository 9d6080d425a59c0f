"""A sink that executes a statement for each row."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.batches.batch import Batch
from flinkray.connectors.postgres.connections import (
    RETRY_DELAYS_S,
    PostgresError,
    control,
    explained,
    is_of_server,
    is_transient,
    psycopg,
    shown,
    tried,
)
from flinkray.connectors.postgres.jdbc_address import JdbcAddress
from flinkray.connectors.postgres.writing.rows import shown_row
from flinkray.connectors.postgres.writing.statement import Statement
from flinkray.connectors.request_buffer import RequestBuffer, RequestLimits
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import RecordError, TypeMismatchError
from flinkray.types.records import Kind

_UNBOUNDED = 1 << 62
_CAST = "say in the statement what the value is, as in "
_HINTS = {
    "23505": "a row with that key is there already; INSERT ... ON CONFLICT (...) DO UPDATE SET ... replaces it",
    "42804": f"{_CAST}CAST(? AS jsonb), or give the address stringtype=unspecified",
    "42883": f"{_CAST}CAST(? AS uuid), or give the address stringtype=unspecified",
    "42P18": f"{_CAST}CAST(? AS timestamp)",
}


class StatementSettings(Struct, frozen=True):
    """When rows are sent, and how often again."""

    batch_size: int = 5_000
    """So many rows are sent together; 0: those between two checkpoints, or of an interval."""
    interval_ms: int = 0
    """After so long rows are sent that are fewer; 0: not before the checkpoint."""
    max_retries: int = 3


class PostgresStatementSink(Sink):
    """Executes a statement for each row, at least once. Several rows share a transaction."""

    def __init__(self, address: JdbcAddress, statement: Statement, settings: StatementSettings) -> None:
        self._address = address
        self._statement = statement
        self._settings = settings

    def __repr__(self) -> str:
        return f"PostgresStatementSink({self._statement.text!r})"

    def prepare(self) -> PostgresStatementSink:
        psycopg()  # an error names the extra before anything is started
        return self

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return _StatementWriter(context, self._address.uri, self._statement, self._settings)


class _StatementWriter(SinkWriter):
    def __init__(self, context: SinkWriterContext, uri: str, statement: Statement, settings: StatementSettings) -> None:
        self._context = context
        self._uri = uri
        self._statement = statement
        self._interval_ms = settings.interval_ms
        self._where = subtask_label(context)
        # What the server needs to start again decides how long is waited, and not how often the user lets us try.
        longest = [RETRY_DELAYS_S[-1]] * settings.max_retries
        self._delays_s = (*RETRY_DELAYS_S, *longest)[: settings.max_retries]
        self._buffer = RequestBuffer(RequestLimits(max_rows=settings.batch_size or _UNBOUNDED, max_bytes=_UNBOUNDED))
        self._has_timer = False
        self._connection: Any = control(uri, self._where)

    def write(self, batch: Batch) -> None:
        self._buffer.add(self._fitted(batch))
        while self._buffer.has_full_request:
            self._send_next()
        if self._buffer.num_rows and self._interval_ms and not self._has_timer:
            self._has_timer = True
            self._context.call_later(self._interval_ms, self._on_time)

    def flush(self, end_of_input: bool) -> None:
        while self._buffer.num_rows:
            self._send_next()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may have closed it
                connection.close()

    # -- inside --------------------------------------------------------------------------------------------------

    def _on_time(self) -> None:
        self._has_timer = False
        self.flush(end_of_input=False)

    def _fitted(self, batch: Batch) -> pa.RecordBatch:
        """The rows with the columns that the statement has values for."""
        data, schema = batch.data, self._statement.schema
        if batch.kind is Kind.OBJECT or data.num_columns != len(schema):
            found = "Python objects" if batch.kind is Kind.OBJECT else f"of {data.num_columns} columns"
            raise TypeMismatchError(
                f"{self._where}: the statement takes rows of {len(schema)} fields ({', '.join(schema.names)}), and "
                f"these are {found}; declare the type before the sink, as in map(..., output_type=type_info)"
            )
        columns = []
        for column, field in zip(data.columns, schema, strict=True):
            try:
                columns.append(column.cast(field.type))
            except pa.ArrowException as error:
                raise RecordError(
                    f"{self._where}: a value of column {field.name!r} is no {field.type}, which the type of the sink's "
                    f"rows says: {error}"
                ) from error
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _send_next(self) -> None:
        rows = self._buffer.next().rows
        what = f"cannot execute {self._statement.text!r} for {rows.num_rows} rows at {shown(self._uri)}"
        tried(lambda: self._send(rows, what), self._where, what, delays_s=self._delays_s, on_retry=self._count)

    def _send(self, rows: pa.RecordBatch, what: str) -> None:
        values = list(zip(*map(_values, rows.columns), strict=True))
        try:
            self._execute(values)
        except Exception as error:
            if is_of_server(error) and not is_transient(error):
                place = self._refused(values)
                row = "" if place is None else f". The row is {shown_row(rows.slice(place, 1).to_pylist()[0])}"
                raise PostgresError(f"{self._where}: {what}: {explained(error, _HINTS)}{row}") from error
            self.close()
            raise

    def _execute(self, values: list[tuple[Any, ...]]) -> None:
        if self._connection is None:
            self._connection = control(self._uri, self._where, delays_s=())
        with self._connection.transaction(), psycopg().RawCursor(self._connection) as cursor:
            cursor.executemany(self._statement.numbered, values)

    def _refused(self, values: list[tuple[Any, ...]]) -> int | None:
        """The place of the row that the server refuses, which it says of one at a time; None: of each it takes it."""
        taken = 0
        connection, package = self._connection, psycopg()
        with contextlib.suppress(package.Error), connection.transaction(force_rollback=True):
            cursor = package.RawCursor(connection)
            for row in values:
                cursor.execute(self._statement.numbered, row)
                taken += 1
        return taken if taken < len(values) else None

    def _count(self) -> None:
        self._context.count("writes_retried")


def _values(column: pa.Array) -> list[Any]:
    """As the client takes them: texts, which the server reads as the statement says."""
    is_text = not (pa.types.is_binary(column.type) or pa.types.is_list(column.type))
    values: list[Any] = (column.cast(pa.string()) if is_text else column).to_pylist()
    return values
