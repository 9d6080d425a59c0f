"""W5: a numpy function over columns."""

from __future__ import annotations

import numpy as np

from benchmarks.definitions import LEAST_Z, Result
from benchmarks.workloads.base import FIELDS, Columns, Workload, expected_from, generated, key_column, value_column
from flinkray import DataStream, StreamExecutionEnvironment


class W5(Workload):
    name = "W5"
    title = "numpy on columns"
    work = "z = sqrt(v) * log1p(k), keep z > 1000, as a numpy function over columns"
    checked_columns = ("z",)
    check_rows = 30_000
    """With fewer than 24,000 rows no z is above 1000."""

    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        def large(columns: Columns) -> Columns:
            z = np.sqrt(columns["v"]) * np.log1p(columns["k"])
            return {"z": z[z > LEAST_Z]}

        return generated(env, rows, FIELDS).map_batches(large, batch_format="numpy")

    def expected(self, rows: int) -> Result:
        row = np.arange(rows)
        z = np.sqrt(value_column(row)) * np.log1p(key_column(row))
        return expected_from({"z": z[z > LEAST_Z]}, self.name)
