"""W2 and W2d: sum and count in tumbling windows, with one row per group and with a hundred; and W2d in SQL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.definitions import ROWS_PER_MS, WINDOW_MS, Result
from benchmarks.workloads.base import WINDOWS, Rows, Workload, expected_from, key_column, timed, value_column
from flinkray import Count, DataStream, StreamExecutionEnvironment, Sum
from flinkray.batches.numpy_arrays import from_numpy


class W2(Workload):
    name = "W2"
    title = "windows, 1 row per group"
    work = "10 s tumbling windows per key: sum(v), count; one row per group"
    checked_columns = ("total", "n")

    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        rows_per_ms = ROWS_PER_MS[self.name]
        stream = timed(env, rows, lambda row: row // rows_per_ms)
        return stream.key_by("k").window(WINDOWS).aggregate(total=Sum("v"), n=Count())

    def expected(self, rows: int) -> Result:
        row = np.arange(rows)
        groups, group = np.unique(self._windows(row) << 32 | key_column(row), return_inverse=True)
        total = np.bincount(group, weights=value_column(row), minlength=len(groups))
        return expected_from({"total": total, "n": np.bincount(group)}, self.name)

    def _windows(self, row: Rows) -> Rows:
        return row // ROWS_PER_MS[self.name] // WINDOW_MS


class W2d(W2):
    name = "W2d"
    title = "windows, 100 rows per group"
    work = "10 s tumbling windows per key: sum(v), count; 100 rows per group"


class W2dSql(W2d):
    name = "W2d-sql"
    title = "the same in SQL"
    work = "W2d as a query of SQL, whose window is of a column of timestamps"

    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        rows_per_ms = ROWS_PER_MS[self.name]
        stream = timed(env, rows, lambda row: from_numpy(row // rows_per_ms).cast(pa.timestamp("ms")))
        return env.sql(
            f"""
            SELECT SUM(v) AS total, COUNT(*) AS n
            FROM TABLE(TUMBLE(TABLE {{rows}}, DESCRIPTOR(ts), INTERVAL '{WINDOW_MS // 1000}' SECOND))
            GROUP BY k, window_start, window_end
            """,
            rows=stream,
        )
