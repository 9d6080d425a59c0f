"""What the components of the control plane say to each other (the tasks' own messages are in `actors.messages`).

Every message names its epoch. `session` is the fencing token of the ResourceManager between it and its peers, and that
of the JobMaster everywhere else; slots are addressed by allocation id, tasks by attempt id, offers by offer id. A
message of a past epoch is logged at debug level and ignored.

    client <-> Dispatcher <-> JobMaster <-> TaskExecutor <-> TaskSlot
                                  |              |
                                  +-- ResourceManager

Classes under "requests" are asked (`Host.ask`) and answered at once; all others are told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NewType

from actors.checkpoints.statistics import CheckpointOverview
from actors.elements import StopMode
from actors.messages import AllocationId, SessionId, TaskMetrics
from actors.ports import Address
from actors.scheduling.failure_history import FailureRecord
from actors.sealed import Sealed
from flinkray.errors import ErrorInfo
from flinkray.execution import JobStatus
from flinkray.types import JobId

if TYPE_CHECKING:  # with them, masters and workers would load Arrow and all of the API
    from flinkray.batch import Batch
    from graphs.job_graph import JobGraph

OfferId = NewType("OfferId", int)
"""Counts the offers of one TaskExecutor to one JobMaster; only the newest may be answered."""

# How long after a message was lost whose receiver lives, and waits for it, that is said again.
RESEND_MS = 1_000.0


# -- resources ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResourceProfile:
    """What a slot has, or what is asked of one."""

    cpus: float = 0.0
    memory_bytes: int = 0

    def covers(self, other: ResourceProfile) -> bool:
        """Whether a slot of this profile can do what `other` asks for."""
        return self.cpus >= other.cpus and self.memory_bytes >= other.memory_bytes

    def __str__(self) -> str:
        memory = f" and {self.memory_bytes / 2**20:.0f} MiB" if self.memory_bytes else ""
        return f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'}{memory}"


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """One slot that a job needs: for one execution slot sharing group."""

    profile: ResourceProfile
    label: str
    """Unique within the job, and how the slot reads: `word-count: Source → map (1/2), window (1/2)`."""


@dataclass(frozen=True, slots=True)
class SlotReport:
    """A slot of a TaskExecutor as it is now."""

    slot_index: int
    profile: ResourceProfile
    allocation_id: AllocationId | None = None
    job_id: JobId | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class ClusterOverview:
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


@dataclass(frozen=True, slots=True)
class SubtaskDetails:
    """One subtask's current attempt."""

    subtask_index: int
    attempt_id: str
    attempt_number: int
    state: str
    """Name of an ExecutionState."""
    slot: Address | None
    metrics: TaskMetrics
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class VertexDetails:
    """One vertex of the job."""

    vertex_id: str
    name: str
    parallelism: int
    max_parallelism: int
    inputs: tuple[tuple[str, str], ...]
    """(vertex id, ship strategy) per JobEdge."""
    subtasks: tuple[SubtaskDetails, ...]


@dataclass(frozen=True, slots=True)
class SavepointResult:
    """What became of a savepoint that was asked for."""

    request_id: str
    directory: str | None
    """URI; None: it failed."""
    error: ErrorInfo | None
    """Exactly one of the two is there."""


@dataclass(frozen=True, slots=True)
class JobDetails:
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


@dataclass(frozen=True, slots=True)
class JobOverview:
    """A job in a list."""

    job_id: JobId
    name: str
    status: JobStatus
    started_ms: int
    job_master: Address


