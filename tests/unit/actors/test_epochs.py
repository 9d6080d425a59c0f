"""Messages of past sessions, offers and allocations are not acted on."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.cluster import dispatcher_of
from actors.protocol.control_messages import (
    CancelExecutionGraph,
    DeclareRequirements,
    FreeSlot,
    JobEnded,
    OfferSlots,
    RequestSlot,
    SlotFailed,
    SlotOffersAnswered,
    StopTaskExecutor,
)
from actors.protocol.ports import Address, SessionId
from actors.protocol.resources import AllocationId
from actors.protocol.task_messages import CancelTask
from flinkray.execution import JobStatus
from tests.support.control import CLUSTER, JOB, World, run_all_tasks

PAST = SessionId("past")


@pytest.fixture
def world() -> World:
    """A job that runs, with nothing under way."""
    world = World(11)
    run_all_tasks(world)
    world.run_for(100)
    return world


def settle(world: World, address: Address, message: Any) -> None:
    world.tell(address, message)
    world.run_for(1_000)


def test_a_job_master_ignores_messages_with_another_session(world: World) -> None:
    (job_master,) = world.alive("JobMaster")
    allocation = world.deployed[0][1].allocation_id
    settle(world, job_master, CancelExecutionGraph(PAST))
    settle(world, job_master, SlotFailed(PAST, world.alive("TaskExecutor")[0], allocation, "a rumour"))
    settle(world, job_master, OfferSlots(PAST, Address("c/te-9"), 1, ()))  # type: ignore[arg-type]
    assert world.status() is JobStatus.RUNNING


def test_a_task_executor_ignores_messages_with_another_session(world: World) -> None:
    task_executor = world.alive("TaskExecutor")[0]
    deployment = world.deployed[0][1]
    settle(world, task_executor, FreeSlot(PAST, deployment.allocation_id, "a rumour"))
    settle(world, task_executor, CancelTask(PAST, deployment.allocation_id, deployment.attempt_id))
    settle(world, task_executor, StopTaskExecutor(PAST))
    request = RequestSlot(PAST, 0, AllocationId("new"), JOB, Address("c/job-master-x"), PAST, "label")
    settle(world, task_executor, request)
    assert world.status() is JobStatus.RUNNING
    assert len(world.alive("TaskSlot")) == 2


def test_an_answer_to_an_outdated_offer_is_ignored(world: World) -> None:
    (job_master,) = world.alive("JobMaster")
    session = world.endpoint(job_master)._session
    task_executor = world.alive("TaskExecutor")[0]
    settle(world, task_executor, SlotOffersAnswered(session, JOB, 0, frozenset()))  # type: ignore[arg-type]
    assert len(world.alive("TaskSlot")) == 2


def test_a_resource_manager_ignores_requirements_with_another_session(world: World) -> None:
    (resource_manager,) = world.alive("ResourceManager")
    settle(world, resource_manager, DeclareRequirements(PAST, JOB, PAST, ()))
    session = world.endpoint(resource_manager)._session
    settle(world, resource_manager, DeclareRequirements(session, JOB, PAST, ()))
    assert world.overview().slots == 2


def test_a_dispatcher_ignores_the_end_that_a_past_job_master_reports(world: World) -> None:
    (job_master,) = world.alive("JobMaster")
    details = world.endpoint(job_master)._details()
    settle(world, dispatcher_of(CLUSTER), JobEnded(PAST, details, False))
    assert world.status() is JobStatus.RUNNING


def test_a_slot_that_the_job_rejects_is_freed_and_reported() -> None:
    world = World(12)
    run_all_tasks(world, is_per_job=False)
    (job_master,) = world.alive("JobMaster")
    (resource_manager,) = world.alive("ResourceManager")
    endpoint = world.endpoint(resource_manager)
    declared = world.endpoint(job_master)._resource_manager.requirements
    # More than the JobMaster wants, as if it had changed its mind while slots were on their way.
    surplus = type(declared[0])(declared[0].profile, "surplus")
    session = world.endpoint(job_master)._session
    world.tell(resource_manager, DeclareRequirements(endpoint._session, JOB, session, (*declared, surplus)))
    world.run_until(lambda: len(world.alive("TaskSlot")) == 3)
    world.tell(resource_manager, DeclareRequirements(endpoint._session, JOB, session, declared))
    world.run_until(lambda: len(world.alive("TaskSlot")) == 2)
    world.run_for(1_000)
    assert world.overview().free_slots == 1
    assert world.status() is JobStatus.RUNNING
