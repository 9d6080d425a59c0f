"""What the components of the control plane say to each other (tasks' own messages: `actors.protocol.data_messages`).

Every message names its epoch. `session` is the fencing token of the ResourceManager between it and its peers, and that
of the JobMaster everywhere else; slots are addressed by allocation id, tasks by attempt id, offers by offer id. A
message of a past epoch is logged at debug level and ignored.

    client <-> Dispatcher <-> JobMaster <-> TaskExecutor <-> TaskSlot
                                  |              |
                                  +-- ResourceManager

Classes under "requests" are asked (`Host.ask`) and answered at once; all others are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

from msgspec import Struct, field

from actors.protocol.data_messages import AllocationId, SessionId, TaskMetrics
from actors.protocol.elements import StopMode
from actors.protocol.failure_records import FailureRecord
from actors.protocol.ports import Address
from actors.protocol.serialized_value import SerializedValue
from flinkray.errors import ErrorInfo
from flinkray.execution import JobStatus
from flinkray.state.checkpoint_statistics import CheckpointOverview
from flinkray.types.records import JobId

if TYPE_CHECKING:  # with them, masters and workers would load Arrow and all of the API
    from flinkray.batches.batch import Batch
    from graphs.job_graph import JobGraph

OfferId = NewType("OfferId", int)
"""Counts the offers of one TaskExecutor to one JobMaster; only the newest may be answered."""

# -- resources ---------------------------------------------------------------------------------------------------


class ResourceProfile(Struct, frozen=True):
    """What a slot has, or what is asked of one."""

    cpus: float = 0.0
    memory_bytes: int = 0

    def covers(self, other: ResourceProfile) -> bool:
        """Whether a slot of this profile can do what `other` asks for."""
        return self.cpus >= other.cpus and self.memory_bytes >= other.memory_bytes

    def __str__(self) -> str:
        memory = f" and {self.memory_bytes / 2**20:.0f} MiB" if self.memory_bytes else ""
        return f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'}{memory}"


class SlotRequest(Struct, frozen=True):
    """One slot that a job needs: for one execution slot sharing group."""

    profile: ResourceProfile
    label: str
    """Unique within the job, and how the slot reads: `word-count: Source → map (1/2), window (1/2)`."""


class SlotReport(Struct, frozen=True):
    """A slot of a TaskExecutor as it is now."""

    slot_index: int
    profile: ResourceProfile
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    label: str = ""


class ClusterOverview(Struct, frozen=True):
    """What the ResourceManager has to give."""

    task_executors: int = 0
    pending_task_executors: int = 0
    """Started, and not yet registered: the cluster may have no room for them."""
    slots: int = 0
    free_slots: int = 0
    cpus: float = 0.0
    """Of the registered TaskExecutors."""
    slots_per_task_executor: int = 1
    slot_profile: ResourceProfile = ResourceProfile()
    total_cpus: float | None = None
    """Of the whole cluster, whoever uses them; None: unknown."""

    def __str__(self) -> str:
        text = (
            f"{self.task_executors} TaskExecutor(s) with {self.slots} slot(s), {self.free_slots} of them free, "
            f"and {self.cpus:g} CPU(s)"
        )
        if self.pending_task_executors:
            text += f"; {self.pending_task_executors} more TaskExecutor(s) wait to be started"
        if self.total_cpus is not None:
            text += f"; {self.total_cpus:g} CPU(s) in the whole cluster"
        return text


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


class VertexDetails(Struct, frozen=True):
    """One vertex of the job."""

    vertex_id: str
    name: str
    parallelism: int
    max_parallelism: int
    inputs: tuple[tuple[str, str], ...]
    """(vertex id, ship strategy) per JobEdge."""
    subtasks: tuple[SubtaskDetails, ...]


class SavepointResult(Struct, frozen=True):
    """What became of a savepoint that was asked for."""

    request_id: str
    directory: str | None
    """URI; None: it failed."""
    error: ErrorInfo | None
    """Exactly one of the two is there."""


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
    """How many have begun in this JobMaster."""
    failures: tuple[FailureRecord, ...] = ()
    """The last ones, oldest first."""
    checkpoints: CheckpointOverview = CheckpointOverview()
    savepoints: tuple[SavepointResult, ...] = ()
    """The last ones that were asked for, oldest first; without those under way."""

    @property
    def runtime_ms(self) -> int:
        """From the first status to the latest one."""
        return self.status_times[-1][1] - self.status_times[0][1] if self.status_times else 0


class JobOverview(Struct, frozen=True):
    """A job in a list."""

    job_id: JobId
    name: str
    status: JobStatus
    started_ms: int
    job_master: Address


# -- requests of a client to the Dispatcher ----------------------------------------------------------------------


class SubmitJob(Struct, frozen=True):
    """Answer: JobOverview, when the job is stored where anything is stored; before, DispatcherNotReadyError is raised.

    Raises InvalidProgramError for a job id whose submission this Dispatcher has answered already.
    """

    job_id: JobId
    name: str
    job_graph: SerializedValue[JobGraph]
    """For its JobMaster alone."""

    @classmethod
    def of(cls, job_graph: JobGraph) -> SubmitJob:
        return cls(job_graph.job_id, job_graph.name, SerializedValue(job_graph))


class GetJobOverview(Struct, frozen=True):
    """Answer: JobOverview. Raises UnknownJobError."""

    job_id: JobId


class GetArchivedJob(Struct, frozen=True):
    """Answer: JobDetails of a job that has ended, or None while it runs. Raises UnknownJobError."""

    job_id: JobId


class ListJobs(Struct, frozen=True):
    """Answer: tuple[JobOverview, ...], oldest first."""


class CancelJob(Struct, frozen=True):
    """Answer: None. No effect on a job that has ended. Raises UnknownJobError."""

    job_id: JobId


class ShutDownCluster(Struct, frozen=True):
    """Answer: whether the cluster is down: jobs ended, TaskExecutors gone. The first request starts it."""


# -- requests of a client to the ResourceManager and the JobMaster -----------------------------------------------


class GetClusterOverview(Struct, frozen=True):
    """Answer of the ResourceManager: ClusterOverview."""


class GetJobProgress(Struct, frozen=True):
    """Answer of the JobMaster: flinkray.execution.JobProgress."""


class GetJobDetails(Struct, frozen=True):
    """Answer of the JobMaster: JobDetails."""


class GetCheckpoints(Struct, frozen=True):
    """Answer of the JobMaster: flinkray.state.checkpoint_statistics.CheckpointOverview."""


class TriggerSavepoint(Struct, frozen=True):
    """Answer of the JobMaster: None, as soon as it is under way; GetSavepoint tells what becomes of it.

    Without effect when there was a request with this id before, so it can be asked again.
    """

    request_id: str
    target: str
    """The directory (path or URI) to put it into; empty: execution.checkpointing.savepoint-dir."""
    stop: StopMode


class GetSavepoint(Struct, frozen=True):
    """Answer of the JobMaster: SavepointResult, or None while it is under way or was never asked for.

    A savepoint that stops the job is done when the job has finished: then JobDetails has the result.
    """

    request_id: str


class TakeCollected(Struct, frozen=True):
    """Answer of the JobMaster: Collected. Takes what the CollectSink of this id has brought so far."""

    collect_id: str
    max_batches: int
    positions: tuple[int, ...] = ()
    """Of the last answer; what tells a JobMaster that has taken another's place what the driver has."""


