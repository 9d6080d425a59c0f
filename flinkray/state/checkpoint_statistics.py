"""How the checkpoints of a job went: frozen values for programs, the command line and a web page."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class CheckpointKind(enum.Enum):
    """What a snapshot of a job was taken for."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    STOP = "stop with savepoint"


class CheckpointStatus(enum.Enum):
    """How far a checkpoint is."""

    IN_PROGRESS = "in progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Spread:
    """The maximum and the total of a figure over the subtasks of a checkpoint."""

    maximum: float = 0.0
    total: float = 0.0

    def with_value(self, value: float) -> Spread:
        """With the value of one more subtask."""
        return Spread(max(self.maximum, value), self.total + value)


@dataclass(frozen=True, slots=True)
class CheckpointStatistics:
    """How one checkpoint went. Times of its subtasks are in milliseconds, points of time in epoch milliseconds."""

    checkpoint_id: int
    kind: CheckpointKind
    status: CheckpointStatus
    triggered_ms: int
    subtasks: int
    """The number of subtasks that have to acknowledge it."""
    directory: str = ""
    acknowledged: int = 0
    ended_ms: int | None = None
    nbytes: int = 0
    in_flight_bytes: int = 0
    start_delay_ms: Spread = Spread()
    alignment_ms: Spread = Spread()
    sync_ms: Spread = Spread()
    async_ms: Spread = Spread()
    failure: str | None = None

    @property
    def duration_ms(self) -> int | None:
        """Milliseconds from the trigger to the end, whether it completed or failed; None while it is in progress."""
        return None if self.ended_ms is None else self.ended_ms - self.triggered_ms


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """How many checkpoints there were over the life of this JobMaster."""

    triggered: int = 0
    completed: int = 0
    failed: int = 0
    in_progress: int = 0
    restored: int = 0


@dataclass(frozen=True, slots=True)
class RestoredCheckpoint:
    """The checkpoint or savepoint that a job went on from last; `restored_ms` is when, in epoch milliseconds."""

    checkpoint_id: int
    restored_ms: int
    is_savepoint: bool
    directory: str


@dataclass(frozen=True, slots=True)
class CheckpointOverview:
    """How the checkpoints and savepoints of a job went, and go."""

    counts: CheckpointCounts = CheckpointCounts()
    history: tuple[CheckpointStatistics, ...] = ()
    """The last checkpoints and savepoints, newest first, with those in progress."""
    latest_completed: CheckpointStatistics | None = None
    """The last completed checkpoint; savepoints are not among them."""
    latest_savepoint: CheckpointStatistics | None = None
    latest_failed: CheckpointStatistics | None = None
    latest_restored: RestoredCheckpoint | None = None
