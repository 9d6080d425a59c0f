"""What a driver sees of a job: status, result, rows, and the end of a cluster of its own."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest

from actors.client import pauses
from actors.client.cluster import submit
from actors.client.forgotten import OpenJobs
from actors.client.job_client import SHUTDOWN_TIMEOUT_S, ClusterJobClient
from actors.protocol.client_requests import GetArchivedJob
from actors.protocol.ports import Address, EndpointGone
from flinkray.errors import FlinkrayError, JobCanceledError, JobExecutionError
from flinkray.execution import JobStatus
from graphs.job_graph import JobGraph
from tests.support.control import CLUSTER, CollectingSlot, World, collecting, four_vertices


class Asked(World):
    """A world that goes on a little with every question, before it is asked and before the answer arrives."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_shut_down = False
        self.unregistered: set[Address] = set()

    def ask(self, address: Address, request: Any, timeout_ms: float = 1000) -> Any:
        for _ in range(self.random.randint(1, 30)):
            self.step()
        if address in self.unregistered:
            self.unregistered.discard(address)
            raise EndpointGone(address)
        answer = super().ask(address, request, timeout_ms)
        for _ in range(self.random.randint(0, 10)):
            self.step()
        if address not in self.addresses():
            raise EndpointGone(address)  # it died before its answer was out
        return answer

    def shutdown(self) -> None:
        self.is_shut_down = True
        super().shutdown()


class ClosedMeanwhile(Asked):
    """The cluster is gone, as its client is closed, between the question whether its job has ended and that how."""

    client: ClusterJobClient

    def ask(self, address: Address, request: Any, timeout_ms: float = 1000) -> Any:
        if isinstance(request, GetArchivedJob) and not self.client._is_closed:
            self.client.close()
        return super().ask(address, request, timeout_ms)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(pauses, "LONGEST_PAUSE_S", 0.0)


def client_of(world: World, graph: JobGraph, owns_cluster: bool = True) -> ClusterJobClient:
    world.start(is_per_job=owns_cluster)
    return ClusterJobClient(world, CLUSTER, submit(world, CLUSTER, graph), owns_cluster=owns_cluster)


def test_a_result_holds_the_sum_of_the_accumulators() -> None:
    client = client_of(Asked(1), four_vertices())
    result = client.result(timeout=30)
    assert result.job_name == "four"
    assert result.accumulators == {"ended": 8}
    assert client.accumulators() == {"ended": 8}
    assert client.progress().status is JobStatus.FINISHED


def test_a_cluster_of_the_jobs_own_ends_with_its_result() -> None:
    world = Asked(2)
    client_of(world, four_vertices()).result(timeout=30)
    assert world.is_shut_down
    assert world.alive("TaskExecutor") == []


def test_a_session_goes_on_after_a_job() -> None:
    world = Asked(2)
    client = client_of(world, four_vertices(), owns_cluster=False)
    client.result(timeout=30)
    client.close()
    assert not world.is_shut_down
    assert world.alive("Dispatcher")


def test_a_failed_job_raises_with_the_users_own_error_as_cause() -> None:
    world = Asked(3)
    world.behaviour = lambda deployment: "fail" if deployment.task_name == "first (1/2)" else "run"
    with pytest.raises(JobExecutionError, match=r"job 'four' failed: ValueError: bad row in first \(1/2\)") as caught:
        client_of(world, four_vertices()).result(timeout=30)
    assert isinstance(caught.value.__cause__, ValueError)
    assert world.is_shut_down


def test_a_cancelled_job_raises_so() -> None:
    world = Asked(4)
    world.behaviour = lambda _deployment: "run"
    client = client_of(world, four_vertices())
    client.cancel()
    with pytest.raises(JobCanceledError, match="job 'four' was cancelled"):
        client.result(timeout=30)


def test_waiting_for_a_result_ends_with_its_timeout() -> None:
    world = Asked(5)
    world.behaviour = lambda _deployment: "run"
    client = client_of(world, four_vertices())
    with pytest.raises(TimeoutError, match="job 'four' is still"):
        client.result(timeout=0)
    client.close()


def test_closing_cancels_a_job_that_runs_and_remembers_how_it_ended() -> None:
    world = Asked(6)
    world.behaviour = lambda _deployment: "run"
    client = client_of(world, four_vertices())
    client.close()
    client.close()
    assert world.is_shut_down
    assert client.status() is JobStatus.CANCELED


