"""PostgresChangesSource against a real server: what a table's changes lead to is what the table has."""

from __future__ import annotations

import contextlib
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from flinkray import (
    InvalidProgramError,
    JobClient,
    JobExecutionError,
    JobStatus,
    PostgresChangesSource,
    PostgresSink,
    ProcessFunction,
    Row,
    RowKind,
    WatermarkStrategy,
)
from flinkray.batches.row_codec import decode
from flinkray.connectors.postgres import connections
from flinkray.connectors.postgres.changes import reader as changes_reader
from flinkray.connectors.postgres.changes import stream
from flinkray.connectors.postgres.changes.settings import SplitKey
from flinkray.connectors.postgres.changes.slots import check_published
from flinkray.connectors.postgres.changes.splits import LogSplit, Piece, SnapshotSplit, pieces_query
from flinkray.connectors.postgres.connections import PostgresError
from flinkray.connectors.source import ReaderStatus, SourceBatch, SourceReader
from tests.servers.test_kafka_source import environment
from tests.servers.test_postgres_source import TYPES, stopped
from tests.support.api import FakeSubtaskContext
from tests.support.servers.postgres import PostgresServer, end_sessions
from tests.support.waiting import eventually

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

NO_WATERMARKS: WatermarkStrategy = WatermarkStrategy.no_watermarks()


@pytest.fixture
def table(postgres: PostgresServer) -> Iterator[str]:
    name = postgres.create_table("(id bigint PRIMARY KEY, n int, word text)")
    yield name
    is_read(postgres, name, False)
    source(postgres, name).drop()


def source(postgres: PostgresServer, table: str, **options: Any) -> PostgresChangesSource:
    return PostgresChangesSource(postgres.uri, table, **options)


def changes(of: PostgresChangesSource, parallelism: int = 1, **options: Any) -> list[Row]:
    """What a source that ends gives."""
    env = environment(parallelism, **options)
    return list(env.from_source(of, NO_WATERMARKS, "changes").execute_and_collect())


def since(postgres: PostgresServer, table: str, **options: Any) -> list[str]:
    """What has changed since the last time."""
    return shown(changes(source(postgres, table, start="latest", stop="latest", **options)))


def shown(rows: Sequence[Row]) -> list[str]:
    return [f"{row.get_row_kind()}{tuple(row)}" for row in rows]


def content(postgres: PostgresServer, table: str) -> list[Any]:
    return sorted(postgres.execute(f"SELECT * FROM {table}"))


def filled(postgres: PostgresServer, table: str, rows: int) -> None:
    postgres.execute(f"INSERT INTO {table} SELECT i, 0, 'x' FROM generate_series(1, {rows}) AS i")


def is_read(postgres: PostgresServer, table: str, expected: bool = True) -> None:
    """Waits until somebody reads from the slot, or nobody."""
    query = (
        "SELECT 1 FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid "
        f"WHERE slot_name = 'flinkray_{table}'"
    )
    eventually(lambda: bool(postgres.execute(query)) is expected)


def confirmed(postgres: PostgresServer, table: str) -> int:
    """How far the slot has let go of the log."""
    query = f"SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots WHERE slot_name = 'flinkray_{table}'"
    found: int = postgres.execute(query)[0][0]
    return found


# -- what the log says

GIVEN = {
    "DEFAULT": [
        "+I(6, 6, 'é')",
        "+U(1, 7, 'x')",
        "-D(2, None, None)",
        "+I(9, 0, 'x')",
        "-D(3, None, None)",
        "+U(4, None, None)",
    ],
    "FULL": [
        "+I(6, 6, 'é')",
        "-U(1, 0, 'x')",
        "+U(1, 7, 'x')",
        "-D(2, 0, 'x')",
        "+I(9, 0, 'x')",
        "-D(3, 0, 'x')",
        "-U(4, 0, 'x')",
        "+U(4, None, None)",
    ],
}


@pytest.mark.parametrize("identity", GIVEN)
def test_the_rows_that_are_there_come_first_and_then_each_change(
    postgres: PostgresServer, table: str, identity: str
) -> None:
    postgres.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
    filled(postgres, table, 5)
    assert sorted(shown(changes(source(postgres, table, stop="latest"), 2))) == [
        f"+I({number}, 0, 'x')" for number in range(1, 6)
    ]
    postgres.execute(
        f"""
        INSERT INTO {table} VALUES (6, 6, 'é');
        UPDATE {table} SET n = 7 WHERE id = 1;
        UPDATE {table} SET id = 9 WHERE id = 2;
        DELETE FROM {table} WHERE id = 3;
        UPDATE {table} SET n = NULL, word = NULL WHERE id = 4
        """
    )
    with contextlib.suppress(psycopg.Error):
        postgres.execute(f"INSERT INTO {table} VALUES (10, 1, 'undone'); SELECT 1 / 0")
    assert since(postgres, table) == GIVEN[identity]
    assert since(postgres, table) == []


