"""Session clusters: started once by name, on a running Ray cluster, and used by many jobs (`ray-session`)."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from actors.client.cluster import (
    QUESTION_TIMEOUT_MS,
    ask,
    ask_dispatcher,
    ask_once,
    is_job_cluster,
    resource_manager_of,
    start_cluster,
)
from actors.client.job_client import SHUTDOWN_TIMEOUT_S, ClusterJobClient
from actors.client.pauses import Pause
from actors.client.rest import start_rest
from actors.client.sql.jobs import KnownJob
from actors.protocol.client_requests import GetClusterOverview, JobOverview, ListJobs, ShutDownCluster
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, EndpointSilentError
from actors.protocol.job_reports import GetJobSummary, JobSummary
from actors.protocol.ports import EndpointGone, Host
from actors.protocol.resources import ClusterOverview, SlotWait
from flinkray.config.configuration import Configuration
from flinkray.errors import ConfigurationError, FlinkrayError
from flinkray.execution import JobClient
from flinkray.types.records import JobId

log = logging.getLogger(__name__)

# For how long a new session may fail to read or write its directory before it is given up.
STORE_TIMEOUT_S = 10.0

N = TypeVar("N", bound=str)
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def connect_to_session(name: str) -> Host:
    """The host that the session lives on, whether it does (still) or not.

    Raises:
        ConfigurationError: no Ray cluster is running.
    """
    from actors.hosts.ray.host import RayHost
    from actors.hosts.ray.sessions import connect_to_running_ray

    connect_to_running_ray()
    return RayHost(name, is_detached=True)


def no_such_session(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"there is no session {name!r}; `flinkray session list` shows those that there are, and "
        f"`flinkray session start {name}` starts it"
    )


def start_session(name: str, configuration: Configuration) -> str:
    """Starts a session; returns when it takes jobs. It takes CPUs from Ray's pool only while it has workers.

    Returns:
        The URL of its REST server; empty: no option asks for one.
    Raises:
        ConfigurationError: no Ray cluster is running, the name cannot be one, or it is taken; or its REST server cannot
            listen where it is to.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} cannot name a session: letters, digits, '.', '_' and '-' can")
    if is_job_cluster(name):
        raise ConfigurationError(f"{name!r} cannot name a session: clusters that are started for one job are called so")
    host = connect_to_session(name)
    if name in _cluster_ids():
        raise ConfigurationError(f"there is a session {name!r} already; `flinkray session stop {name}` ends it")
    try:
        start_cluster(host, name, configuration, is_per_job=False)
    except ValueError as error:
        # The endpoints of that name are another client's, and stay.
        raise ConfigurationError(
            f"session {name!r} is being started by somebody else, or what is left of one that has died is about to "
            "end: `flinkray session list` shows it when it takes jobs; otherwise try again in some minutes"
        ) from error
    try:
        _await_start(host, name)
        return start_rest(host, name, configuration, in_process=False).url
    except BaseException:
        host.shutdown()
        raise


def _await_start(host: Host, name: str) -> None:
    """Returns when the Dispatcher takes jobs.

    Raises:
        EndpointSilentError: it does not answer.
        DispatcherNotReadyError: what it is to store jobs in cannot be used; the message says why.
    """
    pause = Pause()
    deadline = time.monotonic() + STORE_TIMEOUT_S
    while True:
        try:
            ask_once(host, name, ListJobs())
        except DispatcherNotReadyError as error:
            if not error.failure:
                deadline = time.monotonic() + STORE_TIMEOUT_S
            elif time.monotonic() >= deadline:
                raise
            pause.wait()
        else:
            return


def stop_session(name: str) -> None:
    """Cancels the session's jobs and ends its workers, then the session; one whose Dispatcher does not answer, or
    cannot read what it knew, is ended by force.

    Raises:
        ConfigurationError: there is no such session.
    """
    host = connect_to_session(name)
    pause = Pause()
    deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
    is_asked = is_down = False
    while not is_down:
        problem = f"it did not shut down within {SHUTDOWN_TIMEOUT_S:g} s"
        try:
            is_down = ask_once(host, name, ShutDownCluster(), SHUTDOWN_TIMEOUT_S * 1_000)
            is_asked = True
        except EndpointGone as error:
            if not is_asked:
                raise no_such_session(name) from error
            break
        except (EndpointSilentError, DispatcherNotReadyError) as error:
            problem = str(error)
        if not is_down and time.monotonic() >= deadline:
            log.warning("session %r is ended by force: %s", name, problem)
            break
        pause.wait(deadline)
    host.shutdown()


def list_clusters() -> list[str]:
    """The names of all clusters that run, sorted: sessions, and those that were started for one job."""
    return sorted(_cluster_ids())


def list_sessions() -> list[str]:
    """The names of the sessions that run, sorted."""
    return [name for name in list_clusters() if not is_job_cluster(name)]


