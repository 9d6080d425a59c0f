"""Starting the components of a cluster, and giving it a job: what a client does on a host."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from actors.high_availability.directories import high_availability_directory
from actors.protocol.client_requests import JobOverview, SubmitJob
from actors.protocol.dispatcher_errors import DispatcherNotReadyError, EndpointSilentError
from actors.protocol.ports import Address, EndpointSpec, Host
from flinkray.config.configuration import Configuration
from flinkray.types.records import JobId
from graphs.job_graph import JobGraph

# Components answer at once; starting their processes is what takes time on a busy machine.
ASK_TIMEOUT_MS = 60_000.0
# Of those that have long been there, somebody who sits before a terminal wants to hear soon that one does not answer.
QUESTION_TIMEOUT_MS = 5_000.0

# How long and how often to wait for a Dispatcher that is not ready: it writes or reads some small files.
NOT_READY_PAUSE_S = 0.02
MAX_PAUSES = 3_000

_JOB_CLUSTER = re.compile(r"job-[0-9a-f]{12}")


def new_job_id() -> JobId:
    """32 random hex digits."""
    return JobId(uuid.uuid4().hex)


def job_cluster_id(job_id: JobId) -> str:
    """Name of the cluster that is started for one job."""
    return f"job-{job_id[:12]}"


def is_job_cluster(cluster_id: str) -> bool:
    """Whether the name is one that `job_cluster_id` gives."""
    return _JOB_CLUSTER.fullmatch(cluster_id) is not None


def dispatcher_of(cluster_id: str) -> Address:
    return Address(f"{cluster_id}/dispatcher")


def resource_manager_of(cluster_id: str) -> Address:
    return Address(f"{cluster_id}/resource-manager")


def start_cluster(
    host: Host, cluster_id: str, configuration: Configuration, *, is_per_job: bool, ends_by_itself: bool = False
) -> None:
    """Starts a ResourceManager and a Dispatcher; TaskExecutors come when a job needs them. Returns at once.

    A ResourceManager that dies is started again, and so is a Dispatcher where there is a directory for what outlives it
    (`high_availability_directory`).

    Args:
        is_per_job: the cluster takes one job, and keeps no worker after it.
        ends_by_itself: it is gone some time after that job, without a client's doing.
    """
    resource_manager = resource_manager_of(cluster_id)
    dispatcher = dispatcher_of(cluster_id)
    host.spawn(
        EndpointSpec(
            resource_manager,
            "actors.resource_manager:ResourceManager",
            (cluster_id, configuration, is_per_job, dispatcher),
            display_name=f"ResourceManager({cluster_id})",
            restarts=True,
        )
    )
    host.spawn(
        EndpointSpec(
            dispatcher,
            "actors.dispatcher:Dispatcher",
            (cluster_id, configuration, resource_manager, is_per_job, ends_by_itself),
            display_name=f"Dispatcher({cluster_id})",
            restarts=bool(high_availability_directory(configuration, cluster_id)),
        )
    )


def submit(host: Host, cluster_id: str, job_graph: JobGraph, pause: Callable[[], None] | None = None) -> JobOverview:
    """Hands a job over; returns when the Dispatcher has taken it, and has stored it where anything is stored.

    Raises:
        EndpointGone: there is no such cluster.
        InvalidProgramError: the cluster has had a job with this id.
        EndpointSilentError: the Dispatcher did not answer.
        DispatcherNotReadyError: it cannot store the job; the message says why.
    """
    ha_directory = high_availability_directory(job_graph.configuration, cluster_id)
    accepted: JobOverview = ask_dispatcher(host, cluster_id, SubmitJob.of(job_graph, ha_directory), pause)
    return accepted


def ask_dispatcher(
    host: Host,
    cluster_id: str,
    request: Any,
    pause: Callable[[], None] | None = None,
    timeout_ms: float = ASK_TIMEOUT_MS,
) -> Any:
    """The Dispatcher's answer; one that has just been started again is given as much time to come to itself.

    Args:
        pause: waits before the Dispatcher is asked again; None: a moment, in this thread.

    Raises:
        EndpointGone: there is no such cluster.
        EndpointSilentError: the Dispatcher did not answer.
        DispatcherNotReadyError: it did, and is not ready; the message says why.
    """
    wait = pause or _wait
    for _ in range(round(MAX_PAUSES * timeout_ms / ASK_TIMEOUT_MS)):
        try:
            return ask_once(host, cluster_id, request, timeout_ms)
        except DispatcherNotReadyError:
            wait()
    return ask_once(host, cluster_id, request, timeout_ms)


def ask_once(host: Host, cluster_id: str, request: Any, timeout_ms: float = ASK_TIMEOUT_MS) -> Any:
    """The Dispatcher's answer; raises as `ask_dispatcher`, also while it comes to itself."""
    return ask(host, dispatcher_of(cluster_id), request, timeout_ms, f"the Dispatcher of cluster {cluster_id!r}")


def ask(host: Host, address: Address, request: Any, timeout_ms: float, what: str) -> Any:
    """As `Host.ask`, but one that does not answer is called by its name.

    Raises:
        EndpointSilentError: a TimeoutError too.
    """
    try:
        return host.ask(address, request, timeout_ms)
    except TimeoutError as error:
        waited = timedelta(milliseconds=timeout_ms)
        since = datetime.now() - waited  # as the user's clock shows it
        text = (
            f"{what} has not answered for {waited.total_seconds():.0f} s (since {since:%H:%M:%S}): it hangs, or has "
            "yet to start"
        )
        raise EndpointSilentError(text) from error


def _wait() -> None:
    threading.Event().wait(NOT_READY_PAUSE_S)
