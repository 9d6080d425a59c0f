"""What a JobMaster tells tasks, and tasks tell their JobMaster; the TaskExecutor between them hands it on.

    JobMaster <-> TaskExecutor <-> TaskSlot

Every message names its epoch: what goes to a task has the session of the JobMaster, the lease of the slot and the
attempt, what comes from one has the attempt. A message of a past epoch is logged at debug level and ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from actors.protocol.checkpoint_handles import CheckpointMetrics, TaskRestore, TaskSnapshot
from actors.protocol.elements import CheckpointOptions
from actors.protocol.ports import Address, SessionId
from actors.protocol.resources import AllocationId
from actors.protocol.serialized_value import SerializedValue
from flinkray.config.configuration import Configuration
from flinkray.errors import ErrorInfo
from flinkray.latencies import LatencyStatistics
from flinkray.types.records import JobId, OperatorId

if TYPE_CHECKING:  # with them, masters and workers would load Arrow and all of the API
    from graphs.execution_graph import AttemptId, PartitionId
    from graphs.job_graph import JobVertexId, OperatorConfig, ResultPartitionType, TaskKind


# -- what a task is ----------------------------------------------------------------------------------------------


class PartitionDescriptor(Struct, frozen=True):
    """A result partition that a task is to produce."""

    partition_id: PartitionId
    result_type: ResultPartitionType
    subpartitions: int
    """One per consumer subtask that it feeds; subpartition i goes to the i-th consumer of its group."""
    is_broadcast: bool
    barriers_overtake: bool = True
    """Whether unaligned barriers go before its rows; see `graphs.job_graph.JobEdge`."""
    max_parallelism: int | None = None
    """That of the consumer; None: as its partitioner says."""


class ChannelDescriptor(Struct, frozen=True):
    """A subpartition that a task is to consume."""

    partition_id: PartitionId
    subpartition: int
    producer: Address
    """The TaskSlot that holds it; the consumer's own slot makes the channel local."""


class GateDescriptor(Struct, frozen=True):
    """An input gate: one per JobEdge of the vertex."""

    gate_index: int
    input_index: int
    channels: tuple[ChannelDescriptor, ...]
    barriers_overtake: bool = True
    """Whether unaligned barriers go before its rows; see `graphs.job_graph.JobEdge`."""


class TaskDeployment(Struct, frozen=True):
    """Everything a slot needs to run one attempt of one subtask (Flink's TaskDeploymentDescriptor)."""

    job_id: JobId
    job_name: str
    attempt_id: AttemptId
    vertex_id: JobVertexId
    vertex_name: str
    kind: TaskKind
    subtask_index: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    allocation_id: AllocationId
    operators: tuple[OperatorConfig, ...]
    """Empty where the slot has had a task of the vertex, and so has its operators, which may be large."""
    head_node: int
    partitions: tuple[PartitionDescriptor, ...]
    """What the task produces, by result index."""
    gates: tuple[GateDescriptor, ...]
    """What the task reads, by gate index."""
    configuration: Configuration
    restore: TaskRestore | None = None
    """What the task starts from; None: it starts without state."""
    has_checkpoints: bool = False
    """A checkpoint will follow the end of its data, and the task ends once that is complete."""

    @property
    def task_name(self) -> str:
        return subtask_name(self.vertex_name, self.subtask_index, self.parallelism)


def subtask_name(vertex_name: str, subtask_index: int, parallelism: int) -> str:
    """What a subtask is called, for example `map (1/2)`."""
    return f"{vertex_name} ({subtask_index + 1}/{parallelism})"


# -- tasks -------------------------------------------------------------------------------------------------------


