"""Calls OVER windows by SQL, in whole jobs, against DuckDB."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from flinkray import WatermarkStrategy
from tests.support.jobs import environment
from tests.support.whole_jobs import in_order, rows_of

WINDOWS = (
    "PARTITION BY k ORDER BY a, n",
    "PARTITION BY k ORDER BY a DESC, n ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "PARTITION BY k ORDER BY n ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "PARTITION BY k ORDER BY n ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "PARTITION BY k ORDER BY n RANGE BETWEEN 9 PRECEDING AND 4 FOLLOWING",
    "PARTITION BY k ORDER BY n DESC RANGE BETWEEN CURRENT ROW AND 7 FOLLOWING",
    "PARTITION BY k ORDER BY a",
    "PARTITION BY k",
    "ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 3 PRECEDING",
    "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '20' SECOND PRECEDING AND CURRENT ROW",
    "ORDER BY x RANGE BETWEEN 0.5 PRECEDING AND 0.25 FOLLOWING",
    "ORDER BY x DESC RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "PARTITION BY k ORDER BY CAST(n / 8.0 AS DECIMAL(9, 3)) RANGE BETWEEN 0.375 PRECEDING AND 0.5 FOLLOWING",
)
CALLS = (
    "COUNT(*)", "COUNT(a)", "SUM(a)", "SUM(x)", "SUM(d)", "MIN(word)", "MAX(d)", "MAX(ts)", "AVG(d)",
    "COUNT(DISTINCT a)", "SUM(a + 1) FILTER (WHERE n > 20)", "STDDEV_SAMP(x / 1E12)",
)  # fmt: skip
RANKS = (
    "ROW_NUMBER()", "RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(4)", "LAG(n)", "LAG(a, 2, 7)",
    "LEAD(word, 3)", "LAG(x, 1, 7)", "LEAD(x, 5, 0.5)", "LEAD(ts, 1, TIMESTAMP '2020-01-01 00:00:00')",
)  # fmt: skip


def query(calls: tuple[str, ...], window: str) -> str:
    return f"SELECT n, {', '.join(f'{call} OVER w' for call in calls)} FROM t WINDOW w AS ({window})"


QUERIES = {
    **{window: query(CALLS, window) for window in WINDOWS},
    "ranks": query(RANKS, "PARTITION BY k ORDER BY n"),
    "ties": query(RANKS[1:5], "PARTITION BY k ORDER BY a"),
    "two windows": "SELECT SUM(n) OVER (PARTITION BY word), n, COUNT(*) OVER (PARTITION BY k) FROM t",
}


def data() -> pa.Table:
    generator = random.Random(5)
    rows: list[tuple[Any, ...]] = []
    for n in range(40):
        ts = datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=generator.randrange(60), milliseconds=n)
        choose = generator.choice
        a, x = choose([None, 1, 2, 3]), choose([None, 0.5, 2.0**40, 1.0])
        rows.append((choose("xy"), a, n, x, choose([None, "p", "q"]), ts, None if a is None else n * a))
    k, a, n, x, word, ts, d = map(list, zip(*rows, strict=True))
    times, decimals = pa.array(ts, pa.timestamp("ms")), pa.array(d).cast(pa.decimal128(22, 2))
    return pa.table({"k": k, "a": a, "n": n, "x": x, "word": word, "ts": times, "d": decimals})


TIMES = {
    "all times": query(CALLS, "PARTITION BY k ORDER BY ts"),
    "rows": query((*CALLS, "LAG(a)"), "PARTITION BY word ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
    "times": query(CALLS, "ORDER BY ts RANGE BETWEEN INTERVAL '15' SECOND PRECEDING AND CURRENT ROW"),
    "ranks": query((*RANKS[:3], "LAG(n, 2)"), "PARTITION BY k ORDER BY ts"),
}


@pytest.mark.parametrize(("mode", "sqls"), [("batch", QUERIES), ("streaming", TIMES)], ids=["batch", "streaming"])
def test_results_of_calls_over_windows_are_those_of_duckdb(mode: str, sqls: dict[str, str]) -> None:
    table = data()
    env = environment({"execution.runtime-mode": mode, "flinkray.batch.target-rows": 40 if mode == "batch" else 5})
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(60_000).with_timestamp_assigner("ts")
    stream = env.from_arrow(table, strategy).set_parallelism(1)
    queries = {name: stream.sql(sql.replace("FROM t", "FROM self")) for name, sql in sqls.items()}
    found = {name: Counter(map(_rounded, rows)) for name, rows in rows_of(env, queries).items()}
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        connection.register("t", table)
        for name, sql in sqls.items():
            assert found[name] == Counter(map(_rounded, connection.execute(sql).fetchall())), name


def test_rows_of_a_stream_are_sorted_by_their_time() -> None:
    env = environment({"flinkray.batch.target-rows": 5})
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(60_000).with_timestamp_assigner("ts")
    stream = env.from_arrow(data(), strategy).set_parallelism(1)
    times = [row.ts for row in in_order(stream.sql("SELECT ts FROM self ORDER BY ts"))]
    assert times == sorted(data().column("ts").to_pylist())


def _rounded(row: Any) -> tuple[Any, ...]:
    """DuckDB's means of decimals are doubles."""
    return tuple(round(float(each), 5) if isinstance(each, float | Decimal) else each for each in row)
