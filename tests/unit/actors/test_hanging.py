"""What hangs is taken for lost once its heartbeats stop, whatever it is, and replaced where that can be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.client.cluster import dispatcher_of, resource_manager_of
from actors.hosts.simulation.storage import new_storage
from actors.protocol.ports import Address
from flinkray import filesystems
from flinkray.execution import JobStatus
from tests.support.control import CLUSTER, World, four_vertices

TIMEOUT_MS = 5_000
# Until silence is noticed: the timeout, and what passes since the last heartbeat and until the next look.
NOTICED_MS = TIMEOUT_MS + 3_000
HEARTBEATS: dict[str, object] = {"heartbeat.interval": 1_000, "heartbeat.timeout": TIMEOUT_MS}
HA: dict[str, object] = {
    "high-availability.storageDir": "memory://ha/masters",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 100,
    "restart-strategy.fixed-delay.delay": 50,
}
DISPATCHER = dispatcher_of(CLUSTER)
RESOURCE_MANAGER = resource_manager_of(CLUSTER)


@pytest.fixture
def _storage() -> Iterator[None]:
    filesystems.mount("ha", new_storage("ha").filesystem())
    yield
    filesystems.unmount("ha")


def running(seed: int, **options: object) -> World:
    """A job that runs, all of whose processes have been heard."""
    world = World(seed)
    world.behaviour = lambda _deployment: "run"
    world.start(**HEARTBEATS, **options)
    world.submit(four_vertices(**HEARTBEATS, **options))  # type: ignore[arg-type]
    world.run_until(lambda: len(world.deployed) == 8)
    world.run_for(10_000)
    return world


def test_a_slot_that_hangs_is_lost_once_its_heartbeats_stop() -> None:
    world = running(1)
    hanging = world.alive("TaskSlot")[0]
    world.silenced.add(hanging)
    started = world.now
    details = world.await_end()
    assert world.now - started < NOTICED_MS + 1_000
    assert details.status is JobStatus.FAILED
    assert details.error is not None
    assert details.error.message.endswith(" is lost: its heartbeats stopped")
    assert hanging not in world.addresses()


def test_slots_that_act_are_kept_however_long_they_run() -> None:
    world = running(2)
    slots = world.alive("TaskSlot")
    world.run_for(200_000)
    assert world.alive("TaskSlot") == slots
    assert world.status() is JobStatus.RUNNING


def test_a_job_whose_job_master_hangs_fails_by_name_where_none_can_take_its_place() -> None:
    world = running(3)
    (hanging,) = world.alive("JobMaster")
    world.silenced.add(hanging)
    started = world.now
    details = world.await_end()
    assert world.now - started < NOTICED_MS
    assert details.error is not None
    assert details.error.message == "the JobMaster of job 'four' died: its heartbeats stopped"
    world.run_for(NOTICED_MS)
    assert world.alive("JobMaster") == world.alive("TaskSlot") == []


@pytest.mark.usefixtures("_storage")
def test_a_job_master_that_hangs_is_replaced_and_the_job_runs_again() -> None:
    world = running(4, **HA)
    (hanging,) = world.alive("JobMaster")
    world.silenced.add(hanging)
    world.run_until(lambda: world.alive("JobMaster") not in ([hanging], []), NOTICED_MS)
    world.run_until(lambda: world.status() is JobStatus.RUNNING and len(world.deployed) == 16, NOTICED_MS)
    assert hanging not in world.addresses()


@pytest.mark.usefixtures("_storage")
@pytest.mark.parametrize("hanging", [{DISPATCHER}, {RESOURCE_MANAGER}, {DISPATCHER, RESOURCE_MANAGER}])
def test_masters_that_hang_are_started_again_and_the_job_goes_on_meanwhile(hanging: set[Address]) -> None:
    world = running(5, **HA)
    slots = world.alive("TaskSlot")
    world.silenced |= hanging
    # Where both hang, the workers notice that the ResourceManager does not answer them, and it sees to the Dispatcher.
    world.run_until(lambda: not world.silenced, NOTICED_MS if len(hanging) == 1 else 140_000)
    world.run_for(20_000)
    assert world.status() is JobStatus.RUNNING
    assert world.alive("TaskSlot") == slots
    world.behaviour = lambda _deployment: "finish"
    world.crash(slots[0])
    assert world.await_end().status is JobStatus.FINISHED


@pytest.mark.usefixtures("_storage")
def test_a_job_whose_masters_hang_before_there_is_a_worker_goes_on() -> None:
    world = World(8)
    world.start(**HEARTBEATS, **HA)
    world.submit(four_vertices(**HEARTBEATS, **HA))  # type: ignore[arg-type]
    assert world.alive("TaskExecutor") == []
    world.silenced |= {DISPATCHER, RESOURCE_MANAGER}
    world.run_until(lambda: not world.silenced, 200_000)
    assert world.await_end().status is JobStatus.FINISHED


def test_a_dispatcher_that_hangs_is_left_alone_where_nothing_outlives_it() -> None:
    world = running(6)
    endpoint = world.endpoint(DISPATCHER)
    world.silenced.add(DISPATCHER)
    world.run_for(100_000)
    assert world.endpoint(DISPATCHER) is endpoint
    world.silenced.clear()
    world.run_for(1_000)
    assert world.status() is JobStatus.RUNNING
