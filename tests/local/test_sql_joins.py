"""Joins in queries of whole jobs, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from flinkray import Row, StreamExecutionEnvironment, WatermarkStrategy
from tests.support.jobs import environment

QUERIES = (
    "SELECT t.n, u.m FROM t JOIN u ON t.a = u.b AND t.n < u.m",
    "SELECT t.n, u.m, w.n AS o FROM t FULL JOIN u ON t.a + 1 = u.b LEFT JOIN t AS w ON w.n = u.m",
    "SELECT n FROM t WHERE a IN (SELECT b FROM u WHERE u.m > t.n) AND n NOT IN (SELECT m FROM u WHERE m < 5)",
    "SELECT n FROM t WHERE a NOT IN (SELECT b FROM u)",
    "SELECT n FROM t WHERE a NOT IN (SELECT b FROM u WHERE u.m = t.n)",
    "SELECT x.n FROM t AS x RIGHT JOIN (SELECT t.n, u.m FROM t LEFT JOIN u ON t.a = u.b) AS y ON x.a = y.m",
    "SELECT COUNT(*) FROM t, u",
    "SELECT n, (SELECT MAX(m) FROM u) AS x FROM t WHERE n > (SELECT MIN(n) FROM t)",
    "SELECT COUNT(*) FROM t LEFT JOIN u ON t.n > 9",
    "SELECT m, COUNT(*), SUM(n) FROM (SELECT t.n, u.m FROM t LEFT JOIN u ON t.a = u.b) AS j GROUP BY m",
    "SELECT a, n, s FROM t JOIN (SELECT b, SUM(m) AS s FROM u GROUP BY b) AS g ON t.a = g.b AND g.s > t.n",
    "SELECT a, n FROM t INTERSECT SELECT b, m FROM u",
    "SELECT a FROM t EXCEPT ALL SELECT b FROM u",
    "SELECT a FROM (SELECT a FROM t EXCEPT SELECT m FROM u) AS x FULL JOIN u ON a = b",
    "SELECT x.a, b, t.n FROM (SELECT DISTINCT a FROM t) AS x FULL JOIN (SELECT DISTINCT b FROM u) AS y ON x.a = b "
    "FULL JOIN t ON x.a = t.n",
    "SELECT t.n, l.m FROM t JOIN LATERAL (SELECT m FROM u WHERE b = t.a) AS l ON l.m > t.n",
    "SELECT t.n FROM t, u WHERE NOT EXISTS (SELECT 1 FROM u AS v WHERE v.b = t.a AND v.m < u.m)",
)


def tables(sql: str) -> tuple[pa.Table, pa.Table]:
    generator = random.Random(sql)
    t, u = (
        pa.table({name: [generator.choice([None, *range(6)]) for _ in range(14)] for name in names})
        for names in (("a", "n"), ("b", "m"))
    )
    # With a NULL among its values NOT IN gives nothing.
    return t, u.filter(u["b"].is_valid()) if sql.endswith("NOT IN (SELECT b FROM u)") else u


def by_duckdb(sql: str, t: pa.Table, u: pa.Table) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("t", t)
        connection.register("u", u)
        return Counter(connection.execute(sql).fetchall())


@pytest.mark.parametrize("sql", QUERIES)
def test_a_join_folds_to_what_duckdb_says(env: StreamExecutionEnvironment, sql: str) -> None:
    t, u = tables(sql)
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, kind in env.sql(sql, t=t, u=u).kinds_as_column("op").execute_and_collect():
        found[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    assert {row: count for row, count in found.items() if count} == by_duckdb(sql, t, u)


@pytest.mark.parametrize(
    "sql", [QUERIES[1], QUERIES[3], "SELECT n, m FROM t FULL JOIN u ON a = b EXCEPT SELECT n, m FROM t, u"]
)
def test_a_join_gives_its_final_rows_in_batch_mode(sql: str) -> None:
    t, u = tables(sql)
    query = environment({"execution.runtime-mode": "batch"}).sql(sql, t=t, u=u)
    assert Counter(map(tuple, query.execute_and_collect())) == by_duckdb(sql, t, u)


def test_a_join_within_an_interval_gives_inserts_alone(env: StreamExecutionEnvironment) -> None:
    sql = "SELECT t.n, u.m FROM t FULL JOIN u ON t.a = u.b AND t.ts BETWEEN u.us - {0} AND u.us + {1} AND t.n <> u.m"
    times = [pa.array([random.Random(seed).randrange(60) for seed in range(start, start + 40)]) for start in (0, 40)]
    numbers = pa.array(range(40))
    t = pa.table({"a": pa.array([each % 3 for each in range(40)]), "n": numbers, "ts": times[0]})
    u = pa.table({"b": pa.array([each % 4 for each in range(40)]), "m": numbers, "us": times[1]})
    streams = {}
    for name, rows, time in (("t", t, "ts"), ("u", u, "us")):
        typed = rows.set_column(2, time, rows[time].cast(pa.timestamp("ms")))
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(60).with_timestamp_assigner(time)
        streams[name] = env.from_arrow(typed).assign_timestamps_and_watermarks(strategy)
    found = env.sql(sql.format("INTERVAL '0.005' SECOND", "INTERVAL '0.010' SECOND"), **streams)
    assert Counter(map(tuple, found.execute_and_collect())) == by_duckdb(sql.format(5, 10), t, u)


def test_collections_are_unnested_beside_their_rows(env: StreamExecutionEnvironment) -> None:
    fields = [{"x": 1, "y": "a"}, None]
    lists = pa.table({"id": [1, 2, 3], "list": [[5, None], [], None], "rows": [fields, [], [{"x": 3, "y": "c"}]]})
    found = env.sql("SELECT id, e, o FROM l LEFT JOIN UNNEST(list) WITH ORDINALITY AS u(e, o) ON TRUE", l=lists)
    assert sorted(map(str, found.execute_and_collect())) == sorted(
        map(str, [Row(id=1, e=5, o=1), Row(id=1, e=None, o=2), Row(id=2, e=None, o=None), Row(id=3, e=None, o=None)])
    )
    found = env.sql("SELECT id, x, y FROM l, UNNEST(`rows`)", l=lists)
    expected = [Row(id=1, x=1, y="a"), Row(id=3, x=3, y="c")]  # as in Flink, of a row that is NULL there is none
    assert sorted(map(str, found.execute_and_collect())) == sorted(map(str, expected))
