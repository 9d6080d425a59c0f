"""PostgresSink against a real server."""

from __future__ import annotations

import contextlib
import datetime
import random
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    DeliveryGuarantee,
    InvalidProgramError,
    JobExecutionError,
    JobStatus,
    PostgresSink,
    RecordError,
    RestartStrategies,
    Row,
    RowKind,
    WatermarkStrategy,
)
from flinkray.batches.batch import Batch
from flinkray.connectors.committer import CommitOutcome, CommitRequest, Committer
from flinkray.connectors.postgres import connections
from flinkray.connectors.postgres.connections import PostgresError
from flinkray.connectors.postgres.writing.commits import Mark, PostgresRows, PostgresTransaction
from flinkray.connectors.sink import SinkWriter
from flinkray.testing import Crash, ScriptedSource
from tests.servers.test_kafka_source import environment, identity
from tests.support.api import FakeSubtaskContext
from tests.support.bad_cases import committed, written
from tests.support.changelogs import random_changes
from tests.support.servers.postgres import PASSWORD, PostgresServer, end_sessions
from tests.support.waiting import eventually

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

WAYS: dict[str, dict[str, Any]] = {
    "at least once": {"delivery_guarantee": DeliveryGuarantee.AT_LEAST_ONCE},
    "by the table of commits": {},
    "by prepared transactions": {"prepared": True},
}


def write(sink: PostgresSink, rows: Any, parallelism: int = 1) -> None:
    env = environment(parallelism)
    (env.from_arrow(rows) if isinstance(rows, pa.Table | pa.RecordBatch) else env.from_collection(rows)).sink_to(sink)
    env.execute("write")


def batch(numbers: Sequence[int]) -> Batch:
    return Batch(pa.record_batch({"n": pa.array(numbers, pa.int64())}))


def prepared_by(sink: PostgresSink, numbers: Sequence[int]) -> tuple[SinkWriter, list[Any]]:
    """A writer, and what it has prepared for checkpoint 1."""
    writer = sink.create_writer(FakeSubtaskContext())
    writer.write(batch(numbers))
    return writer, writer.prepare_commit(1)


def prepared(writer: SinkWriter, rows: Batch, checkpoint_id: int) -> list[Any]:
    """What a writer has for a checkpoint that has these rows."""
    writer.write(rows)
    return writer.prepare_commit(checkpoint_id)


def stored_rows(data: pa.RecordBatch) -> PostgresRows:
    """As a checkpoint has them, whether or not a writer of today would take them."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, data.schema) as out:
        out.write_batch(data)
    return PostgresRows(Mark(uuid.uuid4().hex, 1), "here", (stream.getvalue().to_pybytes(),))


def outcomes(committer: Committer, committables: Sequence[Any], checkpoint_id: int) -> list[CommitOutcome]:
    requests = [CommitRequest(each, checkpoint_id) for each in committables]
    committer.commit(requests)
    return [request.outcome for request in requests]


def content(postgres: PostgresServer, table: str) -> list[Any]:
    return sorted(postgres.execute(f"SELECT * FROM {table}"))


DAY = datetime.datetime(2024, 2, 29, 1, 2, 3)
VALUES: dict[str, tuple[pa.Array, Any]] = {
    "smallint": (pa.array([7], pa.int64()), 7),
    "int": (pa.array([7], pa.uint8()), 7),
    "bigint": (pa.array([7], pa.int8()), 7),
    "real": (pa.array([1.5]), 1.5),
    "double precision": (pa.array([3], pa.int32()), 3.0),
    "boolean": (pa.array([True]), True),
    "text": (pa.array(["é"]).dictionary_encode(), "é"),
    "varchar(3)": (pa.array(["abc"], pa.large_string()), "abc"),
    "bytea": (pa.array([b"a"], pa.large_binary()), b"a"),
    "numeric(10,2)": (pa.array([Decimal("-1.50")]), Decimal("-1.50")),
    "numeric(11,2)": (pa.array([12], pa.int64()), Decimal("12.00")),
    "numeric(12,2)": (pa.array([1.25]), Decimal("1.25")),
    "numeric": (pa.array(["3.14159"]), Decimal("3.14159")),
    "date": (pa.array([DAY.date()]), DAY.date()),
    "time": (pa.array([DAY.time()]), DAY.time()),
    "timestamp": (pa.array([DAY], pa.timestamp("ms")), DAY),
    "timestamp(3)": (pa.array([DAY], pa.timestamp("ms", "UTC")), DAY),
    "timestamptz": (pa.array([DAY], pa.timestamp("ms", "Asia/Tokyo")), DAY.replace(tzinfo=datetime.UTC)),
    "timestamptz(3)": (pa.array([DAY], pa.timestamp("ms")), DAY.replace(tzinfo=datetime.UTC)),
    "json": (pa.array(['{"a": 1}']), {"a": 1}),
    "jsonb": (pa.array(['{"a": 1}']), {"a": 1}),
    "uuid::text": (pa.array(["00000000-0000-0000-0000-00000000000a"]), "00000000-0000-0000-0000-00000000000a"),
    "feeling": (pa.array(["glad"]), "glad"),
    "interval": (pa.array(["2 days"]), datetime.timedelta(days=2)),
    "int[]": (pa.array([[1, None]], pa.list_(pa.int64())), [1, None]),
    "numeric(5,1)[]": (pa.array([[Decimal("1.5"), None]]), [Decimal("1.5"), None]),
}


def test_values_are_converted_to_the_types_of_columns(postgres: PostgresServer) -> None:
    postgres.execute("CREATE TYPE feeling AS ENUM ('glad', 'sad')")
    names = [f"c{number}" for number in range(len(VALUES))]
    types = [sql.removesuffix("::text") for sql in VALUES]
    columns = ", ".join(f"{name} {sql}" for name, sql in zip(names, types, strict=True))
    table = postgres.create_table(f"({columns}, other int DEFAULT 5)")
    arrays = [pa.concat_arrays([array, pa.nulls(1, array.type)]) for array, _ in VALUES.values()]
    write(PostgresSink(postgres.uri, table), pa.table(arrays, names=names))
    found = postgres.execute(f"SELECT {', '.join(names)}, other FROM {table} ORDER BY c0")
    for name, value, (sql, (_, expected)) in zip(names, found[0], VALUES.items(), strict=False):
        assert (str(value) if sql.endswith("::text") else value) == expected, (name, sql)
    assert found[1] == (*[None] * len(VALUES), 5)


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_added(postgres: PostgresServer, way: str) -> None:
    schema = f"s{random.randrange(10**9)}"
    postgres.execute(f'CREATE SCHEMA {schema}; CREATE TABLE {schema}."My ""Table""" (n bigint, "a b" text)')
    table = f'{schema}."My ""Table"""'
    write(PostgresSink(postgres.uri, table, **WAYS[way]), [{"n": n, "a b": str(n)} for n in range(100)], 2)
    assert content(postgres, table) == [(n, str(n)) for n in range(100)]


