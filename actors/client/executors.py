"""How a pipeline gets to run: in this process, in a Ray cluster of its own, or in a session on Ray."""

from __future__ import annotations

from actors.client.cluster import new_job_id, start_cluster, submit
from actors.client.job_client import ClusterJobClient
from actors.client.session import connect_to_session
from actors.ports import EndpointGone, Host
from flinkray.config import Configuration
from flinkray.errors import ConfigurationError
from flinkray.execution import JobClient, Pipeline
from flinkray.options import CLUSTER_ID
from flinkray.types import JobId
from graphs.job_graph import JobGraph
from graphs.job_graph_generator import generate_job_graph


class LocalExecutor:
    """`execution.target: local`. Every component is a thread of this process, in a cluster for the job."""

    def execute(self, pipeline: Pipeline) -> JobClient:
        from actors.hosts.local import LocalHost

        job_graph = generate_job_graph(pipeline, new_job_id())
        return _run_in_own_cluster(LocalHost(), _cluster_of(job_graph.job_id), job_graph)


class RayExecutor:
    """`execution.target: ray`. Every component is a Ray actor, in a cluster for the job that ends with this process."""

    def execute(self, pipeline: Pipeline) -> JobClient:
        from actors.hosts.ray.host import RayHost

        # Preparing sources may start Spark, which needs Ray as well; what the program is wrong about comes before both.
        job_graph = generate_job_graph(pipeline, new_job_id())
        cluster_id = _cluster_of(job_graph.job_id)
        return _run_in_own_cluster(RayHost(cluster_id), cluster_id, job_graph)


class RaySessionExecutor:
    """`execution.target: ray-session`. Submits to the session that `flinkray.cluster-id` names."""

    def execute(self, pipeline: Pipeline) -> JobClient:
        cluster_id = _session_of(pipeline.configuration)
        job_graph = generate_job_graph(pipeline, new_job_id())
        host = connect_to_session(cluster_id)
        try:
            job = submit(host, cluster_id, job_graph)
        except EndpointGone as error:
            raise ConfigurationError(
                f"there is no session {cluster_id!r}; start it with `flinkray session start {cluster_id}`, or see "
                "those that there are with `flinkray session list`"
            ) from error
        return ClusterJobClient(host, cluster_id, job, owns_cluster=False)


def _cluster_of(job_id: JobId) -> str:
    return f"job-{job_id[:12]}"


def _session_of(configuration: Configuration) -> str:
    cluster_id = configuration.get(CLUSTER_ID)
    if not cluster_id:
        raise ConfigurationError(f"option {CLUSTER_ID.key!r} has to name the session that the job is submitted to")
    return cluster_id


def _run_in_own_cluster(host: Host, cluster_id: str, job_graph: JobGraph) -> JobClient:
    """Starts the cluster and submits; nothing is left of it where that fails."""
    try:
        start_cluster(host, cluster_id, job_graph.configuration, is_per_job=True)
        job = submit(host, cluster_id, job_graph)
    except BaseException:
        host.shutdown()
        raise
    return ClusterJobClient(host, cluster_id, job, owns_cluster=True)
