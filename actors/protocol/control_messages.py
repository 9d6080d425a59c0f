"""What the masters and TaskExecutors tell each other.

    client -> Dispatcher <-> JobMaster <-> TaskExecutor <-> TaskSlot
                  |              |              |
                  +------ ResourceManager ------+

Sections are pairs of components, and the first words of a message's docstring are its sender and its receiver. What
clients ask is in `client_requests.py`, what goes from a JobMaster to tasks and back in `task_messages.py`, and what
slots say to each other in `data_messages.py`.

Every message names its epoch. `session` is the fencing token of the ResourceManager between it and its peers, and that
of the JobMaster everywhere else; slots are addressed by allocation id, offers by offer id. A message of a past epoch is
logged at debug level and ignored.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from actors.protocol.failure_records import FailureRecord
from actors.protocol.job_reports import JobArchive, JobDescription, JobSummary, TaskRates
from actors.protocol.ports import Address, SessionId
from actors.protocol.resources import (
    AllocationId,
    ClusterOverview,
    OfferId,
    SlotOffer,
    SlotReport,
    SlotRequest,
    SlotWait,
)
from actors.protocol.task_messages import TaskMetrics
from flinkray.errors import ErrorInfo
from flinkray.execution import JobStatus
from flinkray.state.checkpoint_statistics import CheckpointOverview
from flinkray.types.records import JobId

if TYPE_CHECKING:
    from graphs.execution_graph import ExecutionJobVertex

# -- jobs, as they are shown -------------------------------------------------------------------------------------


class SubtaskDetails(Struct, frozen=True):
    """One subtask's current attempt."""

    subtask_index: int
    attempt_id: str
    attempt_number: int
    state: str
    """Name of an ExecutionState."""
    slot: Address | None
    metrics: TaskMetrics
    error: ErrorInfo | None = None
    times: tuple[tuple[str, int], ...] = ()
    """(name of an ExecutionState, when the attempt entered it in epoch milliseconds), oldest first."""
    task_executor: Address | None = None
    rates: TaskRates = TaskRates()


class VertexDetails(Struct, frozen=True):
    """One vertex of the job."""

    vertex_id: str
    name: str
    parallelism: int
    max_parallelism: int
    inputs: tuple[tuple[str, str], ...]
    """(id of the vertex that it reads from, ship strategy) for each JobEdge."""
    subtasks: tuple[SubtaskDetails, ...]
    operators: tuple[str, ...] = ()
    """Their names, in the order of the chain."""
    exchanges: tuple[str, ...] = ()
    """For each of `inputs` the kind of result that it reads, for example `pipelined_bounded`."""
    slot_sharing_group: str = ""

    @classmethod
    def of(cls, vertex: ExecutionJobVertex, subtasks: tuple[SubtaskDetails, ...] = ()) -> VertexDetails:
        return cls(
            vertex_id=vertex.id,
            name=vertex.name,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            inputs=tuple((edge.source_vertex, edge.ship_strategy) for edge in vertex.job_vertex.inputs),
            subtasks=subtasks,
            operators=tuple(operator.name for operator in vertex.job_vertex.operators),
            exchanges=tuple(
                vertex.graph.results[edge.source].result_type.name.lower() for edge in vertex.job_vertex.inputs
            ),
            slot_sharing_group=vertex.slot_sharing_group,
        )


class SavepointResult(Struct, frozen=True):
    """What became of a savepoint that was asked for."""

    request_id: str
    directory: str | None
    """URI of the savepoint; None: it failed."""
    error: ErrorInfo | None
    """Exactly one of the two is there."""


class RescaleResult(Struct, frozen=True):
    """What became of a rescale that was asked for."""

    request_id: str
    parallelism: dict[str, int] = {}
    """Vertex id -> number of its subtasks from then on."""
    error: ErrorInfo | None = None
    """Why the job goes on as it was."""
    is_done: bool = True
    """It is not under way any more; without an error, the job is rescaled."""


