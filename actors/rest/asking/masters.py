"""Asks the masters of one or several clusters, and remembers for a moment what they said.

Ten browsers that look at a job cost its JobMaster one question in three seconds. Any thread may ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field

from actors.logs.merging import merged
from actors.protocol.client_requests import (
    CancelJob,
    GetArchivedJob,
    GetClusterConfiguration,
    GetClusterOverview,
    GetJobDetails,
    GetJobOverview,
    GetOutput,
    GetOutputFiles,
    GetProcessFigures,
    GetRescale,
    GetSlotProcesses,
    GetStackSamples,
    GetTaskExecutors,
    GetThreadStacks,
    GetTriggeredCheckpoint,
    JobOverview,
    ListJobs,
    OutputFile,
    ProcessFigures,
    Rescale,
    StackSamples,
    StackTime,
    TaskExecutorDetails,
    ThreadStacks,
    TriggeredCheckpoint,
    TriggerPeriodicCheckpoint,
    TriggerSavepoint,
)
from actors.protocol.control_messages import JobDetails, RescaleResult
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, EndpointSilentError, UnknownJobError
from actors.protocol.job_reports import (
    AttemptDetails,
    CheckpointReport,
    GetCheckpointReport,
    GetJobSummary,
    GetPriorAttempts,
    GetRateHistory,
    JobSummary,
    RateSample,
)
from actors.protocol.ports import Address, EndpointGone, Host
from actors.protocol.resources import ClusterOverview
from flinkray.errors import FlinkrayError
from flinkray.types.records import JobId

# A page waits for it, and a process that is there answers within milliseconds.
TIMEOUT_MS = 5_000.0

# The log of a job has this many bytes of all its processes, and of each at least so many.
_JOB_LOG_BYTES = 1 << 22
_LEAST_LOG_BYTES = 1 << 14

_Name = TypeVar("_Name", bound=Hashable)

# So many endpoints are asked at the same time.
_THREADS = 16


class Clusters(Protocol):
    """The clusters that are looked at; they come and go."""

    def hosts(self) -> Mapping[str, Host]:
        """The host of each cluster, by its id."""


class OneCluster(Struct, frozen=True):
    """Clusters: always this one."""

    cluster_id: str
    host: Host

    def hosts(self) -> Mapping[str, Host]:
        return {self.cluster_id: self.host}


class _Answer(Struct):
    """What somebody said, or is about to say."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    at_ms: float = float("-inf")
    value: Any = None
    error: Exception | None = None
    """Why there is no value: also that one is silent is remembered, as each question would wait for as long."""