class Collected(Struct, frozen=True):
    """Rows for the driver, in order per sink subtask."""

    batches: tuple[Batch, ...]
    is_end: bool
    """Nothing will follow."""
    positions: tuple[int, ...] = ()


class CollectedReceived(Struct, frozen=True):
    """Client -> JobMaster: it has all the rows that it wants. The JobMaster of an ended job stays until then."""

    collect_id: str


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
    """JobMaster -> Dispatcher: the driver has them all now."""

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
    """ResourceManager -> Dispatcher."""


class ClusterResources(Struct, frozen=True):
    """Client -> ResourceManager: what the host has in total, so that a job that can never fit is told so soon.

    `is_autoscaled`: more may come, so nothing is too large.
    `expected`: the slots of the job that the client is about to submit; they start while its JobMaster does.
    `free_cpus`: of each node, in any order; a TaskExecutor with several slots is as large as one of them at most.
    """

    total_cpus: float
    is_autoscaled: bool = False
    expected: tuple[SlotRequest, ...] = ()
    free_cpus: tuple[float, ...] = ()


# -- JobMaster <-> ResourceManager -------------------------------------------------------------------------------


class RegisterJobMaster(Struct, frozen=True):
    """JobMaster -> ResourceManager: repeated until it is answered. Of two for one job, the later session counts."""

    job_id: JobId
    job_session: SessionId
    job_master: Address


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
    """JobMaster -> ResourceManager: what do you have?"""

    session: SessionId
    job_id: JobId


class OverviewReported(Struct, frozen=True):
    """ResourceManager -> JobMaster."""

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
    """Grows whenever it has lost the ResourceManager, which then believes these slots rather than what it knew."""


class TaskExecutorRegistered(Struct, frozen=True):
    """ResourceManager -> TaskExecutor."""

    session: SessionId
    registration: int = 0
    """The one that is answered; answers to past ones are ignored."""


class RequestSlot(Struct, frozen=True):
    """ResourceManager -> TaskExecutor: give this slot to that job, and offer it to its JobMaster."""

    session: SessionId
    slot_index: int
    allocation_id: AllocationId
    job_id: JobId
    job_master: Address
    job_session: SessionId
    label: str


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
    """ResourceManager -> TaskExecutor: end your slots' processes and say when you have."""

    session: SessionId


class TaskExecutorStopped(Struct, frozen=True):
    """TaskExecutor -> ResourceManager."""

    session: SessionId
    task_executor: Address


# -- TaskExecutor <-> JobMaster ----------------------------------------------------------------------------------


class SlotOffer(Struct, frozen=True):
    """A slot that is reserved for the job."""

    allocation_id: AllocationId
    slot_index: int
    slot: Address
    """The TaskSlot endpoint, which data goes to directly."""
    profile: ResourceProfile
    label: str


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
    """ResourceManager -> JobMaster, TaskExecutor; JobMaster -> TaskExecutor."""

    session: SessionId
    sender: Address


class HeartbeatAnswered(Struct, frozen=True):
    """The other way."""

    session: SessionId
    sender: Address