# -- requests of a client to the Dispatcher ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Answer: JobOverview, when the job is stored where anything is stored; before, DispatcherNotReadyError is raised.

    Raises InvalidProgramError for a job id whose submission this Dispatcher has answered already.
    """

    job_id: JobId
    name: str
    sealed: Sealed[JobGraph]
    """For its JobMaster alone."""

    @classmethod
    def of(cls, job_graph: JobGraph) -> SubmitJob:
        return cls(job_graph.job_id, job_graph.name, Sealed(job_graph))


@dataclass(frozen=True, slots=True)
class GetJobOverview:
    """Answer: JobOverview. Raises UnknownJobError."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class GetArchivedJob:
    """Answer: JobDetails of a job that has ended, or None while it runs. Raises UnknownJobError."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class ListJobs:
    """Answer: tuple[JobOverview, ...], oldest first."""


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Answer: None. No effect on a job that has ended. Raises UnknownJobError."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class ShutDownCluster:
    """Answer: whether the cluster is down: jobs ended, TaskExecutors gone. The first request starts it."""


# -- requests of a client to the ResourceManager and the JobMaster -----------------------------------------------


@dataclass(frozen=True, slots=True)
class GetClusterOverview:
    """Answer of the ResourceManager: ClusterOverview."""


@dataclass(frozen=True, slots=True)
class GetJobProgress:
    """Answer of the JobMaster: flinkray.execution.JobProgress."""


@dataclass(frozen=True, slots=True)
class GetJobDetails:
    """Answer of the JobMaster: JobDetails."""


@dataclass(frozen=True, slots=True)
class GetCheckpoints:
    """Answer of the JobMaster: actors.checkpoints.statistics.CheckpointOverview."""


@dataclass(frozen=True, slots=True)
class TriggerSavepoint:
    """Answer of the JobMaster: None, as soon as it is under way; GetSavepoint tells what becomes of it.

    Without effect when there was a request with this id before, so it can be asked again.
    """

    request_id: str
    target: str
    """The directory (path or URI) to put it into; empty: execution.checkpointing.savepoint-dir."""
    stop: StopMode


@dataclass(frozen=True, slots=True)
class GetSavepoint:
    """Answer of the JobMaster: SavepointResult, or None while it is under way or was never asked for.

    A savepoint that stops the job is done when the job has finished: then JobDetails has the result.
    """

    request_id: str


@dataclass(frozen=True, slots=True)
class TakeCollected:
    """Answer of the JobMaster: Collected. Takes what the CollectSink of this id has brought so far."""

    collect_id: str
    max_batches: int
    positions: tuple[int, ...] = ()
    """Of the last answer; what tells a JobMaster that has taken another's place what the driver has."""


@dataclass(frozen=True, slots=True)
class Collected:
    """Rows for the driver, in order per sink subtask."""

    batches: tuple[Batch, ...]
    is_end: bool
    """Nothing will follow."""
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectedReceived:
    """Client -> JobMaster: it has all the rows that it wants. The JobMaster of an ended job stays until then."""

    collect_id: str


# -- Dispatcher <-> JobMaster ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobStatusChanged:
    """JobMaster -> Dispatcher: the job has a new status that is not terminal."""

    session: SessionId
    job_id: JobId
    status: JobStatus


@dataclass(frozen=True, slots=True)
class JobEnded:
    """JobMaster -> Dispatcher: the job is in a terminal status, and its slots are given back."""

    session: SessionId
    details: JobDetails
    has_rows_to_take: bool
    """The driver has not taken all collected rows yet, so the JobMaster has to stay."""


@dataclass(frozen=True, slots=True)
class CollectedRowsTaken:
    """JobMaster -> Dispatcher: the driver has them all now."""

    session: SessionId
    job_id: JobId


@dataclass(frozen=True, slots=True)
class CancelExecutionGraph:
    """Dispatcher -> JobMaster: cancel every task; the job ends CANCELED."""

    session: SessionId


@dataclass(frozen=True, slots=True)
class ReportJob:
    """Dispatcher -> JobMaster: a Dispatcher that has taken another's place asks for the job's status or end."""

    session: SessionId


# -- Dispatcher <-> ResourceManager ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReleaseAllTaskExecutors:
    """Dispatcher -> ResourceManager: the cluster is being shut down."""

    dispatcher: Address


@dataclass(frozen=True, slots=True)
class AllTaskExecutorsReleased:
    """ResourceManager -> Dispatcher."""


@dataclass(frozen=True, slots=True)
class ClusterResources:
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


@dataclass(frozen=True, slots=True)
class RegisterJobMaster:
    """JobMaster -> ResourceManager: repeated until it is answered. Of two for one job, the later session counts."""

    job_id: JobId
    job_session: SessionId
    job_master: Address


@dataclass(frozen=True, slots=True)
class JobMasterRegistered:
    """ResourceManager -> JobMaster: `session` is the ResourceManager's.

    The heartbeats are the cluster's, whatever the job's own options say, as its TaskExecutors go by them.
    """

    session: SessionId
    job_session: SessionId
    heartbeat_interval_ms: float
    heartbeat_timeout_ms: float


