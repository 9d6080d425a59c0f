"""The Dispatcher: takes jobs, starts a JobMaster for each, and knows what became of them.

It outlives its jobs, so that a job can still be asked for some time after its end. With a directory for high
availability it outlives itself as well: what it has promised to a client is stored before, and one that takes its place
finds the jobs, whose JobMasters have gone on meanwhile. A JobMaster that dies is then replaced, instead of failing its
job; and so it is where only the job has such a directory, with its checkpoints.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.high_availability.directories import high_availability_directory
from actors.high_availability.dispatched_jobs import DispatchedJob, forget, prepare_replacement, recover, remove
from actors.high_availability.store_queue import StoreQueue
from actors.high_availability.stored_jobs import StoreCorruptedError, StoredJob
from actors.logs.context import LogContext, log_context
from actors.logs.setting_up import LogSettings
from actors.protocol.client_requests import (
    CancelJob,
    GetArchivedJob,
    GetClusterConfiguration,
    GetJobOverview,
    JobOverview,
    ListJobs,
    ShutDownCluster,
    SubmitJob,
)
from actors.protocol.control_messages import (
    AllTaskExecutorsReleased,
    CancelExecutionGraph,
    CollectedRowsTaken,
    HeartbeatAnswered,
    HeartbeatRequested,
    JobDetails,
    JobEnded,
    JobStatusChanged,
    ReleaseAllTaskExecutors,
    ReportJob,
)
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, UnknownJobError
from actors.protocol.main_thread import MainThread, RunAsync
from actors.protocol.ports import (
    ENVIRONMENT_FAILED,
    Address,
    DeliveryFailed,
    Endpoint,
    EndpointContext,
    EndpointDied,
    EndpointSpec,
    Payloads,
    SessionId,
)
from actors.protocol.serialized_value import SerializedValue
from actors.scheduling.liveness.heartbeats import HEARTBEATS_STOPPED, Heartbeats
from actors.scheduling.liveness.lost_messages import LostMessages
from actors.scheduling.liveness.release import TaskExecutorsRelease
from flinkray.config.configuration import Configuration
from flinkray.config.options import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT, JOB_EXPIRATION_TIME
from flinkray.config.rest_options import ARCHIVE_DIRECTORY
from flinkray.errors import ErrorInfo, FlinkrayError, InvalidProgramError
from flinkray.execution import JobStatus
from flinkray.types.records import JobId

if TYPE_CHECKING:
    from actors.high_availability.job_store import JobStore
    from graphs.job_graph import JobGraph

log = logging.getLogger(__name__)

# How long the rows of a finished job wait for a driver that does not fetch them.
COLLECTED_ROWS_TIMEOUT_MS = 600_000.0

# How often, a second apart, it tries to store something before it goes on without, as somebody waits for that.
STORE_ATTEMPTS = 10

# How long a cluster that ends by itself can still be asked what became of its job, once its rows are taken.
LINGER_MS = 60_000.0

# A cluster that ends by itself and has no job by then gets none: a client submits as soon as it has started one.
SUBMISSION_TIMEOUT_MS = 300_000.0

# A JobMaster that dies is replaced at once; after each one in a row that dies before it says anything, later by this.
REPLACEMENT_DELAY_MS = 500.0

# After so many JobMasters in a row that die before they say anything, the job fails: it is what kills them.
MAX_SILENT_DEATHS = 10


def _logs_for(job: DispatchedJob) -> AbstractContextManager[None]:
    """What is logged meanwhile is of that job."""
    return log_context(LogContext(job.job_id, job.name))


class Dispatcher(Endpoint):
    """Takes jobs from clients, and owns what is known of them (Flink's Dispatcher).

    With high availability, a job is first stored and then started. SubmitJob raises DispatcherNotReadyError until it is
    stored, and then answers; if the Dispatcher dies in between, the client's next SubmitJob either finds the job
    stored, or begins anew. A JobMaster's session sorts behind those of the job's JobMasters before it.
    """

    def __init__(
        self,
        context: EndpointContext,
        cluster_id: str,
        configuration: Configuration,
        resource_manager: Address,
        is_per_job: bool,
        ends_by_itself: bool = False,
    ) -> None:
        """
        Args:
            is_per_job: takes one job only (Flink's MiniDispatcher).
            ends_by_itself: ends the cluster some time after that job, or when none comes, as no client will.
        """
        super().__init__(context, LogSettings.of(configuration))
        self._cluster_id = cluster_id
        self._resource_manager = resource_manager
        self._is_per_job = is_per_job
        self._ends_by_itself = ends_by_itself
        self._ha_directory = high_availability_directory(configuration, cluster_id)
        self._store = _store_in(self._ha_directory) if self._ha_directory else None
        self._jobs_directories: set[str] = set()
        """What jobs have brought, in a cluster that has no directory of its own."""
        self._shown_configuration = configuration.shown()
        self._history_directory = configuration.get(ARCHIVE_DIRECTORY)
        self._expiration_ms = configuration.get(JOB_EXPIRATION_TIME) * 1_000.0
        self._main_thread = MainThread(context)
        self._queue = StoreQueue(context, self._main_thread)
        self._lost_messages = LostMessages(
            self._main_thread,
            {CancelExecutionGraph: self._tell_again, ReportJob: self._tell_again},
        )
        self._sessions = context.random("session")
        self._session = self._new_session(0)
        self._heartbeats = Heartbeats(context, self._main_thread, self._on_silent, session=self._session)
        self._heartbeat_interval_ms = max(1.0, float(configuration.get(HEARTBEAT_INTERVAL)))
        self._heartbeat_timeout_ms = float(configuration.get(HEARTBEAT_TIMEOUT))
        self._jobs: dict[JobId, DispatchedJob] = {}
        self._is_ready = self._store is None
        self._release = TaskExecutorsRelease(context, self._main_thread, resource_manager, self._on_down)
        self._is_shutting_down = False
        self._is_going_down = False
        self._is_down = False

    def on_start(self) -> None:
        self.context.watch(self._resource_manager)
        self._heartbeats.start(self._heartbeat_interval_ms, self._heartbeat_timeout_ms)
        self._heartbeats.monitor(self._resource_manager, asks_itself=True, is_starting=True)
        store = self._store
        if store is None:
            self._expect_job()
        else:
            self._queue.put("recovering the jobs", lambda: recover(store), self._on_recovered)

    def on_request(self, request: Any) -> Any:
        if not self._is_ready:
            raise self._not_ready("is reading what it knew before it was started again")
        match request:
            case SubmitJob():
                return self._submit(request)
            case GetJobOverview():
                return self._overview(self._job(request.job_id))
            case GetArchivedJob():
                return self._job(request.job_id).archived
            case ListJobs():
                return tuple(self._overview(job) for job in self._jobs.values() if job.is_stored)
            case GetClusterConfiguration():
                return self._shown_configuration
            case CancelJob():
                return self._cancel(self._job(request.job_id))
            case ShutDownCluster():
                return self._shut_down()
        return super().on_request(request)

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case JobStatusChanged():
                self._on_status(message)
            case JobEnded():
                self._on_job_ended(message)
            case CollectedRowsTaken():
                self._on_rows_taken(message)
            case HeartbeatRequested():
                self._heartbeats.on_message(message)
            case HeartbeatAnswered():
                if message.session == self._session:
                    self._heartbeats.on_message(message)
            case AllTaskExecutorsReleased():
                self._release.on_released()
            case EndpointDied():
                self._on_endpoint_died(message)
            case DeliveryFailed(message=ReleaseAllTaskExecutors()):
                self._release.tell_again()
            case DeliveryFailed():
                self._lost_messages.on_delivery_failed(message)
            case RunAsync():
                message.callback()
            case _:
                raise TypeError(f"a Dispatcher does not understand {message!r}")

    def check(self) -> None:
        """What always holds between two messages."""
        for job in self._jobs.values():
            assert job.status.is_terminal == (job.archived is not None), f"{job.name} ended without its details"

    # -- requests ------------------------------------------------------------------------------------------------

    def _submit(self, request: SubmitJob) -> JobOverview:
        known = self._jobs.get(request.job_id)
        if known is not None:
            return self._submit_again(known)
        if self._is_shutting_down:
            raise FlinkrayError(f"cluster {self._cluster_id!r} is being shut down and takes no job")
        if self._is_per_job and self._jobs:
            raise FlinkrayError(f"cluster {self._cluster_id!r} was started for one job, which it has")
        job = self._add(request.job_id, request.name)
        job.runtime_env = request.runtime_env
        job_graph = request.job_graph
        store = self._store
        job.ha_directory = self._ha_directory or request.ha_directory
        if store is None:
            if job.ha_directory:
                job.job_graph = job_graph
                self._jobs_directories.add(job.ha_directory)
            self._start_job_master(job, job_graph)
            return self._overview(job)
        job.is_stored = job.is_acknowledged = False
        work = partial(store.add, self._table(), job.job_id, job_graph)
        self._queue.put(f"storing job {job.name!r}", work, lambda _: self._on_stored(job, job_graph))
        raise self._not_ready(f"is storing job {job.name!r}")

    def _submit_again(self, job: DispatchedJob) -> JobOverview:
        if job.is_acknowledged:
            raise InvalidProgramError(f"job {job.name!r} ({job.job_id}) was submitted to this cluster before")
        if not job.is_stored:
            raise self._not_ready(f"is storing job {job.name!r}")
        job.is_acknowledged = True
        return self._overview(job)

    def _add(self, job_id: JobId, name: str) -> DispatchedJob:
        address = Address(f"{self._cluster_id}/job-master-{job_id}")
        job = DispatchedJob(job_id, name, self.context.clock.now_ms(), address, self._new_session(1))
        self._jobs[job_id] = job
        with _logs_for(job):
            log.info("cluster %r took job %r (%s)", self._cluster_id, job.name, job_id)
        return job

    def _new_session(self, number: int) -> SessionId:
        return SessionId(f"{number:06d}-{self._sessions.getrandbits(64):016x}")

    def _not_ready(self, what: str) -> DispatcherNotReadyError:
        failure = self._queue.failure
        return DispatcherNotReadyError(self._cluster_id, what, "" if failure is None else str(failure))

    @staticmethod
    def _overview(job: DispatchedJob) -> JobOverview:
        if job.summary is None and job.archived is not None:
            job.summary = job.archived.summary
        return JobOverview(job.job_id, job.name, job.status, job.started_ms, job.job_master, job.summary)

    def _job(self, job_id: JobId) -> DispatchedJob:
        job = self._jobs.get(job_id)
        if job is None:
            raise UnknownJobError(job_id, self._cluster_id)
        if not job.is_stored:
            raise self._not_ready(f"is storing job {job.name!r}")
        return job

    def _cancel(self, job: DispatchedJob) -> None:
        if job.status.is_terminal:
            return
        if not job.is_cancelled:
            job.is_cancelled = True
            self._save(f"cancelling job {job.name!r}")
        self.context.tell(job.job_master, CancelExecutionGraph(job.session))

    # -- JobMasters ----------------------------------------------------------------------------------------------

    def _start_job_master(self, job: DispatchedJob, job_graph: SerializedValue[JobGraph]) -> None:
        arguments: tuple[Any, ...] = (self.context.address, self._resource_manager, job.session, job_graph)
        if job.ha_directory:
            arguments += (job.ha_directory, self._store is not None)
        endpoint = "actors.job_master:JobMaster"
        name, runtime_env = f"JobMaster({job.name})", job.runtime_env
        spec = EndpointSpec(job.job_master, endpoint, arguments, display_name=name, runtime_env=runtime_env)
        self.context.spawn(spec)
        self._heartbeats.monitor(job.job_master, is_starting=True, is_installing=bool(runtime_env))
        if job.is_cancelled:
            self.context.tell(job.job_master, CancelExecutionGraph(job.session))

    def _current(self, job_id: JobId, session: SessionId) -> DispatchedJob | None:
        """The job, if the sender is its current JobMaster."""
        job = self._jobs.get(job_id)
        if job is None or job.session != session:
            log.debug("the Dispatcher ignored a message of a past JobMaster of %s", job_id)
            return None
        return job

    def _on_status(self, message: JobStatusChanged) -> None:
        job = self._current(message.job_id, message.session)
        if job is not None and job.archived is None:  # a JobMaster may be taken for dead before its message comes
            job.status = message.status
            job.silent_deaths = 0
            if job.is_cancelled and message.status in (JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.RUNNING):
                # The JobMaster was asked to cancel before it was there.
                self.context.tell(job.job_master, CancelExecutionGraph(job.session))

    def _on_job_ended(self, message: JobEnded) -> None:
        job = self._current(message.details.job_id, message.session)
        if job is None:
            return
        if not job.has_ended:
            self._end(job, message.details, message.has_rows_to_take)
        elif not message.has_rows_to_take:
            self._on_rows_gone(job)

    def _on_rows_taken(self, message: CollectedRowsTaken) -> None:
        """The JobMaster of an ended job is not needed any more. Without effect before the end of the job has been
        reported:         that report says itself whether rows are left."""
        job = self._current(message.job_id, message.session)
        if job is not None:
            self._on_rows_gone(job)

    def _tell_again(self, job_master: Address, lost: CancelExecutionGraph | ReportJob) -> None:
        """Repeats a message to a JobMaster that is still needed. A dead one is, or will be, replaced, or its job has
        ended."""
        for job in self._jobs.values():
            if job.job_master == job_master and (not job.status.is_terminal or job.has_rows_to_take):
                self.context.tell(job_master, lost)

    def _on_endpoint_died(self, message: EndpointDied) -> None:
        self._heartbeats.unmonitor(message.address)
        if message.address == self._resource_manager:
            self._heartbeats.monitor(message.address, asks_itself=True, is_starting=True)
            self._release.on_resource_manager_died()
        else:
            self._on_job_master_lost(message.address, message.cause)

    def _on_silent(self, peer: Address) -> None:
        if peer == self._resource_manager:
            log.warning("%s is silent, and is started again", peer)
            self.context.restart(peer)
            self._heartbeats.monitor(peer, asks_itself=True, is_starting=True)
        else:
            self._on_job_master_lost(peer, HEARTBEATS_STOPPED)

    def _on_job_master_lost(self, job_master: Address, cause: str) -> None:
        for job in self._jobs.values():
            if job.job_master != job_master:
                continue
            if not job.has_ended:
                self._on_job_master_died(job, cause)
            else:
                self._on_rows_gone(job)

    def _on_job_master_died(self, job: DispatchedJob, cause: str) -> None:
        job.silent_deaths += 1
        is_hopeless = job.silent_deaths >= MAX_SILENT_DEATHS or cause.startswith(ENVIRONMENT_FAILED)
        if job.ha_directory and not is_hopeless:
            with _logs_for(job):
                log.warning("the JobMaster of job %r died (%s); it is replaced", job.name, cause)
            job.status = JobStatus.INITIALIZING
            delay = REPLACEMENT_DELAY_MS * (job.silent_deaths - 1)
            self._main_thread.run_later(delay, partial(self._replace, job.job_id, job.number))
            return
        self._fail(job, FlinkrayError(f"the JobMaster of job {job.name!r} died: {cause}"))

    def _fail(self, job: DispatchedJob, error: Exception) -> None:
        now = self.context.clock.now_ms()
        times = ((JobStatus.INITIALIZING, job.started_ms), (JobStatus.FAILED, now))
        details = JobDetails(job.job_id, job.name, JobStatus.FAILED, times, error=ErrorInfo.of(error))
        self._end(job, details, has_rows_to_take=False)

    def _replace(self, job_id: JobId, number: int) -> None:
        """Starts another JobMaster in the place of that number, unless the job has ended or has got one meanwhile."""
        job = self._jobs.get(job_id)
        if job is None or job.number != number or job.has_ended:
            return
        former = job.job_master
        job.number += 1
        job.job_master = Address(f"{self._cluster_id}/job-master-{job.job_id}.{job.number}")
        job.session = self._new_session(job.number)
        if self._store is None:
            assert job.job_graph is not None, "a job that has not ended, and has a directory"
            self.context.kill(former)
            self._start_job_master(job, job.job_graph)
            return
        work = partial(prepare_replacement, self._store, self._table(), job.job_id)
        self._queue.put(f"replacing the JobMaster of job {job.name!r}", work, partial(self._on_prepared, job, former))

    def _on_prepared(
        self, job: DispatchedJob, former: Address, job_graph: SerializedValue[JobGraph] | StoreCorruptedError
    ) -> None:
        # The former one may live, and only have been taken for dead. A Dispatcher that hung itself, and whose place
        # another one has taken, does not come this far.
        self.context.kill(former)
        if isinstance(job_graph, StoreCorruptedError):
            self._fail(job, job_graph)
        else:
            self._start_job_master(job, job_graph)

    # -- what is stored ------------------------------------------------------------------------------------------

    def _table(self) -> dict[JobId, StoredJob]:
        return {job_id: job.stored() for job_id, job in self._jobs.items()}

    def _save(self, what: str) -> None:
        if self._store is not None:
            self._queue.put(what, partial(self._store.save, self._table()), lambda _: None, STORE_ATTEMPTS)

    def _on_stored(self, job: DispatchedJob, job_graph: SerializedValue[JobGraph]) -> None:
        job.is_stored = True
        self._start_job_master(job, job_graph)

    def _on_recovered(self, recovered: list[tuple[StoredJob, JobDetails | None]]) -> None:
        for stored, details in recovered:
            job = DispatchedJob.recovered(stored, details)
            job.ha_directory = self._ha_directory
            self._jobs[job.job_id] = job
            if details is not None:
                self._after_end(job)
                if not job.has_rows_to_take:
                    continue
            self.context.watch(job.job_master)
            self._heartbeats.monitor(job.job_master, is_starting=True)
            self.context.tell(job.job_master, ReportJob(job.session))
            if job.is_cancelled:
                self.context.tell(job.job_master, CancelExecutionGraph(job.session))
        self._is_ready = True
        self._expect_job()
        if recovered:
            log.info("cluster %r has recovered %d job(s)", self._cluster_id, len(recovered))

    def _end(self, job: DispatchedJob, details: JobDetails, has_rows_to_take: bool) -> None:
        """Nobody sees the end of a job before it is stored, as then it cannot run again; unless the store is out of
        order for long, where everybody would wait for ever."""
        job.ending = details
        job.has_rows_to_take = has_rows_to_take
        if not self._history_directory:
            self._store_end(job, details)
            return
        work = partial(_write_history, self._history_directory, self._cluster_id, self._shown_configuration, details)
        self._queue.put(f"archiving job {job.name!r}", work, lambda _: self._store_end(job, details))

    def _store_end(self, job: DispatchedJob, details: JobDetails) -> None:
        if self._store is None:
            self._archive(job)
            return
        work = partial(self._store.end, self._table(), details)
        self._queue.put(f"storing the result of job {job.name!r}", work, lambda _: self._archive(job), STORE_ATTEMPTS)

    def _archive(self, job: DispatchedJob) -> None:
        details, job.ending, job.job_graph = job.ending, None, None
        assert details is not None
        job.status = details.status
        job.archived = details
        with _logs_for(job):
            log.info("job %r is %s", job.name, details.status.value)
        self._after_end(job)
        self._release_if_jobless()

    def _after_end(self, job: DispatchedJob) -> None:
        if job.has_rows_to_take:
            self._main_thread.run_later(COLLECTED_ROWS_TIMEOUT_MS, partial(self._on_rows_expired, job.job_id))
        else:
            self._let_go(job)

    def _on_rows_expired(self, job_id: JobId) -> None:
        job = self._jobs.get(job_id)
        if job is not None:
            self._on_rows_gone(job)

    def _on_rows_gone(self, job: DispatchedJob) -> None:
        """The driver has all rows of the job, or will not get them any more."""
        if job.has_rows_to_take:
            job.has_rows_to_take = False
            if job.archived is not None:
                self._let_go(job)

    def _let_go(self, job: DispatchedJob) -> None:
        """Nobody needs the JobMaster of the job any more, which has ended and whose rows are taken."""
        self._heartbeats.unmonitor(job.job_master)
        self.context.kill(job.job_master)
        if self._ends_by_itself:
            self._main_thread.run_later(LINGER_MS, self._begin_shutdown)
        elif not self._is_per_job:
            self._main_thread.run_later(self._expiration_ms, partial(self._on_job_expired, job.job_id))

    def _on_job_expired(self, job_id: JobId) -> None:
        """Forgets the job, as Flink's job store does; else a session would keep every job that it ever had."""
        job = self._jobs.pop(job_id)
        if self._store is not None:
            work = partial(self._store.expire, self._table(), job_id)
            self._queue.put(f"forgetting job {job.name!r}", work, lambda _: None, STORE_ATTEMPTS)
        elif job.ha_directory:
            work = partial(forget, job.ha_directory, job_id)
            self._queue.put(f"forgetting job {job.name!r}", work, lambda _: None, STORE_ATTEMPTS)

    # -- the end of the cluster ----------------------------------------------------------------------------------

    def _expect_job(self) -> None:
        if self._ends_by_itself:
            self._main_thread.run_later(SUBMISSION_TIMEOUT_MS, self._on_submission_overdue)

    def _on_submission_overdue(self) -> None:
        if not self._jobs:
            self._begin_shutdown()

    def _shut_down(self) -> bool:
        """Answers ShutDownCluster."""
        self._begin_shutdown()
        return self._is_down

    def _begin_shutdown(self) -> None:
        if not self._is_shutting_down:
            self._is_shutting_down = True
            for job in self._jobs.values():
                self._cancel(job)
            self._release_if_jobless()

    def _release_if_jobless(self) -> None:
        """Has the workers released once no job runs: last, so that tasks could be cancelled and have closed what they
        use."""
        if self._is_shutting_down and all(job.status.is_terminal for job in self._jobs.values()):
            for job in self._jobs.values():
                self.context.kill(job.job_master)
            self._release.begin()

    def _on_down(self) -> None:
        if self._is_going_down:
            return
        self._is_going_down = True
        directories = self._jobs_directories if self._store is None else {self._ha_directory}
        if not directories:
            self._be_down()
        else:
            work = partial(remove, frozenset(directories))
            self._queue.put("removing what was stored", work, lambda _: self._be_down(), STORE_ATTEMPTS)

    def _be_down(self) -> None:
        self._is_down = True
        if self._ends_by_itself:
            self.context.kill(self._resource_manager)
            self.context.kill(self.context.address)


def _write_history(directory: str, cluster_id: str, configuration: Mapping[str, str], details: JobDetails) -> None:
    # As above; most Dispatchers keep no history.
    from actors.rest.history.archiving import archive_job

    archive_job(directory, cluster_id, configuration, details)


def _store_in(directory: str) -> JobStore:
    # The import loads Arrow and its file systems, which most Dispatchers do without.
    from actors.high_availability.job_store import JobStore

    return JobStore(directory)