class Masters:
    """What is asked of the masters.

    All methods raise EndpointGone or a TimeoutError where somebody is not there or does not answer, and those that take
    a job UnknownJobError.

    Args:
        clusters: those that are looked at.
        monotonic_ms: a clock that never goes back.
        remembers_ms: how long an answer counts.
    """

    def __init__(self, clusters: Clusters, monotonic_ms: Callable[[], float], remembers_ms: float) -> None:
        self._clusters = clusters
        self._monotonic_ms = monotonic_ms
        self._remembers_ms = remembers_ms
        self._lock = threading.Lock()
        self._answers: dict[Any, _Answer] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="rest-masters")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- clusters ------------------------------------------------------------------------------------------------

    def cluster_ids(self) -> Sequence[str]:
        return sorted(self._hosts())

    def overview(self) -> ClusterOverview:
        """What all clusters have together."""
        each = self._of_each(self.cluster_ids(), self._overview_of)
        known = [overview for overview in each.values() if overview is not None]
        return ClusterOverview(
            task_executors=sum(overview.task_executors for overview in known),
            pending_task_executors=sum(overview.pending_task_executors for overview in known),
            slots=sum(overview.slots for overview in known),
            free_slots=sum(overview.free_slots for overview in known),
            cpus=sum(overview.cpus for overview in known),
        )

    def configuration(self) -> Mapping[str, str]:
        """The options of the cluster; of several each with its cluster before it. Secrets are hidden."""
        found = self._of_each(
            self.cluster_ids(), lambda name: self._cached(_dispatcher(name), GetClusterConfiguration())
        )
        if len(found) == 1:
            return next(iter(found.values())) or {}
        return {f"{name}/{key}": value for name, shown in found.items() for key, value in (shown or {}).items()}

    def task_executors(self) -> Sequence[TaskExecutorDetails]:
        """All that are registered, by address."""
        each = self._of_each(self.cluster_ids(), self._task_executors_of)
        return sorted((one for found in each.values() for one in found or ()), key=lambda one: one.address)

    def task_executor(self, address: Address) -> TaskExecutorDetails | None:
        """None: no TaskExecutor has that address (any more)."""
        return next((each for each in self.task_executors() if each.address == address), None)

    def machines(self, task_executors: Sequence[Address]) -> Mapping[str, ProcessFigures | None]:
        """The figures of each TaskExecutor's own process; None: it does not answer."""
        return self._of_each(task_executors, lambda name: self._cached(Address(name), GetProcessFigures()))

    def processes(self, task_executor: Address) -> Sequence[ProcessFigures]:
        """The figures of its process and those of its slots, each process once; of those that answer."""
        return self._of_processes(task_executor, GetProcessFigures(), remembers=True)

    def threads(self, task_executor: Address) -> Sequence[ThreadStacks]:
        """What the threads of these processes do now."""
        return self._of_processes(task_executor, GetThreadStacks(), remembers=False)

    def stack_samples(self, threads: Mapping[str, Sequence[str]]) -> tuple[Sequence[StackTime], int]:
        """What threads were doing in the last minute, of the processes that answer, and when they were looked at last
        (epoch milliseconds).

        Args:
            threads: endpoint -> names of threads of its process.
        """
        asked = self._of_each(
            list(threads), lambda name: self._cached(Address(name), GetStackSamples(tuple(threads[name])))
        )
        known: list[StackSamples] = [each for each in asked.values() if each is not None]
        stacks = [stack for samples in known for times in samples.threads.values() for stack in times]
        return stacks, max((samples.sampled_ms for samples in known), default=0)

    def master_processes(self) -> Sequence[ProcessFigures]:
        """The figures of the Dispatchers' processes."""
        found = self._of_each(self.cluster_ids(), lambda name: self._cached(_dispatcher(name), GetProcessFigures()))
        return _once([each for each in found.values() if each is not None])

    def master_threads(self) -> Sequence[ThreadStacks]:
        """What the threads of the Dispatchers do now."""
        found = self._of_each(self.cluster_ids(), lambda name: self._ask(_dispatcher(name), GetThreadStacks()))
        return _once([each for each in found.values() if each is not None])

    def outputs(self, address: Address) -> Mapping[str, Sequence[OutputFile]]:
        """The files that a process prints to, and of a TaskExecutor those of its slots; by who prints there. Each file
        once."""
        return self._outputs_of((address, *self._slots_of(address)))

    def _outputs_of(self, addresses: Sequence[Address]) -> Mapping[str, Sequence[OutputFile]]:
        asked = self._of_each(addresses, lambda name: self._cached(Address(name), GetOutputFiles()))
        seen: set[tuple[str, int]] = set()
        found: dict[str, list[OutputFile]] = {}
        for name, files in asked.items():
            new = [file for file in files or () if (file.name, file.is_error) not in seen]
            seen.update((file.name, file.is_error) for file in new)
            found[name] = new
        return found

    def output(self, address: Address, name: str, most_bytes: int) -> str | None:
        """The end of one of these files; None: that process has none of the name."""
        text: str | None = self._ask(address, GetOutput(name, most_bytes))
        return text

    def job_log(self, job_id: JobId) -> str | None:
        """The ends of the logs of its JobMaster and of its slots, by time; None: none of these processes answers, or
        has a file that it logs to."""
        cluster, job = self._find(job_id)
        executors = [each.address for each in self._task_executors_of(cluster)]
        slots = self._of_each(executors, lambda name: self._ask(Address(name), GetSlotProcesses(job_id)))
        processes = (job.job_master, *(slot for found in slots.values() for slot in found or ()))
        outputs = self._outputs_of(processes)
        logs = [(name, file.name) for name, files in outputs.items() for file in files if file.is_error]
        if not logs:
            return None
        most_bytes = max(_LEAST_LOG_BYTES, _JOB_LOG_BYTES // len(logs))
        texts = self._of_each(logs, lambda log: self.output(Address(log[0]), log[1], most_bytes))
        return merged(filter(None, texts.values()))

    def _slots_of(self, address: Address) -> tuple[Address, ...]:
        """The slots of a TaskExecutor; of other endpoints there are none."""
        if self.task_executor(address) is None:
            return ()
        slots: tuple[Address, ...] = self._ask(address, GetSlotProcesses())
        return slots

    def _overview_of(self, cluster: str) -> ClusterOverview:
        overview: ClusterOverview = self._cached(_resource_manager(cluster), GetClusterOverview())
        return overview

    def _task_executors_of(self, cluster: str) -> tuple[TaskExecutorDetails, ...]:
        found: tuple[TaskExecutorDetails, ...] = self._cached(_resource_manager(cluster), GetTaskExecutors())
        return found

    def _of_processes(self, task_executor: Address, request: Any, *, remembers: bool) -> Sequence[Any]:
        ask = self._cached if remembers else self._ask
        addresses = (task_executor, *self._slots_of(task_executor))
        found = self._of_each(addresses, lambda address: ask(Address(address), request))
        return _once([each for each in found.values() if each is not None])

    # -- jobs ----------------------------------------------------------------------------------------------------

    def jobs(self) -> Sequence[JobOverview]:
        """All jobs that are known, oldest first; those of a cluster that does not answer are left out."""
        each = self._of_each(self.cluster_ids(), self._jobs_of)
        return sorted((job for jobs in each.values() for job in jobs or ()), key=lambda job: job.started_ms)

    def summaries(self) -> Sequence[tuple[JobOverview, JobSummary | None]]:
        """The same with a summary of each; None: its JobMaster does not answer."""
        jobs = {job.job_id: job for job in self.jobs()}
        running = [job_id for job_id, job in jobs.items() if job.summary is None]
        asked = self._of_each(running, lambda job_id: self._summary_of(jobs[JobId(job_id)]))
        return [(job, job.summary or asked.get(job_id)) for job_id, job in jobs.items()]

    def all_details(self) -> Sequence[JobDetails]:
        """All jobs that run; those whose JobMaster does not answer are left out."""
        running = [job.job_id for job in self.jobs() if not job.status.is_terminal]
        found = self._of_each(running, lambda job_id: self.details(JobId(job_id)))
        return [details for details in found.values() if details is not None]

    def job(self, job_id: JobId) -> JobOverview:
        return self._find(job_id)[1]

    def details(self, job_id: JobId, *, is_fresh: bool = False) -> JobDetails:
        """The job as it is, or was at its end.

        Args:
            is_fresh: what was said before does not count.
        """
        cluster, job = self._find(job_id, is_fresh=is_fresh)
        ask = self._ask if is_fresh else self._cached
        if not job.status.is_terminal:
            try:
                details: JobDetails = ask(job.job_master, GetJobDetails())
                return details
            except EndpointGone:
                pass  # it has ended meanwhile, or has yet to start
        archived: JobDetails | None = ask(_dispatcher(cluster), GetArchivedJob(job_id))
        return archived or JobDetails(job_id, job.name, job.status, ((job.status, job.started_ms),))

    def checkpoints_of_each(self, job_ids: Sequence[JobId]) -> dict[JobId, CheckpointReport | None]:
        """None: the JobMaster does not answer."""
        return self._of_each(job_ids, self.checkpoints)

    def checkpoints(self, job_id: JobId) -> CheckpointReport:
        report = self._of_running(job_id, GetCheckpointReport())
        if report is None:
            details = self.details(job_id)
            kept = details.archive
            if kept is None:
                return CheckpointReport(details.checkpoints)
            return CheckpointReport(details.checkpoints, kept.summary, kept.checkpoints)
        found: CheckpointReport = report
        return found

    def prior_attempts(self, job_id: JobId, vertex_id: str) -> Sequence[AttemptDetails]:
        attempts = self._of_running(job_id, GetPriorAttempts(vertex_id))
        if attempts is None:
            kept = self.details(job_id).archive
            return () if kept is None else kept.attempts.get(vertex_id, ())
        found: Sequence[AttemptDetails] = attempts
        return found

    def rate_history(self, job_id: JobId, vertex_id: str) -> Sequence[Sequence[RateSample]]:
        """Empty for a job that has ended."""
        return self._of_running(job_id, GetRateHistory(vertex_id)) or ()

    def triggered_checkpoint(self, job_id: JobId, request_id: str) -> TriggeredCheckpoint | None:
        """None: nobody has asked for it under this id, or its JobMaster has ended since."""
        _, job = self._find(job_id, is_fresh=True)
        try:
            found: TriggeredCheckpoint | None = self._ask(job.job_master, GetTriggeredCheckpoint(request_id))
        except EndpointGone:
            return None
        return found

    def rescale(self, job_id: JobId, request_id: str) -> RescaleResult | None:
        """None: nobody has asked for it under this id, or its JobMaster has ended since."""
        _, job = self._find(job_id, is_fresh=True)
        try:
            found: RescaleResult | None = self._ask(job.job_master, GetRescale(request_id))
        except EndpointGone:
            return None
        return found

    def trigger(self, job_id: JobId, request: TriggerSavepoint | TriggerPeriodicCheckpoint | Rescale) -> None:
        _, job = self._find(job_id, is_fresh=True)
        self._ask(job.job_master, request)
        self._forget()

    def cancel(self, job_id: JobId) -> None:
        cluster, _ = self._find(job_id, is_fresh=True)
        self._ask(_dispatcher(cluster), CancelJob(job_id))
        self._forget()

    def _jobs_of(self, cluster: str) -> tuple[JobOverview, ...]:
        jobs: tuple[JobOverview, ...] = self._cached(_dispatcher(cluster), ListJobs())
        return jobs

    def _summary_of(self, job: JobOverview) -> JobSummary:
        summary: JobSummary = self._cached(job.job_master, GetJobSummary())
        return summary

    def _of_running(self, job_id: JobId, request: Any) -> Any | None:
        """The answer of the job's JobMaster; None: the job has ended."""
        _, job = self._find(job_id)
        if job.status.is_terminal:
            return None
        try:
            return self._cached(job.job_master, request)
        except EndpointGone:
            return None

    def _find(self, job_id: JobId, *, is_fresh: bool = False) -> tuple[str, JobOverview]:
        """The cluster that has the job, and what it says of it."""
        ask = self._ask if is_fresh else self._cached
        silent: Exception | None = None
        names = self.cluster_ids()
        for name in names:
            try:
                return name, ask(_dispatcher(name), GetJobOverview(job_id))
            except UnknownJobError:
                continue
            except (EndpointGone, TimeoutError, DispatcherNotReadyError) as error:
                silent = error  # it may be the one that has it
        if silent is not None:
            raise silent
        raise UnknownJobError(job_id, ", ".join(names) or "(none)")

    # -- asking --------------------------------------------------------------------------------------------------

    def _hosts(self) -> Mapping[str, Host]:
        hosts: Mapping[str, Host] = self._remembered(("hosts",), self._clusters.hosts)
        return hosts

    def _ask(self, address: Address, request: Any) -> Any:
        host = self._hosts().get(address.partition("/")[0])
        if host is None:
            raise EndpointGone(address)
        try:
            return host.ask(address, request, TIMEOUT_MS)
        except TimeoutError as error:
            seconds = TIMEOUT_MS / 1000
            raise EndpointSilentError(f"{address} has not answered for {seconds:.0f} s") from error

    def _cached(self, address: Address, request: Any) -> Any:
        return self._remembered((address, request), lambda: self._ask(address, request))

    def _remembered(self, key: Any, ask: Callable[[], Any]) -> Any:
        """What was said within the last moment, or what is said now. Of several who ask at once only one does."""
        with self._lock:
            now = self._monotonic_ms()
            known = self._answers.get(key)
            if known is None:
                old = [each for each, found in self._answers.items() if self._is_old(found, now)]
                for each in old:
                    del self._answers[each]
                known = self._answers[key] = _Answer()
        with known.lock:
            if self._is_old(known, self._monotonic_ms()):
                try:
                    known.value, known.error = ask(), None
                except (EndpointGone, FlinkrayError) as error:
                    known.value, known.error = None, error
                known.at_ms = self._monotonic_ms()
            if known.error is not None:
                raise known.error.with_traceback(None)
            return known.value

    def _forget(self) -> None:
        """Drops what was said before something was changed."""
        with self._lock:
            self._answers.clear()

    def _is_old(self, answer: _Answer, now: float) -> bool:
        return now - answer.at_ms >= self._remembers_ms

    def _of_each(self, names: Sequence[_Name], question: Callable[[_Name], Any]) -> dict[_Name, Any | None]:
        """What the question gives of each; None where it is not answered. All are asked at the same time."""

        def answer(name: _Name) -> Any | None:
            try:
                return question(name)
            except (EndpointGone, TimeoutError, FlinkrayError):
                return None

        if len(names) == 1:
            return {names[0]: answer(names[0])}
        return dict(zip(names, self._pool.map(answer, names), strict=True))


def _once(processes: Sequence[Any]) -> Sequence[Any]:
    """Each process once: where all is in one, every endpoint answers the same."""
    return list({(each.host, each.process_id): each for each in processes}.values())


def _dispatcher(cluster: str) -> Address:
    # As `actors.client.cluster.dispatcher_of`, in a room above this one.
    return Address(f"{cluster}/dispatcher")


def _resource_manager(cluster: str) -> Address:
    return Address(f"{cluster}/resource-manager")
