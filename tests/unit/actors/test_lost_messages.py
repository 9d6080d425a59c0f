"""A message is lost although both ends live, as when Ray cannot reach an actor for a moment: it is said again."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.cluster import dispatcher_of, resource_manager_of
from actors.protocol.client_requests import CancelJob, CollectedReceived, GetArchivedJob, ShutDownCluster
from actors.protocol.control_messages import (
    AllTaskExecutorsReleased,
    CancelExecutionGraph,
    CollectedRowsTaken,
    DeclareRequirements,
    DisconnectJobMaster,
    FreeSlot,
    JobEnded,
    JobStatusChanged,
    RequestSlot,
    SlotFailed,
    SlotFreed,
    SlotRequestRefused,
    TaskExecutorRegistered,
)
from actors.protocol.ports import Address, DeliveryFailed, Endpoint, EndpointDied, EndpointSpec, Payloads
from actors.protocol.resources import AllocationId
from actors.protocol.task_messages import OperatorEventSent, TaskStateChanged
from actors.scheduling.commands import ReleaseSlot
from flinkray.execution import JobStatus
from tests.support.control import CLUSTER, JOB, CollectingSlot, World, collecting, four_vertices, run_all_tasks

DISPATCHER = dispatcher_of(CLUSTER)
RESOURCE_MANAGER = resource_manager_of(CLUSTER)

SOON_MS = 20_000
"""Long before anything times out: then it was not a timeout that helped."""


class LossyWorld(World):
    """Loses messages of some kinds, other than those of slots, and tells their senders."""

    def __init__(self, seed: int, *kinds: type, times: int = 1, arrives: bool = False) -> None:
        """
        Args:
            times: how many of each kind are lost.
            arrives: they are called lost, and arrive all the same.
        """
        super().__init__(seed)
        self.losses = dict.fromkeys(kinds, times)
        self.arrives = arrives

    def _deliver(self, sender: Address, address: Address) -> None:
        message = self._channels[sender, address][0]
        if "/slot-" in sender or not self.losses.get(type(message), 0):
            super()._deliver(sender, address)
            return
        self.losses[type(message)] -= 1
        if self.arrives:
            super()._deliver(sender, address)
        else:
            self._channels[sender, address].popleft()
        self.send(address, sender, DeliveryFailed(address, message, "ActorUnavailableError: it cannot be reached"))


def received(world: World, address: Address, kind: type) -> list[Any]:
    return [message for receiver, message in world.delivered if receiver == address and type(message) is kind]


def run_until_ended(world: World) -> None:
    world.run_until(lambda: world.status().is_terminal, max_ms=SOON_MS)


def assert_everything_is_given_back(world: World) -> None:
    gone: list[Address] = []
    world.run_until(
        lambda: all(world.alive(kind) == gone for kind in ("TaskSlot", "TaskExecutor", "JobMaster")), max_ms=SOON_MS
    )


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "kinds",
    [
        (RequestSlot,),
        (TaskExecutorRegistered,),
        (TaskExecutorRegistered, RequestSlot),
        (DeclareRequirements,),
        (JobStatusChanged,),
        (JobEnded,),
        (DisconnectJobMaster,),
        (FreeSlot,),
        (SlotFreed,),
        (FreeSlot, SlotFreed, RequestSlot, DeclareRequirements, JobEnded),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_a_job_ends_and_gives_everything_back_though_messages_are_lost(
    seed: int, kinds: tuple[type, ...], times: int, arrives: bool
) -> None:
    world = LossyWorld(seed, *kinds, times=times, arrives=arrives)
    world.start()
    world.submit(four_vertices())
    run_until_ended(world)
    assert world.status() is JobStatus.FINISHED
    assert_everything_is_given_back(world)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_freed_slot_serves_the_next_job_though_the_word_of_it_was_lost(arrives: bool) -> None:
    world = LossyWorld(5, SlotFreed, times=2, arrives=arrives)
    world.start(is_per_job=False)
    world.submit(four_vertices())
    run_until_ended(world)
    world.run_until(lambda: world.overview().free_slots == world.overview().slots == 2, max_ms=SOON_MS)


def test_a_refusal_that_was_lost_leaves_no_slot_to_a_job_that_does_not_have_it() -> None:
    world = LossyWorld(6, SlotRequestRefused)
    run_all_tasks(world, is_per_job=False)
    manager = world.endpoint(RESOURCE_MANAGER)._manager
    (task_executor, entry) = next(iter(manager._task_executors.items()))
    held = entry.slots[0].allocation_id
    entry.slots[0].allocation_id = AllocationId("another")  # what it asked for before it heard of the one that is held
    (job,) = world.endpoint(RESOURCE_MANAGER)._jobs.values()
    session = world.endpoint(RESOURCE_MANAGER)._session
    request = RequestSlot(session, 0, AllocationId("another"), JOB, job.job_master, job.session, "label")
    world.endpoint(task_executor).on_message(request, ())
    world.run_until(lambda: manager._task_executors[task_executor].slots[0].allocation_id == held, max_ms=SOON_MS)
    assert world.status() is JobStatus.RUNNING


def test_a_slot_request_that_was_lost_is_not_repeated_for_a_job_that_is_gone() -> None:
    world = LossyWorld(7, RequestSlot, times=1)
    world.behaviour = lambda _deployment: "run"
    world.start(is_per_job=False)
    world.submit(four_vertices(1))
    world.run_until(lambda: world.losses[RequestSlot] == 0)
    world.ask_dispatcher(CancelJob(JOB))
    run_until_ended(world)
    world.run_until(lambda: world.overview().free_slots == world.overview().slots == 1, max_ms=SOON_MS)
    world.run_for(5_000)
    assert received(world, world.alive("TaskExecutor")[0], RequestSlot) == []


def test_a_job_is_cancelled_though_its_job_master_did_not_hear_of_it_at_first() -> None:
    world = LossyWorld(8, CancelExecutionGraph, times=2)
    run_all_tasks(world)
    world.run_for(1_000)
    world.ask_dispatcher(CancelJob(JOB))
    run_until_ended(world)
    assert world.status() is JobStatus.CANCELED


def test_a_dispatcher_that_is_gone_is_not_told_of_the_end_again_and_again() -> None:
    world = LossyWorld(9)
    run_all_tasks(world)
    (job_master,) = world.alive("JobMaster")
    world.kill(DISPATCHER)
    world.run_for(60_000)
    failed = [each.message for each in received(world, job_master, DeliveryFailed)]
    assert sum(isinstance(message, JobEnded) for message in failed) <= 2


@pytest.mark.parametrize("arrives", [False, True])
def test_a_job_master_hears_of_a_lost_slot_though_the_word_of_it_was_lost(arrives: bool) -> None:
    world = LossyWorld(10, SlotFailed, times=3, arrives=arrives)
    run_all_tasks(world)
    world.run_for(100)
    world.crash(world.alive("TaskSlot")[0])
    run_until_ended(world)
    assert world.status() is JobStatus.FAILED
    assert_everything_is_given_back(world)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_job_ends_though_nothing_that_its_tasks_said_was_heard_at_first(arrives: bool) -> None:
    world = LossyWorld(13, TaskStateChanged, times=24, arrives=arrives)
    world.start()
    world.submit(four_vertices())
    run_until_ended(world)
    assert world.status() is JobStatus.FINISHED
    assert_everything_is_given_back(world)


def test_an_event_for_a_coordinator_that_was_lost_is_not_waited_for() -> None:
    world = LossyWorld(11, OperatorEventSent, times=3)
    world.slot_endpoint = CollectingSlot
    world.start()
    world.submit(collecting())
    run_until_ended(world)
    assert world.status() is JobStatus.FAILED


def test_a_job_master_that_is_dead_is_not_told_of_its_slots_again_and_again() -> None:
    world = LossyWorld(12)
    run_all_tasks(world, is_per_job=False)
    world.kill(world.alive("JobMaster")[0])
    world.run_for(30_000)
    for task_executor in world.alive("TaskExecutor"):
        failed = [each.message for each in received(world, task_executor, DeliveryFailed)]
        assert sum(isinstance(message, SlotFailed) for message in failed) <= 2
        assert not world.endpoint(task_executor)._unheard.receivers


@pytest.mark.parametrize("kinds", [(JobEnded,), (CollectedRowsTaken,), (JobEnded, CollectedRowsTaken)])
@pytest.mark.parametrize("seed", range(4))
def test_a_job_whose_rows_were_taken_ends_though_the_word_of_it_was_lost(seed: int, kinds: tuple[type, ...]) -> None:
    world = LossyWorld(seed, *kinds)
    world.slot_endpoint = CollectingSlot
    world.start()
    world.submit(collecting())
    (job_master,) = world.alive("JobMaster")
    world.run_until(lambda: world.endpoint(job_master) is not None and world.endpoint(job_master)._is_ended)
    # The driver is faster than the Dispatcher, which does not know of the end.
    world.tell(job_master, CollectedReceived("rows"))
    run_until_ended(world)
    assert world.ask_dispatcher(GetArchivedJob(JOB)).status is JobStatus.FINISHED
    assert_everything_is_given_back(world)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_cluster_is_down_though_the_word_of_its_released_workers_was_lost(arrives: bool) -> None:
    world = LossyWorld(14, AllTaskExecutorsReleased, times=2, arrives=arrives)
    run_all_tasks(world)
    world.run_until(lambda: bool(world.ask_dispatcher(ShutDownCluster())), max_ms=SOON_MS)


def test_released_workers_of_which_nobody_has_asked_this_dispatcher_do_not_end_it() -> None:
    world = LossyWorld(14)
    run_all_tasks(world, is_per_job=False)
    world.tell(DISPATCHER, AllTaskExecutorsReleased())
    world.run_for(1_000)
    assert not world.endpoint(DISPATCHER)._is_down


class IdleWorker(Endpoint):
    """Stands for a TaskExecutor."""

    def on_message(self, message: Any, payloads: Payloads) -> None: ...


def test_the_only_slot_of_a_worker_is_given_back_though_the_word_of_it_was_lost() -> None:
    world = LossyWorld(15, FreeSlot, times=2)
    run_all_tasks(world, is_per_job=False)
    (job_master,) = world.alive("JobMaster")
    worker = Address("c/idle")
    world.spawn(EndpointSpec(worker, IdleWorker))
    world.endpoint(job_master)._carry_out(ReleaseSlot(worker, AllocationId("idle"), "it is idle"))
    world.run_until(lambda: len(received(world, worker, FreeSlot)) == 1, max_ms=SOON_MS)


def test_a_worker_that_is_dead_is_not_told_of_a_slot_again_and_again() -> None:
    world = LossyWorld(16)
    run_all_tasks(world, is_per_job=False)
    (job_master,) = world.alive("JobMaster")
    worker = Address("c/idle")
    endpoint = world.endpoint(job_master)
    endpoint._carry_out(ReleaseSlot(worker, AllocationId("idle"), "it is idle"))
    endpoint.on_message(EndpointDied(worker, "kill -9"), ())
    world.run_for(10_000)
    failed = [each.message for each in received(world, job_master, DeliveryFailed)]
    assert sum(isinstance(message, FreeSlot) for message in failed) == 1
