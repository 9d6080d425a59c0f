"""How subtasks took part in checkpoints, and the figures of all checkpoints in sum, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence, Set

from actors.protocol.checkpoint_handles import CheckpointMetrics, TaskSnapshot
from actors.protocol.job_reports import (
    CheckpointSummary,
    FigureSummary,
    SubtaskCheckpoint,
    VertexCheckpoint,
)
from flinkray.state.checkpoint_statistics import CheckpointStatistics
from graphs.execution_graph import ExecutionVertexId
from graphs.job_graph import JobVertexId

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)

# Flink's number of values of which it gives quantiles.
SAMPLES = 10_000


class TaskStatistics:
    """The parts of subtasks in the checkpoints that are remembered. Not thread-safe."""

    def __init__(self) -> None:
        self._expected: dict[int, dict[JobVertexId, int]] = {}
        """Checkpoint -> vertex -> how many of its subtasks have to acknowledge."""
        self._figures: dict[int, dict[JobVertexId, array[float]]] = {}
        self._new_bytes: dict[int, int] = {}
        self._shared_files: dict[ExecutionVertexId, frozenset[str]] = {}
        """The shared files of each subtask's last snapshot: what of the next one is not among them is new."""

    def triggered(self, checkpoint_id: int, subtasks: Iterable[ExecutionVertexId]) -> None:
        expected: dict[JobVertexId, int] = {}
        for subtask in subtasks:
            expected[subtask.vertex_id] = expected.get(subtask.vertex_id, 0) + 1
        self._expected[checkpoint_id] = expected
        self._figures[checkpoint_id] = {vertex: array("d") for vertex in expected}
        self._new_bytes[checkpoint_id] = 0

    def acknowledged(
        self,
        checkpoint_id: int,
        subtask: ExecutionVertexId,
        snapshot: TaskSnapshot,
        metrics: CheckpointMetrics,
        now: int,
    ) -> None:
        new = self._new_bytes_of(subtask, snapshot)
        self._new_bytes[checkpoint_id] += new
        row = SubtaskCheckpoint(
            subtask.subtask_index,
            now,
            snapshot.nbytes,
            new,
            metrics.start_delay_ms,
            metrics.alignment_ms,
            metrics.sync_ms,
            metrics.async_ms,
            metrics.in_flight_bytes,
        )
        self._figures[checkpoint_id][subtask.vertex_id].extend(row)

    def new_bytes(self, checkpoint_id: int) -> int:
        """What all subtasks have written for it so far."""
        return self._new_bytes[checkpoint_id]

    def keep(self, checkpoint_ids: Set[int]) -> None:
        """Forgets all others."""
        for checkpoint_id in self._expected.keys() - checkpoint_ids:
            for known in (self._expected, self._figures, self._new_bytes):
                known.pop(checkpoint_id)

    def vertices(self) -> tuple[VertexCheckpoint, ...]:
        """All that is remembered, oldest checkpoint first."""
        return tuple(
            VertexCheckpoint(checkpoint_id, vertex, expected, self._figures[checkpoint_id][vertex].tobytes())
            for checkpoint_id, by_vertex in self._expected.items()
            for vertex, expected in by_vertex.items()
        )

    def _new_bytes_of(self, subtask: ExecutionVertexId, snapshot: TaskSnapshot) -> int:
        parts = [part for state in snapshot.operators.values() for part in state.parts]
        shared = {file.path: file.length for part in parts for file in part.shared}
        known = self._shared_files.get(subtask, frozenset())
        if shared or known:
            self._shared_files[subtask] = frozenset(shared)
        own = sum(part.data.length for part in parts)
        return own + sum(length for path, length in shared.items() if path not in known)


class Samples:
    """A figure of many checkpoints: extremes and average of all, and the last ones for quantiles."""

    def __init__(self, size: int = SAMPLES) -> None:
        self._size = size
        self._last = array("d")
        self._count = 0
        self._total = 0.0
        self._minimum = 0.0
        self._maximum = 0.0

    def add(self, value: float) -> None:
        if len(self._last) < self._size:
            self._last.append(value)
        else:
            self._last[self._count % self._size] = value
        self._minimum = min(self._minimum, value) if self._count else value
        self._maximum = max(self._maximum, value) if self._count else value
        self._count += 1
        self._total += value

    def summary(self) -> FigureSummary:
        if not self._count:
            return FigureSummary()
        average = self._total / self._count
        return FigureSummary(self._minimum, self._maximum, average, quantiles(sorted(self._last), QUANTILES))


class CheckpointSamples:
    """The figures of all completed checkpoints of a job."""

    def __init__(self) -> None:
        self._samples = {name: Samples() for name in CheckpointSummary.__struct_fields__}

    def completed(self, entry: CheckpointStatistics, new_bytes: int) -> None:
        figures: Mapping[str, float] = {
            "duration_ms": entry.duration_ms or 0,
            "state_bytes": entry.nbytes,
            "new_bytes": new_bytes,
            "in_flight_bytes": entry.in_flight_bytes,
        }
        for name, value in figures.items():
            self._samples[name].add(value)

    def summary(self) -> CheckpointSummary:
        return CheckpointSummary(**{name: samples.summary() for name, samples in self._samples.items()})


def quantiles(ascending: Sequence[float], at: Sequence[float]) -> tuple[float, ...]:
    """Estimated as Flink does, by Commons Math's default: position q * (n + 1), linear between its neighbours."""
    return tuple(_quantile(ascending, q) for q in at)


def _quantile(ascending: Sequence[float], q: float) -> float:
    position = q * (len(ascending) + 1)
    below = int(position)
    if below < 1:
        return ascending[0]
    if below >= len(ascending):
        return ascending[-1]
    low, high = ascending[below - 1], ascending[below]
    return low + (position - below) * (high - low)
