"""PostgresSource against a real server."""

from __future__ import annotations

import contextlib
import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from flinkray import (
    CheckpointError,
    DataGenSource,
    DataStream,
    DiscardSink,
    InvalidProgramError,
    JobClient,
    JobExecutionError,
    JobStatus,
    PostgresSource,
    RandomField,
    WatermarkStrategy,
)
from flinkray.connectors.postgres import connections
from flinkray.connectors.postgres.connections import PostgresError
from tests.servers.test_kafka_source import environment
from tests.support.servers.postgres import PASSWORD, PostgresServer, end_sessions
from tests.support.waiting import eventually

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]


def stream(source: PostgresSource, parallelism: int = 2, **options: Any) -> DataStream:
    return environment(parallelism, **options).from_source(source, WatermarkStrategy.no_watermarks(), "rows")


def numbers(source: PostgresSource, **options: Any) -> list[int]:
    return sorted(row.n for row in stream(source, **options).execute_and_collect())


TYPES: dict[str, tuple[str, str, pa.DataType, Any]] = {
    "smallint": ("smallint", "7", pa.int16(), 7),
    "integer": ("int", "-7", pa.int32(), -7),
    "bigint": ("bigint", "7", pa.int64(), 7),
    "oid": ("oid", "4000000000", pa.int64(), 4_000_000_000),
    "boolean": ("boolean", "true", pa.bool_(), True),
    "real": ("real", "1.5", pa.float32(), 1.5),
    "double": ("double precision", "0.1", pa.float64(), 0.1),
    "numeric(p,s)": ("numeric(10,2)", "-1.5", pa.decimal128(10, 2), Decimal("-1.50")),
    "numeric(p)": ("numeric(5)", "12", pa.decimal128(5, 0), Decimal("12")),
    "numeric of more digits than Arrow has": ("numeric(50,2)", "1.5", pa.string(), "1.50"),
    "numeric": ("numeric", "3.14159", pa.string(), "3.14159"),
    "text": ("text", "'é'", pa.string(), "é"),
    "varchar": ("varchar(5)", "'ab'", pa.string(), "ab"),
    "char": ("char(3)", "'ab'", pa.string(), "ab "),
    "bytea": ("bytea", r"'\x00ff'", pa.binary(), b"\x00\xff"),
    "date": ("date", "'2024-02-29'", pa.date32(), datetime.date(2024, 2, 29)),
    "time": ("time", "'03:04:05.5'", pa.time64("us"), datetime.time(3, 4, 5, 500_000)),
    "timestamp": (
        "timestamp",
        "'2024-02-29 03:04:05'",
        pa.timestamp("us"),
        datetime.datetime(2024, 2, 29, 3, 4, 5),
    ),
    "timestamptz": (
        "timestamptz",
        "'2024-02-29 03:04:05+01'",
        pa.timestamp("us", "UTC"),
        datetime.datetime(2024, 2, 29, 2, 4, 5, tzinfo=datetime.UTC),
    ),
    "interval": ("interval", "'1 day 2 s'", pa.string(), "1 day 00:00:02"),
    "uuid": (
        "uuid",
        "'00000000-0000-0000-0000-00000000000a'",
        pa.string(),
        "00000000-0000-0000-0000-00000000000a",
    ),
    "json": ("json", """'{"a": 1}'""", pa.string(), '{"a": 1}'),
    "jsonb": ("jsonb", """'{"a":1}'""", pa.string(), '{"a": 1}'),
    "enum": ("mood", "'glad'", pa.string(), "glad"),
    "domain": ("positive", "3", pa.int32(), 3),
    "xml": ("xml", """'<?xml version="1.0"?><a/>'""", pa.string(), "<a/>"),
    "timetz": ("timetz", "'03:04:05+01'", pa.string(), "03:04:05+01"),
    "range": ("int4range", "'[1,5)'", pa.string(), "[1,5)"),
    "bits": ("bit(3)", "'101'", pa.string(), "101"),
    "array of xml": ("xml[]", """'{"<?xml version=\\"1.0\\"?><a/>",null}'""", pa.list_(pa.string()), ["<a/>", None]),
    "array of ranges": ("int4range[]", """'{"[1,5)"}'""", pa.list_(pa.string()), ["[1,5)"]),
    "inet": ("inet", "'10.0.0.1'", pa.string(), "10.0.0.1/32"),
    "money": ("money", "1.5", pa.string(), "$1.50"),
    "array": ("int[]", "'{1,null,2}'", pa.list_(pa.int32()), [1, None, 2]),
    "array that begins elsewhere": ("int[]", "'[5:6]={1,2}'", pa.list_(pa.int32()), [1, 2]),
    "empty array": ("int[]", "'{}'", pa.list_(pa.int32()), []),
    "earliest time": ("timestamp", "'0001-01-01'", pa.timestamp("us"), datetime.datetime(1, 1, 1)),
    "array of text": ("text[]", "'{a,null}'", pa.list_(pa.string()), ["a", None]),
    "array of numeric(p,s)": (
        "numeric(5,1)[]",
        "'{1.5,null}'",
        pa.list_(pa.decimal128(5, 1)),
        [Decimal("1.5"), None],
    ),
    "array of uuid": (
        "uuid[]",
        "'{00000000-0000-0000-0000-00000000000a}'",
        pa.list_(pa.string()),
        ["00000000-0000-0000-0000-00000000000a"],
    ),
    "vector": ("int2vector", "'1 2'", pa.string(), "1 2"),
    "array of enum": ("mood[]", "'{glad}'", pa.list_(pa.string()), ["glad"]),
}