@pytest.mark.parametrize("way", WAYS)
def test_the_last_row_of_a_key_replaces_those_before_in_the_columns_that_it_has(
    postgres: PostgresServer, way: str
) -> None:
    table = postgres.create_table("(a int, b text, n int, kept int DEFAULT 1, PRIMARY KEY (b, a))")
    postgres.execute(f"INSERT INTO {table} VALUES (0, 'x', -1, 9)")
    rows = [{"a": n % 3, "b": "x", "n": n} for n in range(1_000)]
    write(PostgresSink(postgres.uri, table, key=["a", "b"], **WAYS[way]), rows)
    assert content(postgres, table) == [(0, "x", 999, 9), (1, "x", 997, 1), (2, "x", 998, 1)]
    keys = postgres.create_table("(n int PRIMARY KEY)")
    write(PostgresSink(postgres.uri, keys, key="n", **WAYS[way]), [{"n": n % 3} for n in range(9)])
    assert content(postgres, keys) == [(0,), (1,), (2,)]


@pytest.mark.parametrize("way", WAYS)
def test_rows_come_where_copy_writes_nothing_or_passes_by(postgres: PostgresServer, way: str) -> None:
    """Views, rules and policies."""
    table = postgres.create_table("(n int, word text)")
    postgres.execute(
        f"CREATE TABLE {table}_log (n int); CREATE RULE logged AS ON INSERT TO {table} DO ALSO "
        f"INSERT INTO {table}_log VALUES (NEW.n); CREATE VIEW {table}_view AS SELECT n FROM {table}"
    )
    write(PostgresSink(postgres.uri, table, **WAYS[way]), [{"n": 1, "word": "a"}])
    write(PostgresSink(postgres.uri, f"{table}_view", **WAYS[way]), [{"n": 2}])
    assert content(postgres, table) == [(1, "a"), (2, None)]
    assert content(postgres, f"{table}_log") == [(1,), (2,)]
    own = postgres.create_table("(n int)")
    user = f"u{own}"
    postgres.execute(
        f"CREATE ROLE {user} LOGIN PASSWORD 'secret'; ALTER TABLE {own} ENABLE ROW LEVEL SECURITY; "
        f"CREATE POLICY few ON {own} USING (n < 10); GRANT ALL ON {own} TO {user}; "
        f"CREATE SCHEMA of_{user} AUTHORIZATION {user}; GRANT CREATE ON SCHEMA public TO {user}"
    )
    uri = f"{postgres.uri_of(user, 'secret')}?options=-csearch_path%3Dof_{user},public"
    sink = PostgresSink(uri, own, commit_table=f"of_{user}.commits", **WAYS[way])
    write(sink, [{"n": 1}])
    assert content(postgres, own) == [(1,)]
    with pytest.raises(JobExecutionError, match="violates row-level security policy"):
        write(sink, [{"n": 20}])
    assert content(postgres, own) == [(1,)]


ADDED, _, UPDATED, DELETED = (kind.value for kind in RowKind)


