"""How a pipeline gets to run: in this process, in a Ray cluster of its own, or in a session on Ray."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from actors.client.cluster import job_cluster_id, new_job_id, resource_manager_of, start_cluster, submit
from actors.client.job_client import ClusterJobClient
from actors.client.pauses import FIRST_LOCAL_PAUSE_S, Pause
from actors.client.rest import Rest, start_rest
from actors.client.session import connect_to_session, no_such_session
from actors.high_availability.directories import high_availability_directory
from actors.logs.levels import levels_of_this_process
from actors.protocol.client_requests import ClusterResources
from actors.protocol.ports import EndpointGone, Host
from actors.protocol.resources import ResourceProfile, SlotRequest
from actors.scheduling.slots.slot_sharing import share_slots
from flinkray.config.configuration import Configuration
from flinkray.config.options import ATTACHED, CLUSTER_ID, LOG_LEVELS, SLOT_CPUS, TARGET
from flinkray.config.python_options import RUNTIME_ENV
from flinkray.errors import ConfigurationError
from flinkray.execution import JobClient, Pipeline
from graphs.compiler.job_graph_generator import generate_job_graph
from graphs.execution_graph import ExecutionGraph
from graphs.job_graph import JobGraph

log = logging.getLogger(__name__)


class LocalExecutor:
    """`execution.target: local`. Every component is a thread of this process, in a cluster for the job."""

    needs_preparation = True

    def execute(self, pipeline: Pipeline) -> JobClient:
        if not pipeline.configuration.get(ATTACHED):
            raise ConfigurationError(
                f"{ATTACHED.key!r} = false needs a cluster that outlives this process, and {TARGET.key!r} is 'local': "
                "use 'ray' or 'ray-session', or leave it out"
            )
        from actors.hosts.local import LocalHost

        job_graph = generate_job_graph(pipeline, new_job_id())
        new_pause = partial(Pause, FIRST_LOCAL_PAUSE_S)
        cluster_id = job_cluster_id(job_graph.job_id)
        return _run_in_own_cluster(LocalHost(), cluster_id, job_graph, new_pause=new_pause, is_local=True)


class RayExecutor:
    """`execution.target: ray`. Every component is a Ray actor, in a cluster for the job.

    It ends with the job's client or with this process; with `execution.attached` = false it outlives both, and ends a
    minute after the job, when its rows are taken.
    """

    needs_preparation = True

    def execute(self, pipeline: Pipeline) -> JobClient:
        # A program that cannot be compiled is refused before Ray is started for it.
        job_graph = generate_job_graph(_with_log_levels(pipeline), new_job_id())
        cluster_id = job_cluster_id(job_graph.job_id)
        is_attached = pipeline.configuration.get(ATTACHED)

        from actors.hosts.ray.cluster import is_own_cluster, require_driver
        from actors.hosts.ray.host import RayHost
        from actors.hosts.ray.resources import cluster_resources, free_cpus_by_node, tell_growth

        slots = _slots_of(job_graph)
        host = RayHost(cluster_id, is_detached=not is_attached, cpus=sum(slot.profile.cpus for slot in slots))
        require_driver()
        if is_own_cluster() and not is_attached:
            log.warning("job %r ends with this process, as the Ray cluster does that was started here", pipeline.name)
        resources = cluster_resources(slots, free_cpus_by_node())
        client = _run_in_own_cluster(host, cluster_id, job_graph, resources, is_attached=is_attached)
        tell_growth(partial(host.tell, resource_manager_of(cluster_id)))
        return client


class RaySessionExecutor:
    """`execution.target: ray-session`. Submits to the session that `flinkray.cluster-id` names."""

    needs_preparation = True

    def execute(self, pipeline: Pipeline) -> JobClient:
        cluster_id = _session_of(pipeline.configuration)
        job_graph = generate_job_graph(_with_log_levels(pipeline), new_job_id())
        host = connect_to_session(cluster_id)

        from actors.hosts.ray.resources import cluster_resources, tell_growth
        from actors.hosts.ray.runtime_envs import with_that_of_driver

        # Actors of the session, which this process has not started, do not get what it was started with.
        runtime_env = with_that_of_driver(job_graph.configuration.get(RUNTIME_ENV))
        job_graph.configuration.set(RUNTIME_ENV, runtime_env)

        try:
            host.tell(resource_manager_of(cluster_id), cluster_resources())
            tell_growth(partial(host.tell, resource_manager_of(cluster_id)))
            job = submit(host, cluster_id, job_graph)
        except EndpointGone as error:
            raise no_such_session(cluster_id) from error
        # Whether the session is highly available is not known here, so that its Dispatcher is given time to come back.
        return ClusterJobClient(host, cluster_id, job, owns_cluster=False, is_highly_available=True)


def _with_log_levels(pipeline: Pipeline) -> Pipeline:
    """The program with the driver's log levels for the processes in which its functions run, unless it sets them."""
    levels = levels_of_this_process()
    if not levels or pipeline.configuration.is_set(LOG_LEVELS):
        return pipeline
    configuration = pipeline.configuration.copy()
    configuration.set(LOG_LEVELS, levels)
    return replace(pipeline, configuration=configuration)


def _slots_of(job_graph: JobGraph) -> tuple[SlotRequest, ...]:
    """The slots that the job will ask for."""
    profile = ResourceProfile(job_graph.configuration.get(SLOT_CPUS))
    return tuple(slot.request for slot in share_slots(ExecutionGraph.from_job_graph(job_graph), profile))


def _session_of(configuration: Configuration) -> str:
    cluster_id = configuration.get(CLUSTER_ID)
    if not cluster_id:
        raise ConfigurationError(f"option {CLUSTER_ID.key!r} has to name the session that the job is submitted to")
    return cluster_id


def _run_in_own_cluster(
    host: Host,
    cluster_id: str,
    job_graph: JobGraph,
    resources: ClusterResources | None = None,
    *,
    is_attached: bool = True,
    new_pause: Callable[[], Pause] = Pause,
    is_local: bool = False,
) -> JobClient:
    """Starts the cluster and submits; nothing is left of it where that fails."""
    rest = Rest()
    try:
        start_cluster(host, cluster_id, job_graph.configuration, is_per_job=True, ends_by_itself=not is_attached)
        if resources is not None:
            host.tell(resource_manager_of(cluster_id), resources)
        rest = start_rest(host, cluster_id, job_graph.configuration, in_process=is_local)
        job = submit(host, cluster_id, job_graph)
    except BaseException:
        rest.close()
        host.shutdown()
        raise
    if rest.url:
        print(f"job {job_graph.name!r} can be watched at {rest.url}", file=sys.stderr, flush=True)
    return ClusterJobClient(
        host,
        cluster_id,
        job,
        owns_cluster=is_attached,
        is_highly_available=bool(high_availability_directory(job_graph.configuration, cluster_id)),
        new_pause=new_pause,
        web_url=rest.url,
        on_close=rest.close,
    )
