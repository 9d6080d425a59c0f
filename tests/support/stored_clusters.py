"""A cluster whose store of jobs is kept with each release: see `tests/support/store_state.py`.

On the simulation host, where a cluster can be left between two of its steps. One job has failed, and one is in the
middle; whoever starts the cluster again finds both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from pyarrow import fs

from actors.client.cluster import ask_dispatcher, resource_manager_of, start_cluster, submit
from actors.hosts.simulation.host import SimulationHost
from actors.protocol.client_requests import ClusterResources, GetArchivedJob
from actors.protocol.control_messages import JobDetails
from flinkray import DiscardSink, StreamExecutionEnvironment
from flinkray.config.configuration import Configuration
from flinkray.types.records import JobId
from graphs.compiler.job_graph_generator import generate_job_graph
from graphs.job_graph import JobGraph
from tests.support.stored_jobs import (
    INPUTS,
    PAIR,
    ROOT,
    Files,
    StoredJob,
    events,
    labelled,
    left_in,
    mounted,
    windows,
    written,
)

CLUSTER = "stored"
RUNNING = JobId("5a7ed000000000000000000000000001")
FAILED = JobId("5a7ed000000000000000000000000002")
LONGEST_MS = 600_000.0
RATE = 400.0

JOB = StoredJob(
    windows,
    {
        "flinkray.batch.target-rows": 10,
        "execution.checkpointing.dir": f"{ROOT}/checkpoints",
        "execution.checkpointing.interval": "50 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 2,
        "restart-strategy.fixed-delay.delay": 10,
    },
)


def raise_later(value: Any) -> tuple[str, int]:
    """Fails with an error whose message says all."""
    if value.n > 60:
        raise ValueError(f"{value.n} is too much")
    return labelled(value)


def failing(env: StreamExecutionEnvironment, _: fs.FileSystem) -> None:
    events(env, rate=RATE).map(raise_later, PAIR).uid("failing").sink_to(DiscardSink())


def running(env: StreamExecutionEnvironment, system: fs.FileSystem) -> None:
    windows(env, system, RATE)


def graph_of(
    build: Callable[[StreamExecutionEnvironment, fs.FileSystem], None], system: fs.FileSystem, job_id: JobId
) -> JobGraph:
    env = JOB.environment()
    build(env, system)
    return generate_job_graph(env._pipeline("stored", should_prepare=True), job_id)


def left_in_the_middle() -> Files:
    """What the store of the cluster holds, and the checkpoints and rows of its job."""
    with mounted(INPUTS) as system:
        host = _started()
        submit(host, CLUSTER, graph_of(failing, system, FAILED), pause=lambda: host.run_for(10.0))
        _await_end(host, FAILED)
        before = host.delivered["NotifyCheckpointComplete"]
        submit(host, CLUSTER, graph_of(running, system, RUNNING), pause=lambda: host.run_for(10.0))
        host.run_until(lambda: host.delivered["NotifyCheckpointComplete"] > before + 30, LONGEST_MS)
        found = left_in(system)
        _end(host)
        return found


def started_again(files: Files) -> tuple[Counter[Any], dict[JobId, JobDetails]]:
    """What the running job has written in the end, and what is known of both."""
    with mounted({**INPUTS, **files}) as system:
        host = _started()
        details = {job_id: _await_end(host, job_id) for job_id in (RUNNING, FAILED)}
        _end(host)
        return written(system), details


def _started() -> SimulationHost:
    host = SimulationHost(0)
    start_cluster(host, CLUSTER, Configuration(dict(JOB.options)), is_per_job=False)
    host.tell(resource_manager_of(CLUSTER), ClusterResources(float("inf"), free_cpus=(64.0,)))
    return host


def _await_end(host: SimulationHost, job_id: JobId) -> JobDetails:
    for _ in range(int(LONGEST_MS / 20)):
        details: JobDetails | None = ask_dispatcher(host, CLUSTER, GetArchivedJob(job_id), lambda: host.run_for(20.0))
        if details is not None:
            return details
        host.run_for(20.0)
    raise AssertionError(f"job {job_id} does not come to its end")


def _end(host: SimulationHost) -> None:
    host.shutdown()