def test_values_that_a_column_would_change_are_refused(postgres: PostgresServer) -> None:
    noon = datetime.datetime(2024, 2, 29, 12)
    cases: list[tuple[str, pa.Array, pa.Array, str]] = [
        ("int", pa.array([2.0]), pa.array([1.5]), "truncated"),
        ("int", pa.array([Decimal("2.0")]), pa.array([Decimal("1.5")]), "data loss"),
        ("real", pa.array([float("inf")]), pa.array([1e300]), "a number is too large for it"),
        ("date", pa.array([noon.replace(hour=0), None]), pa.array([noon]), "a time of day would be lost"),
        (
            "date",
            pa.array([noon.replace(hour=0, tzinfo=datetime.UTC)]),
            pa.array([noon], pa.timestamp("us", "UTC")),
            "day",
        ),
        ("varchar(2)", pa.array([12]), pa.array([123]), "'123' has more than 2 characters"),
        ("char(2)", pa.array([12]), pa.array([123]), "has more than 2 characters"),
        ("short", pa.array([12]), pa.array([123]), "'123' has more than 2 characters"),
        ("int[]", pa.array(["{{1,2},{3,4}}"]), pa.array([[[1, 2], [3, 4]]]), "no way from one to the other"),
        ("boolean", pa.array(["t"]), pa.array([1]), "no way from one to the other that keeps"),
        ("boolean", pa.array([True]), pa.array([2], pa.int32()), "no way"),
        ("boolean[]", pa.array([[True]]), pa.array([[2]], pa.list_(pa.int32())), "no way"),
        ("time", pa.array([noon.time()]), pa.array([noon]), "no way"),
        ("time[]", pa.array([[noon.time()]]), pa.array([[noon]]), "no way"),
        ("date[]", pa.array([[noon.replace(hour=0), None], None]), pa.array([None, [noon]]), "time of day"),
        ("real[]", pa.array([[float("inf")], None]), pa.array([[1.0, 1e300]]), "a number is too large for it"),
        ("varchar(2)", pa.array(["éü", "ab ", None]), pa.array(["abc"]), "'abc' has more than"),
        ("varchar(2)[]", pa.array([["ab"], None, ["ab "]]), pa.array([["ab", "abc"]]), "'abc' has more than"),
        ("varchar(2)[]", pa.array(["{ab,cd}"]), pa.array([[b"ab"]]), "no way"),
        ("varchar(24)", pa.array([-2.2250738585072014e-308]), pa.array([[1.5]]), "no way"),
        ("varchar(23)", pa.array([Decimal("1e-10")]), pa.array([1.5]), "no way"),
        ("varchar(19)", pa.array([noon]), pa.array([noon.replace(microsecond=100_000)]), r"00\.1' has more than"),
        ("char(5)", pa.array([True]), pa.array([Decimal("-12.50")]), "'-12.50' has more than"),
    ]
    postgres.execute("CREATE DOMAIN short AS varchar(2)")
    for sql, kept, changed, message in cases:
        sink = PostgresSink(postgres.uri, postgres.create_table(f"(v {sql})")).prepare()
        committed(sink, pa.record_batch({"v": kept}))
        with (
            contextlib.closing(sink.create_writer(FakeSubtaskContext())) as writer,
            pytest.raises((RecordError, InvalidProgramError), match=message),
        ):
            writer.write(Batch(pa.record_batch({"v": changed})))


def test_what_the_server_refuses_of_a_row_alone_is_refused_before_a_checkpoint_has_it(postgres: PostgresServer) -> None:
    texts, lists, tenths = pa.string(), pa.list_(pa.string()), pa.list_(pa.decimal128(2, 1))
    cases: list[tuple[str, pa.Array, pa.Array, str]] = [
        ("v int NOT NULL", pa.array([1]), pa.array([None], pa.int64()), "null as 'v'.*may not be null"),
        ("v int CHECK (v > 0)", pa.array([1]), pa.array([-1]), "check constraint.*contains .*-1.*row is v = -1"),
        ("v above_zero", pa.array([1]), pa.array([-1]), "above_zero_check.*row is v = -1"),
        ("v int, w int GENERATED ALWAYS AS (1 / v) STORED", pa.array([1]), pa.array([0]), "division by zero.*v = 0"),
        ("v numeric(3,1)", pa.array([Decimal("99.94")]), pa.array([Decimal("99.95")]), "99.95 has more than 2 digits"),
        ("v numeric(3,1)", pa.array([99]), pa.array([100]), "100 has more than 2 digits"),
        ("v numeric(3,1)", pa.array([99.9]), pa.array([100.0]), "numeric field overflow.*v = 100.0"),
        ("v numeric(1,1)[]", pa.array([[Decimal("0.9")]], tenths), pa.array([[Decimal("1.0")]], tenths), "overflow"),
        ("v text", pa.array(["a", None]), pa.array(["a\0b"]), "column 'v'.*NUL"),
        ("v text[]", pa.array([["a", None]]), pa.array([["a", "\0"]]), "column 'v'.*NUL"),
        ("v name", pa.array(["a" * 63]), pa.array(["a" * 64]), "identifier too long"),
        ("v jsonb", pa.array(["{}"]), pa.array(["{"]), "invalid input syntax for type json.*v = '{'"),
        ("v weather", pa.array(["glad"]), pa.array(["bad"]), 'invalid input value for enum weather: "bad"'),
        ("v int", pa.array(["7"]), pa.array(["x"]), "invalid input syntax for type integer.*v = 'x'"),
        ("v date", pa.array([0], pa.date32()), pa.array([-(2**31)], pa.date32()), "column 'v'.*a date is outside"),
        (
            "v timestamp",
            pa.array([0, None], pa.timestamp("us")),
            pa.array([-(2**63) + 1], pa.timestamp("us")),
            "column 'v'.*a date is outside",
        ),
        ("v int) PARTITION BY RANGE (v", pa.array([1]), pa.array([9]), "no partition has such rows.*v = 9"),
        ("v int[]", pa.array([None, "{1}"], texts), pa.array(["{x}"]), "invalid input syntax"),
        ("v int[]", pa.array([["1"], None], lists), pa.array([["x"]]), "invalid input syntax"),
    ]
    postgres.execute(
        "CREATE TYPE weather AS ENUM ('glad'); "
        "CREATE DOMAIN above_zero AS int CONSTRAINT above_zero_check CHECK (VALUE > 0)"
    )
    for columns, taken, refused, message in cases:
        table = postgres.create_table(f"(n serial, {columns})")
        if "PARTITION" in columns:
            postgres.execute(f"CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES FROM (0) TO (5)")
        sink = PostgresSink(postgres.uri, table).prepare()
        committed(sink, pa.record_batch({"v": taken}))
        with (
            contextlib.closing(sink.create_writer(FakeSubtaskContext())) as writer,
            pytest.raises(RecordError, match=f"(?s){message}"),
        ):
            prepared(writer, Batch(pa.record_batch({"v": pa.concat_arrays([taken, refused, taken])})), 1)
        assert postgres.execute(f"SELECT max(n) FROM {table}") == [(len(taken),)], columns
        assert postgres.execute(f"SELECT nextval('{table}_n_seq')") == [(len(taken) + 1,)], columns


