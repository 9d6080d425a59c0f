"""W6 and W6d: two streams joined in tumbling windows."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.definitions import RIGHT_SHARE, ROWS_PER_MS, WINDOW_MS, Result, right_rows
from benchmarks.workloads.base import WINDOWS, Workload, key_column, timed, value_column
from flinkray import DataStream, StreamExecutionEnvironment


class W6(Workload):
    name = "W6"
    title = "window join of W2's rows"
    work = "rows as of W2 joined with a tenth as many, per key in 10 s tumbling windows"
    checked_columns = ("v", "v_right")

    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        rows_per_ms = ROWS_PER_MS[self.name]
        left = timed(env, rows, lambda row: row // rows_per_ms, "left")
        right = timed(env, right_rows(rows), lambda row: row * RIGHT_SHARE // rows_per_ms, "right")
        return left.join(right).where("k").equal_to("k").window(WINDOWS).apply()

    def expected(self, rows: int) -> Result:
        rights: dict[tuple[int, int], list[float]] = defaultdict(list)
        for group, value in self._groups(right_rows(rows), RIGHT_SHARE):
            rights[group].append(value)
        pairs = [(left, right) for group, left in self._groups(rows, 1) for right in rights.get(group, ())]
        return Result(len(pairs), sum(left + right for left, right in pairs))

    def rows_counted(self, rows: int) -> int:
        return rows + right_rows(rows)

    def _groups(self, rows: int, spread: int) -> list[tuple[tuple[int, int], float]]:
        """(window and key, value) of each row."""
        row = np.arange(rows)
        windows = row * spread // ROWS_PER_MS[self.name] // WINDOW_MS
        return list(
            zip(
                zip(windows.tolist(), key_column(row).tolist(), strict=True),
                value_column(row).tolist(),
                strict=True,
            )
        )


class W6d(W6):
    name = "W6d"
    title = "window join of W2d's rows"
    work = "rows as of W2d joined with a tenth as many, per key in 10 s tumbling windows"
