"""What a JobMaster can be asked about a job beyond its state: what it is made of, rates over time, checkpoints by task.

All of it is bounded: by the number of subtasks times a fixed length of history.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from actors.protocol.ports import Address
from actors.protocol.resources import SlotWait
from flinkray.execution import JobStatus
from flinkray.state.checkpoint_statistics import CheckpointOverview

# -- what a job is made of ---------------------------------------------------------------------------------------


class CheckpointConfiguration(Struct, frozen=True):
    """How a job takes checkpoints. Times are in milliseconds; what may hold a secret is hidden."""

    is_exactly_once: bool = True
    interval_ms: int | None = None
    """None: there are no periodic checkpoints."""
    timeout_ms: int = 0
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    is_unaligned: bool = False
    aligned_timeout_ms: int = 0
    has_final: bool = True
    is_kept_on_cancellation: bool = False
    is_kept_on_failure: bool = False
    directory: str = ""
    """Empty: checkpoints are kept in the JobMaster's memory."""
    state_backend: str = ""


class JobDescription(Struct, frozen=True):
    """What of a job does not change while it runs."""

    is_batch: bool = False
    is_stoppable: bool = False
    parallelism: int = 1
    restart_strategy: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    """The options that were set, with the values as text; those of secrets are hidden."""
    checkpoints: CheckpointConfiguration = CheckpointConfiguration()


class JobSummary(Struct, frozen=True):
    """A job as a list of jobs shows it."""

    task_counts: Mapping[str, int] = field(default_factory=dict)
    """Name of an ExecutionState -> how many subtasks are in it; states in which none is are left out."""
    is_batch: bool = False
    status_times: tuple[tuple[JobStatus, int], ...] = ()
    """As in JobDetails."""
    slot_wait: SlotWait | None = None
    """As in JobDetails."""


class GetJobSummary(Struct, frozen=True):
    """Answer of the JobMaster: JobSummary."""


# -- figures over time -------------------------------------------------------------------------------------------


class TaskRates(Struct, frozen=True):
    """What a task did per second, between two reports of its figures; times are milliseconds of each second."""

    records_in: float = 0.0
    records_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    batches_in: float = 0.0
    batches_out: float = 0.0
    busy_ms: float = 0.0
    idle_ms: float = 0.0
    backpressured_ms: float = 0.0


class RateSample(Struct, frozen=True):
    """The rates of one subtask at a time, in epoch milliseconds, and its watermark and queues then."""

    time_ms: int
    rates: TaskRates
    watermark: int | None = None
    """None: unknown."""
    input_queue: int = 0
    output_queue: int = 0


class GetRateHistory(Struct, frozen=True):
    """Answer of the JobMaster: for each subtask of the vertex its last samples, oldest first, as a tuple of tuples of
    RateSample; empty where there is no such vertex, or the job has ended."""

    vertex_id: str


# -- attempts ----------------------------------------------------------------------------------------------------


class AttemptDetails(Struct, frozen=True):
    """An attempt to run a subtask that has ended and was followed by another one."""

    subtask_index: int
    attempt_number: int
    state: str
    """Name of an ExecutionState."""
    times: tuple[tuple[str, int], ...] = ()
    """(name of an ExecutionState, when it was entered in epoch milliseconds), oldest first."""
    task_executor: Address | None = None


class GetPriorAttempts(Struct, frozen=True):
    """Answer of the JobMaster: tuple[AttemptDetails, ...] of the vertex, oldest first for each subtask."""

    vertex_id: str


# -- checkpoints -------------------------------------------------------------------------------------------------


class SubtaskCheckpoint(NamedTuple):
    """How one subtask's part of a checkpoint went. Sizes are in bytes, durations in milliseconds."""

    subtask_index: int
    acknowledged_ms: int
    """Epoch milliseconds."""
    state_bytes: int
    new_bytes: int
    """What of the state was written for this checkpoint; less than all of it where it is incremental."""
    start_delay_ms: float
    alignment_ms: float
    sync_ms: float
    async_ms: float
    in_flight_bytes: int


_COLUMNS = len(SubtaskCheckpoint._fields)


class VertexCheckpoint(Struct, frozen=True):
    """How the subtasks of one vertex took part in a checkpoint."""

    checkpoint_id: int
    vertex_id: str
    subtasks: int
    """How many have to acknowledge it."""
    figures: bytes = b""
    """Doubles, row by row: with ten checkpoints of a thousand subtasks kept, objects would take many times as much."""

    def acknowledged(self) -> Iterator[SubtaskCheckpoint]:
        """Those that have acknowledged, in the order in which they did."""
        values = array("d", self.figures)
        for start in range(0, len(values), _COLUMNS):
            index, time, state, new, delay, alignment, sync, asynchronous, in_flight = values[start : start + _COLUMNS]
            sizes = (int(index), int(time), int(state), int(new))
            yield SubtaskCheckpoint(*sizes, delay, alignment, sync, asynchronous, int(in_flight))


class FigureSummary(Struct, frozen=True):
    """A figure over all completed checkpoints: extremes and average of all, quantiles of the last ones."""

    minimum: float = 0.0
    maximum: float = 0.0
    average: float = 0.0
    quantiles: tuple[float, ...] = ()
    """At 0.5, 0.9, 0.95, 0.99 and 0.999; empty while there is no completed checkpoint."""


class CheckpointSummary(Struct, frozen=True):
    """The figures of all checkpoints and savepoints that this JobMaster has completed."""

    duration_ms: FigureSummary = FigureSummary()
    state_bytes: FigureSummary = FigureSummary()
    new_bytes: FigureSummary = FigureSummary()
    in_flight_bytes: FigureSummary = FigureSummary()


class CheckpointReport(Struct, frozen=True):
    """How the checkpoints of a job went: those of `overview.history`, by vertex, and all in sum."""

    overview: CheckpointOverview = CheckpointOverview()
    summary: CheckpointSummary = CheckpointSummary()
    vertices: tuple[VertexCheckpoint, ...] = ()


class GetCheckpointReport(Struct, frozen=True):
    """Answer of the JobMaster: CheckpointReport."""


# -- after the end -----------------------------------------------------------------------------------------------


class JobArchive(Struct, frozen=True):
    """What can still be asked for after a job's end, beside its JobDetails."""

    summary: CheckpointSummary = CheckpointSummary()
    checkpoints: tuple[VertexCheckpoint, ...] = ()
    attempts: Mapping[str, tuple[AttemptDetails, ...]] = field(default_factory=dict)
    """Vertex -> its former attempts."""
