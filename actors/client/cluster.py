"""Starting the components of a cluster, and giving it a job: what a client does on a host."""

from __future__ import annotations

import re
import uuid

from actors.control_messages import JobOverview, SubmitJob
from actors.dispatcher import Dispatcher
from actors.ports import Address, EndpointSpec, Host
from actors.resource_manager import ResourceManager
from flinkray.config import Configuration
from flinkray.types import JobId
from graphs.job_graph import JobGraph

# Components answer at once; starting their processes is what takes time on a busy machine.
ASK_TIMEOUT_MS = 60_000.0


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

    Args:
        is_per_job: the cluster takes one job, and keeps no worker after it.
        ends_by_itself: it is gone some time after that job, without a client's doing.
    """
    resource_manager = resource_manager_of(cluster_id)
    host.spawn(
        EndpointSpec(
            resource_manager,
            ResourceManager,
            (cluster_id, configuration, is_per_job),
            display_name=f"ResourceManager({cluster_id})",
        )
    )
    host.spawn(
        EndpointSpec(
            dispatcher_of(cluster_id),
            Dispatcher,
            (cluster_id, resource_manager, is_per_job, ends_by_itself),
            display_name=f"Dispatcher({cluster_id})",
        )
    )


def submit(host: Host, cluster_id: str, job_graph: JobGraph) -> JobOverview:
    """Hands a job over; returns when the Dispatcher has taken it.

    Raises:
        EndpointGone: there is no such cluster.
        InvalidProgramError: the cluster has had a job with this id.
        TimeoutError: the Dispatcher did not answer.
    """
    accepted: JobOverview = host.ask(dispatcher_of(cluster_id), SubmitJob(job_graph), ASK_TIMEOUT_MS)
    return accepted