def test_rows_that_wait_for_a_prepared_transaction_are_tried_out_and_deletions_by_their_keys_alone(
    postgres: PostgresServer,
) -> None:
    table = postgres.create_table("(id int PRIMARY KEY, n int NOT NULL CHECK (n > 0))")
    for key, number, kind, message in (
        ("2", -1, UPDATED, "check constraint.*id = '2', n = -1"),
        ("x", 1, DELETED, "invalid input syntax for type integer"),
        ("x", 1, ADDED, "invalid input syntax for type integer"),
        ("2", None, DELETED, ""),
        ("2", None, ADDED, "null as 'n'"),
    ):
        sink = PostgresSink(postgres.uri, table, key="id", prepared=True).prepare()
        with contextlib.closing(sink.create_writer(FakeSubtaskContext())) as writer:
            first = prepared(writer, Batch(pa.record_batch({"id": ["1"], "n": [1]}), kinds=pa.array([0], pa.int8())), 1)
            rows = pa.record_batch({"id": [key], "n": pa.array([number], pa.int64())})
            with pytest.raises(RecordError, match=f"(?s){message}") if message else contextlib.nullcontext():
                prepared(writer, Batch(rows, kinds=pa.array([kind], pa.int8())), 2)
            committer = sink.create_committer()
            assert committer is not None
            committer.abort(first)


def test_a_row_that_a_trigger_makes_fit_is_refused_by_nobody(postgres: PostgresServer) -> None:
    table = postgres.create_table("(id int NOT NULL, email text CHECK (email = lower(email)))")
    postgres.execute(
        f"CREATE FUNCTION {table}_fit() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.id := coalesce(NEW.id, 7); NEW.email := lower(NEW.email); RETURN NEW; END $$"
    )
    postgres.execute(f"CREATE TRIGGER fit BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_fit()")
    sink = PostgresSink(postgres.uri, table).prepare()
    with contextlib.closing(sink.create_writer(FakeSubtaskContext())) as writer:
        rows = pa.record_batch({"id": pa.array([None], pa.int32()), "email": ["Ann@x"]})
        assert len(prepared(writer, Batch(rows), 1)) == 1


def test_a_table_that_has_changed_since_is_looked_at_again_before_a_row_is_refused(postgres: PostgresServer) -> None:
    table = postgres.create_table("(v int) PARTITION BY LIST (v)")
    postgres.execute(f"CREATE TABLE {table}_1 PARTITION OF {table} FOR VALUES IN (1)")
    sink = PostgresSink(postgres.uri, table).prepare()
    with contextlib.closing(sink.create_writer(FakeSubtaskContext())) as writer:
        prepared(writer, Batch(pa.record_batch({"v": [1]})), 1)
        postgres.execute(f"CREATE TABLE {table}_2 PARTITION OF {table} FOR VALUES IN (2)")
        assert len(prepared(writer, Batch(pa.record_batch({"v": [2]})), 2)) == 1