@dataclass(frozen=True, slots=True)
class DeclareRequirements:
    """JobMaster -> ResourceManager: all slots that the job needs now; replaces what was declared before."""

    session: SessionId
    job_id: JobId
    job_session: SessionId
    requests: tuple[SlotRequest, ...]


@dataclass(frozen=True, slots=True)
class ResourcesMissing:
    """ResourceManager -> JobMaster: what was declared cannot be had; waiting longer does not help."""

    job_session: SessionId
    reason: str
    overview: ClusterOverview
    is_about_starts: bool = False
    """No TaskExecutor comes up, whatever room there is: a job that could do with fewer slots gets none either."""


@dataclass(frozen=True, slots=True)
class RequestOverview:
    """JobMaster -> ResourceManager: what do you have?"""

    session: SessionId
    job_id: JobId


@dataclass(frozen=True, slots=True)
class OverviewReported:
    """ResourceManager -> JobMaster."""

    job_session: SessionId
    overview: ClusterOverview


@dataclass(frozen=True, slots=True)
class DisconnectJobMaster:
    """JobMaster -> ResourceManager: the job has ended and needs nothing any more."""

    session: SessionId
    job_id: JobId
    job_session: SessionId


# -- TaskExecutor <-> ResourceManager ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisterTaskExecutor:
    """TaskExecutor -> ResourceManager: repeated until it is answered."""

    task_executor: Address
    slots: tuple[SlotReport, ...]
    registration: int = 0
    """Grows whenever it has lost the ResourceManager, which then believes these slots rather than what it knew."""


@dataclass(frozen=True, slots=True)
class TaskExecutorRegistered:
    """ResourceManager -> TaskExecutor."""

    session: SessionId
    registration: int = 0
    """The one that is answered; answers to past ones are ignored."""


@dataclass(frozen=True, slots=True)
class RequestSlot:
    """ResourceManager -> TaskExecutor: give this slot to that job, and offer it to its JobMaster."""

    session: SessionId
    slot_index: int
    allocation_id: AllocationId
    job_id: JobId
    job_master: Address
    job_session: SessionId
    label: str


@dataclass(frozen=True, slots=True)
class SlotRequestRefused:
    """TaskExecutor -> ResourceManager: the slot is not free; `slot` is what it is."""

    session: SessionId
    task_executor: Address
    allocation_id: AllocationId
    slot: SlotReport


@dataclass(frozen=True, slots=True)
class SlotFreed:
    """TaskExecutor -> ResourceManager: that allocation is over, the slot is free."""

    session: SessionId
    task_executor: Address
    slot_index: int
    allocation_id: AllocationId


@dataclass(frozen=True, slots=True)
class StopTaskExecutor:
    """ResourceManager -> TaskExecutor: end your slots' processes and say when you have."""

    session: SessionId


@dataclass(frozen=True, slots=True)
class TaskExecutorStopped:
    """TaskExecutor -> ResourceManager."""

    session: SessionId
    task_executor: Address


# -- TaskExecutor <-> JobMaster ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlotOffer:
    """A slot that is reserved for the job."""

    allocation_id: AllocationId
    slot_index: int
    slot: Address
    """The TaskSlot endpoint, which data goes to directly."""
    profile: ResourceProfile
    label: str


@dataclass(frozen=True, slots=True)
class OfferSlots:
    """TaskExecutor -> JobMaster: all slots reserved for it and not yet accepted."""

    session: SessionId
    task_executor: Address
    offer_id: OfferId
    offers: tuple[SlotOffer, ...]


@dataclass(frozen=True, slots=True)
class SlotOffersAnswered:
    """JobMaster -> TaskExecutor: these are taken; the others are to be freed."""

    session: SessionId
    job_id: JobId
    offer_id: OfferId
    accepted: frozenset[AllocationId]


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """JobMaster -> TaskExecutor: the job does not need this slot any more; its process is ended."""

    session: SessionId
    allocation_id: AllocationId
    reason: str


@dataclass(frozen=True, slots=True)
class SlotFailed:
    """TaskExecutor -> JobMaster: the slot's process is gone, and every task in it."""

    session: SessionId
    task_executor: Address
    allocation_id: AllocationId
    cause: str


# -- heartbeats --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeartbeatRequested:
    """ResourceManager -> JobMaster, TaskExecutor; JobMaster -> TaskExecutor."""

    session: SessionId
    sender: Address


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The other way."""

    session: SessionId
    sender: Address
