"""Collects statistics of a job's checkpoints, for clients to look at (Flink's CheckpointStatsTracker).

The values that it makes are in `flinkray.state.checkpoint_statistics`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from actors.checkpoints.coordination.task_statistics import CheckpointSamples, TaskStatistics
from actors.protocol.checkpoint_handles import CheckpointMetrics, TaskSnapshot
from actors.protocol.job_reports import CheckpointReport
from flinkray.state.checkpoint_statistics import (
    CheckpointKind,
    CheckpointOverview,
    CheckpointStatistics,
    CheckpointStatus,
    RestoredCheckpoint,
)
from graphs.execution_graph import ExecutionVertexId

HISTORY = 10
"""How many checkpoints that have ended are remembered: Flink's default of web.checkpoints.history."""


@dataclass
class CheckpointTracker:
    """The checkpoint coordinator reports each event here; `overview` gives the statistics so far."""

    history_size: int = HISTORY
    _entries: dict[int, CheckpointStatistics] = field(default_factory=dict)
    """Checkpoints in progress and the last ones that have ended, by id, ascending."""
    _overview: CheckpointOverview = CheckpointOverview()
    _tasks: TaskStatistics = field(default_factory=TaskStatistics)
    _samples: CheckpointSamples = field(default_factory=CheckpointSamples)

    def triggered(self, entry: CheckpointStatistics, subtasks: Iterable[ExecutionVertexId]) -> None:
        self._entries[entry.checkpoint_id] = entry
        self._tasks.triggered(entry.checkpoint_id, subtasks)
        self._count(triggered=1, in_progress=1)

    def acknowledged(
        self,
        checkpoint_id: int,
        subtask: ExecutionVertexId,
        snapshot: TaskSnapshot,
        metrics: CheckpointMetrics,
        now: int,
    ) -> None:
        entry = self._entries[checkpoint_id]
        self._tasks.acknowledged(checkpoint_id, subtask, snapshot, metrics, now)
        self._entries[checkpoint_id] = replace(
            entry,
            acknowledged=entry.acknowledged + 1,
            nbytes=entry.nbytes + snapshot.nbytes,
            in_flight_bytes=entry.in_flight_bytes + metrics.in_flight_bytes,
            start_delay_ms=entry.start_delay_ms.with_value(metrics.start_delay_ms),
            alignment_ms=entry.alignment_ms.with_value(metrics.alignment_ms),
            sync_ms=entry.sync_ms.with_value(metrics.sync_ms),
            async_ms=entry.async_ms.with_value(metrics.async_ms),
        )

    def completed(self, checkpoint_id: int, now: int) -> None:
        entry = replace(self._entries[checkpoint_id], status=CheckpointStatus.COMPLETED, ended_ms=now)
        self._samples.completed(entry, self._tasks.new_bytes(checkpoint_id))
        self._count(completed=1, in_progress=-1)
        if entry.kind is CheckpointKind.CHECKPOINT:
            self._overview = replace(self._overview, latest_completed=entry)
        else:
            self._overview = replace(self._overview, latest_savepoint=entry)
        self._end(entry)

    def failed(self, checkpoint_id: int, failure: str, now: int) -> None:
        entry = self._entries[checkpoint_id]
        entry = replace(entry, status=CheckpointStatus.FAILED, ended_ms=now, failure=failure)
        self._count(failed=1, in_progress=-1)
        self._overview = replace(self._overview, latest_failed=entry)
        self._end(entry)

    def restored(self, restored: RestoredCheckpoint) -> None:
        self._count(restored=1)
        self._overview = replace(self._overview, latest_restored=restored)

    def overview(self) -> CheckpointOverview:
        newest_first = sorted(self._entries.values(), key=lambda entry: -entry.checkpoint_id)
        return replace(self._overview, history=tuple(newest_first))

    def report(self) -> CheckpointReport:
        return CheckpointReport(self.overview(), self._samples.summary(), self._tasks.vertices())

    def in_progress(self) -> frozenset[int]:
        """The ids of the checkpoints in progress."""
        return frozenset(each for each, entry in self._entries.items() if entry.ended_ms is None)

    def _end(self, entry: CheckpointStatistics) -> None:
        self._entries[entry.checkpoint_id] = entry
        ended = [each for each, found in self._entries.items() if found.ended_ms is not None]
        for checkpoint_id in ended[: max(0, len(ended) - self.history_size)]:
            del self._entries[checkpoint_id]
        # The latest of each kind is shown with its subtasks, however long ago it was.
        known = self._overview
        latest = (known.latest_completed, known.latest_savepoint, known.latest_failed)
        self._tasks.keep({*self._entries, *(each.checkpoint_id for each in latest if each is not None)})

    def _count(self, **increases: int) -> None:
        counts = self._overview.counts
        sums = {name: getattr(counts, name) + increase for name, increase in increases.items()}
        self._overview = replace(self._overview, counts=replace(counts, **sums))