def test_who_may_only_add_rows_is_told_that_they_are_not_tried_out(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    table = postgres.create_table("(v int CHECK (v > 0))")
    postgres.execute(f"CREATE ROLE w_{table} LOGIN PASSWORD 'w'; GRANT INSERT ON {table} TO w_{table}")
    sink = PostgresSink(postgres.uri_of(f"w_{table}", "w"), table)
    with contextlib.closing(sink.create_writer(FakeSubtaskContext())) as writer:
        for checkpoint_id in (1, 2):
            assert len(prepared(writer, Batch(pa.record_batch({"v": [1]})), checkpoint_id)) == 1
    assert caplog.text.count("are not tried out") == 1


def test_a_row_whose_foreign_key_another_sink_is_about_to_commit_waits_for_it(postgres: PostgresServer) -> None:
    parents = postgres.create_table("(n bigint PRIMARY KEY)")
    table = postgres.create_table(f"(n bigint REFERENCES {parents})")
    sink = PostgresSink(postgres.uri, table).prepare()
    writer, committables = prepared_by(sink, [1])
    committer = sink.create_committer()
    assert committer is not None
    with contextlib.closing(writer), contextlib.closing(committer):
        assert outcomes(committer, committables, 1) == [CommitOutcome.RETRY_LATER]
        postgres.execute(f"INSERT INTO {parents} VALUES (1)")
        assert outcomes(committer, committables, 1) == [CommitOutcome.COMMITTED]


def test_rows_that_a_former_version_kept_are_committed_as_the_server_makes_them_fit(postgres: PostgresServer) -> None:
    noon = datetime.datetime(2024, 2, 29, 12)
    cases: list[tuple[str, pa.Array, Any]] = [
        ("int", pa.array([1.5]), 2),
        ("int", pa.array([Decimal("1.5")]), 2),
        ("date", pa.array([noon]), noon.date()),
        ("time", pa.array([noon]), noon.time()),
        ("boolean", pa.array([2], pa.int32()), True),
        ("varchar(2)", pa.array([123]), "12"),
        ("int[]", pa.array([[1.5]]), [2]),
    ]
    for sql, stored, expected in cases:
        for key in [None] if "[]" in sql else [None, "v"]:
            table = postgres.create_table(f"(v {sql} PRIMARY KEY)")
            sink = PostgresSink(postgres.uri, table, key=key).prepare()
            with contextlib.closing(sink.create_committer()) as committer:  # type: ignore[type-var]
                rows = stored_rows(pa.record_batch({"v": stored}))
                assert outcomes(committer, [rows], 1) == [CommitOutcome.COMMITTED], (sql, key)
            assert postgres.execute(f"SELECT v FROM {table}") == [(expected,)], (sql, key)


def put(sink: PostgresSink, keys: pa.Array, numbers: list[int], kinds: list[int] | None) -> None:
    rows = pa.record_batch({"k": keys, "n": pa.array(numbers, pa.int32())})
    done = written if sink.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE else committed
    done(sink, Batch(rows, kinds=None if kinds is None else pa.array(kinds, pa.int8())))


@pytest.mark.parametrize("way", WAYS)
def test_keys_that_only_the_server_finds_equal_are_one(postgres: PostgresServer, way: str) -> None:
    postgres.execute(
        "CREATE COLLATION IF NOT EXISTS anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    cases: dict[str, pa.Array] = {
        "char(3)": pa.array(["a", "a ", "b"]),
        "varchar(3)": pa.array(["abc", "abc ", "b"]),
        "numeric": pa.array(["1.0", "1.00", "2"]),
        "numeric(5,1)": pa.array([Decimal("1.01"), Decimal("1.02"), Decimal("2.00")]),
        "timestamp(0)": pa.array([1, 2, 5_000_000], pa.timestamp("us")),
        "float8": pa.array([0.0, -0.0, 1.0]),
        "text COLLATE anycase": pa.array(["a", "A", "b"]),
    }
    for sql, keys in cases.items():
        for kinds, there, expected in (
            (None, [], [2, 3]),
            ([0, 3, 0], [9], [3]),
            ([3, 0, 3], [8, 9], [2]),
        ):
            table = postgres.create_table(f"(k {sql} PRIMARY KEY, n int)")
            sink = PostgresSink(postgres.uri, table, key="k", **WAYS[way]).prepare()
            for row in there:
                put(sink, keys.slice(row - 7, 1), [row], None)
            put(sink, keys, [1, 2, 3], kinds)
            assert sorted(n for _, n in postgres.execute(f"SELECT * FROM {table}")) == expected, (sql, kinds)


def changes(rows: Sequence[tuple[int, int | None, int | None]]) -> Batch:
    """Rows of a kind, an id and a number."""
    kinds, ids, numbers = zip(*rows, strict=True)
    columns = {"id": pa.array(ids, pa.int64()), "n": pa.array(numbers, pa.int64())}
    return Batch(pa.record_batch(columns), kinds=pa.array(kinds, pa.int8()))


@pytest.mark.parametrize("way", WAYS)
def test_a_changelog_leads_to_its_table(postgres: PostgresServer, way: str) -> None:
    table = postgres.create_table("(id bigint PRIMARY KEY, n int NOT NULL UNIQUE, kept int DEFAULT 1)")
    postgres.execute(f"INSERT INTO {table} VALUES (1, 10, 9), (2, 20, 9), (3, 30, 9)")
    sink = PostgresSink(postgres.uri, table, key="id", **WAYS[way]).prepare()
    writer = sink.create_writer(FakeSubtaskContext())
    rows = [
        (DELETED, 1, None),  # only the key is known
        (ADDED, 4, 10),  # what had this number is gone
        (UPDATED, 2, 21),
        (UPDATED, 2, 22),
        (ADDED, 5, 50),
        (DELETED, 5, 50),
        (DELETED, 6, 60),  # was never there
        (DELETED, 3, 30),
        (ADDED, 3, 31),
    ]
    for part in (rows[:3], rows[3:]):
        writer.write(changes(part))
    committer = sink.create_committer()
    if committer is not None:
        assert outcomes(committer, writer.prepare_commit(1), 1) == [CommitOutcome.COMMITTED]
        committer.close()
    writer.close()
    # A row that was deleted and added again has its other columns anew only where the changes came one by one.
    found = postgres.execute(f"SELECT id, n, id = 2 AND kept = 9 FROM {table} ORDER BY id")
    assert found == [(2, 22, True), (3, 31, False), (4, 10, False)]
    assert not postgres.execute(
        "SELECT relname FROM pg_class WHERE relname LIKE 'flinkray_rows%' AND relpersistence = 'p'"
    )


@pytest.mark.parametrize("way", WAYS)
def test_changes_of_a_job_that_fails_and_starts_again_lead_to_their_table(
    postgres: PostgresServer, tmp_path: Path, way: str
) -> None:
    table = postgres.create_table("(k text PRIMARY KEY, n bigint)")
    rows, expected = random_changes(7, 400)
    steps: list[Any] = [Row(k=row.k, n=row.n, op=str(row.get_row_kind())) for row in rows]
    for place in (350, 250, 100):
        steps.insert(place, Crash)
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(20)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(9, 10))
    stream = env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "steps").as_changelog("op")
    keyed = stream.key_by("k")
    keyed.sink_to(PostgresSink(postgres.uri, table, key="k", **WAYS[way])).set_parallelism(2)
    env.execute("write")
    assert dict(content(postgres, table)) == expected
    assert postgres.execute("SELECT gid FROM pg_prepared_xacts") == []