class SubmitTask(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: run this."""

    session: SessionId
    job_id: JobId
    allocation_id: AllocationId
    serialized_deployment: SerializedValue[TaskDeployment]
    """What to run; only the slot deserializes it."""

    @classmethod
    def of(cls, session: SessionId, deployment: TaskDeployment) -> SubmitTask:
        return cls(session, deployment.job_id, deployment.allocation_id, SerializedValue(deployment))

    @property
    def deployment(self) -> TaskDeployment:
        return self.serialized_deployment.deserialize()


class AddJobFiles(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: what the job brings along; once for each slot, before its first task."""

    session: SessionId
    allocation_id: AllocationId
    files: SerializedValue[dict[str, bytes]]
    """By name, as `actors.user_code.job_files.JobFiles` takes them; only the slot deserializes them."""


class CancelTask(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: stop this attempt; it reports CANCELED when it has."""

    session: SessionId
    allocation_id: AllocationId
    attempt_id: AttemptId


class ReleasePartitions(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: nobody reads these results any more. Unknown ones are ignored."""

    session: SessionId
    allocation_id: AllocationId
    partition_ids: tuple[PartitionId, ...]


class TaskStateChanged(Struct, frozen=True):
    """TaskSlot -> TaskExecutor -> JobMaster: the attempt is in this state now (name of an ExecutionState)."""

    job_id: JobId
    attempt_id: AttemptId
    state: str
    error: ErrorInfo | None = None
    accumulators: dict[str, int | float] = field(default_factory=dict)


class OperatorMetrics(Struct, frozen=True):
    """What one operator of a task counts and measures, its functions' own metrics included, by name."""

    operator_name: str
    counts: dict[str, float] = field(default_factory=dict)
    """Counters so far."""
    gauges: dict[str, float] = field(default_factory=dict)


class TaskMetrics(Struct, frozen=True):
    """A task's figures so far; monotonous within one attempt, except the gauges."""

    records_in: int = 0
    records_out: int = 0
    batches_in: int = 0
    batches_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy_ms: float = 0.0
    idle_ms: float = 0.0
    backpressured_ms: float = 0.0
    watermark: int | None = None
    accumulators: dict[str, int | float] = field(default_factory=dict)
    latencies: tuple[LatencyStatistics, ...] = ()
    input_queue: int = 0
    """Buffers that have come and wait for the task."""
    output_queue: int = 0
    """Buffers that wait for consumers of the task."""
    output_limit: int = 0
    """So many of these may wait before the task has to."""
    operators: tuple[OperatorMetrics, ...] = ()
    """Those that are set up, in the chain's order."""


class MetricsReported(Struct, frozen=True):
    """TaskSlot -> TaskExecutor -> JobMaster: periodically, for all tasks of one job in the slot."""

    job_id: JobId
    metrics: dict[AttemptId, TaskMetrics]


class OperatorEventSent(Struct, frozen=True):
    """TaskSlot -> TaskExecutor -> JobMaster: an operator to its coordinator (split request, collected rows, ...)."""

    job_id: JobId
    attempt_id: AttemptId
    operator_id: OperatorId
    serialized_event: SerializedValue[Any]
    """The event; only the coordinator deserializes it."""

    @property
    def event(self) -> Any:
        return self.serialized_event.deserialize()


class DeliverOperatorEvent(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: a coordinator to its operator's subtask."""

    session: SessionId
    allocation_id: AllocationId
    attempt_id: AttemptId
    operator_id: OperatorId
    serialized_event: SerializedValue[Any]
    """The event; only the subtask deserializes it."""

    @property
    def event(self) -> Any:
        return self.serialized_event.deserialize()


# -- checkpoints -------------------------------------------------------------------------------------------------


class TriggerCheckpoint(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: put a barrier into this attempt, whose inputs have all ended, if any."""

    session: SessionId
    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions


class NotifyCheckpointComplete(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: every task has acknowledged, and the metadata is written."""

    session: SessionId
    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int


class NotifyCheckpointAborted(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: the checkpoint will not complete."""

    session: SessionId
    allocation_id: AllocationId
    attempt_id: AttemptId
    checkpoint_id: int


class AcknowledgeCheckpoint(Struct, frozen=True):
    """TaskSlot -> TaskExecutor -> JobMaster: the attempt's part is written."""

    job_id: JobId
    attempt_id: AttemptId
    checkpoint_id: int
    snapshot: TaskSnapshot
    metrics: CheckpointMetrics = CheckpointMetrics()


class DeclineCheckpoint(Struct, frozen=True):
    """TaskSlot -> TaskExecutor -> JobMaster: the attempt cannot take part."""

    job_id: JobId
    attempt_id: AttemptId
    checkpoint_id: int
    reason: str
    error: ErrorInfo | None = None
    """Why the state could not be written; None where the trigger only came at a bad time."""


class EndOfDataReached(Struct, frozen=True):
    """TaskSlot -> TaskExecutor -> JobMaster: all rows are processed; the attempt waits for its last checkpoint."""

    job_id: JobId
    attempt_id: AttemptId
    gives_rows_first: bool = False
    """Whether it gives more rows when that checkpoint is complete, before others have processed all theirs."""


TaskCommand = (
    AddJobFiles
    | SubmitTask
    | CancelTask
    | DeliverOperatorEvent
    | ReleasePartitions
    | TriggerCheckpoint
    | NotifyCheckpointComplete
    | NotifyCheckpointAborted
)
"""What a JobMaster tells a task: JobMaster -> TaskExecutor -> TaskSlot."""


TaskReport = (
    TaskStateChanged
    | OperatorEventSent
    | MetricsReported
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | EndOfDataReached
)
"""What a task tells its JobMaster: TaskSlot -> TaskExecutor -> JobMaster."""
