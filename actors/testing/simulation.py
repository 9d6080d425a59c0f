"""Runs a program in a simulated cluster: one thread, virtual time, and faults by a seed."""

from __future__ import annotations

from actors.client.cluster import job_cluster_id, start_cluster, submit
from actors.client.job_client import ClusterJobClient
from actors.client.pauses import Pause
from actors.high_availability.directories import high_availability_directory
from actors.hosts.simulation.faults import NODE, Faults
from actors.hosts.simulation.host import SimulationHost
from flinkray.execution import JobClient, Pipeline
from flinkray.testing.simulation import SimulatedFaults
from flinkray.types.records import JobId
from graphs.compiler.job_graph_generator import generate_job_graph

# The id of the job is always the same, as all chance must come from the seed.
_JOB = JobId("51a7ed00000000000000000000000000")

# Virtual time between two questions of the client.
_POLL_MS = 20.0

# Probabilities per step. A small job takes some thousand steps; most of the faults that it may have happen early.
_WORKER_DEATHS = {"TaskSlot": 0.0015, "TaskExecutor": 0.0005, NODE: 0.0005}
_MASTER_DEATHS = {"JobMaster": 0.0005, "ResourceManager": 0.0005}
_PAUSES = dict.fromkeys(("TaskSlot", "TaskExecutor", "JobMaster", "ResourceManager"), 0.0005)
_PAYLOAD_LOSS = 0.01


class SimulatedExecutor:
    """A PipelineExecutor that runs each job in a simulated cluster of its own."""

    needs_preparation = True

    def __init__(self, seed: int, faults: SimulatedFaults) -> None:
        self._seed = seed
        self._faults = faults
        self.host: SimulationHost | None = None
        """The host of the last job."""

    def execute(self, pipeline: Pipeline) -> JobClient:
        job_graph = generate_job_graph(pipeline, _JOB)
        cluster_id = job_cluster_id(_JOB)
        self.host = host = SimulationHost(self._seed, _faults(self._faults))
        start_cluster(host, cluster_id, job_graph.configuration, is_per_job=True)
        job = submit(host, cluster_id, job_graph, pause=lambda: host.run_for(_POLL_MS))
        return ClusterJobClient(
            host,
            cluster_id,
            job,
            owns_cluster=True,
            is_highly_available=bool(high_availability_directory(job_graph.configuration, cluster_id)),
            new_pause=lambda: _SimulatedPause(host),
        )

    @property
    def happened(self) -> tuple[str, ...]:
        """The faults of the last job, in words."""
        return () if self.host is None else tuple(self.host.plan.happened)


class _SimulatedPause(Pause):
    """A pause in which the cluster goes on, as it does at no other time."""

    def __init__(self, host: SimulationHost) -> None:
        super().__init__()
        self._host = host

    def wait(self, deadline: float | None = None) -> None:
        self._host.run_for(_POLL_MS)


def _faults(wanted: SimulatedFaults) -> Faults:
    kills: dict[str, float] = {}
    if wanted.worker_deaths:
        kills |= _WORKER_DEATHS
    if wanted.master_deaths:
        kills |= _MASTER_DEATHS
    return Faults(
        kills=kills,
        pauses=_PAUSES if wanted.pauses else {},
        payload_loss=_PAYLOAD_LOSS if wanted.lost_messages else 0.0,
        limit=wanted.limit,
    )