def test_types_of_columns(postgres: PostgresServer) -> None:
    postgres.execute("CREATE TYPE mood AS ENUM ('glad', 'sad')")
    postgres.execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    columns = ", ".join(f'"{name}" {sql}' for name, (sql, *_) in TYPES.items())
    table = postgres.create_table(f"({columns})")
    postgres.execute(f"INSERT INTO {table} VALUES ({', '.join(value for _, value, *_ in TYPES.values())})")
    postgres.execute(f"INSERT INTO {table} SELECT")
    source = PostgresSource(postgres.uri, table)
    assert source.output_type is not None
    assert {field.name: field.type for field in source.output_type.schema} == {
        name: arrow_type for name, (_, _, arrow_type, _) in TYPES.items()
    }
    found = stream(source).to_arrow().to_pylist()
    for name, (_, _, _, value) in TYPES.items():
        assert [row[name] for row in found] == [value, None], name


def filled(postgres: PostgresServer, rows: int = 30_000) -> str:
    table = postgres.create_table("(n int, word text)")
    postgres.execute(f"INSERT INTO {table} SELECT i, repeat('x', 100) FROM generate_series(0, {rows - 1}) AS i")
    return table


def test_a_table_is_split_by_its_pages_and_read_once(postgres: PostgresServer) -> None:
    table = filled(postgres)
    source = PostgresSource(postgres.uri, table)
    assert len(source._splits(parallelism=2)) == 5
    assert numbers(source) == list(range(30_000))


def test_partitions_and_tables_that_inherit_are_read_once_each(postgres: PostgresServer) -> None:
    parent = postgres.create_table("(n int, word text) PARTITION BY RANGE (n)")
    postgres.execute(f"CREATE TABLE {parent}_low PARTITION OF {parent} FOR VALUES FROM (0) TO (10)")
    postgres.execute(f"CREATE TABLE {parent}_high (word text, n int)")  # columns in another order
    postgres.execute(f"ALTER TABLE {parent} ATTACH PARTITION {parent}_high FOR VALUES FROM (10) TO (20)")
    postgres.execute(f"INSERT INTO {parent} SELECT i FROM generate_series(0, 19) AS i")
    assert numbers(PostgresSource(postgres.uri, parent)) == list(range(20))
    base = filled(postgres, 5)
    postgres.execute(f"CREATE TABLE {base}_more (extra int) INHERITS ({base})")
    postgres.execute(f"INSERT INTO {base}_more SELECT i FROM generate_series(5, 9) AS i")
    assert numbers(PostgresSource(postgres.uri, base)) == list(range(10))
    postgres.execute(f"CREATE MATERIALIZED VIEW {base}_view AS SELECT n + 1 AS n FROM {base}")
    assert numbers(PostgresSource(postgres.uri, f"{base}_view")) == list(range(1, 11))


def test_only_columns_and_rows_that_are_asked_for_are_read(postgres: PostgresServer) -> None:
    table = filled(postgres)
    postgres.execute(f"CREATE INDEX ON {table} (n)")
    source = PostgresSource(postgres.uri, table, columns=["n"], where="n % 1000 = 7 -- a comment")
    assert source.output_type.schema.names == ["n"]
    assert numbers(source) == list(range(7, 30_000, 1_000))


