"""What a client asks of masters, TaskExecutors and processes, and what they answer.

Requests are asked (`Host.ask`) and answered at once, without side effects on other components that would have to be
waited for. CollectedReceived, ClusterResources and ClusterGrowth alone are told (`Host.tell`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from actors.protocol.elements import StopMode
from actors.protocol.job_reports import JobSummary
from actors.protocol.ports import Address
from actors.protocol.resources import SlotReport, SlotRequest
from actors.protocol.serialized_value import SerializedValue
from flinkray.config.python_options import RUNTIME_ENV
from flinkray.execution import JobStatus
from flinkray.types.records import JobId

if TYPE_CHECKING:  # with them, masters and workers would load Arrow and all of the API
    from flinkray.batches.batch import Batch
    from graphs.job_graph import JobGraph


# -- asked of the Dispatcher -------------------------------------------------------------------------------------


class JobOverview(Struct, frozen=True):
    """A job as it stands in a list of jobs."""

    job_id: JobId
    name: str
    status: JobStatus
    started_ms: int
    job_master: Address
    summary: JobSummary | None = None
    """Of a job that has ended; of others their JobMasters know it."""


class SubmitJob(Struct, frozen=True):
    """Answer: JobOverview, when the job is stored where anything is stored; before, DispatcherNotReadyError is raised.

    Raises InvalidProgramError for a job id whose submission this Dispatcher has answered already.
    """

    job_id: JobId
    name: str
    job_graph: SerializedValue[JobGraph]
    """The job; only its JobMaster deserializes it."""
    ha_directory: str = ""
    """The job's own directory (URI) for what outlives a JobMaster, in a cluster that has none; empty: it has none."""
    runtime_env: str = ""
    """What the processes that run its functions have, as the option python.runtime-env says it."""

    @classmethod
    def of(cls, job_graph: JobGraph, ha_directory: str = "") -> SubmitJob:
        runtime_env = job_graph.configuration.get(RUNTIME_ENV)
        return cls(job_graph.job_id, job_graph.name, SerializedValue(job_graph), ha_directory, runtime_env)


class GetJobOverview(Struct, frozen=True):
    """Answer: JobOverview. Raises UnknownJobError."""

    job_id: JobId


class GetArchivedJob(Struct, frozen=True):
    """Answer: JobDetails of a job that has ended, or None while it runs. Raises UnknownJobError."""

    job_id: JobId


class ListJobs(Struct, frozen=True):
    """Answer: tuple[JobOverview, ...], oldest first."""


class GetClusterConfiguration(Struct, frozen=True):
    """Answer: the options that the cluster was started with, as `Configuration.shown` gives them."""


class CancelJob(Struct, frozen=True):
    """Answer: None. No effect on a job that has ended. Raises UnknownJobError."""

    job_id: JobId


class ShutDownCluster(Struct, frozen=True):
    """Answer: whether the cluster is down: jobs ended, TaskExecutors gone. The first request starts it."""


# -- for the ResourceManager -------------------------------------------------------------------------------------


class GetClusterOverview(Struct, frozen=True):
    """Answer of the ResourceManager: ClusterOverview."""


class TaskExecutorDetails(Struct, frozen=True):
    """A TaskExecutor that is registered, with its slots."""

    address: Address
    slots: tuple[SlotReport, ...]
    heard_ms: int
    """When it was heard last, in epoch milliseconds."""


class GetTaskExecutors(Struct, frozen=True):
    """Answer of the ResourceManager: tuple[TaskExecutorDetails, ...]."""


class ClusterResources(Struct, frozen=True):
    """Client -> ResourceManager: what the host has in total, so that a job that can never fit is told so soon.

    `is_autoscaled`: more may come, so nothing is too large.
    `total_memory_bytes`: None: unknown.
    `expected`: the slots of the job that the client is about to submit; they start while its JobMaster does.
    `free_cpus`: of each node, in any order; a TaskExecutor with several slots is as large as one of them at most.
    """

    total_cpus: float
    is_autoscaled: bool = False
    expected: tuple[SlotRequest, ...] = ()
    free_cpus: tuple[float, ...] = ()
    total_memory_bytes: int | None = None


class ClusterGrowth(Struct, frozen=True):
    """Client -> ResourceManager: whether more than there is may come, which was not known when ClusterResources was
    told."""

    is_autoscaled: bool


class GetRestUrl(Struct, frozen=True):
    """Answer of a cluster's REST server: where it is reached. Raises what has kept it from listening."""


# -- for any process; its host answers for every endpoint, so also where that hangs ------------------------------


class ProcessFigures(Struct, frozen=True):
    """What the process of an endpoint uses, and what its machine has. Sizes are in bytes."""

    host: str
    process_id: int
    resident_bytes: int = 0
    cpu_seconds: float = 0.0
    """Processor time that it has used since it began."""
    threads: int = 0
    open_files: int = 0
    """File descriptors."""
    collections: tuple[int, ...] = ()
    """How often each generation of Python's garbage collector ran."""
    machine_cpus: int = 0
    machine_bytes: int = 0
    machine_free_bytes: int = 0


