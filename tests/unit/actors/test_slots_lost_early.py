"""A slot may die at any moment between its reservation and its first task; the job must not wait for it."""

from __future__ import annotations

import pytest

from actors.client.cluster import dispatcher_of
from actors.protocol.control_messages import JobStatusChanged
from actors.protocol.ports import SessionId
from flinkray.execution import JobStatus
from tests.support.control import CLUSTER, JOB, World, four_vertices, run_all_tasks


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("seed", range(20))
def test_a_slot_that_dies_before_its_first_task_is_replaced_or_fails_the_job(seed: int, steps: int) -> None:
    world = World(seed)
    world.behaviour = lambda _deployment: "run"
    world.start()
    world.submit(four_vertices())
    world.run_until(lambda: bool(world.alive("TaskSlot")))
    for _ in range(steps):
        world.step()
    if slots := world.alive("TaskSlot"):
        world.kill(slots[0])
    world.run_for(3_000)
    if world.status() is not JobStatus.RUNNING:
        assert world.status() is JobStatus.FAILED
        return
    scheduler = world.endpoint(world.alive("JobMaster")[0])._job.scheduler
    used = {scheduler.slot_of(execution) for execution in scheduler.graph.executions.values()}
    assert used == set(world.alive("TaskSlot")), "tasks run in slots that live, and no slot is left over"


def test_a_status_that_comes_after_the_death_of_its_job_master_does_not_revive_the_job() -> None:
    world = World(3)
    run_all_tasks(world)
    (job_master,) = world.alive("JobMaster")
    session: SessionId = world.endpoint(job_master)._session
    world.kill(job_master)
    world.await_status(JobStatus.FAILED)
    world.tell(dispatcher_of(CLUSTER), JobStatusChanged(session, JOB, JobStatus.RUNNING))
    world.run_for(1_000)
    assert world.status() is JobStatus.FAILED
