"""What the components say to each other. Events are in the past tense, commands in the imperative.

Control goes through the tree (JobMaster <-> TaskExecutor <-> TaskSlot), data from slot to slot. Every message names
its epoch: components by leader session, executions by attempt, buffers by sequence number (see docs/architecture.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NewType

from msgspec import Struct, field

from actors.protocol.checkpoint_handles import CheckpointMetrics, TaskRestore, TaskSnapshot
from actors.protocol.elements import CheckpointOptions, Event
from actors.protocol.ports import Address
from actors.protocol.serialized_value import SerializedValue
from flinkray.config.configuration import Configuration
from flinkray.errors import ErrorInfo
from flinkray.latencies import LatencyStatistics
from flinkray.types.records import JobId, OperatorId, Timestamp

if TYPE_CHECKING:  # with them, masters and workers would load Arrow and all of the API
    from flinkray.batches.batch import Batch
    from graphs.execution_graph import AttemptId, PartitionId
    from graphs.job_graph import JobVertexId, OperatorConfig, ResultPartitionType, TaskKind

AllocationId = NewType("AllocationId", str)
"""One lease of one slot to one job."""
SessionId = NewType("SessionId", str)
"""Fences a component: new with every leadership."""


# -- deployment (JobMaster -> TaskExecutor -> TaskSlot) ----------------------------------------------------------


class PartitionDescriptor(Struct, frozen=True):
    """A result partition that a task is to produce."""

    partition_id: PartitionId
    result_type: ResultPartitionType
    subpartitions: int
    """One per consumer subtask that it feeds; subpartition i goes to the i-th consumer of its group."""
    is_broadcast: bool
    barriers_overtake: bool = True
    """Whether unaligned barriers go before its rows; see `graphs.job_graph.JobEdge`."""


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
    head_node: int
    partitions: tuple[PartitionDescriptor, ...]
    """By result index."""
    gates: tuple[GateDescriptor, ...]
    """By gate index."""
    configuration: Configuration
    cached_files: dict[str, bytes] = field(default_factory=dict)
    restore: TaskRestore | None = None
    """None: it starts without state."""
    has_checkpoints: bool = False
    """A checkpoint will follow the end of its data, and the task ends once that is complete."""

    @property
    def task_name(self) -> str:
        """For example `map (1/2)`."""
        return f"{self.vertex_name} ({self.subtask_index + 1}/{self.parallelism})"


class SubmitTask(Struct, frozen=True):
    """JobMaster -> TaskExecutor -> TaskSlot: run this."""

    session: SessionId
    job_id: JobId
    allocation_id: AllocationId
    serialized_deployment: SerializedValue[TaskDeployment]
    """For the slot alone."""

    @classmethod
    def of(cls, session: SessionId, deployment: TaskDeployment) -> SubmitTask:
        return cls(session, deployment.job_id, deployment.allocation_id, SerializedValue(deployment))

    @property
    def deployment(self) -> TaskDeployment:
        return self.serialized_deployment.deserialize()


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
    """For the coordinator alone."""

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
    """For the subtask alone."""

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
    """Where it is more than bad timing: why its state could not be written."""


class EndOfDataReached(Struct, frozen=True):
    """TaskSlot -> TaskExecutor -> JobMaster: all rows are processed; the attempt waits for its last checkpoint."""

    job_id: JobId
    attempt_id: AttemptId


TaskCommand = (
    SubmitTask
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


# -- the source coordinator's events -----------------------------------------------------------------------------


class ReaderRegistered(Struct, frozen=True):
    """Source operator -> coordinator."""

    subtask_index: int


class SplitRequested(Struct, frozen=True):
    """Source operator -> coordinator."""

    subtask_index: int


class SourceEvent(Struct, frozen=True):
    """Both ways: the user's own event."""

    subtask_index: int
    event: Any


class AddSplits(Struct, frozen=True):
    """Coordinator -> source operator; `splits_bytes` is the list of splits pickled."""

    splits_bytes: bytes


class NoMoreSplits(Struct, frozen=True):
    """Coordinator -> source operator."""