class JobDetails(Struct, frozen=True):
    """A job's execution graph as a value: of a running job, or archived after its end (Flink's ArchivedExecutionGraph).

    `status_times` has (status, epoch milliseconds) for every status that the job has been in, oldest first.
    """

    job_id: JobId
    name: str
    status: JobStatus
    status_times: tuple[tuple[JobStatus, int], ...]
    vertices: tuple[VertexDetails, ...] = ()
    accumulators: dict[str, int | float] = field(default_factory=dict)
    records_in: int = 0
    records_out: int = 0
    watermark: int | None = None
    error: ErrorInfo | None = None
    """The first failure of a job that FAILED."""
    restarts: int = 0
    """How many restarts have begun in this JobMaster."""
    failures: tuple[FailureRecord, ...] = ()
    """The last failures, oldest first."""
    checkpoints: CheckpointOverview = CheckpointOverview()
    savepoints: tuple[SavepointResult, ...] = ()
    """What became of the last savepoints that were asked for, oldest first; without those under way."""
    pending_savepoints: tuple[str, ...] = ()
    """The request ids of those under way."""
    description: JobDescription = JobDescription()
    archive: JobArchive | None = None
    """Of a job that has ended: what its JobMaster could be asked before."""
    slot_wait: SlotWait | None = None
    """None: it waits for no slots."""

    @property
    def runtime_ms(self) -> int:
        """From the first status to the latest one."""
        return self.status_times[-1][1] - self.status_times[0][1] if self.status_times else 0

    @property
    def parallelisms(self) -> dict[str, int]:
        """Vertex -> its parallelism."""
        return {vertex.vertex_id: vertex.parallelism for vertex in self.vertices}

    @property
    def summary(self) -> JobSummary:
        counts = Counter(subtask.state for vertex in self.vertices for subtask in vertex.subtasks)
        return JobSummary(dict(counts), self.description.is_batch, self.status_times, self.slot_wait)


# -- Dispatcher <-> JobMaster ------------------------------------------------------------------------------------


class JobStatusChanged(Struct, frozen=True):
    """JobMaster -> Dispatcher: the job has a new status that is not terminal."""

    session: SessionId
    job_id: JobId
    status: JobStatus


class JobEnded(Struct, frozen=True):
    """JobMaster -> Dispatcher: the job is in a terminal status, and its slots are given back."""

    session: SessionId
    details: JobDetails
    has_rows_to_take: bool
    """The driver has not taken all collected rows yet, so the JobMaster has to stay."""


class CollectedRowsTaken(Struct, frozen=True):
    """JobMaster -> Dispatcher: the driver has all rows of a job that has ended, and the JobMaster need not stay."""

    session: SessionId
    job_id: JobId


class CancelExecutionGraph(Struct, frozen=True):
    """Dispatcher -> JobMaster: cancel every task; the job ends CANCELED."""

    session: SessionId


class ReportJob(Struct, frozen=True):
    """Dispatcher -> JobMaster: a Dispatcher that has taken another's place asks for the job's status or end."""

    session: SessionId


# -- Dispatcher <-> ResourceManager ------------------------------------------------------------------------------


class ReleaseAllTaskExecutors(Struct, frozen=True):
    """Dispatcher -> ResourceManager: the cluster is being shut down."""

    dispatcher: Address


class AllTaskExecutorsReleased(Struct, frozen=True):
    """ResourceManager -> Dispatcher: no TaskExecutor is left."""


# -- JobMaster <-> ResourceManager -------------------------------------------------------------------------------


class RegisterJobMaster(Struct, frozen=True):
    """JobMaster -> ResourceManager: repeated until it is answered. Of two for one job, the later session counts."""

    job_id: JobId
    job_session: SessionId
    job_master: Address
    runtime_env: str = ""
    """What the processes of the job's slots are to have, as the option python.runtime-env says it."""


class JobMasterRegistered(Struct, frozen=True):
    """ResourceManager -> JobMaster: `session` is the ResourceManager's.

    The heartbeats are the cluster's, whatever the job's own options say, as its TaskExecutors go by them.
    """

    session: SessionId
    job_session: SessionId
    heartbeat_interval_ms: float
    heartbeat_timeout_ms: float


class DeclareRequirements(Struct, frozen=True):
    """JobMaster -> ResourceManager: all slots that the job needs now; replaces what was declared before."""

    session: SessionId
    job_id: JobId
    job_session: SessionId
    requests: tuple[SlotRequest, ...]