def test_rows_that_wait_for_a_prepared_transaction_are_written_once_it_is_committed(postgres: PostgresServer) -> None:
    table = postgres.create_table("(id bigint PRIMARY KEY, n text)")
    sink = PostgresSink(postgres.uri, table, key="id", prepared=True).prepare()
    writer, committer = sink.create_writer(FakeSubtaskContext()), sink.create_committer()
    assert committer is not None

    def prepared(checkpoint_id: int, number: int) -> list[Any]:
        writer.write(changes([(UPDATED, 1, number)]))
        return writer.prepare_commit(checkpoint_id)

    first, second = prepared(1, 1), prepared(2, 2)  # the second would wait for the lock of the first
    assert [type(each) for each in first + second] == [PostgresTransaction, PostgresRows]
    assert outcomes(committer, first, 1) == outcomes(committer, second, 2) == [CommitOutcome.COMMITTED]
    writer.write(changes([(UPDATED, 1, 3)]))
    writer.notify_checkpoint_complete(1)  # the second is not committed for all that the writer knows
    writer.write(changes([(UPDATED, 1, 4)]))
    writer.notify_checkpoint_complete(2)
    third = prepared(3, 5)
    assert [type(each) for each in third] == [PostgresTransaction]
    assert outcomes(committer, third, 3) == [CommitOutcome.COMMITTED]
    assert content(postgres, table) == [(1, "5")]
    writer.close()
    committer.close()


def test_a_change_without_a_key_is_refused(postgres: PostgresServer) -> None:
    table = postgres.create_table("(id bigint PRIMARY KEY, n int)")
    sink = PostgresSink(postgres.uri, table, key="id", delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE).prepare()
    writer = sink.create_writer(FakeSubtaskContext())
    with pytest.raises(RecordError, match=r"a row has null as 'id', which is a key of table .*replaced or deleted"):
        writer.write(changes([(DELETED, None, 1)]))
    writer.close()


def test_an_update_that_never_says_what_the_row_is_now_takes_it_away(postgres: PostgresServer) -> None:
    table = postgres.create_table("(k text PRIMARY KEY, n bigint)")
    env = environment(1)
    rows = [Row(k="a", n=1), Row.of_kind(RowKind.UPDATE_BEFORE, k="a", n=1)]
    env.from_collection(rows).sink_to(PostgresSink(postgres.uri, table, key="k"))
    env.execute("write")
    assert content(postgres, table) == []


def test_a_changelog_needs_a_sink_with_a_key(postgres: PostgresServer) -> None:
    table = postgres.create_table("(k text, n bigint)")
    env = environment(1)
    env.from_collection(random_changes(7, 30)[0]).sink_to(PostgresSink(postgres.uri, table))
    with pytest.raises(InvalidProgramError, match="its input is a changelog"):
        env.execute("write")


@pytest.mark.parametrize("way", WAYS)
def test_what_a_job_that_fails_and_starts_again_writes(postgres: PostgresServer, tmp_path: Path, way: str) -> None:
    table = postgres.create_table("(value bigint)")
    env = environment(1, **{"execution.checkpointing.dir": str(tmp_path)})
    env.enable_checkpointing(20)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(9, 10))
    steps: list[Any] = list(range(400))
    for place in (350, 250, 100):
        steps.insert(place, Crash)
    env.from_source(ScriptedSource(steps), WatermarkStrategy.no_watermarks(), "steps").sink_to(
        PostgresSink(postgres.uri, table, **WAYS[way])
    )
    env.execute("write")
    found = [n for (n,) in content(postgres, table)]
    assert found == list(range(400)) if way != "at least once" else set(found) == set(range(400))
    assert postgres.execute("SELECT gid FROM pg_prepared_xacts") == []


