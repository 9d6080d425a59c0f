"""flinkray's side of the comparison: runs one workload through the public API, and prints its figures.

    python -m benchmarks.flinkray_engine W2d 1000000 2 time --mode ray

The mode is the target: local or ray. Before the clock starts, a job of one row has imported everything.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.definitions import Order, Result, serve
from benchmarks.workloads.catalog import THROUGHPUT
from flinkray import DiscardSink, StreamExecutionEnvironment

STARTED = "BENCHMARK_STARTED"
"""Names a file to make when the clock starts, for who records a profile from then on."""


def environment(target: str, parallelism: int) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": target, "parallelism.default": parallelism}
    )


def run(order: Order) -> tuple[Result | None, float]:
    """Checks or times a workload; seconds are those from `execute()` to the job's end."""
    workload = THROUGHPUT[order.workload]
    target = order.mode or "ray"
    if order.checks:
        started = time.monotonic()
        results = workload.stream(environment(target, order.parallelism), order.rows).to_arrow()
        return workload.found(results), time.monotonic() - started
    for rows in (1, order.rows):
        if rows == order.rows and STARTED in os.environ:
            Path(os.environ[STARTED]).touch()
        env = environment(target, order.parallelism)
        workload.stream(env, rows).sink_to(DiscardSink())
        started = time.monotonic()
        env.execute(workload.name)
    return None, time.monotonic() - started


if __name__ == "__main__":
    serve(run)