def test_who_asks_while_another_thread_closes_the_client_learns_that_the_job_was_cancelled() -> None:
    world = ClosedMeanwhile(6)
    world.behaviour = lambda _deployment: "run"
    client = world.client = client_of(world, four_vertices())
    client.cancel()
    with pytest.raises(JobCanceledError, match="was cancelled"):
        client.result(timeout=30)
    assert world.is_shut_down


def test_after_a_client_of_a_session_is_closed_that_the_session_is_gone_is_said_at_once() -> None:
    world = Asked(7)
    client = client_of(world, four_vertices(), owns_cluster=False)
    client.close()
    world.kill(world.alive("Dispatcher")[0])
    began = time.monotonic()
    with pytest.raises(JobExecutionError, match="is gone"):
        client.status()
    assert time.monotonic() - began < SHUTDOWN_TIMEOUT_S / 2


def test_a_lost_cluster_is_a_failure_of_the_job() -> None:
    world = Asked(7)
    client = client_of(world, four_vertices())
    world.kill(world.alive("Dispatcher")[0])
    with pytest.raises(JobExecutionError, match="cluster 'c' is gone"):
        client.result(timeout=30)


@pytest.mark.parametrize("seed", range(10))
def test_all_collected_rows_arrive_even_when_the_job_ends_first(seed: int) -> None:
    world = Asked(seed)
    world.slot_endpoint = CollectingSlot
    client = client_of(world, collecting(2))
    for _ in range(world.random.choice([0, 500])):
        world.step()
    # On Ray an actor's name may be known to others a moment after it was started.
    world.unregistered.add(client._job.job_master)
    values = [value for batch in client.collected("rows") for value in batch.data.column(0).to_pylist()]
    assert sorted(values) == [0, 1, 2, 100, 101, 102]
    assert client.result(timeout=30).accumulators == {"ended": 4}


def test_a_driver_that_is_slower_with_its_last_rows_than_the_cluster_waits_has_them_all() -> None:
    world = Asked(1)
    world.slot_endpoint = CollectingSlot
    client = client_of(world, collecting(2), owns_cluster=False)
    world.await_end()
    rows = client.collected("rows")
    first = next(rows)
    world.kill(world.alive("Dispatcher")[0])
    assert len([first, *rows]) == 6
    assert client.status() is JobStatus.FINISHED


def test_what_goes_wrong_at_the_end_of_the_rows_is_said_after_them() -> None:
    world = Asked(1)
    world.slot_endpoint = CollectingSlot
    client = client_of(world, collecting(2), owns_cluster=False)
    world.await_end()
    world.kill(world.alive("Dispatcher")[0])
    rows = client.collected("rows")
    assert len([next(rows) for _ in range(6)]) == 6
    with pytest.raises(JobExecutionError, match="cluster 'c' is gone"):
        next(rows)


def test_rows_can_be_read_once() -> None:
    world = Asked(1)
    world.slot_endpoint = CollectingSlot
    client = client_of(world, collecting(2), owns_cluster=False)
    assert len(list(client.collected("rows"))) == 6
    with pytest.raises(FlinkrayError, match="they can be read once"):
        list(client.collected("rows"))


def test_reading_the_rows_of_a_job_that_fails_raises_its_failure() -> None:
    world = Asked(2)
    world.behaviour = lambda deployment: "fail" if deployment.task_name.startswith("Source") else "run"
    client = client_of(world, collecting(2))
    with pytest.raises(JobExecutionError, match="bad row in Source"):
        list(client.collected("rows"))
    client.close()


def test_a_job_that_its_program_has_dropped_goes_on_and_is_named_at_the_end_of_the_program() -> None:
    jobs, world = OpenJobs(), Asked(8)
    world.behaviour = lambda _deployment: "run"
    client = client_of(world, four_vertices())
    dropped = weakref.ref(client)
    jobs.add(client)
    assert jobs.message().startswith("flinkray: job 'four' still runs, and ends with the program: wait for")
    del client
    gc.collect()
    client = dropped()
    assert client is not None, "on Ray, its cluster's masters end once nobody holds them"
    client.close()
    assert jobs.message() == ""
    jobs.remove(client)
    jobs.remove(client)
    del client
    gc.collect()
    assert dropped() is None


@pytest.mark.parametrize("how", ["cancelled", "read", "gone"])
def test_of_jobs_that_are_not_forgotten_nothing_is_said(how: str) -> None:
    jobs, world = OpenJobs(), Asked(9)
    world.behaviour = lambda _deployment: "run"
    client = client_of(world, four_vertices())
    jobs.add(client)
    if how == "cancelled":
        client.cancel()
    elif how == "read":
        client._open_collects.add("rows")
    else:
        world.kill(world.alive("Dispatcher")[0])
    assert jobs.message() == ""
    client.close()
