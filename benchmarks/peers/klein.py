"""ray-klein: a chain of row functions on Ray. Run in the virtual environment of ray-klein, which pins an older Ray."""

from __future__ import annotations

import time
from typing import Any

import ray
import ray.klein as klein
from ray.klein import SinkFunction, SourceFunction

from benchmarks.definitions import Order, serve


class NumberSourceFunction(SourceFunction):
    """Gives the row numbers in order."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._is_cancelled = False

    def run(self, context: Any) -> None:
        for i in range(self._rows):
            if self._is_cancelled:
                return
            context.collect({"i": i})

    def cancel(self) -> None:
        self._is_cancelled = True

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return None

    def restore_state(self, state: Any) -> None: ...


class Discarding(SinkFunction):
    def write(self, value: dict[str, Any]) -> None: ...


def run(order: Order) -> tuple[list[tuple[Any, ...]], float]:
    ray.init(address="local", num_cpus=8)
    pipeline = klein.pipeline(name=order.workload)
    numbers = pipeline.source(NumberSourceFunction, fn_constructor_args=[order.rows], bounded=True)
    twice = numbers.map(lambda row: {"x": row["i"] * 2 + 1}, concurrency=order.parallelism)
    kept = twice.filter(lambda row: row["x"] % 3 == 0, concurrency=order.parallelism)
    results = kept.map(lambda row: {"x": row["x"] // 3}, concurrency=order.parallelism)
    started = time.monotonic()
    if order.checks:
        return [(row["x"],) for row in results.collect().result()], time.monotonic() - started
    results.write(Discarding).wait()
    return [], time.monotonic() - started


if __name__ == "__main__":
    serve(run)
