"""What checkpoints cost: throughput of a job of windows without and with them; prints rows/s of every run.

    python benchmarks/checkpoint_overhead.py [--rows 100000000] [--runs 3] [--target local] [--interval "1 s"]

Rows are made inside (key, number, event time; 100 rows per key and window), summed and counted per key in tumbling
windows of 10 s, and discarded, at parallelism 2. Runs without and with checkpoints alternate. Time is that of the
subtask that ran longest, so start-up is left out, and the checkpoint that ends a bounded job is in it.

Beside rows/s, for runs with checkpoints: how many were completed and failed, and why the last one failed; of the
completed ones the median and the most of the time that the slowest subtask was held up (sync) and wrote beside its
work (async), of the time from trigger to end, and of their size. Last the medians of rows/s and their ratio, which
should be 90 % or more.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from actors.client.job_client import ClusterJobClient
from flinkray import (
    CheckpointOverview,
    CheckpointStatistics,
    CheckpointStatus,
    Count,
    DataGenSource,
    DiscardSink,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

KEYS = 10_000
KIB = 1 << 10
POLL_S = 2.0
"""A job remembers its last ten checkpoints: with shorter intervals than a fifth of a second some are not seen."""


@dataclass(frozen=True)
class MeasuredRun:
    """What one run gave: its rate, and its checkpoints."""

    rows_per_second: float
    overview: CheckpointOverview
    seen: list[CheckpointStatistics]
    """The completed ones whose figures were seen."""


def windows(env: StreamExecutionEnvironment, rows: int) -> None:
    """Adds the program that is measured: windows over generated rows."""
    source = DataGenSource(
        {
            "k": lambda row: row * 2_654_435_761 % KEYS,
            "v": lambda row: row * 0.5,
            "ts": lambda row: row // 100,
        },
        rows=rows,
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness("5 s").with_timestamp_assigner("ts")
    keyed = env.from_source(source, strategy, "rows").key_by("k").window(TumblingEventTimeWindows.of("10 s"))
    keyed.aggregate(total=Sum("v"), rows=Count()).sink_to(DiscardSink())


def run(rows: int, target: str, interval: str | None) -> MeasuredRun:
    """Runs the job to its end; without checkpoints where `interval` is None."""
    with tempfile.TemporaryDirectory() as directory:
        env = StreamExecutionEnvironment.get_execution_environment(
            {"execution.target": target, "parallelism.default": 2, "execution.checkpointing.dir": directory}
        )
        if interval is not None:
            env.enable_checkpointing(interval)
        windows(env, rows)
        client = env.execute_async("windows")
        assert isinstance(client, ClusterJobClient)
        try:
            seen = watch(client)
            return MeasuredRun(rows / running_s(client), client.checkpoints(), seen)
        finally:
            client.close()


def watch(client: ClusterJobClient) -> list[CheckpointStatistics]:
    """Waits for the job's end; its completed checkpoints."""
    seen: dict[int, CheckpointStatistics] = {}
    has_ended = False
    while not has_ended:
        try:
            client.result(POLL_S)
            has_ended = True
        except TimeoutError:
            pass  # it runs, and has more checkpoints than before
        completed = (each for each in client.checkpoints().history if each.status is CheckpointStatus.COMPLETED)
        seen.update({each.checkpoint_id: each for each in completed})
    return list(seen.values())


def running_s(client: ClusterJobClient) -> float:
    """How long the subtask ran that ran longest, in seconds."""
    figures = [subtask.metrics for vertex in client.details().vertices for subtask in vertex.subtasks]
    return max(each.busy_ms + each.idle_ms + each.backpressured_ms for each in figures) / 1000


def spread(values: Iterable[float], unit: str) -> str:
    """The median and the highest value."""
    known = list(values)
    return f"{median(known):,.0f} (most {max(known):,.0f}) {unit}"


def report(title: str, run: MeasuredRun) -> None:
    print(f"{title}: {run.rows_per_second:,.0f} rows/s", end="")
    if run.seen:
        counts = run.overview.counts
        print(
            f"; {counts.completed} checkpoints completed, {counts.failed} failed: "
            f"sync {spread((each.sync_ms.maximum for each in run.seen), 'ms')}, "
            f"async {spread((each.async_ms.maximum for each in run.seen), 'ms')}, "
            f"in all {spread((each.duration_ms or 0 for each in run.seen), 'ms')}, "
            f"size {spread((each.nbytes / KIB for each in run.seen), 'KiB')}",
            end="",
        )
    failure = run.overview.latest_failed
    print(f"; the last failure: {failure.failure}" if failure is not None else "", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--target", choices=("local", "ray"), default="local")
    parser.add_argument("--interval", default="1 s")
    given = parser.parse_args(arguments)
    run(1, given.target, None)  # imports, and on Ray its cluster
    without, with_them = [], []
    for number in range(1, given.runs + 1):
        without.append(run(given.rows, given.target, None))
        report(f"run {number} without checkpoints", without[-1])
        with_them.append(run(given.rows, given.target, given.interval))
        report(f"run {number} with one every {given.interval}", with_them[-1])
    before = median(each.rows_per_second for each in without)
    after = median(each.rows_per_second for each in with_them)
    print(f"medians: {before:,.0f} rows/s without, {after:,.0f} rows/s with checkpoints: {after / before:.1%}")


if __name__ == "__main__":
    main()