def test_rows_say_which_table_they_are_of_and_what_their_change_was(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table, 1)
    names = {"db": "database_name", "of": "schema_name", "t": "table_name", "at": "op_ts", "k": "row_kind"}
    options: dict[str, Any] = {"columns": ["id"], "metadata": names}
    places = ("postgres", "public", table)
    (first,) = changes(source(postgres, table, stop="latest", **options))
    assert tuple(first) == (*places, datetime.fromtimestamp(0, UTC), "+I", 1)
    postgres.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL; UPDATE {table} SET n = 7; DELETE FROM {table}")
    found = changes(source(postgres, table, start="latest", stop="latest", **options))
    assert [(row.db, row.of, row.t, row.k) for row in found] == [(*places, kind) for kind in ("-U", "+U", "-D")]
    assert all(abs(datetime.now(UTC) - row.at) < timedelta(minutes=5) for row in found)
    with pytest.raises(InvalidProgramError, match="two columns named 'id'; give that of metadata= another name"):
        _ = source(postgres, table, metadata={"id": "op_ts"}).output_type
    with pytest.raises(InvalidProgramError, match="not 'op_time'; did you mean 'op_ts'"):
        source(postgres, table, metadata=["op_time"])


def test_values_are_the_same_in_the_log_and_in_the_table(postgres: PostgresServer) -> None:
    dropped = "DROP TYPE IF EXISTS mood CASCADE; DROP DOMAIN IF EXISTS positive CASCADE;"
    postgres.execute(f"{dropped} CREATE TYPE mood AS ENUM ('glad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    given = {
        **{name: (sql, value) for name, (sql, value, _, _) in TYPES.items()},
        "before Christ": ("date", "'0044-03-15 BC'"),
        "far away": ("timestamptz", "'10000-01-01 00:00:00.5+01'"),
        "end of the day": ("time", "'24:00'"),
        "no number": ("real", "'NaN'"),
        "texts of all kinds": ("text[]", """ARRAY['', 'NULL', NULL, 'a,b', 'a"b\\c', '{}', E'a\\nb', ' ']"""),
        "array of times": ("timestamp[]", "'{2024-02-29 03:04:05,NULL}'"),
        "networks": ("inet[]", "'{10.0.0.0/8,::1}'"),
        "array of bytes": ("bytea[]", r"ARRAY['\x00ff'::bytea]"),
    }
    columns = ", ".join(f'"{name}" {sql}' for name, (sql, _) in given.items())
    table = postgres.create_table(f"(id int PRIMARY KEY, {columns})")
    read, other = (source(postgres, table, stop="latest", **each) for each in ({}, {"slot": f"other_{table}"}))
    assert changes(read) == []
    postgres.execute(f"INSERT INTO {table} VALUES (1, {', '.join(value for _, value in given.values())})")
    postgres.execute(f"INSERT INTO {table} VALUES (2)")
    logged, there = (
        environment(1).from_source(each, NO_WATERMARKS, "changes").kinds_as_column("op").to_arrow().sort_by("id")
        for each in (source(postgres, table, start="latest", stop="latest"), other)
    )
    assert (logged.schema.names, len(logged)) == (["id", *given, "op"], 2)
    for name in logged.schema.names:
        assert logged[name].equals(there[name]) or name == "no number", name
    assert str(logged["no number"][0]) == str(there["no number"][0]) == "nan"
    read.drop()
    other.drop()
    postgres.execute(dropped)


def test_large_values_that_an_update_leaves_as_they_are(postgres: PostgresServer, table: str) -> None:
    postgres.execute(f"ALTER TABLE {table} ALTER word SET STORAGE EXTERNAL")
    postgres.execute(f"INSERT INTO {table} VALUES (1, 1, repeat('x', 9000))")
    changes(source(postgres, table, stop="latest"))
    postgres.execute(f"UPDATE {table} SET n = 2")
    message = r"'Source: changes' \(subtask 1 of 1\): an update of table .* large value of column 'word'.*IDENTITY FULL"
    with pytest.raises(JobExecutionError, match=message):
        since(postgres, table)
    assert since(postgres, table, columns=["id", "n"]) == ["+U(1, 2)"]
    postgres.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL; UPDATE {table} SET n = 3")
    found = changes(source(postgres, table, start="latest", stop="latest"))
    assert [(row.get_row_kind(), row.n, row.word == "x" * 9000) for row in found] == [
        (RowKind.UPDATE_BEFORE, 2, True),
        (RowKind.UPDATE_AFTER, 3, True),
    ]


