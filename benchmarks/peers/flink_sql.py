"""Flink SQL: Java operators; Python only submits the statement. Run in the virtual environment of apache-flink."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

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
from benchmarks.peers.printed import printed_rows, stdout_to_file

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


def environment(order: Order) -> StreamTableEnvironment:
    """A table environment with the order's sources."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(order.parallelism)
    table_env = StreamTableEnvironment.create(env)
    table_env.get_config().set("pipeline.object-reuse", "true")
    if order.workload == "W1":
        path = text_file(order.rows).resolve()
        table_env.execute_sql(
            f"CREATE TABLE text (line STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'raw')"
        )
        return table_env
    add_numbers(env, table_env, "numbers", order.rows, order)
    if order.workload in ("W6", "W6d"):
        add_numbers(env, table_env, "rights", right_rows(order.rows), order, RIGHT_SHARE)
    return table_env


def add_numbers(
    env: StreamExecutionEnvironment,
    table_env: StreamTableEnvironment,
    name: str,
    rows: int,
    order: Order,
    spread: int = 1,
) -> None:
    """A view of the columns i, k, v; and ts, with its watermark, where the workload has one.

    Not SQL's datagen, whose rate limiter lets some 4 million rows a second pass at most. The sequence gives each
    subtask a range of its own, of which i is made such that time proceeds evenly over all: else the windows of all
    other ranges would wait for the first.
    """
    if rows % order.parallelism:
        raise ValueError(f"{name}: its {rows} rows cannot be shared evenly by {order.parallelism} subtasks")
    sequence = NumberSequenceSource(0, rows - 1)
    stream = env.from_source(sequence, WatermarkStrategy.no_watermarks(), name, Types.LONG())
    share = rows // order.parallelism
    schema = Schema.new_builder().column("f0", DataTypes.BIGINT())
    i = f"(MOD(f0, {share}) * {order.parallelism} + f0 / {share})"
    schema.column_by_expression("i", i)
    schema.column_by_expression("k", f"MOD({i} * {MULTIPLIER}, {KEYS})")
    schema.column_by_expression("v", f"{i} * CAST(0.5 AS DOUBLE)")
    if order.workload in ROWS_PER_MS:
        schema.column_by_expression("ts", f"TO_TIMESTAMP_LTZ({i} * {spread} / {ROWS_PER_MS[order.workload]}, 3)")
        schema.watermark("ts", f"ts - INTERVAL '{DISORDER_MS // 1000}' SECOND")
    table_env.create_temporary_view(name, table_env.from_data_stream(stream, schema.build()))


def run_query(
    order: Order, query: str, prepare: Callable[[StreamTableEnvironment], None] = lambda _: None
) -> tuple[list[tuple[Any, ...]], float]:
    """Runs the query into a sink that prints, for a check, or into one that discards."""
    with stdout_to_file() as printed:
        table_env = environment(order)
        prepare(table_env)
        connector = "print" if order.checks else "blackhole"
        table_env.execute_sql(f"CREATE TABLE results ({SINKS[order.workload]}) WITH ('connector' = '{connector}')")
        started = time.monotonic()
        table_env.execute_sql(f"INSERT INTO results {query}").wait()
        return list(printed_rows(printed)), time.monotonic() - started


def run(order: Order) -> tuple[list[tuple[Any, ...]], float]:
    return run_query(order, QUERIES[order.workload])


if __name__ == "__main__":
    serve(run)