def test_an_index_does_not_keep_rows_from_coming_in_the_order_of_their_pages(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n int, word text)")
    postgres.execute(
        f"INSERT INTO {table} SELECT i * 7919 % 30011, repeat('x', 100) FROM generate_series(1, 30010) AS i"
    )
    postgres.execute(f"CREATE INDEX ON {table} (n)")
    postgres.execute(f"ANALYZE {table}")
    likes_indexes = "-c enable_bitmapscan=off -c enable_seqscan=off -c random_page_cost=0.01"
    uri = f"{postgres.uri}?options={quote(likes_indexes)}"
    assert numbers(PostgresSource(uri, table, where="n < 300")) == list(range(1, 300))


def test_a_query_is_split_by_a_key_also_with_equal_ones_and_nulls(postgres: PostgresServer) -> None:
    table = filled(postgres, 9_000)
    query = f'SELECT nullif(n / 100 - 40, 3) AS k, n, 5 % 3 AS "%s" FROM {table};'
    source = PostgresSource(postgres.uri, query=query, key="k")
    assert numbers(source, **{"flinkray.batch.target-rows": 64}) == list(range(9_000))
    assert sum(split.by == "null" for split in source._splits(2)) == 1
    nothing = PostgresSource(postgres.uri, query=f"SELECT n FROM {table} WHERE false", key="n")
    assert numbers(nothing) == []