def test_a_column_that_is_added_is_followed_and_others_that_change_are_named(
    postgres: PostgresServer, table: str
) -> None:
    changes(source(postgres, table, stop="latest"))
    former = source(postgres, table, start="latest", stop="latest").prepare()
    postgres.execute(f"INSERT INTO {table} VALUES (1, 1, 'a'); ALTER TABLE {table} ADD more int DEFAULT 5")
    postgres.execute(f"INSERT INTO {table} VALUES (2, 2, 'b', 6)")
    assert shown(changes(former)) == ["+I(1, 1, 'a')", "+I(2, 2, 'b')"]
    postgres.execute(f"INSERT INTO {table} VALUES (3, 3, 'c', 7)")
    assert since(postgres, table) == ["+I(3, 3, 'c', 7)"]
    for statement, message in {
        f"ALTER TABLE {table} ALTER n TYPE bigint": "has column 'n' as int64 now, where it was int32",
        f"ALTER TABLE {table} RENAME word TO words": "has no column 'word' any more; its columns are id, n, words,",
    }.items():
        former = source(postgres, table, start="latest", stop="latest").prepare()
        postgres.execute(statement)
        postgres.execute(f"UPDATE {table} SET n = 4")
        with pytest.raises(JobExecutionError, match=rf"table {table} {message}.*without the state of this source"):
            changes(former)
        assert [row.n for row in changes(source(postgres, table, start="latest", stop="latest"))] == [4, 4, 4]


def test_a_table_that_is_truncated_is_an_error_unless_that_is_to_be_skipped(
    postgres: PostgresServer, table: str
) -> None:
    filled(postgres, table, 3)
    changes(source(postgres, table, stop="latest"))
    postgres.execute(f"TRUNCATE {table}; INSERT INTO {table} VALUES (1, 1, 'a')")
    with pytest.raises(JobExecutionError, match=r"was truncated, and the log does not say.*truncated='skip'"):
        since(postgres, table)
    assert since(postgres, table, truncated="skip") == ["+I(1, 1, 'a')"]


def test_names_may_have_any_signs(postgres: PostgresServer) -> None:
    of = '"Sales.%s"."50% ""off"" {x}"'
    postgres.execute(f'CREATE SCHEMA "Sales.%s"; CREATE TABLE {of} ("%s" int PRIMARY KEY, "%(a)s\\" text)')
    postgres.execute(f"INSERT INTO {of} VALUES (1, 'a')")
    read = source(postgres, of, stop="latest")
    assert shown(changes(read, 2)) == ["+I(1, 'a')"]
    postgres.execute(f"INSERT INTO {of} VALUES (2, 'b')")
    assert since(postgres, of) == ["+I(2, 'b')"]
    read.drop()


