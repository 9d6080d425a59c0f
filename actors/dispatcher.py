"""The Dispatcher: takes jobs, starts a JobMaster for each, and knows what became of them.

It outlives its jobs, so an ended job can still be asked for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from actors.control_messages import (
    AllTaskExecutorsReleased,
    CancelExecutionGraph,
    CancelJob,
    CollectedRowsTaken,
    GetArchivedJob,
    GetJobOverview,
    JobDetails,
    JobEnded,
    JobOverview,
    JobStatusChanged,
    ListJobs,
    ReleaseAllTaskExecutors,
    ShutDownCluster,
    SubmitJob,
)
from actors.job_master import JobMaster
from actors.messages import SessionId
from actors.ports import Address, DeliveryFailed, Endpoint, EndpointContext, EndpointDied, EndpointSpec, Payloads
from flinkray.errors import ErrorInfo, FlinkrayError, InvalidProgramError
from flinkray.execution import JobStatus
from flinkray.types import JobId
from graphs.job_graph import JobGraph

log = logging.getLogger(__name__)

# How long the rows of a finished job wait for a driver that does not fetch them.
COLLECTED_ROWS_TIMEOUT_MS = 600_000.0

# How long a cluster that ends by itself can still be asked what became of its job.
LINGER_MS = 60_000.0


class UnknownJobError(FlinkrayError):
    """The Dispatcher has no job with this id."""

    origin = "user"

    def __init__(self, job_id: JobId, cluster_id: str) -> None:
        self.job_id = job_id
        self.cluster_id = cluster_id
        super().__init__(job_id, cluster_id)

    def __str__(self) -> str:
        return f"cluster {self.cluster_id!r} has no job {self.job_id!r}; `flinkray list` shows those that it has"


@dataclass(frozen=True, slots=True)
class _RowsExpired:
    """To itself."""

    job_id: JobId


@dataclass(frozen=True, slots=True)
class _LingeredEnough:
    """To itself."""


@dataclass(slots=True)
class _Job:
    name: str
    job_master: Address
    session: SessionId
    started_ms: int
    status: JobStatus = JobStatus.INITIALIZING
    archived: JobDetails | None = None


class Dispatcher(Endpoint):
    """See the module."""

    def __init__(
        self,
        context: EndpointContext,
        cluster_id: str,
        resource_manager: Address,
        is_per_job: bool,
        ends_by_itself: bool = False,
    ) -> None:
        """
        Args:
            is_per_job: takes one job only (Flink's MiniDispatcher).
            ends_by_itself: ends the cluster some time after that job, as no client will.
        """
        super().__init__(context)
        self._cluster_id = cluster_id
        self._resource_manager = resource_manager
        self._is_per_job = is_per_job
        self._ends_by_itself = ends_by_itself
        self._sessions = context.random("session")
        self._jobs: dict[JobId, _Job] = {}
        self._is_shutting_down = False
        self._is_down = False

    def on_request(self, request: Any) -> Any:
        match request:
            case SubmitJob():
                return self._submit(request.job_graph)
            case GetJobOverview():
                return self._overview(request.job_id)
            case GetArchivedJob():
                return self._job(request.job_id).archived
            case ListJobs():
                return tuple(self._overview(job_id) for job_id in self._jobs)
            case CancelJob():
                return self._cancel(self._job(request.job_id))
            case ShutDownCluster():
                return self._shut_down()
        return super().on_request(request)

    def on_message(self, message: Any, payloads: Payloads) -> None:
        match message:
            case JobStatusChanged():
                job = self._current(message.job_id, message.session)
                if job is not None and job.archived is None:  # it may have died before this came
                    job.status = message.status
            case JobEnded():
                self._on_job_ended(message)
            case CollectedRowsTaken():
                job = self._current(message.job_id, message.session)
                if job is not None:
                    self.context.kill(job.job_master)
            case _RowsExpired():
                self.context.kill(self._jobs[message.job_id].job_master)
            case AllTaskExecutorsReleased():
                self._on_down()
            case _LingeredEnough():
                self._shut_down()
            case EndpointDied():
                self._on_endpoint_died(message)
            case DeliveryFailed():
                log.debug("%s did not get %r: %s", message.address, message.message, message.cause)
                if isinstance(message.message, ReleaseAllTaskExecutors):
                    self._on_down()  # with the ResourceManager gone, nothing is left to release
            case _:
                raise TypeError(f"the Dispatcher does not understand {message!r}")

    def check(self) -> None:
        """What always holds between two messages."""
        for job in self._jobs.values():
            assert job.status.is_terminal == (job.archived is not None), f"{job.name} ended without its details"

    # -- requests ------------------------------------------------------------------------------------------------

    def _submit(self, job_graph: JobGraph) -> JobOverview:
        job_id = job_graph.job_id
        if job_id in self._jobs:
            raise InvalidProgramError(f"job {job_graph.name!r} ({job_id}) was submitted to this cluster before")
        if self._is_shutting_down:
            raise FlinkrayError(f"cluster {self._cluster_id!r} is being shut down and takes no job")
        if self._is_per_job and self._jobs:
            raise FlinkrayError(f"cluster {self._cluster_id!r} was started for one job, which it has")
        session = SessionId(f"{self._sessions.getrandbits(64):016x}")
        address = Address(f"{self._cluster_id}/job-master-{job_id}")
        self._jobs[job_id] = _Job(job_graph.name, address, session, self.context.clock.now_ms())
        self.context.spawn(
            EndpointSpec(
                address,
                JobMaster,
                (self.context.address, self._resource_manager, session, job_graph),
                display_name=f"JobMaster({job_graph.name})",
            )
        )
        log.info("cluster %r took job %r (%s)", self._cluster_id, job_graph.name, job_id)
        return self._overview(job_id)

    def _overview(self, job_id: JobId) -> JobOverview:
        job = self._job(job_id)
        return JobOverview(job_id, job.name, job.status, job.started_ms, job.job_master)

    def _job(self, job_id: JobId) -> _Job:
        if job_id not in self._jobs:
            raise UnknownJobError(job_id, self._cluster_id)
        return self._jobs[job_id]

    def _cancel(self, job: _Job) -> None:
        if not job.status.is_terminal:
            self.context.tell(job.job_master, CancelExecutionGraph(job.session))

    def _shut_down(self) -> bool:
        if not self._is_shutting_down:
            self._is_shutting_down = True
            for job in self._jobs.values():
                self._cancel(job)
            self._release_if_jobless()
        return self._is_down

    def _release_if_jobless(self) -> None:
        """The workers go last, so that tasks could be cancelled and have closed what they use."""
        if self._is_shutting_down and all(job.status.is_terminal for job in self._jobs.values()):
            for job in self._jobs.values():
                self.context.kill(job.job_master)
            self.context.tell(self._resource_manager, ReleaseAllTaskExecutors(self.context.address))

    def _on_down(self) -> None:
        self._is_down = True
        if self._ends_by_itself:
            self.context.kill(self._resource_manager)
            self.context.kill(self.context.address)

    # -- jobs ----------------------------------------------------------------------------------------------------

    def _current(self, job_id: JobId, session: SessionId) -> _Job | None:
        """The job, if the sender is its current JobMaster."""
        job = self._jobs.get(job_id)
        if job is None or job.session != session:
            log.debug("the Dispatcher ignored a message of a past JobMaster of %s", job_id)
            return None
        return job

    def _on_job_ended(self, message: JobEnded) -> None:
        job_id = message.details.job_id
        job = self._current(job_id, message.session)
        if job is None or job.archived is not None:
            return
        self._archive(job, message.details)
        if message.has_rows_to_take:
            self.context.tell_self_later(COLLECTED_ROWS_TIMEOUT_MS, _RowsExpired(job_id))
        else:
            self.context.kill(job.job_master)

    def _on_endpoint_died(self, message: EndpointDied) -> None:
        for job_id, job in self._jobs.items():
            if job.job_master == message.address and job.archived is None:
                error = FlinkrayError(f"the JobMaster of job {job.name!r} died: {message.cause}")
                now = self.context.clock.now_ms()
                times = ((JobStatus.INITIALIZING, job.started_ms), (JobStatus.FAILED, now))
                info = ErrorInfo.of(error)
                self._archive(job, JobDetails(job_id, job.name, JobStatus.FAILED, times, error=info))

    def _archive(self, job: _Job, details: JobDetails) -> None:
        job.status = details.status
        job.archived = details
        log.info("job %r is %s", job.name, details.status.value)
        self._release_if_jobless()
        if self._ends_by_itself:
            self.context.tell_self_later(LINGER_MS, _LingeredEnough())
