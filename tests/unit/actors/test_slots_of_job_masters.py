"""A TaskExecutor between its slots and the JobMasters that come and go."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from actors.protocol.control_messages import OfferSlots, RequestSlot, SlotFailed, SlotFreed, SlotOffersAnswered
from actors.protocol.ports import Address, DeliveryFailed, Endpoint, EndpointSpec, Payloads, SessionId
from actors.protocol.resources import AllocationId
from actors.protocol.task_messages import (
    CancelTask,
    DeliverOperatorEvent,
    NotifyCheckpointComplete,
    SubmitTask,
    TaskStateChanged,
)
from tests.support.control import JOB, World, run_all_tasks

SECOND = Address("c/job-master-job.2")
SECOND_SESSION = SessionId("000002-x")


class Listener(Endpoint):
    """Accepts every slot."""

    def on_message(self, message: Any, payloads: Payloads) -> None:
        if isinstance(message, OfferSlots):
            accepted = frozenset(offer.allocation_id for offer in message.offers)
            answer = SlotOffersAnswered(message.session, JOB, message.offer_id, accepted)
            self.context.tell(message.task_executor, answer)


@pytest.fixture
def world() -> World:
    """A job that runs, with nothing under way."""
    world = World(11)
    run_all_tasks(world, **{"taskmanager.numberOfTaskSlots": 3})
    world.run_for(100)
    return world


def received(world: World, address: Address, kind: type) -> list[Any]:
    return [message for receiver, message in world.delivered if receiver == address and type(message) is kind]


def empty(kind: type[Struct]) -> Struct:
    """A message of that kind, of which nothing but the kind matters."""
    return kind(*[None] * len(kind.__struct_fields__))


@pytest.mark.parametrize("kind", [SubmitTask, CancelTask, DeliverOperatorEvent, NotifyCheckpointComplete])
def test_a_slot_that_did_not_get_a_message_is_given_up_and_its_job_master_hears(
    world: World, kind: type[Struct]
) -> None:
    (task_executor,) = world.alive("TaskExecutor")
    (job_master,) = world.alive("JobMaster")
    (resource_manager,) = world.alive("ResourceManager")
    slot, deployment = world.deployed[0]
    message = empty(kind)
    world.endpoint(task_executor).on_message(DeliveryFailed(slot, message, "a payload was lost"), ())
    assert slot not in world.alive("TaskSlot")
    world.run_until(lambda: bool(received(world, job_master, SlotFailed)))
    (failed,) = received(world, job_master, SlotFailed)
    assert failed.allocation_id == deployment.allocation_id
    assert failed.cause == f"it did not get its {kind.__name__} (a payload was lost)"
    world.run_for(100)
    freed = received(world, resource_manager, SlotFreed)
    assert deployment.allocation_id in [message.allocation_id for message in freed]


def test_what_fails_to_reach_a_slot_that_was_freed_already_changes_nothing(world: World) -> None:
    (task_executor,) = world.alive("TaskExecutor")
    before = world.alive("TaskSlot")
    gone = Address(f"{task_executor}/slot-9.9")
    world.endpoint(task_executor).on_message(DeliveryFailed(gone, empty(CancelTask), "it is gone"), ())
    world.run_for(100)
    assert world.alive("TaskSlot") == before


def test_the_slots_of_a_past_job_master_are_freed_though_its_tasks_still_run(world: World) -> None:
    (task_executor,) = world.alive("TaskExecutor")
    (resource_manager,) = world.alive("ResourceManager")
    endpoint = world.endpoint(task_executor)
    former = world.alive("TaskSlot")
    world.silenced.add(resource_manager)  # it knows nothing of the second one
    world.spawn(EndpointSpec(SECOND, Listener))
    session = endpoint._registration.session
    request = RequestSlot(session, 2, AllocationId("new"), JOB, SECOND, SECOND_SESSION, "label")
    endpoint.on_message(request, ())
    assert not set(former) & set(world.alive("TaskSlot")), "no task of the former JobMaster runs on"
    world.run_for(100)
    assert [lease.allocation_id for lease in endpoint._table.leases(JOB)] == ["new"]
    assert all(lease.is_active for lease in endpoint._table.leases(JOB))
    world.silenced.clear()
    world.run_until(lambda: len(received(world, resource_manager, SlotFreed)) == 2)


def test_the_former_job_master_has_no_say_in_the_slots_of_the_new_one(world: World) -> None:
    (task_executor,) = world.alive("TaskExecutor")
    (job_master,) = world.alive("JobMaster")
    endpoint = world.endpoint(task_executor)
    former_session = world.endpoint(job_master)._session
    deployment = world.deployed[0][1]
    world.silenced.update(world.alive("ResourceManager"))  # it knows nothing of the second one
    world.spawn(EndpointSpec(SECOND, Listener))
    session = endpoint._registration.session
    endpoint.on_message(RequestSlot(session, 2, AllocationId("new"), JOB, SECOND, SECOND_SESSION, "label"), ())
    world.run_for(100)
    (slot,) = [lease.slot for lease in endpoint._table.leases(JOB)]
    endpoint.on_message(CancelTask(former_session, AllocationId("new"), deployment.attempt_id), ())
    world.crash(job_master)
    world.run_for(1_000)
    assert slot in world.alive("TaskSlot")
    assert received(world, slot, CancelTask) == []
    endpoint.on_message(TaskStateChanged(JOB, "attempt", "RUNNING"), ())
    world.run_for(100)
    assert len(received(world, SECOND, TaskStateChanged)) == 1
