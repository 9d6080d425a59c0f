"""Exports the figures of a whole job to the host's metrics."""

from __future__ import annotations

from collections.abc import Callable

from actors.protocol.ports import Clock, MetricSink
from flinkray.execution import JobStatus
from flinkray.state.checkpoint_statistics import CheckpointOverview

_INTERVAL_MS = 1_000.0


class JobExporter:
    """Exports one job as `job_...`: whether it runs, its restarts, and how its checkpoints went. One thread."""

    def __init__(self, job_name: str, sink: MetricSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._tags = {"job_name": job_name}
        self._next_ms = 0.0

    def export(self, status: JobStatus, restarts: int, overview: Callable[[], CheckpointOverview]) -> None:
        """Without effect where the last export was a moment ago, so that every report of a task may lead to one."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + _INTERVAL_MS
        checkpoints = overview()
        counts, last = checkpoints.counts, checkpoints.latest_completed
        figures = {
            "running": float(status is JobStatus.RUNNING),
            "restarts": float(restarts),
            "checkpoints_completed": float(counts.completed),
            "checkpoints_failed": float(counts.failed),
            "checkpoints_in_progress": float(counts.in_progress),
        }
        if last is not None:
            figures["last_checkpoint_duration_ms"] = float(last.duration_ms or 0)
            figures["last_checkpoint_bytes"] = float(last.nbytes)
            figures["last_checkpoint_completed_ms"] = float(last.ended_ms or 0)
        for name, value in figures.items():
            self._sink.gauge(f"job_{name}", value, self._tags)