def test_partitions_give_the_changes_of_their_table(postgres: PostgresServer) -> None:
    parent = postgres.create_table("(id int, word text, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    postgres.execute(f"CREATE TABLE {parent}_low PARTITION OF {parent} FOR VALUES FROM (0) TO (10)")
    postgres.execute(f"CREATE TABLE {parent}_high (word text, id int NOT NULL)")
    postgres.execute(f"ALTER TABLE {parent} ATTACH PARTITION {parent}_high FOR VALUES FROM (10) TO (20)")
    postgres.execute(f"INSERT INTO {parent} VALUES (1, 'a'), (11, 'b')")
    read = source(postgres, parent, stop="latest")
    assert sorted(shown(changes(read, 2))) == ["+I(1, 'a')", "+I(11, 'b')"]
    postgres.execute(f"UPDATE {parent} SET word = 'c' WHERE id = 11; UPDATE {parent} SET id = 12 WHERE id = 1")
    assert since(postgres, parent) == ["+U(11, 'c')", "-D(1, None)", "+I(12, 'a')"]
    read.drop()


def test_the_event_time_is_that_of_the_commit(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table, 1)
    now = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8"
    ((before,),) = postgres.execute(now)
    strategy: WatermarkStrategy = WatermarkStrategy.for_monotonous_timestamps()
    for options in ({}, {"start": "latest"}):
        of = source(postgres, table, stop="latest", **options)
        (time,) = (
            environment(1)
            .from_source(of, strategy, "changes")
            .kinds_as_column("op")
            .process(TimeOf())
            .execute_and_collect()
        )
        ((after,),) = postgres.execute(now)
        assert before <= time <= after
        before = after
        postgres.execute(f"INSERT INTO {table} VALUES ({after}, 0, 'x')")


class TimeOf(ProcessFunction):
    """The event times of rows."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[int]:
        yield ctx.timestamp()


# -- exactly once


class Writer(threading.Thread):
    """Changes a table, until it is ended, in transactions of its own."""

    def __init__(self, postgres: PostgresServer, table: str, key: str = "{}") -> None:
        super().__init__(daemon=True)
        self._uri = postgres.uri
        self._table = table
        self._key = key
        self._random = random.Random(table)
        self._ended = threading.Event()
        self.transactions = 0

    def run(self) -> None:
        with psycopg.connect(self._uri) as connection:
            while not self._ended.wait(0.002):
                for _ in range(self._random.choice((1, 1, 2, 9))):
                    self._change(connection)
                if self._random.random() < 0.1:
                    connection.rollback()
                connection.commit()
                self.transactions += 1

    def _change(self, connection: Any) -> None:
        key, other = (self._key.format(self._random.randrange(3_000)) for _ in range(2))
        number = self._random.randrange(10**6)
        statements = (
            f"INSERT INTO {self._table} VALUES ('{key}', {number}, 'a') ON CONFLICT (id) DO UPDATE SET n = {number}",
            f"UPDATE {self._table} SET n = {number} WHERE id = '{key}'",
            f"UPDATE {self._table} SET id = '{other}' WHERE id = '{key}' "
            f"AND NOT EXISTS (SELECT 1 FROM {self._table} WHERE id = '{other}')",
            f"DELETE FROM {self._table} WHERE id = '{key}'",
        )
        connection.execute(self._random.choice(statements))

    def __enter__(self) -> Writer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def folded(rows: Sequence[Row], found: dict[Any, tuple[Any, ...]]) -> None:
    """Changes a table as a changelog says, which has to fit what is there."""
    for row in rows:
        kind, former = row.get_row_kind(), found.get(row.id)
        if kind is RowKind.INSERT:
            assert former is None, row
        elif kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE):
            assert former is not None, row
            assert row.word is None or former == tuple(row), row
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            found[row.id] = tuple(row)
        else:
            del found[row.id]


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize(
    ("sql", "key"),
    [("bigint", "{}"), ('text COLLATE "en-x-icu"', "{}_B"), ("numeric", "{}.50")],
    ids=["int", "text", "numeric"],
)
def test_a_snapshot_and_changes_while_others_write_fit_each_other(
    postgres: PostgresServer, identity: str, sql: str, key: str
) -> None:
    table = postgres.create_table(f"(id {sql} PRIMARY KEY, n int, word text)")
    postgres.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
    numbered = f"replace('{key}', '{{}}', i::text)::{sql.split()[0]}"
    postgres.execute(f"INSERT INTO {table} SELECT {numbered}, 0, repeat('x', 99) FROM generate_series(0, 2500) AS i")
    found: dict[Any, tuple[Any, ...]] = {}
    with Writer(postgres, table, key) as writer:
        eventually(lambda: writer.transactions > 20)
        of = source(postgres, table, stop="latest")
        folded(changes(of, 1, **{"flinkray.batch.target-rows": 16}), found)
        seen = writer.transactions
        eventually(lambda: writer.transactions > seen + 50)
    rows = changes(source(postgres, table, start="latest", stop="latest"))
    assert {row.get_row_kind() for row in rows} >= {RowKind.INSERT, RowKind.DELETE, RowKind.UPDATE_AFTER}
    folded(rows, found)
    there = postgres.execute(f"SELECT id::text, n, word FROM {table}")
    assert sorted((str(key), *others) for key, *others in found.values()) == sorted(there)
    of.drop()


class FailingNow(Exception):
    """What tests have a job fail with."""


def copying(
    postgres: PostgresServer, table: str, copy: str, directory: Path, parallelism: int = 2, **options: Any
) -> JobClient:
    """A job that writes what a table's changes lead to into another one, and fails now and then."""
    given: dict[str, Any] = {
        "execution.checkpointing.dir": str(directory),
        "flinkray.batch.target-rows": 64,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1_000,
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = environment(parallelism, **{**given, **options})
    env.enable_checkpointing(50)
    rows = env.from_source(source(postgres, table), NO_WATERMARKS, "changes").uid("changes")
    sink = PostgresSink(postgres.uri, copy, key="id")
    rows.map(FailingAtTimes(str(directory))).uid("failing").key_by("id").sink_to(sink).uid("copy")
    return env.execute_async("copy")


class FailingAtTimes:
    """Fails where a file says so, once."""

    def __init__(self, directory: str) -> None:
        self._order = Path(directory) / "fail"

    def __call__(self, row: Row) -> Row:
        if self._order.exists():
            with contextlib.suppress(FileNotFoundError):
                self._order.unlink()
                raise FailingNow
        return row


def is_equal(postgres: PostgresServer, table: str, copy: str) -> None:
    """The server compares them: the job, which runs in this process, has to get there beside the looks at it."""
    differs = f"(TABLE {table} EXCEPT TABLE {copy}) UNION ALL (TABLE {copy} EXCEPT TABLE {table}) LIMIT 1"
    eventually(lambda: postgres.execute(differs), lambda rows: not rows)


def test_a_job_that_fails_and_loses_its_connections_leads_to_the_table(
    postgres: PostgresServer, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0.05,) * 100)
    filled(postgres, table, 2_900)
    copy = postgres.create_table("(id bigint PRIMARY KEY, n int, word text)")
    with Writer(postgres, table) as writer:
        client = copying(postgres, table, copy, tmp_path)
        for number in range(6):
            (tmp_path / "fail").touch()
            seen = writer.transactions
            eventually(lambda: not (tmp_path / "fail").exists() and writer.transactions > seen + 30)  # noqa: B023
            end_sessions(postgres.uri, "flinkray operator")
            if number == 3:  # many rows at once, so that a checkpoint is in the middle of a transaction
                postgres.execute(f"INSERT INTO {table} SELECT i, 0, 'x' FROM generate_series(10000, 40000) AS i")
    is_equal(postgres, table, copy)
    client.cancel()


def test_a_job_goes_on_from_savepoints_at_another_parallelism_and_over_restarts_of_the_server(
    postgres: PostgresServer, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0.05,) * 1_000)  # however long the server takes
    filled(postgres, table, 2_900)
    copy = postgres.create_table("(id bigint PRIMARY KEY, n int, word text)")
    savepoint: str | None = None
    for parallelism in (2, 3, 1):
        options = {} if savepoint is None else {"execution.state-recovery.path": savepoint}
        with Writer(postgres, table) as writer:
            client = copying(postgres, table, copy, tmp_path / str(parallelism), parallelism, **options)
            eventually(client.status, lambda status: status is JobStatus.RUNNING)
            eventually(lambda: writer.transactions > 50)
        if parallelism == 3:
            is_equal(postgres, table, copy)
            postgres.stop("fast")
            postgres.start()
            postgres.execute(f"UPDATE {table} SET n = -1 WHERE id % 7 = 0")
        if parallelism == 1:
            is_equal(postgres, table, copy)
            client.cancel()
        else:
            savepoint = stopped(client, tmp_path / f"savepoint {parallelism}")
            postgres.execute(f"UPDATE {table} SET n = -2 WHERE id % 11 = 0")