@pytest.mark.parametrize("way", ["by the table of commits", "by prepared transactions"])
def test_what_is_committed_twice_is_there_once(postgres: PostgresServer, way: str) -> None:
    table = postgres.create_table("(n bigint)")
    sink = PostgresSink(postgres.uri, table, **WAYS[way]).prepare()
    writer, committables = prepared_by(sink, [1, 2])
    committer = sink.create_committer()
    assert committer is not None
    assert outcomes(committer, committables, 1) == [CommitOutcome.COMMITTED]
    assert outcomes(committer, committables, 1) == [CommitOutcome.ALREADY_COMMITTED]
    # Also after a later checkpoint, where another committer does it, and where checkpoints come in another order.
    writer.write(batch([3]))
    second = writer.prepare_commit(2)
    writer.write(batch([4]))
    assert outcomes(committer, writer.prepare_commit(3), 3) == [CommitOutcome.COMMITTED]
    another = sink.create_committer()
    assert another is not None
    assert outcomes(another, second, 2) == [CommitOutcome.COMMITTED]
    assert outcomes(another, committables, 1) == [CommitOutcome.ALREADY_COMMITTED]
    assert content(postgres, table) == [(1,), (2,), (3,), (4,)]
    for each in (writer, committer, another):
        each.close()


def test_rows_of_several_schemas_are_committed_in_their_order(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n bigint PRIMARY KEY, m bigint)")
    sink = PostgresSink(postgres.uri, table, key="n").prepare()
    writer = sink.create_writer(FakeSubtaskContext())
    for data in ({"n": [1, 2], "m": [1, 1]}, {"m": ["2"], "n": [1]}, {"n": [3], "m": [3]}):
        writer.write(Batch(pa.record_batch(data)))
    committer = sink.create_committer()
    assert committer is not None
    assert outcomes(committer, writer.prepare_commit(1), 1) == [CommitOutcome.COMMITTED]
    assert content(postgres, table) == [(1, 2), (2, 1), (3, 3)]
    writer.close()
    committer.close()


def test_two_committers_of_the_same_rows_write_them_once(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n bigint)")
    sink = PostgresSink(postgres.uri, table).prepare()
    writer, committables = prepared_by(sink, range(1_000))
    committers = [sink.create_committer() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda committer: outcomes(committer, committables, 1), committers))
    assert sorted(outcome.value for (outcome,) in found) == ["already committed"] * 3 + ["committed"]
    assert len(content(postgres, table)) == 1_000
    for each in (writer, *committers):
        assert each is not None
        each.close()


def test_rows_that_a_lost_connection_kept_from_being_committed_are_committed_later(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n bigint)")
    sink = PostgresSink(postgres.uri, table).prepare()
    writer, first = prepared_by(sink, [1])
    committer = sink.create_committer()
    assert committer is not None
    assert outcomes(committer, first, 1) == [CommitOutcome.COMMITTED]
    end_sessions(postgres.uri, "flinkray operator")
    writer.write(batch([2]))
    second = writer.prepare_commit(2)
    assert outcomes(committer, second, 2) == [CommitOutcome.RETRY_LATER]
    assert outcomes(committer, second, 2) == [CommitOutcome.COMMITTED]
    assert content(postgres, table) == [(1,), (2,)]
    committer.close()


@pytest.mark.parametrize("way", ["by the table of commits", "by prepared transactions"])
def test_a_commit_waits_for_a_server_that_is_away(postgres: PostgresServer, way: str) -> None:
    table = postgres.create_table("(n bigint)")
    sink = PostgresSink(postgres.uri, table, **WAYS[way]).prepare()
    writer, committables = prepared_by(sink, [1])
    committer = sink.create_committer()
    assert committer is not None
    postgres.stop()
    try:
        assert outcomes(committer, committables, 1) == [CommitOutcome.RETRY_LATER]
    finally:
        postgres.start()
    assert outcomes(committer, committables, 1) == [CommitOutcome.COMMITTED]
    assert content(postgres, table) == [(1,)]
    writer.close()
    committer.close()


def test_prepared_transactions_that_no_checkpoint_has_are_rolled_back_by_the_next_attempt(
    postgres: PostgresServer,
) -> None:
    table = postgres.create_table("(n bigint)")
    sink = PostgresSink(postgres.uri, table, prepared=True).prepare()
    writer, committed = prepared_by(sink, [1])
    state = writer.snapshot_state(1)
    writer.write(batch([2]))
    writer.prepare_commit(2)
    writer.close()
    assert len(postgres.execute("SELECT gid FROM pg_prepared_xacts")) == 2
    context = FakeSubtaskContext()
    context.restored_checkpoint_id = 1
    sink.create_writer(context, [state]).close()
    committer = sink.create_committer()
    assert committer is not None
    assert outcomes(committer, committed, 1) == [CommitOutcome.COMMITTED]
    assert postgres.execute("SELECT gid FROM pg_prepared_xacts") == []
    assert content(postgres, table) == [(1,)]


def test_a_prepared_transaction_that_somebody_rolled_back_is_an_error_and_no_loss_in_silence(
    postgres: PostgresServer,
) -> None:
    table = postgres.create_table("(n bigint)")
    sink = PostgresSink(postgres.uri, table, prepared=True).prepare()
    writer, committables = prepared_by(sink, [1])
    writer.write(batch([2]))
    later = writer.prepare_commit(2)
    writer.close()
    committer = sink.create_committer()
    assert committer is not None
    assert outcomes(committer, later, 2) == [CommitOutcome.COMMITTED]
    committer.abort(committables)
    committer.abort(committables)
    with pytest.raises(PostgresError, match=r"'Source: test' \(subtask 1 of 1\).*checkpoint 1 are lost.*earlier check"):
        outcomes(committer, committables, 1)