class WatermarkReported(Struct, frozen=True):
    """Source operator -> coordinator, periodically where its strategy aligns: how far the subtask has come."""

    watermark: Timestamp


class WatermarkLimited(Struct, frozen=True):
    """Coordinator -> source operator: while its watermark is above this, it reads no more."""

    highest: Timestamp


# -- the collect coordinator's events ----------------------------------------------------------------------------


class RowsCollected(Struct, frozen=True):
    """Collect sink -> coordinator: rows for the driver. `sequence` counts per subtask."""

    subtask_index: int
    sequence: int
    batch: Batch
    former: tuple[tuple[int, int], ...] = ()
    """(subtask, sequence) that these rows had before each change of the parallelism since, the latest first."""


class RowsCut(Struct, frozen=True):
    """Collect sink -> coordinator, at each barrier: what has a lower sequence than this is before it."""

    checkpoint_id: int
    sequence: int


class RowsTaken(Struct, frozen=True):
    """Coordinator -> collect sink: it needs no room any more for what is up to this sequence; more may be sent.

    Without checkpoints the driver has taken all of it.
    """

    sequence: int


class RowsKept(Struct, frozen=True):
    """Coordinator -> collect sink: a complete checkpoint has what is below this sequence in its state, or,
    without checkpoints, the driver has it.

    Later snapshots of the sink need not have it. What is not below is sent again by a sink that is restored.
    """

    sequence: int


# -- data (TaskSlot <-> TaskSlot) --------------------------------------------------------------------------------

ChannelId = NewType("ChannelId", str)
"""One remote input channel: unique per consumer attempt and channel."""


class RequestSubpartition(Struct, frozen=True):
    """Consumer -> producer: send me this subpartition, `credit` buffers to begin with."""

    channel_id: ChannelId
    partition_id: PartitionId
    subpartition: int
    credit: int
    consumer: Address
    buffer_rows: int | None = None
    """As in `NewBufferSize`; None: as many as the producer likes to begin with."""


class BufferEntry(Struct, frozen=True):
    """One buffer of a `Buffers` message."""

    channel_id: ChannelId
    sequence: int
    """Counts the buffers of the channel from 0, events included; a gap fails the channel."""
    backlog: int
    """Data buffers that wait behind this one at the sender."""
    element: Batch | Event | None
    """An event or a small batch; None: the batch is number `position` in payload `payload_index` of the message."""
    payload_index: int = -1
    position: int = 0
    nbytes: int = 0


class Buffers(Struct, frozen=True):
    """Producer -> consumer: what can be sent for all channels between the two slots; refs are its payloads."""

    entries: tuple[BufferEntry, ...]


class AnnounceBacklog(Struct, frozen=True):
    """Producer -> consumer: data waits, and there is no credit."""

    backlogs: tuple[tuple[ChannelId, int], ...]


class AddCredit(Struct, frozen=True):
    """Consumer -> producer: that many more buffers may be sent."""

    credits: tuple[tuple[ChannelId, int], ...]


class NewBufferSize(Struct, frozen=True):
    """Consumer -> producer: how many rows the buffers of these channels should have from now on."""

    sizes: tuple[tuple[ChannelId, int], ...]


class ResumeConsumption(Struct, frozen=True):
    """Consumer -> producer: the barrier has been handled; what waits behind it may come."""

    channel_ids: tuple[ChannelId, ...]


class CancelSubpartition(Struct, frozen=True):
    """Consumer -> producer: nothing more is wanted on these channels."""

    channel_ids: tuple[ChannelId, ...]


class SendTaskEvent(Struct, frozen=True):
    """Consumer -> producer: for the task that makes this partition."""

    partition_id: PartitionId
    event: Any


class SubpartitionError(Struct, frozen=True):
    """Producer -> consumer: this channel is broken."""

    channel_id: ChannelId
    cause: str
    is_partition_missing: bool = False
    """The partition is not registered (yet): the consumer asks again, with back-off."""


DataMessage = (
    RequestSubpartition
    | Buffers
    | AnnounceBacklog
    | AddCredit
    | NewBufferSize
    | ResumeConsumption
    | CancelSubpartition
    | SendTaskEvent
    | SubpartitionError
)
