"""PyFlink's Table API with pandas functions over columns. Run in the virtual environment of apache-flink."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from pyflink.table import DataTypes
from pyflink.table.udf import udf

from benchmarks.definitions import LEAST_Z, Order, serve
from benchmarks.peers.flink_sql import run_query


@udf(result_type=DataTypes.DOUBLE(), func_type="pandas")
def z_of(v: pd.Series[float], k: pd.Series[int]) -> pd.Series[float]:
    return np.sqrt(v) * np.log1p(k)


def run(order: Order) -> tuple[list[tuple[Any, ...]], float]:
    # Otherwise a local run makes the Python workers threads of this process.
    os.environ["_python_worker_execution_mode"] = "process"  # noqa: SIM112
    query = f"SELECT z FROM (SELECT z_of(v, k) AS z FROM numbers) WHERE z > {LEAST_Z}"
    return run_query(order, query, lambda table_env: table_env.create_temporary_function("z_of", z_of))


if __name__ == "__main__":
    serve(run)
