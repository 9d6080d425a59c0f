"""Flink SQL: Java operators; Python only submits the statement. Run in the virtual environment of apache-flink."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyflink.common import RowKind
from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.definitions import (
    DISORDER_MS,
    KEYS,
    LEAST_Z,
    MULTIPLIER,
    RIGHT_SHARE,
    ROWS_PER_MS,
    WINDOW_MS,
    Order,
    right_rows,
    serve,
    text_file,
)

WINDOW = f"INTERVAL '{WINDOW_MS // 1000}' SECOND"
QUERIES = {
    "W1": "SELECT word, COUNT(*) FROM text CROSS JOIN UNNEST(SPLIT(line, ' ')) AS words (word) GROUP BY word",
    "W2": f"""SELECT SUM(v), COUNT(*) FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), {WINDOW}))
        GROUP BY k, window_start, window_end""",
    "W3x": "SELECT x / 3 FROM (SELECT i * 2 + 1 AS x FROM numbers) WHERE MOD(x, 3) = 0",
    "W4": "SELECT k, SUM(v) FROM numbers GROUP BY k",
    "W5": f"SELECT z FROM (SELECT SQRT(v) * LN(1 + k) AS z FROM numbers) WHERE z > {LEAST_Z}",
    "W6": f"""SELECT l.v, r.v FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(ts), {WINDOW})) AS l
        JOIN TABLE(TUMBLE(TABLE rights, DESCRIPTOR(ts), {WINDOW})) AS r
        ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end""",
}
QUERIES |= {"W2d": QUERIES["W2"], "W6d": QUERIES["W6"]}
SINKS = {
    "W1": "word STRING, n BIGINT",
    "W2": "total DOUBLE, n BIGINT",
    "W3x": "x BIGINT",
    "W4": "k BIGINT, total DOUBLE",
}
SINKS |= {"W2d": SINKS["W2"], "W5": "z DOUBLE", "W6": "l DOUBLE, r DOUBLE", "W6d": "l DOUBLE, r DOUBLE"}


def numbers(name: str, rows: int, workload: str, spread: int = 1) -> str:
    """A table of the columns i, k, v; and ts, with its watermark, where the workload has one."""
    columns = f"i BIGINT, k AS MOD(i * {MULTIPLIER}, {KEYS}), v AS i * CAST(0.5 AS DOUBLE)"
    if workload in ROWS_PER_MS:
        columns += f""", ts AS TO_TIMESTAMP_LTZ(i * {spread} / {ROWS_PER_MS[workload]}, 3),
            WATERMARK FOR ts AS ts - INTERVAL '{DISORDER_MS // 1000}' SECOND"""
    return f"""CREATE TABLE {name} ({columns}) WITH ('connector' = 'datagen', 'fields.i.kind' = 'sequence',
        'fields.i.start' = '0', 'fields.i.end' = '{rows - 1}')"""


def environment(order: Order) -> TableEnvironment:
    """One with the order's sources."""
    table_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    table_env.get_config().set("parallelism.default", str(order.parallelism))
    if order.workload == "W1":
        path = text_file(order.rows).resolve()
        table_env.execute_sql(
            f"CREATE TABLE text (line STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'raw')"
        )
        return table_env
    table_env.execute_sql(numbers("numbers", order.rows, order.workload))
    if order.workload in ("W6", "W6d"):
        table_env.execute_sql(numbers("rights", right_rows(order.rows), order.workload, RIGHT_SHARE))
    return table_env


def run_query(
    table_env: TableEnvironment, query: str, sink: str, order: Order
) -> tuple[Iterator[tuple[Any, ...]] | None, float]:
    if order.checks:
        return added(table_env, query), 0.0
    table_env.execute_sql(f"CREATE TABLE nothing ({sink}) WITH ('connector' = 'blackhole')")
    started = time.monotonic()
    table_env.execute_sql(f"INSERT INTO nothing {query}").wait()
    return None, time.monotonic() - started


def added(table_env: TableEnvironment, query: str) -> Iterator[tuple[Any, ...]]:
    """Results, of changing ones each new value."""
    with table_env.execute_sql(query).collect() as rows:
        for row in rows:
            if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                yield tuple(row)


def run(order: Order) -> tuple[Iterator[tuple[Any, ...]] | None, float]:
    return run_query(environment(order), QUERIES[order.workload], SINKS[order.workload], order)


if __name__ == "__main__":
    serve(run)
