"""Options of tables in whole jobs: what is written, and how many changes come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkray import ChangelogMode, Row, RowKind
from flinkray.errors import InvalidProgramError
from flinkray.tables.api.schemas import Schema
from flinkray.tables.connectors.in_memory import register_rows
from tests.support.flink_statements import CHANGES, change_text, flink_statements, is_query
from tests.support.jobs import environment
from tests.support.whole_jobs import rows_in_order

PAIRS = [("a", 1), ("b", 1), ("a", 2), ("a", 3)]


def test_what_is_written_is_what_the_table_says_of_its_columns(tmp_path: Path) -> None:
    tables = environment({"table.dml-sync": True}, parallelism=1).tables
    data = register_rows([("abcd", 1), ("e", None), ("f", 2)])
    tables.execute_sql(f"CREATE TABLE v (s STRING, n INT) WITH ('connector' = 'values', 'data-id' = '{data}')")
    options = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}'"
    tables.execute_sql(f"CREATE TABLE w (s STRING, n INT NOT NULL) WITH ({options})")
    tables.execute_sql("SET 'table.exec.sink.not-null-enforcer' = 'drop'")
    tables.execute_sql("INSERT INTO w SELECT s, n FROM v")
    lines = [each.read_text().splitlines() for each in tmp_path.glob("part*") if each.suffix != ".pending"]
    assert sorted(line for each in lines for line in each) == ["abcd,1", "f,2"]


@pytest.mark.parametrize(("columns", "values"), [("s STRING", "'a,b'"), ("s STRING, p STRING", "'a,b', 'x'")])
def test_files_of_raw_text_have_a_line_for_each_row(tmp_path: Path, columns: str, values: str) -> None:
    tables = environment({"table.dml-sync": True}, parallelism=1).tables
    partitioned = "PARTITIONED BY (p)" if "p STRING" in columns else ""
    tables.execute_sql(
        f"CREATE TABLE w ({columns}) {partitioned} WITH ("
        f"'connector' = 'filesystem', 'format' = 'raw', 'path' = '{tmp_path}')"
    )
    tables.execute_sql(f"INSERT INTO w VALUES ({values})")
    assert [each.read_text() for each in tmp_path.rglob("part*")] == ["a,b\n"]
    with tables.execute_sql("SELECT * FROM w").collect() as rows:
        assert [", ".join(map(repr, row)) for row in rows] == [values]


def test_files_of_raw_text_have_a_charset(tmp_path: Path) -> None:
    tables = environment({"table.dml-sync": True}, parallelism=1).tables
    options = f"'connector' = 'filesystem', 'format' = 'raw', 'path' = '{tmp_path}', 'raw.charset' = "
    tables.execute_sql(f"CREATE TABLE w (s STRING) WITH ({options} 'ISO-8859-1')")
    tables.execute_sql("INSERT INTO w VALUES ('é')")
    assert [each.read_bytes() for each in tmp_path.rglob("part*")] == [b"\xe9\n"]
    with tables.execute_sql("SELECT * FROM w").collect() as rows:
        assert [row.s for row in rows] == ["é"]
    for charset, words in (("UTF-16", "lines of UTF-16 are not told apart"), ("nope", "there is no charset 'nope'")):
        tables.execute_sql(f"CREATE OR REPLACE TABLE x (s STRING) WITH ({options} '{charset}')")
        with pytest.raises(InvalidProgramError, match=words):
            tables.execute_sql("SELECT * FROM x")


def changes(options: dict[str, object]) -> list[tuple[str, str, int]]:
    """The changes of sums by key, of rows that come one at a time."""
    tables = environment({"flinkray.batch.target-rows": 1, **options}, parallelism=1).tables
    tables.create_temporary_view("pairs", tables.from_elements(PAIRS, ["k", "n"]))
    with tables.execute_sql("SELECT k, SUM(n) AS n FROM pairs GROUP BY k").collect() as rows:
        return [(str(row.get_row_kind()), row.k, row.n) for row in rows]


def test_changes_are_those_of_each_row_or_of_many() -> None:
    each = [("+I", "a", 1), ("+I", "b", 1), ("-U", "a", 1), ("+U", "a", 3), ("-U", "a", 3), ("+U", "a", 6)]
    together = {"flinkray.batch.target-rows": 100}
    assert changes({"flinkray.table.row-by-row": True, **together}) == each
    many = {"table.exec.mini-batch.allow-latency": "1 h", "table.exec.mini-batch.size": 1000}
    assert sorted(changes({"table.exec.mini-batch.enabled": True, **many})) == [("+I", "a", 6), ("+I", "b", 1)]


def test_each_row_on_its_own_gives_the_changes_that_flink_gives() -> None:
    env = environment({"flinkray.table.row-by-row": True}, parallelism=1)
    streams = {}
    for name, sql in flink_statements(Path(), "flink_changes.sql").items():
        if is_query(sql):
            streams[name] = env.sql(sql).kinds_as_column("row_kind")
        else:
            env.tables.execute_sql(sql)
    found = rows_in_order(env, streams)
    changes = {name: [change_text(row[-1], row[:-1]) for row in map(tuple, rows)] for name, rows in found.items()}
    assert changes == json.loads(CHANGES.read_text())


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_changes_by_key_and_those_that_come_again_count_once(mode: str, tmp_path: Path) -> None:
    env = environment({"execution.runtime-mode": mode})
    tables = env.tables
    changes = [
        ("c", None, (1, 5)),
        ("u", (1, 5), (1, 7)),
        ("c", None, (2, 1)),
        ("c", None, (3, 4)),
        ("d", (3, 4), None),
    ]
    rows = [
        {"op": op, **{name: row and {"id": row[0], "v": row[1]} for name, row in (("before", old), ("after", new))}}
        for op, old, new in changes
    ]
    (tmp_path / "a.json").write_text("".join(json.dumps(row) + "\n" for row in [*rows, *rows[2:]]))
    tables.execute_sql(
        "CREATE TABLE again (id INT PRIMARY KEY NOT ENFORCED, v INT) "
        f"WITH ('connector' = 'filesystem', 'format' = 'debezium-json', 'path' = '{tmp_path}')"
    )
    tables.execute_sql("SET 'table.exec.source.cdc-events-duplicate' = 'true'")
    by_key = [Row(id=1, v=5), Row.of_kind(RowKind.UPDATE_AFTER, id=1, v=7), Row(id=2, v=1), Row(id=3, v=4)]
    by_key.append(Row.of_kind(RowKind.DELETE, id=3, v=4))
    schema = Schema.new_builder().column("id", "BIGINT NOT NULL").column("v", "BIGINT").primary_key("id").build()
    stream = env.from_collection(by_key).set_parallelism(1)
    tables.create_temporary_view("upserts", tables.from_changelog_stream(stream, schema, ChangelogMode.UPSERT))
    found = {}
    for table in ("again", "upserts"):
        query = tables.sql_query(f"SELECT COUNT(*) AS n, SUM(v) AS v, MIN(v) AS least FROM {table}")
        found[table] = query.to_pandas().values.tolist()
    assert found == {"again": [[2, 8, 1]], "upserts": [[2, 8, 1]]}
