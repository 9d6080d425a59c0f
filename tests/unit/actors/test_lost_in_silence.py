"""A TaskExecutor that hung takes others for lost that are not, and tells them what it does about it."""

from __future__ import annotations

import pytest

from actors.protocol.control_messages import SlotFailed, SlotFreed, TaskExecutorRegistered
from actors.protocol.ports import EndpointDied
from tests.support.control import World, run_all_tasks


@pytest.fixture
def world() -> World:
    """A job that runs, with nothing under way."""
    world = World(11)
    run_all_tasks(world)
    world.run_for(100)
    return world


def test_a_job_master_that_was_taken_for_lost_hears_that_its_slot_is_gone(world: World) -> None:
    (job_master,) = world.alive("JobMaster")
    task_executor = world.alive("TaskExecutor")[0]
    world.endpoint(task_executor).on_message(EndpointDied(job_master, "its heartbeats stopped"), ())
    world.run_for(1_000)
    lost = [message for address, message in world.delivered if address == job_master and type(message) is SlotFailed]
    assert [(message.task_executor, message.cause) for message in lost] == [(task_executor, "its heartbeats stopped")]


def test_a_slot_that_ends_while_there_is_no_session_is_reported_with_the_next(world: World) -> None:
    (resource_manager,) = world.alive("ResourceManager")
    task_executor = world.alive("TaskExecutor")[0]
    endpoint = world.endpoint(task_executor)
    (lease,) = endpoint._table.leases()
    session = endpoint._registration.session
    endpoint._registration.begin_anew()
    world.end(lease.slot, task_executor, "killed")
    endpoint.on_message(EndpointDied(lease.slot, "killed"), ())
    endpoint.on_message(TaskExecutorRegistered(session, endpoint._registration.number), ())
    world.run_for(1_000)
    freed = [message for address, message in world.delivered if address == resource_manager]
    assert SlotFreed(session, task_executor, lease.slot_index, lease.allocation_id) in freed