def session_jobs(name: str) -> tuple[JobOverview, ...]:
    """The session's jobs, oldest first, with those that have ended.

    Raises:
        ConfigurationError: there is no such session.
        EndpointSilentError: it does not answer.
    """
    try:
        host = connect_to_session(name)
        jobs: tuple[JobOverview, ...] = ask_dispatcher(host, name, ListJobs(), timeout_ms=QUESTION_TIMEOUT_MS)
    except EndpointGone as error:
        raise no_such_session(name) from error
    return jobs


def slot_waits(jobs: Sequence[tuple[str, JobOverview]]) -> dict[JobId, SlotWait]:
    """What those of the jobs, each with its cluster, wait for that have not got all of their slots; without those whose
    JobMaster does not answer."""
    found = summaries(jobs)
    return {job_id: summary.slot_wait for job_id, summary in found.items() if summary.slot_wait is not None}


def summaries(jobs: Sequence[tuple[str, JobOverview]]) -> dict[JobId, JobSummary]:
    """What JobMasters say of those of the jobs, each with its cluster, that run; without those that do not answer."""
    running = {job.job_id: (cluster, job) for cluster, job in jobs if not job.status.is_terminal}

    def summary(job_id: JobId) -> JobSummary:
        cluster, job = running[job_id]
        what = f"the JobMaster of job {job.name!r}"
        try:
            host = connect_to_session(cluster)
            answer: JobSummary = ask(host, job.job_master, GetJobSummary(), QUESTION_TIMEOUT_MS, what)
        except EndpointGone:
            return JobSummary()
        return answer

    answers = of_each(list(running), summary)
    return {JobId(job_id): found for job_id, found in answers.items() if isinstance(found, JobSummary)}


def session_overview(name: str) -> ClusterOverview:
    """What the session has of slots and TaskExecutors. Raises as `session_jobs`."""
    try:
        host, what = connect_to_session(name), f"the ResourceManager of cluster {name!r}"
        overview: ClusterOverview = ask(
            host, resource_manager_of(name), GetClusterOverview(), QUESTION_TIMEOUT_MS, what
        )
    except EndpointGone as error:
        raise no_such_session(name) from error
    return overview


def of_each(names: Sequence[N], question: Callable[[N], T]) -> dict[N, T | FlinkrayError]:
    """What the question gives of each cluster, or job, or why it gives nothing; all are asked at the same time."""

    def answer(name: N) -> T | FlinkrayError:
        try:
            return question(name)
        except FlinkrayError as error:
            return error

    if len(names) < 2:  # Ray, which the first question may connect to, wants the main thread for that
        return {name: answer(name) for name in names}
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(answer, names), strict=True))


def job_client(job: str, cluster: str | None = None) -> ClusterJobClient:
    """The client of a job that runs in some cluster.

    Args:
        job: its id, or how that begins.
        cluster: where it runs; None: wherever it does on the running Ray cluster.

    Raises:
        ConfigurationError: there is no such cluster, or no such job, or more than one.
        EndpointSilentError: a cluster that may have it does not answer.
    """
    job = job.strip().lower()
    if not job:  # as of a variable of a script that is not set; the ids of all jobs begin so
        raise ConfigurationError("the id of the job is empty; `flinkray list` shows those that there are")
    answers = of_each(list_clusters(), session_jobs) if cluster is None else {cluster: session_jobs(cluster)}
    jobs = [(name, each) for name, answer in answers.items() if isinstance(answer, tuple) for each in answer]
    found = [(name, each) for name, each in jobs if each.job_id.startswith(job)]
    silent = next((answer for answer in answers.values() if isinstance(answer, EndpointSilentError)), None)
    if not found and silent is not None:
        raise silent
    if not found:
        where = "on the running Ray cluster" if cluster is None else f"in cluster {cluster!r}"
        raise ConfigurationError(f"no job {where} has the id {job!r}; `flinkray list` shows those that there are")
    if len(found) > 1:
        ids = ", ".join(each.job_id for _, each in found)
        raise ConfigurationError(f"the ids of several jobs begin with {job!r}: {ids}; name more of it")
    name, overview = found[0]
    host = connect_to_session(name)
    return ClusterJobClient(
        host, name, overview, owns_cluster=False, is_highly_available=True, question_timeout_ms=QUESTION_TIMEOUT_MS
    )


class RayJobs:
    """The jobs of all clusters on the running Ray cluster."""

    def all(self) -> list[KnownJob]:
        answers = of_each(list_clusters(), session_jobs)
        known = [(name, job) for name, jobs in answers.items() if isinstance(jobs, tuple) for job in jobs]
        return [KnownJob(job.job_id, job.name, job.status.value, name) for name, job in known]

    def find(self, job: str) -> JobClient:
        return job_client(job)


def _cluster_ids() -> frozenset[str]:
    from actors.hosts.ray.sessions import cluster_ids, connect_to_running_ray

    connect_to_running_ray()
    return cluster_ids()