def wrong(postgres: PostgresServer) -> dict[str, tuple[dict[str, Any], dict[str, Any], str]]:
    """Arguments of a sink, a row, and what is said about them."""
    table = postgres.create_table(
        "(n int PRIMARY KEY, m int NOT NULL, s text, g int GENERATED ALWAYS AS (n + 1) STORED)"
    )
    refused, other = postgres.uri_of("tester", "s3cret"), {"n": 1, "m": 1}
    return {
        "a table of commits that cannot be made": (
            {"table": table, "delivery_guarantee": DeliveryGuarantee.EXACTLY_ONCE, "commit_table": "absent.commits"},
            other,
            "cannot make the table of commits, commit_table='absent.commits', of 127",
        ),
        "no such table": ({"table": "absent"}, other, "cannot write to table 'absent' of 127.*no such table"),
        "wrong password": ({"table": table, "uri": refused}, other, "authentication failed.*user or password"),
        "no unique index": (
            {"table": table, "key": ["m"]},
            other,
            'no unique index on exactly "m".*CREATE UNIQUE INDEX',
        ),
        "no such key": ({"table": table, "key": "nn"}, other, "no column 'nn'; did you mean 'n'"),
        "no such column": ({"table": table}, {**other, "mm": 1}, "'Sink: .*no column 'mm'; did you mean 'm'"),
        "a value lacks": ({"table": table}, {"n": 1}, "wants a value for m, and the rows have none"),
        "a key lacks": ({"table": table, "key": "n"}, {"m": 1}, "no column 'n'; columns: m"),
        "generated": ({"table": table}, {**other, "g": 1}, "'g' of table public.table_.* is generated by the server"),
        "too large": ({"table": table}, {**other, "n": 2**40}, "does not fit column 'n' of table .*which is integer"),
        "no way": (
            {"table": table},
            {**other, "s": {"a": 1}},
            "column 's' is struct.* in the rows and text in the table",
        ),
        "null": ({"table": table}, {"n": 1, "m": None}, "'Sink: .*null as 'm', and that column of table .*fill it"),
        "null as a key": ({"table": table, "key": "n"}, {"n": None, "m": 1}, "a row has null as 'n', which is a key"),
        "what the server cannot convert": (
            {"table": table},
            {**other, "n": "x"},
            "invalid input syntax for type integer",
        ),
    }


def test_what_is_wrong_is_said_with_the_way_out_and_without_secrets(postgres: PostgresServer) -> None:
    for name, (given, row, message) in wrong(postgres).items():
        sink = PostgresSink(**{"uri": postgres.uri, "delivery_guarantee": DeliveryGuarantee.AT_LEAST_ONCE, **given})
        with pytest.raises((JobExecutionError, InvalidProgramError, PostgresError), match=f"(?s){message}") as caught:
            write(sink, [row])
        shown = f"{caught.value}{caught.value!r}{sink!r}"
        assert not any(secret in shown for secret in ("s3cret", PASSWORD, "pa55")), name


def test_an_error_while_rows_are_written_names_operator_subtask_and_table(postgres: PostgresServer) -> None:
    table = postgres.create_table("(n int PRIMARY KEY)")
    message = rf"'Sink: .*' \(subtask 1 of 1\): cannot write 2 rows to public.{table} of 127.*there already; key="
    with pytest.raises(JobExecutionError, match=message):
        write(
            PostgresSink(postgres.uri, table, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE), [{"n": 1}, {"n": 1}]
        )
    with pytest.raises(
        JobExecutionError, match=r"'Sink: .*' \(subtask 1 of 1\): cannot commit checkpoint .*already.*each restart"
    ):
        write(PostgresSink(postgres.uri, table), [{"n": 1}, {"n": 1}])


def test_a_table_that_is_locked_is_waited_for_and_named(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0.01, 0.01))
    table = postgres.create_table("(n bigint)")
    uri = f"{postgres.uri}?options=-c%20lock_timeout%3D50"
    sink = PostgresSink(uri, table, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE).prepare()
    context = FakeSubtaskContext()
    writer = sink.create_writer(context)
    with postgres.locked(table), pytest.raises(PostgresError, match=r"lock timeout.*somebody else has locked"):
        writer.write(batch([1]))
    assert context.counts == {"writes_retried": 2}
    writer.write(batch([2]))
    assert content(postgres, table) == [(2,)]
    writer.close()


def test_a_server_that_is_away_for_a_while_is_waited_for(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RETRY_DELAYS_S", (0.01,) * 4_000)  # however long the server takes
    table = postgres.create_table("(n bigint)")
    sink = PostgresSink(postgres.uri, table, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
    monkeypatch.setattr(PostgresSink, "prepare", identity)
    env = environment(1)
    env.from_collection([{"n": n} for n in range(10)]).sink_to(sink)
    postgres.stop()
    try:
        client = env.execute_async("write")
        eventually(client.status, lambda status: status is JobStatus.RUNNING)
    finally:
        postgres.start()
    client.result(60)
    assert content(postgres, table) == [(n,) for n in range(10)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"uri": ""}, "takes 'postgresql://"),
        ({"table": ""}, "names no table"),
        ({"delivery_guarantee": DeliveryGuarantee.NONE}, "EXACTLY_ONCE or AT_LEAST_ONCE, not .*NONE"),
        ({"prepared": True, "delivery_guarantee": DeliveryGuarantee.AT_LEAST_ONCE}, "is exactly once"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        PostgresSink(**{"uri": "postgresql://x", "table": "t", **given})