class ResourcesMissing(Struct, frozen=True):
    """ResourceManager -> JobMaster: what was declared cannot be had; waiting longer does not help."""

    job_session: SessionId
    reason: str
    overview: ClusterOverview
    is_about_starts: bool = False
    """No TaskExecutor comes up, whatever room there is: a job that could do with fewer slots gets none either."""


class RequestOverview(Struct, frozen=True):
    """JobMaster -> ResourceManager: what does the cluster have? Answered with OverviewReported."""

    session: SessionId
    job_id: JobId


class OverviewReported(Struct, frozen=True):
    """ResourceManager -> JobMaster: what the cluster has, as RequestOverview has asked."""

    job_session: SessionId
    overview: ClusterOverview


class DisconnectJobMaster(Struct, frozen=True):
    """JobMaster -> ResourceManager: the job has ended and needs nothing any more."""

    session: SessionId
    job_id: JobId
    job_session: SessionId


# -- TaskExecutor <-> ResourceManager ----------------------------------------------------------------------------


class RegisterTaskExecutor(Struct, frozen=True):
    """TaskExecutor -> ResourceManager: repeated until it is answered."""

    task_executor: Address
    slots: tuple[SlotReport, ...]
    registration: int = 0
    """Grows whenever the TaskExecutor has lost the ResourceManager, which forgets then what it knew of these slots."""


class TaskExecutorRegistered(Struct, frozen=True):
    """ResourceManager -> TaskExecutor: `session` is the ResourceManager's from now on."""

    session: SessionId
    registration: int = 0
    """The registration that is answered; answers to past ones are ignored."""


class RequestSlot(Struct, frozen=True):
    """ResourceManager -> TaskExecutor: give this slot to that job, and offer it to its JobMaster."""

    session: SessionId
    slot_index: int
    allocation_id: AllocationId
    job_id: JobId
    job_master: Address
    job_session: SessionId
    label: str
    runtime_env: str = ""
    """What the slot's process is to have, as in RegisterJobMaster."""


class SlotRequestRefused(Struct, frozen=True):
    """TaskExecutor -> ResourceManager: the slot is not free; `slot` is what it is."""

    session: SessionId
    task_executor: Address
    allocation_id: AllocationId
    slot: SlotReport


class SlotFreed(Struct, frozen=True):
    """TaskExecutor -> ResourceManager: that allocation is over, the slot is free."""

    session: SessionId
    task_executor: Address
    slot_index: int
    allocation_id: AllocationId


class StopTaskExecutor(Struct, frozen=True):
    """ResourceManager -> TaskExecutor: end the processes of your slots, and say so when they have ended."""

    session: SessionId


class TaskExecutorStopped(Struct, frozen=True):
    """TaskExecutor -> ResourceManager: the processes of its slots have ended, as StopTaskExecutor has asked."""

    session: SessionId
    task_executor: Address


# -- TaskExecutor <-> JobMaster ----------------------------------------------------------------------------------


class OfferSlots(Struct, frozen=True):
    """TaskExecutor -> JobMaster: all slots reserved for it and not yet accepted."""

    session: SessionId
    task_executor: Address
    offer_id: OfferId
    offers: tuple[SlotOffer, ...]


class SlotOffersAnswered(Struct, frozen=True):
    """JobMaster -> TaskExecutor: these are taken; the others are to be freed."""

    session: SessionId
    job_id: JobId
    offer_id: OfferId
    accepted: frozenset[AllocationId]


class FreeSlot(Struct, frozen=True):
    """JobMaster -> TaskExecutor: the job does not need this slot any more; its process is ended."""

    session: SessionId
    allocation_id: AllocationId
    reason: str


class SlotFailed(Struct, frozen=True):
    """TaskExecutor -> JobMaster: the slot's process is gone, and every task in it."""

    session: SessionId
    task_executor: Address
    allocation_id: AllocationId
    cause: str


# -- heartbeats --------------------------------------------------------------------------------------------------


class HeartbeatRequested(Struct, frozen=True):
    """Are you alive? ResourceManager -> JobMaster, TaskExecutor, Dispatcher; Dispatcher -> JobMaster;
    JobMaster -> TaskExecutor; TaskExecutor -> TaskSlot."""

    session: SessionId
    sender: Address


class HeartbeatAnswered(Struct, frozen=True):
    """The answer: the sender is alive."""

    session: SessionId
    sender: Address