def test_the_slot_moves_on_with_complete_checkpoints_alone_also_while_the_table_rests(
    postgres: PostgresServer, table: str, tmp_path: Path
) -> None:
    other = postgres.create_table("(n int)")
    copy = postgres.create_table("(id bigint PRIMARY KEY, n int, word text)")
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(600_000)
    sink = PostgresSink(postgres.uri, copy, key="id")
    env.from_source(source(postgres, table), NO_WATERMARKS, "changes").sink_to(sink)
    client = env.execute_async("copy")
    is_read(postgres, table)
    begin = confirmed(postgres, table)
    postgres.execute(f"INSERT INTO {table} VALUES (1, 1, 'x'); INSERT INTO {other} VALUES (1)")
    ((end,),) = postgres.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8")
    asked = "SELECT (write_lsn - '0/0')::int8 FROM pg_stat_replication WHERE write_lsn IS NOT NULL"
    eventually(lambda: any(lsn >= end for (lsn,) in postgres.execute(asked)))
    assert confirmed(postgres, table) == begin
    stopped(client, tmp_path / "savepoint")
    eventually(lambda: confirmed(postgres, table) >= end)
    assert content(postgres, copy) == [(1, 1, "x")]


def test_without_checkpoints_the_slot_moves_on_at_once(postgres: PostgresServer, table: str) -> None:
    env = environment(2)
    env.from_source(source(postgres, table), NO_WATERMARKS, "changes").print()
    client = env.execute_async("print")
    is_read(postgres, table)
    postgres.execute(f"INSERT INTO {table} VALUES (1, 1, 'x')")
    ((end,),) = postgres.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8")
    eventually(lambda: confirmed(postgres, table) >= end)
    client.cancel()
    eventually(client.status, lambda status: status is JobStatus.CANCELED)


