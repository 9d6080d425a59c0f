"""The steps by which a running job gets another parallelism, and what stops them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec import structs

from actors.jobs.job_checkpoints import JobCheckpoints
from actors.jobs.job_rescales import JobRescales
from actors.protocol.client_requests import TriggeredCheckpoint
from actors.protocol.control_messages import RescaleResult
from actors.scheduling.commands import DeclareSlots, SchedulerCommand, SubtasksReset
from actors.scheduling.failover.restart_strategies import FixedDelayRestart
from flinkray.errors import CheckpointError, RescaleError
from flinkray.execution import JobStatus
from flinkray.types.records import Millis
from graphs.execution_graph import ExecutionGraph
from graphs.job_graph import CheckpointSettings
from tests.support.scheduling import Driver
from tests.unit.actors.scheduling.test_restarts import pairs, run


class Checkpoints:
    """Those of a job, as `JobRescales` sees them."""

    def __init__(self) -> None:
        self.is_stopping = False
        self.is_storing = False
        self.pending_savepoints: tuple[str, ...] = ()
        self.is_rescale_recorded = True
        self.asked: list[str] = []
        """Requests that hastened a checkpoint, and that waited for one."""
        self.results: dict[str, TriggeredCheckpoint] = {}
        self.refusal: CheckpointError | None = None

    def trigger_periodic(self, request_id: str) -> None:
        self.asked.append("now")
        self.results[request_id] = TriggeredCheckpoint()

    def await_periodic(self, request_id: str) -> None:
        self.asked.append("when it is due")
        self.results[request_id] = TriggeredCheckpoint()

    def triggered(self, request_id: str) -> TriggeredCheckpoint | None:
        return self.results.get(request_id)

    def answer(self, result: TriggeredCheckpoint) -> None:
        self.results = dict.fromkeys(self.results, result)

    def check_restorable(self, _graph: ExecutionGraph) -> None:
        if self.refusal is not None:
            raise self.refusal


class Job:
    """A job of two slots that runs, and is to have three subtasks of each vertex."""

    def __init__(self, delay_ms: int = 100, **settings: Any) -> None:
        graph = structs.replace(pairs(), checkpoint_settings=CheckpointSettings(Millis(1_000), **settings))
        vertices = tuple(structs.replace(each, has_own_parallelism=False) for each in graph.vertices)
        graph = structs.replace(graph, vertices=vertices)
        self.driver = Driver(graph, restart_strategy=FixedDelayRestart(5, delay_ms))
        self.scheduler = self.driver.scheduler
        self.scheduler.start(0)
        self.driver.offer()
        run(self.driver)
        self.checkpoints = Checkpoints()
        self.rescales = JobRescales(self.scheduler, cast("JobCheckpoints", self.checkpoints))
        self.declared = 2

    def ask(self, wanted: Any = 3) -> None:
        self.rescales.request("one", wanted, self.driver.now)
        self.go_on()

    def go_on(self) -> list[SchedulerCommand]:
        """As the JobMaster does after each message; a restart that is due gets its answer."""
        commands: list[SchedulerCommand] = []
        while True:
            new = self.driver.commands()
            for command in new:
                if isinstance(command, DeclareSlots):
                    self.declared = len(command.requests)
                elif isinstance(command, SubtasksReset):
                    rescaled = self.rescales.take() if command.is_global else None
                    if rescaled is not None:
                        self.scheduler.rescale(rescaled, self.driver.now)
                    self.scheduler.deploy_restarted(command.restart, self.driver.now)
            commands += new
            if not self.rescales.go_on(self.driver.now) and not new:
                return commands

    def offer(self) -> None:
        self.driver.offer()
        self.go_on()

    def tick(self, now: int) -> None:
        self.driver.now = now
        self.scheduler.tick(now)
        self.go_on()

    @property
    def result(self) -> RescaleResult:
        found = self.rescales.result("one")
        assert found is not None
        return found

    def refusal(self) -> str:
        assert self.result.error is not None
        return self.result.error.message

    def as_it_was(self) -> bool:
        self.tick(self.driver.now)
        numbers = set(self.scheduler.graph.parallelisms.values())
        return (self.scheduler.status, numbers, self.declared) == (JobStatus.RUNNING, {2}, 2)


COMPLETE = TriggeredCheckpoint(checkpoint_id=7)


def test_slots_then_a_checkpoint_then_the_tasks() -> None:
    job = Job()
    job.ask()
    assert (job.declared, job.checkpoints.asked) == (3, [])
    job.offer()
    assert job.checkpoints.asked == ["now"]
    job.checkpoints.answer(COMPLETE)
    job.go_on()
    assert job.scheduler.status is JobStatus.RESTARTING
    job.driver.stop_cancelled()
    job.go_on()
    assert not job.result.is_done, "its tasks do not run yet"
    run(job.driver)
    job.go_on()
    assert job.result.error is None
    assert set(job.result.parallelism.values()) == {3}


def test_a_job_that_has_what_is_wanted_is_done_at_once() -> None:
    job = Job()
    job.ask(2)
    assert (job.result.is_done, job.checkpoints.asked) == (True, [])


def test_a_refused_rescale_asks_for_no_slots_any_more() -> None:
    job = Job()
    job.ask()
    job.scheduler.fail_for_slots(None, "there are none", 0)
    job.go_on()
    assert "it would need 1 more slot(s) of 1 CPU: there are none" in job.refusal()
    assert job.as_it_was()


def test_slots_that_came_are_given_back_where_the_job_cannot_go_on_from_its_checkpoint() -> None:
    job = Job()
    job.checkpoints.refusal = CheckpointError("rows of a custom partitioner are in flight")
    job.ask()
    job.offer()
    job.checkpoints.answer(COMPLETE)
    job.go_on()
    assert "rows of a custom partitioner are in flight" in job.refusal()
    assert job.as_it_was()
    job.tick(10_000)
    assert len(job.scheduler.pool.slots()) == 2


def test_after_a_failure_slots_are_asked_for_again_also_where_it_is_over_at_once() -> None:
    job = Job(delay_ms=0)
    job.ask()
    job.driver.fail("Source: numbers (1/2)")
    job.driver.stop_cancelled()
    job.go_on()
    run(job.driver)
    job.go_on()
    assert (job.declared, job.checkpoints.asked) == (3, []), "the slot has not come"
    job.offer()
    assert job.checkpoints.asked == ["now"]


def test_a_slot_that_is_lost_before_the_restart_is_waited_for() -> None:
    job = Job()
    job.ask()
    job.offer()
    spare = next(slot for slot in job.scheduler.pool.slots() if not slot.is_used)
    job.driver.now = 5_000
    job.scheduler.lose_slot(spare.allocation_id, "its node is gone", 5_000)
    job.checkpoints.answer(COMPLETE)
    job.go_on()
    assert (job.scheduler.status, job.scheduler.room.missing) == (JobStatus.RUNNING, 1)
    assert not job.scheduler.room.is_late(job.driver.now), "its time has begun anew"
    job.offer()
    assert job.checkpoints.asked == ["now", "now"]


def test_checkpoints_that_fail_are_awaited_a_few_times() -> None:
    job = Job()
    job.ask()
    job.offer()
    for _ in range(3):
        job.checkpoints.answer(TriggeredCheckpoint(failure="the disk is full"))
        job.go_on()
    assert job.checkpoints.asked == ["now", "when it is due", "when it is due"]
    assert "3 checkpoints in a row have failed; the last: the disk is full" in job.refusal()
    assert job.as_it_was()


def test_a_savepoint_is_waited_for() -> None:
    job = Job()
    job.ask()
    job.offer()
    job.checkpoints.answer(COMPLETE)
    job.checkpoints.pending_savepoints = ("a savepoint",)
    job.go_on()
    assert job.scheduler.status is JobStatus.RUNNING
    job.checkpoints.pending_savepoints = ()
    job.go_on()
    assert job.scheduler.status is JobStatus.RESTARTING


def test_a_job_that_is_stopped_is_not_rescaled() -> None:
    job = Job()
    job.ask()
    job.checkpoints.is_stopping = True
    job.go_on()
    assert "it is being stopped with a savepoint" in job.refusal()
    assert job.as_it_was()
    with pytest.raises(RescaleError, match="is being stopped with a savepoint"):
        job.rescales.request("two", 3, 0)


def test_a_job_that_is_cancelled_is_not_rescaled() -> None:
    job = Job()
    job.ask()
    job.scheduler.cancel(0)
    job.go_on()
    assert "is not rescaled: it is CANCELLING" in job.refusal()


def test_one_rescale_comes_after_the_other() -> None:
    job = Job()
    job.ask()
    with pytest.raises(RescaleError, match="is being rescaled already"):
        job.rescales.request("two", 4, 0)
    job.rescales.request("one", 4, 0)  # it is the same one
    job.driver.fail("Source: numbers (1/2)")
    job.go_on()
    job.scheduler.cancel(0)
    job.go_on()
    with pytest.raises(RescaleError, match=r"is CANCELLING$"):
        job.rescales.request("two", 4, 0)


def test_a_job_without_checkpoints_or_that_can_have_none_says_so() -> None:
    with pytest.raises(RescaleError, match="cannot be rescaled while it runs: it runs in batch mode"):
        Job(impossible_because="it runs in batch mode").ask()
