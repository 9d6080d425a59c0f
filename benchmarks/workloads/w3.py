"""W3 and W3x: a stateless chain, of Python row functions and of column expressions."""

from __future__ import annotations

import numpy as np

from benchmarks.definitions import Result
from benchmarks.workloads.base import Workload, expected_from, generated
from flinkray import DataStream, StreamExecutionEnvironment, col


class W3(Workload):
    name = "W3"
    title = "row functions"
    work = "i -> x*2+1 -> keep x mod 3 = 0 -> x // 3 as three Python row functions"
    checked_columns = ("value",)

    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        def twice(row: int) -> int:
            return row * 2 + 1

        def is_third(x: int) -> bool:
            return x % 3 == 0

        def third(x: int) -> int:
            return x // 3

        return env.from_sequence(0, rows - 1).map(twice).filter(is_third).map(third)

    def expected(self, rows: int) -> Result:
        x = np.arange(rows) * 2 + 1
        return expected_from({"value": x[x % 3 == 0] // 3}, self.name)


class W3x(W3):
    name = "W3x"
    title = "column expressions"
    work = "W3 with column expressions"

    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        x = generated(env, rows).select(x=col("value") * 2 + 1)
        return x.where(col("x") % 3 == 0).select(value=col("x") // 3)
