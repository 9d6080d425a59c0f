"""L1: how long a row takes from being made to the sink.

    python -m benchmarks.workloads.l1 --rate 1000 --buffer-timeout-ms 10 --slots 2 --seconds 15 --target ray

Rows are paced into key_by -> running count -> sink at parallelism 1; with two slots the key_by crosses from one process
to the other. Prints the percentiles in ms; the first fifth of the rows is left out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads.base import FIELDS, Rows
from flinkray import (
    Batch,
    Count,
    DataGenSource,
    Last,
    Sink,
    SinkWriter,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)

RATES = (1_000, 50_000)
BUFFER_TIMEOUTS_MS = (0, 10)
SLOTS = (1, 2)
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
WARM_UP = 0.2


class LatencySink(Sink):
    """Writes how old each row was when it came, in ms, to a file per subtask."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return _LatencyWriter(Path(self._directory) / f"{context.subtask_index}.npy")


class _LatencyWriter(SinkWriter):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._latencies: list[Any] = []

    def write(self, batch: Batch) -> None:
        self._latencies.append((time.time_ns() - batch.data.column("made").to_numpy()) / 1e6)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input:
            np.save(self._path, np.concatenate(self._latencies or [np.empty(0)]))

    def close(self) -> None: ...


def made(rows: Rows) -> Rows:
    return np.full(len(rows), time.time_ns())


def latencies(rate: int, buffer_timeout_ms: int, slots: int, rows: int, target: str) -> dict[str, float]:
    """Percentiles of one job, in ms."""
    with tempfile.TemporaryDirectory() as directory:
        env = StreamExecutionEnvironment.get_execution_environment(
            {"execution.target": target, "parallelism.default": 1}
        )
        env.set_buffer_timeout(buffer_timeout_ms)
        source = DataGenSource({"k": FIELDS["k"], "made": made}, rows, rows_per_second=rate)
        paced = env.from_source(source, WatermarkStrategy.no_watermarks(), "paced")
        counted = paced.key_by("k").aggregate(n=Count(), made=Last("made"))
        if slots == 2:
            counted = counted.slot_sharing_group("second")
        counted.sink_to(LatencySink(directory))
        env.execute("latency")
        found = np.concatenate([np.load(path) for path in sorted(Path(directory).glob("*.npy"))])
    assert len(found) == rows, f"{len(found)} of {rows} rows came"
    steady = found[int(rows * WARM_UP) :]
    return {name: float(np.percentile(steady, percentile)) for name, percentile in PERCENTILES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--buffer-timeout-ms", type=int, default=10)
    parser.add_argument("--slots", type=int, choices=SLOTS, default=2)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--target", choices=("local", "ray"), default="ray")
    given = parser.parse_args()
    rows = int(given.rate * given.seconds)
    print(json.dumps(latencies(given.rate, given.buffer_timeout_ms, given.slots, rows, given.target)))


if __name__ == "__main__":
    main()
