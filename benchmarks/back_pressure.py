"""How long checkpoints take while a slow sink holds everything up; prints milliseconds and shares of time.

    python benchmarks/back_pressure.py [--checkpoints 5] [--buffers 100] [--target local] [--interval "1 s"]

A source as fast as it can, an exchange, and a sink that takes 20 ms per batch, at parallelism 2; batches are small,
and each of the four channels may have `--buffers` of them in flight. One job each with checkpoints that are aligned,
unaligned, and aligned for 500 ms at most; it ends after `--checkpoints` of them.

Prints, per job: the median and the longest time from trigger to end; how long the barriers were on their way, and the
size of the rows in flight that the checkpoint has (medians); which part of its time the source, and the sink, was
back-pressured and busy; and how long the sink has to work for what lay in the channels at the end. Unaligned ones
should take less than 2 s; aligned ones have to wait for that work.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from statistics import median

from actors.client.job_client import ClusterJobClient
from actors.protocol.task_messages import TaskMetrics
from benchmarks.slow_sink import SlowSink
from flinkray import (
    CheckpointStatistics,
    CheckpointStatus,
    DataGenSource,
    SequenceField,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)

PARALLELISM = 2
BATCH_ROWS = 100
S_PER_BATCH = 0.02
POLL_S = 0.1
MODES: dict[str, dict[str, object]] = {
    "aligned": {},
    "unaligned": {"execution.checkpointing.unaligned.enabled": True},
    "aligned for 500 ms": {
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.aligned-checkpoint-timeout": "500 ms",
    },
}


def held_up(target: str, interval: str, buffers: int, directory: str, mode: dict[str, object]) -> ClusterJobClient:
    """The job, which runs until it is cancelled."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {
            "execution.target": target,
            "parallelism.default": PARALLELISM,
            "flinkray.batch.target-rows": BATCH_ROWS,
            "taskmanager.network.memory.buffers-per-channel": buffers,
            "metrics.fetcher.update-interval": "100 ms",
            "execution.checkpointing.dir": directory,
            "execution.checkpointing.timeout": "1 h",
            **mode,
        }
    )
    env.enable_checkpointing(interval)
    source = DataGenSource({"n": SequenceField()})
    env.from_source(source, WatermarkStrategy.no_watermarks(), "fast").rebalance().sink_to(SlowSink(S_PER_BATCH))
    client = env.execute_async("back pressure")
    assert isinstance(client, ClusterJobClient)
    return client


def completed(client: ClusterJobClient, wanted: int) -> list[CheckpointStatistics]:
    """The first `wanted` checkpoints that complete; waits for them."""
    seen: dict[int, CheckpointStatistics] = {}
    while len(seen) < wanted:
        threading.Event().wait(POLL_S)
        if client.status().is_terminal:
            client.result()
        for each in client.checkpoints().history:
            if each.status is CheckpointStatus.COMPLETED:
                seen[each.checkpoint_id] = each
    return [seen[checkpoint_id] for checkpoint_id in sorted(seen)][:wanted]


def figures(client: ClusterJobClient) -> tuple[list[TaskMetrics], list[TaskMetrics]]:
    """The metrics of the source's and the sink's subtasks, once each of them has reported some."""
    while True:
        source, sink = ([subtask.metrics for subtask in vertex.subtasks] for vertex in client.details().vertices)
        if all(each.batches_out for each in source) and all(each.batches_in for each in sink):
            return source, sink
        threading.Event().wait(POLL_S)


def shares(metrics: list[TaskMetrics]) -> str:
    """Which part of its time a vertex was back-pressured and busy, over all of its subtasks."""
    held_ms, busy_ms = (sum(getattr(each, name) for each in metrics) for name in ("backpressured_ms", "busy_ms"))
    total_ms = held_ms + busy_ms + sum(each.idle_ms for each in metrics)
    seconds = total_ms / len(metrics) / 1000
    return f"back-pressured {held_ms / total_ms:.0%} of its {seconds:.1f} s, busy {busy_ms / total_ms:.0%}"


def arrival_ms(checkpoint: CheckpointStatistics) -> float:
    """Milliseconds from the trigger until a subtask had its first barrier, and from there to its last one; the longest
    of each."""
    return checkpoint.start_delay_ms.maximum + checkpoint.alignment_ms.maximum


def wait_in_channels_s(source: list[TaskMetrics], sink: list[TaskMetrics]) -> float:
    """How long the sink needs, at the rate that it has had, for what the source has sent and it has not taken."""
    taken = sum(each.records_in for each in sink)
    queued = sum(each.records_out for each in source) - taken
    return queued / taken * max(each.busy_ms for each in sink) / 1000


def report(name: str, checkpoints: list[CheckpointStatistics], client: ClusterJobClient) -> None:
    durations = [each.duration_ms or 0 for each in checkpoints]
    source, sink = figures(client)
    print(
        f"{name}: {len(durations)} checkpoints, median {median(durations):,.0f} ms, longest {max(durations):,} ms; "
        f"until the last barrier came {median(arrival_ms(each) for each in checkpoints):,.0f} ms, "
        f"in flight {median(each.in_flight_bytes for each in checkpoints) / 1024:,.0f} KiB"
    )
    print(f"    source {shares(source)}; sink {shares(sink)}; ", end="")
    print(f"work in the channels: {wait_in_channels_s(source, sink):.1f} s", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkpoints", type=int, default=5)
    parser.add_argument("--buffers", type=int, default=100)
    parser.add_argument("--target", choices=("local", "ray"), default="local")
    parser.add_argument("--interval", default="1 s")
    given = parser.parse_args(arguments)
    for name, mode in MODES.items():
        with tempfile.TemporaryDirectory() as directory:
            client = held_up(given.target, given.interval, given.buffers, directory, mode)
            try:
                report(name, completed(client, given.checkpoints), client)
            finally:
                client.close()


if __name__ == "__main__":
    main()