class GetProcessFigures(Struct, frozen=True):
    """Answer: ProcessFigures."""


class ThreadStack(Struct, frozen=True):
    """A thread, and what it is doing, as the lines of a traceback."""

    name: str
    identifier: int
    is_daemon: bool
    stack: str


class ThreadStacks(Struct, frozen=True):
    """The threads of a process."""

    host: str
    process_id: int
    threads: tuple[ThreadStack, ...]


class GetThreadStacks(Struct, frozen=True):
    """Answer: ThreadStacks."""


class OutputFile(Struct, frozen=True):
    """A file that a process writes what it prints to."""

    name: str
    nbytes: int
    modified_ms: int
    """Epoch milliseconds."""
    is_error: bool
    """Standard error, which the log goes to, rather than standard output."""


class GetOutputFiles(Struct, frozen=True):
    """Answer: tuple[OutputFile, ...]; empty where both go to no file, as in a terminal."""


class GetOutput(Struct, frozen=True):
    """Answer: the end of an output file as text, or None where the process has none of that name."""

    name: str
    most_bytes: int


OPERATOR_MARK = "operator "
"""What the name of a function begins with that hands something to an operator; the operator's name follows."""


class StackTime(Struct, frozen=True):
    """A stack that a thread was seen with, and the time that it was: in all, and on the processor."""

    frames: tuple[str, ...]
    """Outermost first."""
    wall_us: int
    cpu_us: int


class StackSamples(Struct, frozen=True):
    """What threads were doing in the last minute, as far as anybody asked."""

    threads: dict[str, tuple[StackTime, ...]]
    """By their names; those that were not looked at yet, or are not there, are left out."""
    sampled_ms: int
    """When they were looked at last, in epoch milliseconds; 0: never."""


class GetStackSamples(Struct, frozen=True):
    """Answer: StackSamples, at once. The threads of these names are looked at from now on, for some seconds."""

    names: tuple[str, ...]


def loop_thread(address: Address, loop: str) -> str:
    """The name of the thread that runs a loop of an endpoint, for example a task of a slot."""
    return f"{address} {loop}"


ProcessRequest = GetProcessFigures | GetThreadStacks | GetStackSamples | GetOutputFiles | GetOutput


# -- for a TaskExecutor ------------------------------------------------------------------------------------------


class GetSlotProcesses(Struct, frozen=True):
    """Answer of a TaskExecutor: the addresses of the slots, as a tuple, that it has given to jobs."""

    job_id: JobId | None = None
    """None: to any."""


# -- for a JobMaster ---------------------------------------------------------------------------------------------


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


class TriggerPeriodicCheckpoint(Struct, frozen=True):
    """Answer of the JobMaster: None. The next periodic checkpoint begins as soon as one may, and does not wait for its
    interval; GetTriggeredCheckpoint tells what becomes of it. Without effect where the id has been used before.

    Raises CheckpointError where the job takes no periodic checkpoints, or does not run.
    """

    request_id: str


class TriggeredCheckpoint(Struct, frozen=True):
    """What has become of a checkpoint that was asked for; with neither, it is under way."""

    checkpoint_id: int | None = None
    """It is complete."""
    failure: str | None = None


class GetTriggeredCheckpoint(Struct, frozen=True):
    """Answer of the JobMaster: TriggeredCheckpoint, or None where none was asked for under this id."""

    request_id: str


class Rescale(Struct, frozen=True):
    """Answer of the JobMaster: None, as soon as it is under way; GetRescale tells what becomes of it. Without effect
    when there was a request with this id before, so it can be asked again.

    Raises RescaleError where the job cannot be given that parallelism, or not now.
    """

    request_id: str
    parallelism: int | dict[str, int]
    """The job's; or that of vertices, by their id or name."""


class GetRescale(Struct, frozen=True):
    """Answer of the JobMaster: RescaleResult, or None where none was asked for under this id."""

    request_id: str


class TakeCollected(Struct, frozen=True):
    """Answer of the JobMaster: Collected. Takes what the CollectSink of this id has brought so far."""

    collect_id: str
    max_batches: int
    positions: tuple[int, ...] = ()
    """The positions of the last answer. They tell a JobMaster that has taken another's place what the driver has."""


class Collected(Struct, frozen=True):
    """Rows for the driver, in order per sink subtask."""

    batches: tuple[Batch, ...]
    is_end: bool
    """Nothing will follow."""
    positions: tuple[int, ...] = ()
    """How far the driver has come with these; it sends them along when it asks for more."""


class CollectedReceived(Struct, frozen=True):
    """Client -> JobMaster: it has all the rows that it wants. The JobMaster of an ended job stays until then."""

    collect_id: str
