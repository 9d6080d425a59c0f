"""The life of a job, driven by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.jobs.job_metrics import JobMetrics, job_details, job_summary
from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId, ClusterOverview, ResourceProfile, SlotWait
from actors.protocol.task_messages import TaskStateChanged
from actors.scheduling.commands import (
    CancelAttempt,
    DeclareSlots,
    KillSlot,
    ReleaseSlot,
    SlotsTimedOut,
    StatusChanged,
    SubtaskStarted,
)
from actors.scheduling.stuck_tasks import CANCEL_TIMEOUT_MS
from flinkray.errors import ErrorInfo, PartitionError
from flinkray.execution import JobStatus
from flinkray.transformations.partitioning import RebalancePartitioner
from graphs.execution_graph import AttemptId, Execution
from graphs.job_graph import JobGraph
from tests.support.control import JOB, four_vertices
from tests.support.graphs import Program
from tests.support.scheduling import TE, Driver


@pytest.fixture
def driver() -> Iterator[Driver]:
    """Four vertices of two subtasks in one slot sharing group, started."""
    driver = Driver(four_vertices())
    driver.scheduler.start(0)
    yield driver
    driver.scheduler.check()


def test_starting_declares_all_slots_of_the_region(driver: Driver) -> None:
    (declared,) = [command for command in driver.commands() if isinstance(command, DeclareSlots)]
    assert [request.label for request in declared.requests] == [
        "four: Source: numbers (1/2), first (1/2), second (1/2), Sink: out (1/2)",
        "four: Source: numbers (2/2), first (2/2), second (2/2), Sink: out (2/2)",
    ]


def test_nothing_is_deployed_before_the_last_slot_is_there(driver: Driver) -> None:
    first, second = driver.scheduler.pool.requests()
    driver.offer(first.label)
    assert driver.deployed() == []
    driver.offer(second.label)
    assert len(driver.deployed()) == 8


def test_a_job_says_what_it_waits_for_until_it_has_its_slots(driver: Driver) -> None:
    def wait() -> SlotWait | None:
        waits = job_details(driver.scheduler, JobMetrics(driver.scheduler.graph)).slot_wait
        assert waits == job_summary(driver.scheduler, False).slot_wait
        return waits

    first, second = driver.scheduler.pool.requests()
    assert wait() == SlotWait(0, 2, ((ResourceProfile(1.0), 2),))
    driver.offer(first.label)
    assert wait() == SlotWait(0, 2, ((ResourceProfile(1.0), 1),))
    driver.offer(second.label)
    assert wait() is None


def test_a_task_moves_through_its_states_and_its_coordinators_hear_of_it_once(driver: Driver) -> None:
    driver.offer()
    driver.commands()
    driver.report("first (1/2)", "INITIALIZING", "RUNNING")
    started = [command for command in driver.commands() if isinstance(command, SubtaskStarted)]
    assert [command.subtask_index for command in started] == [0]
    assert driver.state("first (1/2)") == "RUNNING"


def test_a_report_may_skip_states(driver: Driver) -> None:
    driver.offer()
    driver.report("first (1/2)", "FINISHED")
    assert driver.state("first (1/2)") == "FINISHED"
    assert any(isinstance(command, SubtaskStarted) for command in driver.commands())


def test_reports_of_unknown_or_ended_attempts_change_nothing(driver: Driver) -> None:
    driver.offer()
    assert not driver.scheduler.change_task_state(TaskStateChanged(JOB, AttemptId("past_0_0"), "FAILED"), 0)
    driver.report("first (1/2)", "FINISHED")
    assert not driver.report("first (1/2)", "FAILED")
    assert driver.scheduler.status is JobStatus.RUNNING


def test_a_report_of_a_task_that_was_never_deployed_changes_nothing(driver: Driver) -> None:
    assert not driver.report("first (1/2)", "RUNNING")


def test_all_tasks_finished_ends_the_job_and_gives_the_slots_back(driver: Driver) -> None:
    driver.offer()
    driver.commands()
    for name in driver.names:
        driver.report(name, "INITIALIZING", "RUNNING", "FINISHED")
    commands = driver.commands()
    assert commands[-1] == StatusChanged(JobStatus.FINISHED)
    assert [command.allocation_id for command in commands if isinstance(command, ReleaseSlot)] == [
        "allocation-1",
        "allocation-2",
    ]
    assert DeclareSlots(()) in commands


def test_a_failed_task_fails_the_job_when_the_others_have_stopped(driver: Driver) -> None:
    driver.offer()
    driver.commands()
    error = ErrorInfo.of(ValueError("bad row"))
    driver.report("second (1/2)", "RUNNING", "FAILED", error=error)
    cancelled = [command for command in driver.commands() if isinstance(command, CancelAttempt)]
    assert len(cancelled) == 7
    assert driver.scheduler.status is JobStatus.FAILING
    for name in set(driver.names) - {"second (1/2)"}:
        driver.report(name, "CANCELED")
    assert driver.scheduler.status is JobStatus.FAILED
    assert driver.scheduler.failure is error


def test_the_first_failure_is_the_one_that_counts(driver: Driver) -> None:
    driver.offer()
    first, second = ErrorInfo.of(ValueError("first")), ErrorInfo.of(ValueError("second"))
    driver.report("second (1/2)", "FAILED", error=first)
    driver.report("second (2/2)", "FAILED", error=second)
    assert driver.scheduler.failure is first


def test_a_producers_own_error_counts_though_its_consumers_complaint_came_before_it(driver: Driver) -> None:
    driver.offer()
    complaint, reason = ErrorInfo.of(PartitionError("its producer is gone")), ErrorInfo.of(ValueError("bad row"))
    driver.report("second (1/2)", "FAILED", error=complaint)
    driver.report("first (1/2)", "FAILED", error=reason)
    driver.report("first (2/2)", "FAILED", error=ErrorInfo.of(ValueError("another")))
    assert driver.scheduler.failure is reason


def test_a_task_that_finishes_while_it_is_cancelled_counts_as_cancelled(driver: Driver) -> None:
    driver.offer()
    driver.scheduler.cancel(0)
    driver.report("first (1/2)", "RUNNING", "FINISHED")
    assert driver.state("first (1/2)") == "CANCELED"


def test_a_failure_while_the_job_is_cancelled_leaves_it_cancelled(driver: Driver) -> None:
    driver.offer()
    driver.scheduler.cancel(0)
    driver.report("first (1/2)", "FAILED", error=ErrorInfo.of(ValueError("late")))
    for name in set(driver.names) - {"first (1/2)"}:
        driver.report(name, "CANCELED")
    assert driver.scheduler.status is JobStatus.CANCELED


def test_cancelling_before_there_are_slots_needs_no_answer(driver: Driver) -> None:
    driver.commands()
    driver.scheduler.cancel(0)
    assert driver.scheduler.status is JobStatus.CANCELED
    assert not any(isinstance(command, CancelAttempt) for command in driver.commands())


def test_slots_that_come_after_a_cancel_are_not_taken_and_nothing_is_deployed(driver: Driver) -> None:
    labels = [request.label for request in driver.scheduler.pool.requests()]
    driver.offer(labels[0])
    driver.scheduler.cancel(0)
    driver.commands()
    driver.offer(labels[1])
    assert driver.commands() == []
    assert driver.scheduler.pool.slots() == []


def test_a_job_that_was_broken_before_it_started_fails() -> None:
    driver = Driver(four_vertices())
    driver.scheduler.fail(ErrorInfo.of(ValueError("no enumerator")), 0)
    assert driver.scheduler.status is JobStatus.FAILED


def test_a_slot_lost_before_it_was_used_is_asked_for_again(driver: Driver) -> None:
    first, second = driver.scheduler.pool.requests()
    driver.offer(first.label)
    driver.scheduler.lose_slot(AllocationId("allocation-1"), "kill -9", 0)
    assert driver.scheduler.status is JobStatus.RUNNING
    driver.offer(first.label, second.label)
    assert len(driver.deployed()) == 8


def test_slots_that_die_again_and_again_before_they_are_used_fail_the_job(driver: Driver) -> None:
    label = driver.scheduler.pool.requests()[0].label
    for number in (1, 2, 3):
        driver.offer(label)
        driver.scheduler.lose_slot(AllocationId(f"allocation-{number}"), "no such module", 0)
    assert driver.scheduler.failure is not None
    assert "3 slots were lost before they could be used; the last: no such module" in driver.scheduler.failure.message


def test_a_lost_slot_fails_what_ran_there_and_cancels_the_rest(driver: Driver) -> None:
    driver.offer()
    driver.commands()
    driver.scheduler.lose_slot(AllocationId("allocation-1"), "its process died", 0)
    assert driver.state("first (1/2)") in ("FAILED", "CANCELED")
    assert driver.state("first (2/2)") == "CANCELING"
    assert driver.scheduler.failure is not None
    assert driver.scheduler.failure.message == (
        "the slot of c/te-1 that ran Source: numbers (1/2), first (1/2), second (1/2), Sink: out (1/2) is lost: "
        "its process died"
    )


def test_a_lost_task_executor_takes_all_its_slots_with_it(driver: Driver) -> None:
    first, second = driver.scheduler.pool.requests()
    driver.offer(first.label, task_executor=TE)
    driver.offer(second.label, task_executor=Address("c/te-2"))
    driver.commands()
    driver.scheduler.lose_task_executor(TE, "c/te-1 is lost: kill -9", 0)
    killed = [command.slot for command in driver.commands() if isinstance(command, KillSlot)]
    assert killed == ["c/te-1/slot-1"]
    assert driver.state("first (2/2)") == "CANCELING"


def test_a_task_that_does_not_stop_in_time_has_its_slot_released(driver: Driver) -> None:
    driver.offer()
    driver.scheduler.cancel(0)
    for name in set(driver.names) - {"second (2/2)"}:
        driver.report(name, "CANCELED")
    driver.commands()
    driver.scheduler.tick(CANCEL_TIMEOUT_MS - 1)
    assert driver.commands() == []
    driver.scheduler.tick(CANCEL_TIMEOUT_MS)
    released = [command for command in driver.commands() if isinstance(command, ReleaseSlot)]
    assert [command.reason for command in released] == [
        "task 'second (2/2)' did not stop within 30 s",
        "the job has ended",
    ]
    assert driver.scheduler.status is JobStatus.CANCELED


def test_missing_slots_are_reported_once_after_the_timeout(driver: Driver) -> None:
    driver.commands()
    driver.scheduler.tick(999)
    assert driver.commands() == []
    driver.scheduler.tick(1_000)
    driver.scheduler.tick(1_250)
    assert driver.commands() == [SlotsTimedOut()]
    driver.scheduler.fail_for_slots(ClusterOverview(), "they did not come", 1_300)
    assert driver.scheduler.failure is not None
    assert driver.scheduler.failure.type_name == "NoResourceAvailableError"


def test_slots_that_come_while_the_reason_is_looked_for_save_the_job(driver: Driver) -> None:
    driver.scheduler.tick(1_000)
    driver.offer()
    driver.scheduler.fail_for_slots(ClusterOverview(), "they did not come", 1_300)
    assert driver.scheduler.status is JobStatus.RUNNING


def two_groups(mode: str = "UNDEFINED") -> JobGraph:
    """source -> sink, each one subtask in a slot of its own."""
    program = Program()
    exchange = program.partition(program.source(), RebalancePartitioner(), mode)
    program.sink(exchange, slot_sharing_group="sinks")
    return program.job_graph()


def test_a_slot_is_kept_until_nobody_reads_from_it_any_more() -> None:
    driver = Driver(two_groups())
    driver.scheduler.start(0)
    driver.offer()
    driver.report("Source: numbers (1/1)", "FINISHED")
    driver.commands()
    driver.scheduler.tick(500)
    assert not any(isinstance(command, ReleaseSlot) for command in driver.commands())


def test_a_region_behind_a_blocking_result_is_scheduled_when_its_producers_have_finished() -> None:
    driver = Driver(two_groups("BATCH"))
    driver.scheduler.start(0)
    assert len(driver.scheduler.pool.requests()) == 1
    driver.offer()
    assert driver.deployed() == ["Source: numbers (1/1)"]
    assert driver.state("Sink: out (1/1)") == "CREATED"
    driver.report("Source: numbers (1/1)", "RUNNING")
    assert len(driver.scheduler.pool.unserved()) == 0
    driver.report("Source: numbers (1/1)", "FINISHED")
    driver.offer()
    assert driver.deployed() == ["Sink: out (1/1)"]
    driver.report("Sink: out (1/1)", "FINISHED")
    assert driver.scheduler.status is JobStatus.FINISHED


def test_a_slot_that_is_not_needed_goes_back_after_its_idle_timeout() -> None:
    program = Program()
    program.sink(program.source())  # one chain, which ends early
    program.sink(program.source("Source: other", slot_sharing_group="other"), "Sink: other", slot_sharing_group="other")
    driver = Driver(program.job_graph(), idle_timeout_ms=100)
    driver.scheduler.start(0)
    driver.offer()
    driver.now = 1_000
    driver.report("Source: numbers -> Sink: out (1/1)", "FINISHED")
    driver.commands()
    driver.scheduler.tick(1_099)
    assert driver.commands() == []
    driver.scheduler.tick(1_100)
    (released,) = driver.commands()
    assert isinstance(released, ReleaseSlot)
    assert released.reason == "the job has not needed it for a while"


def looks(monkeypatch: pytest.MonkeyPatch, parallelism: int, mode: str) -> float:
    """How often the state of a task is looked at, per task of a job of three stages, while they finish."""
    options = {"parallelism.default": parallelism, "execution.runtime-mode": mode}
    program = Program(options)
    mapped = program.map(program.key_by(program.source(), "k"), "map")
    program.sink(program.key_by(mapped, "k"))
    driver = Driver(program.job_graph())
    driver.scheduler.start(0)
    driver.offer()
    count = 0
    state = Execution.state.fget
    assert state is not None

    def counted(execution: Execution) -> Any:
        nonlocal count
        count += 1
        return state(execution)

    with monkeypatch.context() as patch:
        patch.setattr(Execution, "state", property(counted))
        for vertex in driver.scheduler.graph.vertices.values():
            message = TaskStateChanged(JOB, vertex.current.attempt_id, "FINISHED")
            driver.scheduler.change_task_state(message, 1)
    assert driver.scheduler.status is JobStatus.FINISHED
    return count / len(driver.scheduler.graph.vertices)


@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_the_end_of_a_task_costs_no_look_at_all_pairs_of_tasks(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    assert looks(monkeypatch, 64, mode) < 2 * 64