@pytest.mark.parametrize("by", ["page", "key"])
def test_a_reader_whose_connection_is_lost_goes_on_with_the_next_row(
    postgres: PostgresServer, by: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0.01,) * 20)
    table, uri = filled(postgres, 100_000), postgres.uri
    source = PostgresSource(postgres.uri, table, key="n" if by == "key" else None)

    def ending(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 49_999 in batch["n"].to_pylist():
            end_sessions(uri, "flinkray operator")
        return batch

    rows = stream(source, 1).map_batches(ending)
    assert sorted(row.n for row in rows.execute_and_collect()) == list(range(100_000))
    assert "trying again in 0.01 s" in caplog.text


def stopped(client: JobClient, directory: Path) -> str:
    """Stops a job with a savepoint; one that a task declines since it has just read all it has is taken again."""

    def stop() -> str | None:
        with contextlib.suppress(CheckpointError):
            return client.stop_with_savepoint(str(directory), timeout=60)
        return None

    savepoint = eventually(stop)
    client.result(60)
    assert savepoint is not None
    return savepoint


@pytest.mark.parametrize("by", ["page", "key"])
def test_nothing_is_read_twice_or_lost_over_savepoints_at_another_parallelism(
    postgres: PostgresServer, tmp_path: Path, by: str
) -> None:
    table, seen = filled(postgres, 20_000), tmp_path / "seen"
    seen.touch()

    def noted(batch: pa.RecordBatch) -> pa.RecordBatch:
        with seen.open("a") as file:
            file.writelines(f"{n}\n" for n in batch["n"].to_pylist())
        return batch

    endless = DataGenSource({"n": RandomField(0, 9)}, rows_per_second=10)  # so that the job never ends by itself
    savepoint: str | None = None
    for number, (parallelism, enough) in enumerate(((2, 3_000), (3, 6_000), (1, 20_000))):
        options: dict[str, Any] = {} if savepoint is None else {"execution.state-recovery.path": savepoint}
        env = environment(parallelism, **options, **{"flinkray.batch.target-rows": 50})
        source = PostgresSource(postgres.uri, table, key="n" if by == "key" else None)
        rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").uid("rows")
        rows.map_batches(noted).uid("noted").sink_to(DiscardSink()).uid("discarded")
        others = env.from_source(endless, WatermarkStrategy.no_watermarks(), "endless").uid("endless")
        others.sink_to(DiscardSink()).uid("others")
        client = env.execute_async("read")
        eventually(client.status, lambda status: status is JobStatus.RUNNING)
        eventually(lambda: seen.read_text().count("\n") >= enough, deadline_s=60)  # noqa: B023
        if parallelism == 1:
            client.cancel()
        else:
            savepoint = stopped(client, tmp_path / str(number))
    assert sorted(map(int, seen.read_text().split())) == list(range(20_000))


def test_a_job_that_waits_for_a_locked_table_can_be_cancelled_at_once(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(postgres, 10)
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE 'flinkray op%'"
    source = PostgresSource(postgres.uri, table)
    source.prepare()
    env = environment(1)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").print()
    splits = source._splits(1)
    monkeypatch.setattr(PostgresSource, "_splits", lambda *_: splits)
    with postgres.locked(table):
        client = env.execute_async("read")
        eventually(lambda: postgres.execute(waiting))
        client.cancel()
        # A task that does not react is given 30 s.
        eventually(client.status, lambda status: status is JobStatus.CANCELED, deadline_s=20)
        eventually(lambda: not postgres.execute(waiting))  # while the table is locked still


def wrong(postgres: PostgresServer, table: str) -> dict[str, tuple[dict[str, Any], str]]:
    refused = postgres.uri_of("tester", "s3cret")
    return {
        "no such table": ({"table": "absent"}, "cannot read table 'absent' of 127.0.0.1.*no such table for this user"),
        "no such column": ({"table": table, "columns": ["nn"]}, "no column 'nn'; did you mean 'n'"),
        "a condition that is none": ({"table": table, "where": "m > 1"}, 'column "m" does not exist.*no such column'),
        "no such key": ({"table": table, "key": "m"}, "no column 'm'"),
        "a key that is no number": (
            {"table": table, "key": "word"},
            "is string, not of integers; leave key=",
        ),
        "a view without a key": ({"table": f"{table}_view"}, "has no pages of its own.*key="),
        "wrong password": (
            {"table": table, "uri": refused},
            "authentication failed.*refuses user or password",
        ),
        "no such database": (
            {"table": table, "uri": postgres.uri_of("tester", "pa55%20word", "absent")},
            'database "absent" does not exist.*no such database',
        ),
        "nobody there": (
            {"table": table, "uri": "postgresql://tester:s3cret@127.0.0.1:1/x"},
            "cannot connect to 127.0.0.1:1/x: .*does it run, and is it reachable",
        ),
        "no such host": ({"table": table, "uri": "postgresql://a:s3cret@absent.invalid/b"}, "name of the host is not"),
        "no address": ({"table": table, "uri": "postgresql://a:s3cret%@b/c"}, "uri= is no address of PostgreSQL"),
    }


def test_what_is_wrong_is_said_with_the_way_out_and_without_secrets(postgres: PostgresServer) -> None:
    table = filled(postgres, 1)
    postgres.execute(f"CREATE VIEW {table}_view AS SELECT * FROM {table}")
    for given, message in wrong(postgres, table).values():
        source = PostgresSource(**{"uri": postgres.uri, **given})
        with pytest.raises((PostgresError, InvalidProgramError), match=f"(?s){message}") as caught:
            source.prepare()
        shown = f"{caught.value}{caught.value!r}{source!r}"
        assert not any(secret in shown for secret in ("s3cret", PASSWORD, "pa55"))


@pytest.mark.parametrize(
    ("sql", "value", "message"),
    [
        ("numeric(5,1)", "NaN", r"is no decimal128.*NaN.*SELECT v::text"),
        ("timestamptz", "infinity", r"is infinity, or so late.*isfinite\(v\)"),
        ("timestamp", "-infinity", "is infinity, or so late"),
        ("timestamp", "294276-01-01", "is infinity, or so late"),
        ("date", "infinity", "is infinity, or so late"),
        ("date[]", "{2024-02-29,infinity}", "is infinity, or so late"),
        ("int[]", "{{1,2},{3,4}}", "several dimensions are no lists"),
        ("uuid[]", "{{00000000-0000-0000-0000-00000000000a}}", "several dimensions are no lists"),
    ],
)
def test_a_value_that_arrow_cannot_hold_is_an_error_that_names_it(
    postgres: PostgresServer, sql: str, value: str, message: str
) -> None:
    table = postgres.create_table(f"(v {sql})")
    postgres.execute(f"INSERT INTO {table} VALUES (%s)", value)
    source = PostgresSource(postgres.uri, table)
    with pytest.raises(JobExecutionError, match=rf"'Source: rows' \(subtask . of 1\).*{message}"):
        list(stream(source, 1).execute_and_collect())


def test_a_table_that_goes_while_it_is_read_is_an_error_that_names_it(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(postgres, 10)
    source = PostgresSource(postgres.uri, table)
    source.prepare()
    splits = source._splits(1)
    monkeypatch.setattr(PostgresSource, "_splits", lambda *_: splits)
    postgres.execute(f"DROP TABLE {table}")
    with pytest.raises(JobExecutionError, match=rf"cannot read ONLY {table}@0 of 127\.0.*no such table"):
        list(stream(source).execute_and_collect())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"uri": ""}, "takes 'postgresql://"),
        ({"query": "SELECT 1"}, "either table= or query="),
        ({"table": None, "query": "SELECT 1"}, "needs key="),
        ({"table": None, "query": "SELECT 1", "key": "a", "where": "b"}, "itself says which"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        PostgresSource(**{"uri": "postgresql://x", "table": "t", **given})