def test_transactions_that_are_open_are_waited_for(
    postgres: PostgresServer, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment(1)
    rows = env.from_source(source(postgres, table, stop="latest"), NO_WATERMARKS, "changes")
    with psycopg.connect(postgres.uri) as other:
        other.execute(f"INSERT INTO {table} VALUES (1, 1, 'x')")
        found = rows.execute_and_collect()
        eventually(lambda: "have to end before the slot can be made" in caplog.text)
    assert shown(list(found)) == ["+I(1, 1, 'x')"]


def rows_given(reader: SourceReader, until: Callable[[int], bool] = lambda _: False) -> list[Row]:
    """What a reader gives up to its end, or until there are enough."""
    found: list[Row] = []

    def take() -> bool:
        given = reader.poll()
        if isinstance(given, SourceBatch):
            found.extend(decode(given.batch))
        return given is ReaderStatus.END_OF_INPUT or until(len(found))

    eventually(take)
    return found


def test_a_snapshot_that_is_read_at_two_moments_fits_the_log(postgres: PostgresServer, table: str) -> None:
    changes(source(postgres, table, stop="latest"))  # makes the slot
    begin, of = confirmed(postgres, table), source(postgres, table).prepare()
    filled(postgres, table, 100)

    def reader_of(*splits: Any) -> SourceReader:
        reader = of.create_reader(FakeSubtaskContext(batch_rows=10))
        reader.add_splits(splits)
        reader.notify_no_more_splits()
        reader.start()
        return reader

    def change(number: int) -> None:
        postgres.execute(
            f"""
            UPDATE {table} SET n = {number} WHERE id % 7 = 0;
            DELETE FROM {table} WHERE id IN ({number}, 90 + {number});
            UPDATE {table} SET id = id + 1000 WHERE id = 10 + {number};
            UPDATE {table} SET id = -id WHERE id = 80 + {number};
            INSERT INTO {table} VALUES ({200 + number}, {number}, 'new'), ({-200 - number}, {number}, 'new')
            """
        )

    change(1)
    reader = reader_of(SnapshotSplit(0, None, None, 5))
    rows = rows_given(reader, lambda count: count >= 30)
    (half,) = reader.snapshot_state(1)
    reader.close()
    change(2)
    reader = reader_of(half)
    rows += rows_given(reader)
    (whole,) = reader.snapshot_state(2)
    reader.close()
    change(3)
    assert (half.is_read, whole.is_read, len(whole.pieces)) == (False, True, 2)
    ((stop,),) = postgres.execute("SELECT (pg_logical_emit_message(true, 'x', '') - '0/0')::int8")
    reader = reader_of(LogSplit(begin, 0, whole.pieces, stop))
    rows += rows_given(reader)
    assert not reader.snapshot_state(3)[0].pieces
    reader.close()
    found: dict[Any, tuple[Any, ...]] = {}
    folded(rows, found)
    assert sorted(found.values()) == content(postgres, table)


def test_rows_whose_keys_are_equal_are_read_at_one_moment_whatever_their_texts(postgres: PostgresServer) -> None:
    table = postgres.create_table("(k numeric, j int, PRIMARY KEY (k, j))")
    postgres.execute(f"INSERT INTO {table} VALUES (1, 1), (1.00, 2), (1.0, 3), (2, 4), (3.0, 5), (3, 6)")
    reader = source(postgres, table).create_reader(FakeSubtaskContext(batch_rows=1))
    reader.add_splits([SnapshotSplit(0, None, None, 5)])
    reader.start()
    counts: list[int] = []
    found = rows_given(reader, lambda count: bool(counts.append(count)) or count == 6)
    assert sorted(row.j for row in found) == [1, 2, 3, 4, 5, 6]
    assert list(dict.fromkeys(filter(None, counts))) == [3, 4, 6]
    reader.close()


def test_the_pieces_of_keys_with_any_signs_are_found(postgres: PostgresServer) -> None:
    pieces = (Piece("a%b'", True, "1:1:", 1), Piece(None, False, "1:1:", 1))
    query = pieces_query(pieces, SplitKey("k", "text", "", True))
    assert postgres.execute(query, ["a%b'", "a%a", "b", None]) == [(0,), (0,), (1,), (1,)]


def test_rows_that_are_written_anew_while_the_snapshot_waits_for_that_are_read(
    postgres: PostgresServer, table: str
) -> None:
    filled(postgres, table, 3)
    reader = source(postgres, table).create_reader(FakeSubtaskContext())
    reader.add_splits([SnapshotSplit(0, None, None, 5)])
    with psycopg.connect(postgres.uri) as other:
        other.execute(f"ALTER TABLE {table} ALTER n TYPE int USING n + 0")
        reader.start()
        eventually(lambda: postgres.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    assert len(rows_given(reader, lambda count: count == 3)) == 3
    reader.close()


def test_the_server_hears_of_a_reader_whose_task_takes_no_rows(
    postgres: PostgresServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes(source(postgres, table, stop="latest"))
    monkeypatch.setattr(stream, "_BEAT_S", 0.05)
    name, uri = f"flinkray_{table}", f"{postgres.uri}?options=-c%20wal_sender_timeout%3D3000"
    opened = stream.LogStream(uri, name, name, confirmed(postgres, table), "here")
    age = "SELECT max(clock_timestamp() - backend_start) > '4 s' FROM pg_stat_replication"
    eventually(lambda: postgres.execute(age) == [(True,)])
    postgres.execute(f"INSERT INTO {table} VALUES (1, 1, 'x')")
    eventually(lambda: any(message[25:26] == b"I" for message in opened.receive(100)))
    opened.close()
    ((end,),) = postgres.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8")
    assert confirmed(postgres, table) < opened.end <= end, "the server says how far its log is"


# -- what is wrong


def test_a_slot_that_is_gone_or_ahead_is_an_error_and_no_loss_in_silence(
    postgres: PostgresServer, table: str, tmp_path: Path
) -> None:
    copy = postgres.create_table("(id bigint PRIMARY KEY, n int, word text)")
    client = copying(postgres, table, copy, tmp_path)
    is_read(postgres, table)
    savepoint = stopped(client, tmp_path / "savepoint")
    is_read(postgres, table, False)

    def error() -> str:
        options = {"execution.state-recovery.path": savepoint, "restart-strategy.fixed-delay.attempts": 0}
        with pytest.raises(JobExecutionError) as caught:
            copying(postgres, table, copy, tmp_path, 1, **options).result(60)
        return str(caught.value)

    slot = f"flinkray_{table}"
    filled(postgres, table, 5)
    postgres.execute(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    assert f"slot '{slot}' has let go of the log before" in error()
    postgres.execute(f"DROP PUBLICATION {slot}")
    source(postgres, table).drop()
    text = error()
    assert re.search(f"slot '{slot}' is not there any more.*without the state of this source", text)


def test_a_slot_that_another_job_reads_from_is_an_error_that_says_so(
    postgres: PostgresServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0.01,))
    env = environment(1)
    env.from_source(source(postgres, table), NO_WATERMARKS, "changes").print()
    client = env.execute_async("print")
    is_read(postgres, table)
    with pytest.raises(JobExecutionError, match=r"slot .*PID \d+.*a slot of its own"):
        since(postgres, table)
    with pytest.raises(PostgresError, match=r"cannot drop slot .*is active for PID"):
        source(postgres, table).drop()
    client.cancel()
    eventually(client.status, lambda status: status is JobStatus.CANCELED)


def test_a_publication_that_is_gone_or_lacks_something_is_an_error_that_names_it(
    postgres: PostgresServer, table: str
) -> None:
    other = postgres.create_table("(id int PRIMARY KEY)")
    name = f"of_{other}"
    postgres.execute(f"CREATE PUBLICATION {name} FOR TABLE {other}")
    with pytest.raises(JobExecutionError, match=rf"publication '{name}' does not publish all.* ADD TABLE {table}"):
        changes(source(postgres, table, stop="latest", publication=name))
    postgres.execute(f"ALTER PUBLICATION {name} ADD TABLE {table}; ALTER PUBLICATION {name} SET (publish = 'insert')")
    with pytest.raises(JobExecutionError, match=r"SET \(publish = 'insert, update, delete, truncate'\)"):
        changes(source(postgres, table, stop="latest", publication=name))
    postgres.execute(f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete')")
    assert changes(source(postgres, table, stop="latest", publication=name)) == []
    postgres.execute(f"INSERT INTO {other} VALUES (1); INSERT INTO {table} VALUES (1, 1, 'x')")
    assert since(postgres, table, publication=name) == ["+I(1, 1, 'x')"]
    env = environment(1)
    env.from_source(source(postgres, table, publication=name, start="latest"), NO_WATERMARKS, "changes").print()
    client = env.execute_async("print")
    is_read(postgres, table)
    postgres.execute(f"DROP PUBLICATION {name}; INSERT INTO {table} VALUES (2, 2, 'x')")
    with pytest.raises(JobExecutionError, match=rf'cannot read slot .*publication "{name}" does not exist'):
        client.result(60)


GONE = {
    "renamed": ("ALTER TABLE {0} RENAME TO {0}_old", "is not there any more, or another one"),
    "made anew": (
        "DROP TABLE {0}; CREATE TABLE {0} (id bigint PRIMARY KEY, n int, word text)",
        "is not there any more, or another one",
    ),
    "not published": ("ALTER PUBLICATION flinkray_{0} DROP TABLE {0}", "does not publish all changes of table {0} any"),
}


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("name", GONE)
def test_a_table_that_has_no_changes_any_more_is_an_error_and_no_silence(
    postgres: PostgresServer, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_restored: bool
) -> None:
    monkeypatch.setattr(changes_reader, "_LOOK_S", 0.1)
    statement, message = (each.format(table) for each in GONE[name])
    copy = postgres.create_table("(id bigint PRIMARY KEY, n int, word text)")
    options: dict[str, Any] = {"restart-strategy.type": "none"}
    client = copying(postgres, table, copy, tmp_path, 1, **options)
    is_read(postgres, table)
    if is_restored:
        options["execution.state-recovery.path"] = stopped(client, tmp_path / "savepoint")
    postgres.execute(statement)
    if is_restored and name == "renamed":
        postgres.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, n int, word text)")
    if is_restored:
        client = copying(postgres, table, copy, tmp_path, 1, **options)
    with pytest.raises(JobExecutionError, match=rf"{message}.*without the state of this source"):
        client.result(60)


def test_a_table_is_read_on_while_others_lock_what_says_whether_it_is_published(
    postgres: PostgresServer, table: str
) -> None:
    """Since version 16 a lock on any table of the publication does, as VACUUM FULL has it for hours."""
    given = source(postgres, table)
    assert given.output_type
    assert given._settings is not None
    with connections.control(postgres.uri, "here") as connection:
        with postgres.locked("pg_publication"):
            check_published(connection, given._settings, "here")
        with pytest.raises(PostgresError, match="does not publish all changes"):
            check_published(connection, given._settings, "here")


def test_tables_whose_changes_cannot_be_captured_are_refused(postgres: PostgresServer) -> None:
    bare = postgres.create_table("(n int)")
    full = postgres.create_table("(n int, m int NOT NULL)")
    postgres.execute(f"ALTER TABLE {full} REPLICA IDENTITY FULL; CREATE VIEW {full}_view AS SELECT * FROM {full}")
    keyed = postgres.create_table("(id int PRIMARY KEY, m int NOT NULL, g int GENERATED ALWAYS AS (id + 1) STORED)")
    for given, message in (
        ({"table": bare}, f"{bare} has neither a primary key nor a REPLICA IDENTITY.* ALTER TABLE {bare} REPLICA"),
        ({"table": full}, "has no primary key; name a column that the snapshot is split by"),
        ({"table": full, "key": "n"}, r"key='n'\): the column may be null"),
        ({"table": full, "key": "k"}, "no column 'k'"),
        ({"table": f"{full}_view"}, "has no log of its own"),
        ({"table": keyed, "key": "m"}, "is not in what the log has of deleted rows"),
        ({"table": keyed, "columns": ["g"]}, "no column 'g'"),
        ({"table": "absent"}, "cannot read the changes of table 'absent' of 127.*no such table"),
    ):
        with pytest.raises((InvalidProgramError, PostgresError), match=message):
            PostgresChangesSource(postgres.uri, **given).prepare()
    assert source(postgres, keyed).output_type.schema.names == ["id", "m"]
    of = source(postgres, full, key="m", stop="latest")
    postgres.execute(f"INSERT INTO {full} VALUES (1, 1), (1, 1), (NULL, 2)")
    assert sorted(shown(changes(of))) == ["+I(1, 1)", "+I(1, 1)", "+I(None, 2)"]
    postgres.execute(f"UPDATE {full} SET m = 3 WHERE m = 2")
    assert since(postgres, full, key="m") == ["-U(None, 2)", "+U(None, 3)"]
    of.drop()


@pytest.mark.parametrize(
    ("sql", "value", "message"),
    [
        ("timestamptz", "infinity", r"column 'v' is no timestamp.*leave the column out"),
        ("numeric(5,1)", "NaN", r"column 'v' is no decimal128.*NaN"),
        ("int[]", "{{1,2},{3,4}}", "several dimensions are no lists"),
    ],
)
def test_a_value_that_arrow_cannot_hold_is_an_error_that_names_it(
    postgres: PostgresServer, sql: str, value: str, message: str
) -> None:
    table = postgres.create_table(f"(id int PRIMARY KEY, v {sql})")
    of = source(postgres, table, stop="latest")
    changes(of)
    postgres.execute(f"INSERT INTO {table} VALUES (1, %s)", value)
    with pytest.raises(JobExecutionError, match=rf"'Source: changes' \(subtask 1 of 1\).*{message}"):
        since(postgres, table)
    of.drop()
