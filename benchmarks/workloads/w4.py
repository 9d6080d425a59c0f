"""W4: running sums."""

from __future__ import annotations

import numpy as np

from benchmarks.definitions import Result
from benchmarks.workloads.base import FIELDS, Workload, generated, value_column
from flinkray import DataStream, StreamExecutionEnvironment, Sum


class W4(Workload):
    name = "W4"
    title = "running sums"
    work = "running sum(v) per key, one result per row"
    checked_columns = ("k", "total")

    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        return generated(env, rows, FIELDS).key_by("k").aggregate(total=Sum("v"))

    def expected(self, rows: int) -> Result:
        return Result(rows, float(np.sum(value_column(np.arange(rows)))))
