"""How a reader of PostgreSQL goes on when connections are lost, against connections that are scripted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from flinkray.connectors.postgres import connections, reader
from flinkray.connectors.postgres.columns import Column
from flinkray.connectors.postgres.connections import PostgresError
from flinkray.connectors.postgres.reader import PostgresReader
from flinkray.connectors.postgres.settings import PostgresSourceSettings
from flinkray.connectors.postgres.splits import PostgresSplit
from flinkray.connectors.source import ReaderStatus, SourceBatch
from tests.support.api import FakeSubtaskContext
from tests.support.waiting import eventually

LOST = psycopg.OperationalError("server closed the connection unexpectedly")
SETTINGS = PostgresSourceSettings("host=h", "t", "t", (Column("n", 20, -1),), None, "n")


class Server:
    """Gives the results of a script, one for each query: batches of keys, and at the end perhaps an error."""

    def __init__(self, *script: list[Any]) -> None:
        self.script = list(script)
        self.queries: list[str] = []
        self.opened = 0
        self.closed = 0

    def connect(self, uri: str, where: str) -> Any:
        self.opened += 1
        cursor = SimpleNamespace(
            adbc_statement=SimpleNamespace(set_options=lambda **_: None),
            execute=self.queries.append,
            fetch_record_batch=lambda: contextlib.closing(self._results(self.script.pop(0))),
            close=lambda: None,
        )
        return SimpleNamespace(cursor=lambda: cursor, commit=lambda: None, close=self._close)

    def _results(self, results: list[Any]) -> Iterator[pa.RecordBatch]:
        for each in results:
            if isinstance(each, Exception):
                raise each
            keys = pa.array(each, pa.int64())
            yield pa.record_batch({"position": keys, "n": keys})

    def _close(self) -> None:
        self.closed += 1


def read(server: Server, monkeypatch: pytest.MonkeyPatch, *splits: PostgresSplit) -> tuple[list[int], Any]:
    """The rows of the splits, and the context of the reader."""
    monkeypatch.setattr(reader, "columnar", server.connect)
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0, 0))
    context = FakeSubtaskContext(batch_rows=2)
    source_reader = PostgresReader(context, SETTINGS)
    source_reader.add_splits(splits)
    source_reader.notify_no_more_splits()
    rows: list[int] = []

    def take() -> bool:
        given = source_reader.poll()
        if isinstance(given, SourceBatch):
            rows.extend(given.batch.data["n"].to_pylist())
        return given is ReaderStatus.END_OF_INPUT

    try:
        eventually(take)
    finally:
        source_reader.close()
    return rows, context


def test_a_split_is_read_on_behind_the_rows_that_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([[1, 2, 3], [4, 5], LOST], [LOST], [[5, 6]], [[7]])
    first, second = (PostgresSplit(f"{low}", "t", "key", low, low + 6) for low in (1, 7))
    rows, context = read(server, monkeypatch, first, second)
    # The row 5 was not given: there might have been more rows with its key.
    assert rows == [1, 2, 3, 4, 5, 6, 7]
    assert [query[query.index("WHERE") :] for query in server.queries] == [
        'WHERE "n" >= 1 AND "n" < 7 ORDER BY "n"',
        'WHERE "n" > 4 AND "n" < 7 ORDER BY "n"',
        'WHERE "n" > 4 AND "n" < 7 ORDER BY "n"',
        'WHERE "n" >= 7 AND "n" < 13 ORDER BY "n"',
    ]
    # Those that broke are closed, and the one that did not serves the next split too.
    assert (server.opened, server.closed) == (3, 3)
    assert context.counts == {"reads_retried": 2}


def test_after_some_tries_the_split_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([LOST], [LOST], [LOST])
    message = r"'Source: test' \(subtask 1 of 1\): cannot read key 1 of h:5432/: server closed"
    with pytest.raises(PostgresError, match=message):
        read(server, monkeypatch, PostgresSplit("key 1", "t", "key", 1, 7))
    assert (server.opened, server.closed) == (3, 3)
