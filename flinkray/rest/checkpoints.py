"""Checkpoints and savepoints. Times are in epoch milliseconds, -1 where not known yet; sizes in bytes."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

from flinkray.rest.figures import Statistics


class CheckpointCounts(Struct, frozen=True, kw_only=True):
    """How many checkpoints there were."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointSummary(Struct, frozen=True, kw_only=True):
    """The figures of all completed checkpoints."""

    checkpointed_size: Statistics
    state_size: Statistics
    end_to_end_duration: Statistics
    alignment_buffered: Statistics
    processed_data: Statistics
    persisted_data: Statistics


class VertexCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint as far as one vertex takes part."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    """What was written for this checkpoint."""
    state_size: int
    """All of its state, with what earlier ones have written."""
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    """Rows in flight that an unaligned checkpoint has kept."""
    num_subtasks: int
    num_acknowledged_subtasks: int


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint or savepoint. `className` says which of the last fields there are."""

    class_name: str = field(name="className")
    id: int
    status: str
    is_savepoint: bool
    savepoint_format: str | None = field(name="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, VertexCheckpoint]
    """Vertex -> its part; empty in lists."""
    external_path: str | UnsetType = UNSET
    discarded: bool | UnsetType = UNSET
    failure_timestamp: int | UnsetType = UNSET
    failure_message: str | UnsetType | None = UNSET


class RestoredCheckpoint(Struct, frozen=True, kw_only=True):
    """What the job went on from last."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class LatestCheckpoints(Struct, frozen=True, kw_only=True):
    """The last one of each kind."""

    completed: Checkpoint | None
    savepoint: Checkpoint | None
    failed: Checkpoint | None
    restored: RestoredCheckpoint | None


class Checkpoints(Struct, frozen=True, kw_only=True):
    """How the checkpoints of a job went, and go; `history` has the newest first."""

    counts: CheckpointCounts
    summary: CheckpointSummary
    latest: LatestCheckpoints
    history: list[Checkpoint]


class Externalization(Struct, frozen=True, kw_only=True):
    """Whether the last checkpoint stays when the job ends."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfiguration(Struct, frozen=True, kw_only=True):
    """How a job takes checkpoints; times are in milliseconds."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


class CheckpointDurations(Struct, frozen=True, kw_only=True):
    """How long a subtask processed no rows, and how long writing went on beside them (milliseconds)."""

    sync: int
    async_: int = field(name="async")


class CheckpointAlignment(Struct, frozen=True, kw_only=True):
    """From the first barrier to the last one (milliseconds), and the bytes that were kept for it."""

    buffered: int
    processed: int
    persisted: int
    duration: int


class SubtaskCheckpoint(Struct, frozen=True, kw_only=True):
    """A subtask's part of a checkpoint; of one that has not acknowledged, nothing else is known."""

    class_name: str = field(name="className")
    """completed or pending."""
    index: int
    status: str
    """completed or pending_or_failed."""
    ack_timestamp: int | UnsetType = UNSET
    end_to_end_duration: int | UnsetType = UNSET
    checkpointed_size: int | UnsetType = UNSET
    state_size: int | UnsetType = UNSET
    checkpoint: CheckpointDurations | UnsetType = UNSET
    alignment: CheckpointAlignment | UnsetType = UNSET
    start_delay: int | UnsetType = UNSET
    unaligned_checkpoint: bool | UnsetType = UNSET
    aborted: bool | UnsetType = UNSET


class DurationStatistics(Struct, frozen=True, kw_only=True):
    """`CheckpointDurations` over subtasks."""

    sync: Statistics
    async_: Statistics = field(name="async")


class AlignmentStatistics(Struct, frozen=True, kw_only=True):
    """`CheckpointAlignment` over subtasks."""

    buffered: Statistics
    processed: Statistics
    persisted: Statistics
    duration: Statistics


class SubtasksSummary(Struct, frozen=True, kw_only=True):
    """The parts of all subtasks of a vertex."""

    checkpointed_size: Statistics
    state_size: Statistics
    end_to_end_duration: Statistics
    checkpoint_duration: DurationStatistics
    alignment: AlignmentStatistics
    start_delay: Statistics


class VertexCheckpointDetails(VertexCheckpoint, frozen=True, kw_only=True):
    """A checkpoint as far as one vertex takes part, by subtasks."""

    summary: SubtasksSummary
    subtasks: list[SubtaskCheckpoint]
