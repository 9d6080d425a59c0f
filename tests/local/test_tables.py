"""Statements, queries in Python, and functions of the user's over tables, in whole jobs."""

from __future__ import annotations

import asyncio
import collections
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flinkray import (
    CommittedPartition,
    InvalidProgramError,
    PartitionCommitPolicy,
    Row,
    RowKind,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flinkray.batches.batch import Batch
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.errors import JobExecutionError, SqlUnsupportedError, SqlValidationError
from flinkray.tables.api.data_types import DataTypes
from flinkray.tables.api.expressions import col, lit
from flinkray.tables.api.schemas import Schema, SchemaBuilder, TableDescriptor
from flinkray.tables.api.user_functions import udaf, udf, udtf
from flinkray.tables.api.windows import Tumble
from flinkray.tables.connectors.connectors import CONNECTORS
from flinkray.tables.connectors.contract import Connector
from flinkray.tables.connectors.in_memory import register_rows
from flinkray.tables.plans.tables import Table
from flinkray.tables.user_functions import AggregateFunction, AsyncScalarFunction, FunctionContext, ScalarFunction
from flinkray.transformations.operator_factories import SourceFactory
from flinkray.transformations.transformation import PhysicalTransformation
from flinkray.types.changelogs import ChangelogMode
from tests.support.jobs import environment
from tests.support.whole_jobs import ONE_ROW_BATCHES


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment(parallelism=1)


def printed(env: StreamExecutionEnvironment, sql: str) -> list[str]:
    text = io.StringIO()
    env.tables.execute_sql(sql).print(text)
    return text.getvalue().splitlines()


def test_a_table_of_made_up_rows_has_what_its_options_say(env: StreamExecutionEnvironment) -> None:
    env.tables.execute_sql(
        """CREATE TABLE made (
          n INT, price DECIMAL(6, 2), name STRING, is_new BOOLEAN, at_time TIMESTAMP(3), tags ARRAY<STRING>,
          place ROW<x DOUBLE, y DOUBLE>, counts MAP<STRING, INT>, gone BIGINT, twice AS n * 2
        ) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000', 'fields.n.kind' = 'sequence',
          'fields.n.start' = '5', 'fields.n.end' = '9', 'fields.price.min' = '1.5', 'fields.price.max' = '2',
          'fields.name.length' = '4', 'fields.tags.length' = '2', 'fields.tags.element.length' = '3',
          'fields.place.x.min' = '7', 'fields.place.x.max' = '8', 'fields.gone.null-rate' = '1',
          'fields.at_time.max-past' = '1 h')"""
    )
    rows = env.tables.from_path("made").to_arrow()
    assert rows["n"].to_pylist() == [5, 6, 7, 8, 9]
    assert rows["twice"].to_pylist() == [10, 12, 14, 16, 18]
    assert all(1.5 <= float(each) <= 2 for each in rows["price"].to_pylist())
    assert {len(each) for each in rows["name"].to_pylist()} == {4}
    assert [[len(each) for each in tags] for tags in rows["tags"].to_pylist()] == [[3, 3]] * 5
    assert all(7 <= each["x"] < 8 for each in rows["place"].to_pylist())
    assert {len(each) for each in rows["counts"].to_pylist()} == {3}
    assert rows["gone"].null_count == 5


def test_rows_come_with_what_they_do_and_go_into_files(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    tables = env.tables
    tables.execute_sql(
        "CREATE TABLE people (id BIGINT, name STRING, born DATE) "
        f"WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}')"
    )
    result = tables.execute_sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO people VALUES (1, 'Ada', DATE '1815-12-10');"
        "INSERT INTO people (name, id) SELECT 'Bo', 2; END"
    )
    result.wait(60_000)
    assert list(result.lines()) == ["-1, -1"]
    assert printed(env, "SELECT id, born, name FROM people WHERE id < 2") == [
        "+----+----------------------+------------+--------------------------------+",
        "| op |                   id |       born |                           name |",
        "+----+----------------------+------------+--------------------------------+",
        "| +I |                    1 | 1815-12-10 |                            Ada |",
        "+----+----------------------+------------+--------------------------------+",
        "1 row in set",
    ]
    with tables.execute_sql("TABLE people").collect() as rows:
        assert sorted(rows) == [
            Row(id=1, name="Ada", born=pd.Timestamp("1815-12-10").date()),
            Row(id=2, name="Bo", born=None),
        ]


def test_directories_are_named_by_the_columns_that_a_table_is_partitioned_by(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    for format in ("csv", "raw", "orc", "avro"):
        env.tables.execute_sql(
            f"CREATE TABLE {format}_files (born DATE, line STRING) PARTITIONED BY (born) "
            f"WITH ('connector' = 'filesystem', 'format' = '{format}', 'path' = '{tmp_path / format}')"
        )
        values = "(DATE '2024-01-01', 'a'), (CAST(NULL AS DATE), 'b')"
        env.tables.execute_sql(f"INSERT INTO {format}_files VALUES {values}").wait(60_000)
        names = sorted(each.name for each in (tmp_path / format).iterdir())
        assert names == ["born=2024-01-01", "born=__DEFAULT_PARTITION__"]
        rows = env.tables.sql_query(f"SELECT * FROM {format}_files").to_arrow().sort_by("line")
        assert rows.to_pydict() == {"born": [pd.Timestamp("2024-01-01").date(), None], "line": ["a", "b"]}


def test_a_table_as_a_query_has_its_rows_by_the_names_of_columns(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    for path, columns, rows in (
        ("turned", "b, a", {"b": "x", "a": 1}),
        ("more", "z INT, a BIGINT", {"a": 1, "b": "x"}),
    ):
        env.tables.execute_sql(
            f"CREATE TABLE {path} ({columns}) WITH ('connector' = 'filesystem', 'format' = 'json', "
            f"'path' = '{tmp_path / path}') AS SELECT 1 AS a, 'x' AS b"
        ).wait()
        (found,) = env.tables.execute_sql(f"SELECT * FROM {path}").collect()
        assert {name: value for name, value in found.as_dict().items() if value is not None} == rows


def test_rows_of_a_partition_are_shuffled_to_one_writer_which_compresses_its_file(tmp_path: Path) -> None:
    tables = environment(parallelism=3).tables
    tables.execute_sql(
        "CREATE TABLE days (n INT, dt STRING) PARTITIONED BY (dt) WITH ('connector' = 'filesystem', "
        f"'format' = 'parquet', 'path' = '{tmp_path}', 'sink.shuffle-by-partition.enable' = 'true', "
        "'parquet.compression' = 'GZIP', 'parquet.utc-timezone' = 'true')"
    )
    tables.execute_sql(
        "CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '90', "
        "'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '89')"
    )
    query = "SELECT n, NULLIF(CAST(MOD(n, 3) AS STRING), '0') FROM numbers"
    tables.execute_sql(f"INSERT INTO days {query}").wait(60_000)
    files = {each.parent.name: each for each in tmp_path.glob("*/part*")}
    assert sorted(files) == ["dt=1", "dt=2", "dt=__DEFAULT_PARTITION__"]
    assert len(list(tmp_path.glob("*/part*"))) == 3
    for each in files.values():
        stored = pq.ParquetFile(each)
        assert (stored.metadata.num_rows, stored.metadata.row_group(0).column(0).compression) == (30, "GZIP")


class Announced(PartitionCommitPolicy):
    """Keeps what it is told, as a table's option names it."""

    told: list[tuple[str, str | None]] = []  # noqa: RUF012

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def commit(self, partition: CommittedPartition) -> None:
        self.told.append((self.prefix, partition.values["dt"]))


def test_partitions_of_a_table_are_committed_and_overwritten_and_read_with_what_is_known_of_files(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    tables = env.tables
    tables.execute_sql("SET 'table.dml-sync' = 'true'")
    tables.execute_sql(
        "CREATE TABLE days (n INT, word STRING, dt STRING, name STRING METADATA FROM 'file.name' VIRTUAL, "
        "size BIGINT METADATA FROM 'file.size' VIRTUAL, `file.modification-time` TIMESTAMP_LTZ(3) METADATA VIRTUAL) "
        "PARTITIONED BY (dt) WITH ('connector' = 'filesystem', 'format' = 'csv', 'csv.null-literal' = 'n/a', "
        "'csv.field-delimiter' = ';', 'csv.ignore-parse-errors' = 'true', 'csv.allow-comments' = 'true', "
        "'auto-compaction' = 'true', 'sink.partition-commit.policy.kind' = 'success-file,custom', "
        f"'sink.partition-commit.policy.class' = '{__name__}.Announced', "
        "'sink.partition-commit.policy.class.parameters' = 'x', "
        f"'source.path.regex-pattern' = '.*/dt=2.*', 'path' = '{tmp_path}')"
    )
    values = "(1, 'a;b', '2024-01-01'), (CAST(NULL AS INT), CAST(NULL AS STRING), '2024-01-01'), (3, '', '2024-01-02')"
    tables.execute_sql(f"INSERT INTO days VALUES {values}, (4, 'x', 'never')")
    (file,) = (tmp_path / "dt=2024-01-01").glob("part*")
    assert file.read_text() == '1;"a;b"\nn/a;n/a\n'
    assert (tmp_path / "dt=2024-01-02" / "_SUCCESS").exists()
    assert sorted(Announced.told) == [("x", day) for day in ("2024-01-01", "2024-01-02", "never")]
    (tmp_path / "dt=2024-01-02" / "more").write_text("#1;a\nbad;b\n5;c\n6;d;e\n")

    def found() -> list[tuple[Any, ...]]:
        return sorted(map(tuple, tables.execute_sql("SELECT n, word, dt FROM days").collect()), key=str)

    assert found() == [
        (1, "a;b", "2024-01-01"), (3, "", "2024-01-02"), (5, "c", "2024-01-02"), (None, "b", "2024-01-02"),
        (None, None, "2024-01-01"),
    ]  # fmt: skip
    known = "SELECT name, size, `file.modification-time` FROM days WHERE n = 1"
    ((name, size, changed),) = tables.execute_sql(known).collect()
    assert (name, size) == (file.name, file.stat().st_size)
    assert changed.timestamp() == pytest.approx(file.stat().st_mtime, abs=0.002)
    with pytest.raises(SqlUnsupportedError, match="INSERT OVERWRITE needs batch mode"):
        tables.execute_sql("INSERT OVERWRITE days VALUES (1, 'a', 'b')")
    tables.execute_sql("SET 'execution.runtime-mode' = 'batch'")
    tables.execute_sql("INSERT OVERWRITE days SELECT 7, 'new', '2024-01-02'")
    assert found() == [(1, "a;b", "2024-01-01"), (7, "new", "2024-01-02"), (None, None, "2024-01-01")]
    tables.execute_sql("INSERT OVERWRITE days PARTITION (dt = '2024-01-01') SELECT 8, 'no' WHERE FALSE")
    assert found() == [(7, "new", "2024-01-02")]


def test_the_print_connector_shows_rows_as_flink_does(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    env.tables.execute_sql("SET 'table.dml-sync' = 'true'")
    env.tables.execute_sql(
        "CREATE TABLE sink (a INT, b BOOLEAN, c TIMESTAMP(3), d ARRAY<INT>, e ROW<f STRING>, g MAP<STRING, INT>,"
        "h STRING, i FLOAT, j TIMESTAMP_LTZ(3))"
        "WITH ('connector' = 'print', 'print-identifier' = 'out')"
    )
    env.tables.execute_sql(
        "INSERT INTO sink SELECT 1, TRUE, TIMESTAMP '2024-01-02 03:04:05.120', ARRAY[1, 2], ROW('x'), MAP['k', 1],"
        "CAST(NULL AS STRING), CAST(86.4 AS FLOAT), TO_TIMESTAMP_LTZ(5000, 3)"
    )
    assert (
        "out> +I[1, true, 2024-01-02T03:04:05.120, [1, 2], +I[x], {k=1}, null, 86.4, 1970-01-01T00:00:05Z]\n"
        in capsys.readouterr().out
    )


def test_a_changelog_is_printed_with_kinds_and_a_table_of_it_has_what_is_left(env: StreamExecutionEnvironment) -> None:
    kinds = (RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
    values = ((1, "a"), (2, "b"), (1, "a"), (1, "c"), (2, "b"))
    rows = [Row.of_kind(kind, n=n, s=s) for kind, (n, s) in zip(kinds, values, strict=True)]
    changes = env.tables.from_changelog_stream(env.from_collection(rows))
    lines = [line[2:4] for line in changes.execute().lines()][3:-2]
    assert lines == ["+I", "+I", "-U", "+U", "-D"]
    assert changes.to_arrow().to_pylist() == [{"n": 1, "s": "c"}]
    with pytest.raises(InvalidProgramError, match="to_changelog_stream takes them"):
        env.tables.to_data_stream(changes)
    again = env.tables.to_changelog_stream(changes.where(col("n") == 2))
    assert [str(row.get_row_kind()) for row in again.execute_and_collect()] == ["+I", "-D"]


KEPT: dict[Any, Any] = {}
"""The rows of the table whose connector is 'kept', by key."""


class KeptRows(Sink):
    def __init__(self, table: Table, _options: Any) -> None:
        self._key = table.primary_key

    @property
    def accepts(self) -> ChangelogMode:
        return ChangelogMode.UPSERT

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self._key

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        return KeptRowsWriter(self._key)


class KeptRowsWriter(SinkWriter):
    def __init__(self, key: tuple[str, ...]) -> None:
        self._key = key

    def write(self, batch: Batch) -> None:
        kinds = [RowKind.INSERT.value] * len(batch) if batch.kinds is None else batch.kinds.to_pylist()
        for kind, row in zip(kinds, batch.data.to_pylist(), strict=True):
            at = tuple(row[name] for name in self._key)
            if kind == RowKind.DELETE.value:
                del KEPT[at]
            else:
                KEPT[at] = tuple(row.values())

    def close(self) -> None: ...


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    monkeypatch.setitem(CONNECTORS, "kept", Connector(sink=KeptRows))
    KEPT.clear()
    return KEPT


WORDS = [("a", 1), ("b", 2), ("a", 3), ("c", 2), ("c", 9)]
CHANGES = [(RowKind.INSERT, 1), (RowKind.UPDATE_BEFORE, 1), (RowKind.UPDATE_AFTER, 5)]


@pytest.mark.parametrize(
    ("key", "query"),
    [
        ("word", "SELECT word, SUM(n) AS n FROM words GROUP BY word"),
        # The row of the old number has to go.
        ("word, n", "SELECT word, SUM(n) AS n FROM words GROUP BY word"),
        # Several words have a number at a time.
        ("n", "SELECT MAX(word) AS word, n FROM (SELECT word, SUM(n) AS n FROM words GROUP BY word) GROUP BY n"),
        ("word", "SELECT word, n FROM words WHERE n IN (SELECT MAX(n) FROM words)"),
        ("word", "SELECT 'all' AS word, SUM(n) AS n FROM words"),
        # An update may bring a row into a filter, and out of it.
        ("word", "SELECT word, n FROM (SELECT word, SUM(n) AS n FROM words GROUP BY word) WHERE n < 4"),
        ("word", "SELECT word, n FROM changed WHERE n < 4"),
    ],
)
def test_a_sink_that_replaces_rows_has_those_that_a_query_comes_to(kept: dict[Any, Any], key: str, query: str) -> None:
    tables = environment({"table.dml-sync": True, **ONE_ROW_BATCHES}).tables
    rows = register_rows(WORDS)
    tables.execute_sql(f"CREATE TABLE words (word STRING, n BIGINT) WITH ('connector'='values', 'data-id'='{rows}')")
    changes = register_rows([Row.of_kind(kind, word="a", n=n) for kind, n in CHANGES])
    tables.execute_sql(
        f"CREATE TABLE changed (word STRING, n BIGINT) WITH ('connector'='values', 'data-id'='{changes}')"
    )
    columns = f"word STRING, n BIGINT, PRIMARY KEY ({key}) NOT ENFORCED"
    tables.execute_sql(f"CREATE TABLE counts ({columns}) WITH ('connector'='kept')")
    tables.execute_sql(f"INSERT INTO counts {query}")
    final = tables.sql_query(query).to_arrow()
    assert sorted(kept.values()) == sorted(zip(*(each.to_pylist() for each in final.columns), strict=True))


def test_a_table_of_inserts_refuses_changes_and_names_what_makes_them(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    tables = env.tables
    rows = register_rows([Row.of_kind(kind, word="a", n=1) for kind in (RowKind.INSERT, RowKind.DELETE)])
    options = f"'connector'='values', 'data-id'='{rows}'"
    tables.execute_sql(f"CREATE TABLE words (word STRING, n BIGINT) WITH ({options})")
    options = f"'connector'='filesystem', 'format'='json', 'path'='{tmp_path}'"
    tables.execute_sql(f"CREATE TABLE files (word STRING, n BIGINT) WITH ({options})")
    for query, words in [
        ("SELECT w, COUNT(*) FROM (VALUES ('a')) AS t(w) GROUP BY w", "GROUP BY: it updates rows, and table 'files'"),
        ("SELECT word, n FROM words WHERE n > 1", "the table words: it updates and deletes rows"),
    ]:
        with pytest.raises(SqlUnsupportedError, match=words):
            tables.execute_sql(f"INSERT INTO files {query}")
    assert not list(tmp_path.iterdir())


def test_a_processing_time_joins_what_a_table_has_for_a_key(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    tables = env.tables
    rows, other = register_rows([*WORDS, (None, 4)]), register_rows([("a", ["x"]), ("b", None), ("a", []), (None, [])])
    tables.execute_sql(
        "CREATE TABLE words (word STRING, n BIGINT, at_time AS PROCTIME()) "
        f"WITH ('connector'='values', 'data-id'='{rows}')"
    )
    tables.execute_sql(
        f"CREATE TABLE tags (k STRING, tags ARRAY<STRING>) WITH ('connector'='values', 'data-id'='{other}')"
    )
    (tmp_path / "files.csv").write_text("k,score\na,1\nc,2\n")
    tables.execute_sql(
        "CREATE TABLE files (k STRING, score BIGINT) "
        f"WITH ('connector'='filesystem', 'format'='csv', 'csv.header'='true', 'path'='{tmp_path}')"
    )
    join = "FOR SYSTEM_TIME AS OF w.at_time AS r ON w.word = r.k"
    frame = pd.DataFrame({"k": ["a", "d"], "weight": [1.5, 2.5]})
    for query, found in [
        (f"SELECT n, tags FROM words AS w JOIN tags {join}", [(1, ["x"]), (1, []), (2, None), (3, ["x"]), (3, [])]),
        (f"SELECT n, score FROM words AS w JOIN files {join} AND score > 1", [(2, 2), (9, 2)]),
        (f"SELECT n, weight FROM words AS w JOIN {{frame}} {join}", [(1, 1.5), (3, 1.5)]),
        (f"SELECT n, score FROM words AS w LEFT JOIN files {join} WHERE n <> 2", [(1, 1), (3, 1), (9, 2), (4, None)]),
    ]:
        table = tables.over(query, frame=frame).to_arrow()
        assert list(zip(*(each.to_pylist() for each in table.columns), strict=True)) == found


def test_a_changelog_with_event_times_and_a_key_has_versions(env: StreamExecutionEnvironment) -> None:
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    versions = ((RowKind.INSERT, 0, "Oslo"), (RowKind.UPDATE_BEFORE, 0, "Oslo"), (RowKind.UPDATE_AFTER, 10, "Rome"))
    cities = [Row.of_kind(kind, k=1, since=noon + timedelta(seconds=s), city=city) for kind, s, city in versions]
    visits = [Row(k=1, seen=noon + timedelta(seconds=second)) for second in (9, 10)]
    changes, times = (
        env.from_collection(rows).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(column)
        )
        for rows, column in ((cities, "since"), (visits, "seen"))
    )
    by_key = Schema.new_builder().primary_key("k")
    query = "SELECT city FROM visits AS v JOIN {cities} FOR SYSTEM_TIME AS OF v.seen AS c ON v.k = c.k"
    env.tables.create_temporary_view("visits", times)
    table = env.tables.from_changelog_stream(changes, by_key.build())
    assert env.tables.over(query, cities=table).to_arrow().to_pylist() == [{"city": "Oslo"}, {"city": "Rome"}]
    cast = by_key.from_fields(("k", "since", "city"), ("BIGINT", "TIMESTAMP_LTZ(3)", "STRING"))
    with_watermark = cast.watermark("since", "since - INTERVAL '1' SECOND").build()
    table = env.tables.from_changelog_stream(changes, with_watermark)
    assert env.tables.over(query, cities=table).to_arrow().to_pylist() == [{"city": "Oslo"}, {"city": "Rome"}]


def test_streams_frames_and_tables_are_read_by_names(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([Row(n=1), Row(n=2)])
    env.tables.create_temporary_view("numbers", stream)
    env.tables.create_temporary_view("doubled", env.tables.from_path("numbers").select("n * 2 AS n"))
    frame, arrow = pd.DataFrame({"n": [7]}), pa.table({"n": [8]})
    query = "SELECT n FROM doubled UNION ALL SELECT n FROM {frame} UNION ALL SELECT n FROM {arrow} WHERE n > 0"
    united = env.sql(query, frame=frame, arrow=arrow)
    assert sorted(row.n for row in united.execute_and_collect()) == [2, 4, 7, 8]
    made = env.tables.from_elements(
        [(1, "a")], DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT()), DataTypes.FIELD("y", "STRING")])
    )
    assert env.tables.sql_query(f"SELECT y, x FROM {made}").to_arrow().to_pylist() == [{"y": "a", "x": 1}]
    stream_again = env.tables.to_data_stream(made.select(col("x") + 1))
    assert [tuple(row) for row in stream_again.execute_and_collect()] == [(2,)]


def test_a_stream_gets_the_columns_of_a_schema(env: StreamExecutionEnvironment) -> None:
    schema = Schema.new_builder().column("n", "INT").column_by_expression("t", "TO_TIMESTAMP_LTZ(ms, 3)").build()
    table = env.tables.from_data_stream(env.from_collection([Row(ms=1500, n=1)]), schema)
    assert [str(each) for each in table.row_type.types] == ["INT", "TIMESTAMP_LTZ(3)"]
    assert table.to_arrow().to_pylist()[0]["t"].isoformat() == "1970-01-01T00:00:01.500000+00:00"


def test_the_event_times_of_a_stream_are_a_column_and_columns_event_times(env: StreamExecutionEnvironment) -> None:
    rows = [Row(ms=ms, n=n) for ms, n in ((1, 42), (2, 5), (3, 1000), (100, 7))]
    stream = env.from_collection(rows).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ms")
    )

    def timed(name: str = "at", key: str | None = "rowtime") -> SchemaBuilder:
        return Schema.new_builder().column_by_metadata(name, "TIMESTAMP_LTZ(3)", key)

    table = env.tables.from_data_stream(stream, timed().watermark("at", "SOURCE_WATERMARK()").build())
    assert table.columns == ["ms", "n", "at"]
    tumbled = "TABLE(TUMBLE(TABLE {t}, DESCRIPTOR(`at`), INTERVAL '0.005' SECOND))"
    sums = env.tables.over(f"SELECT SUM(n) FROM {tumbled} GROUP BY window_start, window_end", t=table)
    assert sorted(each for row in sums.to_arrow().to_pylist() for each in row.values()) == [7, 1047]
    chosen = env.tables.from_data_stream(stream, timed().column("n", "STRING").build())
    assert [str(each) for each in chosen.row_type.types] == ["TIMESTAMP_LTZ(3)", "STRING"]
    assert chosen.to_arrow()["at"].cast("int64").to_pylist() == [1, 2, 3, 100]

    # By places, since the schema has other names; what it computes is left out.
    schema = Schema.new_builder().column("m", "BIGINT").column_by_expression("twice", "m * 2")
    given = env.tables.to_changelog_stream(
        table.select(col("n"), col("at")), schema.column_by_metadata("rowtime", "TIMESTAMP_LTZ(3)").build()
    )
    with given.with_rowtime("t").execute_and_collect() as found:
        assert [(row.m, row.t.microsecond) for row in found] == [(42, 1000), (5, 2000), (1000, 3000), (7, 100_000)]
    for name, key, message in (("x", None, "no metadata 'x'"), ("n", "rowtime", "'n' is one of the stream")):
        with pytest.raises(InvalidProgramError, match=message):
            env.tables.from_data_stream(stream, timed(name, key).build())


def test_event_times_for_a_table_that_nobody_reads_are_not_in_the_program(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([Row(n=1)])
    schema = Schema.new_builder().column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime").build()
    env.tables.from_data_stream(stream, schema)
    stream.print()
    assert "Rowtime" not in env.get_execution_plan()


def test_windows_are_over_the_rowtime_that_a_schema_gives(env: StreamExecutionEnvironment) -> None:
    rows = [Row(ms=ms, text=text) for ms, text in ((0, "a b"), (70_000, "c"), (30_000, "d"))]
    schema = (
        Schema.new_builder()
        .column("text", "STRING")
        .column_by_expression("at_time", "TO_TIMESTAMP_LTZ(ms, 3)")
        .watermark("at_time", "at_time - INTERVAL '1' MINUTE")
        .build()
    )
    split = env.tables.from_data_stream(env.from_collection(rows), schema).join_lateral(words.alias("word", "n"))
    window = Tumble.over(lit(1).minutes).on("at_time").alias("w")
    counts = split.window(window).group_by(col("w")).select(col("w").start.alias("s"), col("word").count.alias("many"))
    found = [(row["s"].minute, row["many"]) for row in counts.to_arrow().to_pylist()]
    assert sorted(found) == [(0, 3), (1, 1)]


class Prefixed(ScalarFunction):
    """Says whether it was opened."""

    def open(self, function_context: FunctionContext) -> None:
        self.prefix = function_context.get_job_parameter("prefix", "opened")

    def eval(self, text: str | None) -> str | None:
        return None if text is None else f"{self.prefix} {text}"


@udtf(result_types=["STRING", "INT"])
def words(row: Row) -> Iterator[tuple[str, int]]:
    for word in row.text.split():
        yield word, len(word)


def test_functions_of_the_users_are_called_with_rows_series_and_arrays(env: StreamExecutionEnvironment) -> None:
    table = env.tables.from_elements([(1, "a bc"), (2, None)], ["id", "text"])
    prefixed = udf(Prefixed(), result_type="STRING")
    doubled = udf(lambda column: pc.multiply(column, 2), result_type="BIGINT", func_type="arrow")
    less = udf(lambda series: series - 1, result_type="BIGINT", func_type="pandas")
    found = table.where(doubled(col("id")) < 4).select(
        prefixed(col("text")).alias("t"), doubled(less(col("id")) + 5).alias("n"), doubled(col("id")) + col("id")
    )
    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == [("opened a bc", 10, 3)]
    env.tables.register_function("twice", doubled)
    assert env.tables.sql_query(f"SELECT TWICE(twice(id)) AS n FROM {table}").to_arrow()["n"].to_pylist() == [4, 8]


def test_pairs_of_an_inner_join_are_asked_by_functions_of_the_users(env: StreamExecutionEnvironment) -> None:
    left = env.tables.from_elements([("a", 1), ("b", 5), ("a", 3)], ["k", "n"])
    right = left.alias("l", "m")
    less = udf(lambda one, other: one < other, result_type="BOOLEAN")
    same = udf(lambda one: one, result_type="STRING")
    on = less(col("n"), col("m"))
    for condition, pairs in (
        ((col("k") == col("l")) & on, [(1, 3)]),
        (on, [(1, 3), (1, 5), (3, 5)]),
        (on & (same(col("k")) == col("l")), [(1, 3)]),
    ):
        for joined in (left.join(right, condition), left.join(right).where(condition)):
            found = joined.select(col("n"), col("m")).to_arrow().to_pylist()
            assert sorted(tuple(row.values()) for row in found) == pairs
    with pytest.raises(SqlUnsupportedError, match="called in SELECT, WHERE and ON of inner joins"):
        left.left_outer_join(right, on).to_arrow()


def test_a_row_is_a_frame_to_a_function_of_pandas_and_a_frame_a_row(env: StreamExecutionEnvironment) -> None:
    inner = DataTypes.ROW([DataTypes.FIELD("c", "INT"), DataTypes.FIELD("d", "INT")])
    fields = [DataTypes.FIELD("a", "INT"), DataTypes.FIELD("b", inner)]
    table = env.tables.from_elements([(1, Row(2, 3)), (2, Row(1, 3))], DataTypes.ROW(fields))
    of_row = {"result_type": inner, "func_type": "pandas"}
    total = udf(lambda b: b.c + b.d, result_type="INT", func_type="pandas")
    whole = udf(lambda row: pd.concat([row.a, row.c + row.d], axis=1), **of_row)
    swapped = udf(lambda row: row[["d", "c"]], **of_row)
    largest = udaf(lambda row: (row.c + row.d).max(), result_type="INT", func_type="pandas")
    assert table.select(total(col("b")).alias("n")).to_arrow()["n"].to_pylist() == [5, 4]
    for of_rows in (whole, swapped):
        expected = [(1, 5), (2, 4)] if of_rows is whole else [(2, 3), (1, 3)]
        assert [tuple(row.values()) for row in table.map(of_rows).to_arrow().to_pylist()] == expected
    assert table.aggregate(largest.alias("n")).select("n").to_arrow()["n"].to_pylist() == [5]
    with pytest.raises(
        JobExecutionError, match=r"gave 1 columns \(a\), and its result_type is .* each field of the ROW"
    ):
        table.map(udf(lambda row: row[["a"]], **of_row)).to_arrow()


def test_a_plus_beside_a_text_joins_texts(env: StreamExecutionEnvironment) -> None:
    table = env.tables.from_elements([(1, "a")], ["n", "t"])
    texts = [col("t") + "x", "x" + col("n"), col("n") + 1, col("t") + col("t"), col("n") + col("t"), col("t") + None]
    found = table.select(*(each.alias(f"c{place}") for place, each in enumerate(texts)))
    assert tuple(found.to_arrow().to_pylist()[0].values()) == ("ax", "x1", 2, "aa", "1a", None)
    with pytest.raises(SqlValidationError, match="has to be a number"):
        env.tables.sql_query("SELECT t + t FROM (VALUES ('a')) AS s(t)")


def test_a_function_of_a_row_gives_columns_or_rows(env: StreamExecutionEnvironment) -> None:
    table = env.tables.from_elements([(1, "a bc"), (2, "")], ["id", "text"])
    pair = udf(
        lambda row: Row(row.id, len(row.text)),
        result_type=DataTypes.ROW([DataTypes.FIELD("id", "BIGINT"), DataTypes.FIELD("n", "INT")]),
    )
    assert table.map(pair).to_arrow().to_pylist() == [{"id": 1, "n": 4}, {"id": 2, "n": 0}]
    assert table.flat_map(words).alias("word", "n").to_arrow().to_pylist() == [
        {"word": "a", "n": 1},
        {"word": "bc", "n": 2},
    ]
    joined = table.left_outer_join_lateral(words.alias("word", "n")).select("id", "word")
    assert [tuple(row.values()) for row in joined.to_arrow().to_pylist()] == [(1, "a"), (1, "bc"), (2, None)]


class Meeting(AsyncScalarFunction):
    """Waits until it is called for another row."""

    def open(self, function_context: FunctionContext) -> None:
        self.has_met = asyncio.Event()
        self.calls = 0

    async def eval(self, word: str) -> str:
        self.calls += 1
        if self.calls > 1:
            self.has_met.set()
        await asyncio.wait_for(self.has_met.wait(), 20)
        return word.upper()


def test_an_asynchronous_function_is_awaited_for_several_rows_at_a_time(env: StreamExecutionEnvironment) -> None:
    env.tables.register_function("meeting", udf(Meeting(), result_type="STRING"))
    found = env.tables.sql_query("SELECT meeting(w) AS w FROM (VALUES ('a'), ('b'), ('c')) AS t(w)").to_arrow()
    assert found["w"].to_pylist() == ["A", "B", "C"]


async def echo(word: str) -> str:
    return word


class Failing(AsyncScalarFunction):
    """Fails twice for each word, and then takes its time."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()

    async def eval(self, word: str) -> str:
        self.calls[word] += 1
        if self.calls[word] < 3:
            raise ValueError(f"call {self.calls[word]}")
        await asyncio.sleep(20 if word == "slow" else 0)
        return word


def test_an_asynchronous_function_is_called_again_where_it_fails_and_for_a_time(
    env: StreamExecutionEnvironment,
) -> None:
    env.configure({"table.exec.async-scalar.retry-delay": "1 ms", "table.exec.async-scalar.timeout": "200 ms"})
    env.tables.register_function("failing", udf(Failing(), result_type="STRING"))
    asked = "SELECT failing(w) AS w FROM (VALUES ('{}'), ('b')) AS t(w)"
    assert env.tables.sql_query(asked.format("a")).to_arrow()["w"].to_pylist() == ["a", "b"]
    with pytest.raises(JobExecutionError, match=r"no result within 200 ms for \('slow',\)"):
        env.tables.sql_query(asked.format("slow")).to_arrow()
    for options, call in (({"max-attempts": "2"}, 2), ({"retry-strategy": "NO_RETRY"}, 1)):
        env.configure({f"table.exec.async-scalar.{key}": value for key, value in options.items()})
        with pytest.raises(JobExecutionError, match=f"call {call}"):
            env.tables.sql_query(asked.format("a")).to_arrow()


class WeightedMean(AggregateFunction):
    def open(self, function_context: FunctionContext) -> None:
        self.is_open = True

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        assert self.is_open
        value, weight = args
        accumulator[0] += value * weight
        accumulator[1] += weight

    def get_value(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]


class RetractedMean(WeightedMean):
    def retract(self, accumulator: list[int], *args: Any) -> None:
        value, weight = args
        self.accumulate(accumulator, value, -weight)


def test_aggregates_of_the_users_are_called_in_groups_and_windows(env: StreamExecutionEnvironment) -> None:
    tables = env.tables
    tables.register_function("mean", udaf(WeightedMean(), result_type="DOUBLE"))
    tables.register_function("retracted", udaf(RetractedMean(), result_type="DOUBLE"))
    tables.register_function("extent", udaf(lambda n: n.max() - n.min(), result_type="BIGINT", func_type="pandas"))
    tables.execute_sql(
        f"""CREATE TABLE words (word STRING, n BIGINT, at_time AS TO_TIMESTAMP_LTZ(n * 1000, 3),
          WATERMARK FOR at_time AS at_time) WITH ('connector'='values', 'data-id'='{register_rows(WORDS)}')"""
    )
    tumbled = "TABLE(TUMBLE(TABLE words, DESCRIPTOR(at_time), INTERVAL '4' SECOND))"
    counted = "(SELECT word, COUNT(*) AS n FROM words GROUP BY word) AS c"
    for query, found in [
        ("SELECT word, mean(n, 2), extent(n) FROM words GROUP BY word", [("a", 2.0, 2), ("b", 2.0, 0), ("c", 5.5, 7)]),
        (f"SELECT mean(n, n), extent(n) FROM {tumbled} GROUP BY window_start, window_end", [(2.25, 2), (9.0, 0)]),
        (f"SELECT retracted(n, 1) FROM {counted}", [(5 / 3,)]),
    ]:
        assert sorted(tuple(row.values()) for row in tables.sql_query(query).to_arrow().to_pylist()) == found
    for query, words in [
        (f"SELECT mean(n, 1) FROM {counted}", "WeightedMean has no retract"),
        ("SELECT mean(DISTINCT n, 1) FROM words", "no DISTINCT"),
        ("SELECT mean(n, 1) OVER (ORDER BY at_time) FROM words", "over windows .* gets whole columns"),
    ]:
        with pytest.raises(SqlUnsupportedError, match=words):
            tables.execute_sql(query)


def test_what_a_function_does_wrong_names_it(env: StreamExecutionEnvironment) -> None:
    def broken(_value: int) -> int:
        raise ValueError("no such luck")

    table = env.tables.from_elements([(1,)], ["id"])
    with pytest.raises(Exception, match="Python: broken") as raised:
        table.select(udf(broken)(col("id"))).to_arrow()
    assert "no such luck" in str(raised.value)
    short = udf(lambda values: values[1:], result_type="BIGINT", func_type="pandas")
    with pytest.raises(JobExecutionError, match="the function gave 0 values for 1 rows"):
        table.select(short(col("id"))).to_arrow()
    with pytest.raises(InvalidProgramError, match="echo is a coroutine function"):
        udf(echo, result_type="STRING", func_type="pandas")


def test_a_function_is_created_from_a_module(env: StreamExecutionEnvironment) -> None:
    env.tables.execute_sql(f"CREATE FUNCTION w AS '{__name__}.words' LANGUAGE PYTHON")
    assert env.tables.list_user_defined_functions() == ["w"]
    with pytest.raises(InvalidProgramError, match="cannot be imported"):
        env.tables.execute_sql("CREATE FUNCTION x AS 'no.such' LANGUAGE PYTHON")


def test_inserts_of_tables_are_one_job_or_part_of_the_program(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    tables = env.tables
    numbers = tables.from_values((1, "a"), (2, "b"))
    sink = TableDescriptor.for_connector("filesystem").option("path", tmp_path / "out").format("parquet").build()
    inserts = tables.create_statement_set().add_insert(sink, numbers).add_insert(sink, numbers.select("f0 + 2", "'c'"))
    inserts.attach_as_datastream()
    env.execute()
    files = [pq.read_table(each) for each in (tmp_path / "out").iterdir()]
    assert sorted(n for each in files for n in each[0].to_pylist()) == [1, 2, 3, 4]
    with pytest.raises(InvalidProgramError, match="is empty"):
        inserts.execute()


def test_options_of_a_hint_are_those_of_the_one_query(env: StreamExecutionEnvironment) -> None:
    data = register_rows([(1,), (2,)])
    env.tables.execute_sql(f"CREATE TABLE v (n INT) WITH ('connector' = 'values', 'data-id' = '{data}')")
    other = register_rows([(3,)])
    both = f"SELECT n FROM v UNION ALL SELECT n FROM v /*+ OPTIONS('data-id' = '{other}') */"
    assert sorted(env.tables.sql_query(both).to_arrow()["n"].to_pylist()) == [1, 2, 3]


def test_a_table_stays_the_one_that_it_was_made_of(env: StreamExecutionEnvironment) -> None:
    made = []
    for values in ([(1,)], [(2,)]):
        env.tables.execute_sql("DROP TABLE IF EXISTS v")
        options = f"'connector' = 'values', 'data-id' = '{register_rows(values)}'"
        env.tables.execute_sql(f"CREATE TABLE v (n INT) WITH ({options})")
        made.append(env.tables.from_path("v"))
    assert sorted(made[0].union_all(made[1]).to_arrow()["n"].to_pylist()) == [1, 2]


def test_rows_of_a_batch_program_are_final_and_come_without_kinds() -> None:
    env = environment({"execution.runtime-mode": "batch"}, parallelism=1)
    lines = printed(env, "SELECT n, COUNT(*) AS many FROM (VALUES (1), (1)) AS t(n) GROUP BY n")
    assert lines[1:4:2] == ["|           n |                 many |", "|           1 |                    2 |"]


def test_bounded_tables_run_as_batch_where_the_mode_is_automatic() -> None:
    tables = environment({"execution.runtime-mode": "automatic"}).tables
    tables.execute_sql("CREATE TABLE made (n INT) WITH ('connector'='datagen')")
    counted = "SELECT k, COUNT(*) AS c FROM (VALUES (1), (1), (2)) AS t(k) GROUP BY k ORDER BY k DESC"
    assert [tuple(row) for row in tables.execute_sql(counted).collect()] == [(2, 1), (1, 2)]
    with pytest.raises(SqlUnsupportedError, match="a stream has no end"):
        tables.execute_sql("SELECT n FROM made ORDER BY n")


def test_a_file_of_columns_is_read_as_far_as_all_queries_of_a_job_read_it(tmp_path: Path) -> None:
    kind = "id BIGINT, name STRING, place ROW<x BIGINT, y BIGINT>"
    pq.write_table(
        pa.table({"id": [1, 2], "name": ["a", "b"], "place": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}),
        tmp_path / "t.parquet",
    )
    tables = environment().tables
    tables.execute_sql(
        f"CREATE TABLE t ({kind}, PRIMARY KEY (id) NOT ENFORCED) "
        f"WITH ('connector'='filesystem', 'format'='parquet', 'path'='{tmp_path}')"
    )
    plans = [tables.sql_query(query)._plan for query in ("SELECT t.place.y FROM t", "SELECT name FROM t")]
    program = tables._program(plans, [])
    (read,) = program._tables.values()
    assert isinstance(read, PhysicalTransformation)
    assert isinstance(read.factory, SourceFactory)
    assert read.factory.source._fields == {"id", "name", "place.y"}  # type: ignore[attr-defined]
    assert [row.y for row in tables.sql_query("SELECT t.place.y FROM t ORDER BY id LIMIT 9").execute().collect()] == [
        2,
        4,
    ]


def test_a_notebook_shows_the_first_rows(env: StreamExecutionEnvironment) -> None:
    shown: Any = env.tables.from_values(*((n, "<b>") for n in range(30)))._repr_html_()
    assert len(re.findall("<tr>", shown)) == 21
    assert "<td>&lt;b&gt;</td>" in shown
    assert "More rows follow" in shown
    assert env.tables.from_elements([(1,)]).select(lit(None, "INT").alias("n")).to_pandas()["n"].isna().all()


def test_a_table_as_a_query_that_is_there_gets_the_rows_by_their_places(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    table = f"WITH ('connector'='filesystem', 'path'='{tmp_path}', 'format'='json')"
    env.tables.execute_sql(f"CREATE TABLE kept (a BIGINT, b STRING) {table}")
    env.tables.execute_sql(
        "CREATE TABLE IF NOT EXISTS kept WITH ('connector'='print') AS SELECT 1 AS b, 'x' AS c"
    ).wait()
    assert env.tables.sql_query("SELECT * FROM kept").to_arrow().to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(SqlValidationError, match="the query has 1 columns, and 2 are written"):
        env.tables.execute_sql("CREATE TABLE IF NOT EXISTS kept AS SELECT 1 AS b")


def test_in_batch_mode_rows_of_a_changelog_are_sorted_in_the_end_and_shown_as_changes_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("c", None, 2), ("c", None, 1), ("u", 2, 0), ("d", 1, None)]
    lines = [
        json.dumps({"op": op, "before": before and {"n": before}, "after": None if after is None else {"n": after}})
        for op, before, after in rows
    ]
    (tmp_path / "changes").write_text("\n".join([*lines, lines[0]]))
    tables = environment({"execution.runtime-mode": "batch"}, parallelism=1).tables
    tables.execute_sql(
        f"CREATE TABLE c (n INT) WITH ('connector' = 'filesystem', 'format' = 'debezium-json', 'path' = '{tmp_path}')"
    )
    assert tables.sql_query("SELECT n FROM c ORDER BY n DESC").to_arrow()["n"].to_pylist() == [2, 0]
    tables.execute_sql("SELECT n FROM c").print()
    kinds = [line[2:4] for line in capsys.readouterr().out.splitlines()[3:-2]]
    assert kinds == ["+I", "+I", "-U", "+U", "-D", "+I"]
