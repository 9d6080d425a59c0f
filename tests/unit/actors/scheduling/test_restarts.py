"""What a job does that restarts, driven by hand."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from actors.jobs.job_metrics import JobMetrics
from actors.protocol.checkpoint_handles import TaskRestore
from actors.protocol.ports import Address
from actors.protocol.resources import AllocationId
from actors.protocol.task_messages import TaskMetrics, TaskStateChanged
from actors.scheduling.commands import (
    CancelAttempt,
    DeployTask,
    KillSlot,
    ReleaseResultPartitions,
    ReleaseSlot,
    SlotsTimedOut,
    StatusChanged,
    SubtasksReset,
)
from actors.scheduling.failover.failover_strategies import RestartAll
from actors.scheduling.failover.restart_strategies import FixedDelayRestart
from actors.scheduling.stuck_tasks import CANCEL_TIMEOUT_MS
from flinkray.errors import ConfigurationError, ErrorInfo, PartitionError
from flinkray.execution import JobStatus
from flinkray.transformations.partitioning import ForwardPartitioner, RebalancePartitioner
from flinkray.types.records import Millis
from graphs.execution_graph import ExecutionVertex
from graphs.job_graph import CheckpointSettings, JobGraph
from tests.support.control import JOB, four_vertices
from tests.support.graphs import Program
from tests.support.scheduling import TE, Driver

DELAY_MS = 100
OTHER = Address("c/te-2")


def pairs(mode: str = "PIPELINED") -> JobGraph:
    """Two subtasks of a source, each read by the sink of its own index: two slots, with two tasks in each."""
    program = Program({"parallelism.default": 2, "pipeline.operator-chaining.enabled": False})
    program.sink(program.partition(program.source(), ForwardPartitioner(), mode))
    return program.job_graph()


def running(graph: JobGraph, attempts: int = 2, **settings: object) -> Driver:
    """Everything that can be deployed runs; each TaskExecutor has one slot."""
    driver = Driver(graph, restart_strategy=FixedDelayRestart(attempts, DELAY_MS), **settings)
    driver.scheduler.start(0)
    for number, request in enumerate(driver.scheduler.pool.unserved()):
        driver.offer(request.label, task_executor=Address(f"c/te-{number + 1}"))
    run(driver)
    driver.commands()
    return driver


def run(driver: Driver) -> None:
    for name in driver.names:
        if driver.state(name) == "DEPLOYING":
            driver.report(name, "RUNNING")


@pytest.fixture
def driver() -> Iterator[Driver]:
    """Two pipelines side by side, running."""
    driver = running(pairs())
    yield driver
    driver.commands()


def test_only_the_failed_region_is_cancelled(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    commands = driver.commands()
    assert commands[0] == StatusChanged(JobStatus.RESTARTING)
    assert [type(command) for command in commands[1:]] == [CancelAttempt]
    assert driver.state("Sink: out (1/2)") == "CANCELING"
    assert driver.state("Source: numbers (2/2)") == driver.state("Sink: out (2/2)") == "RUNNING"


def test_a_restart_waits_for_both_its_delay_and_the_end_of_all_its_tasks(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.now = DELAY_MS
    driver.scheduler.tick(DELAY_MS)
    assert driver.reset() is None, "the sink has not ended"
    driver.stop_cancelled()
    reset = driver.reset()
    assert reset is not None
    assert [str(driver.scheduler.graph.vertices[each].name) for each in reset.vertices] == [
        "Source: numbers (1/2)",
        "Sink: out (1/2)",
    ]
    assert not reset.is_global


def test_a_task_that_fails_the_job_as_a_whole_restarts_all_of_it_and_counts_once() -> None:
    driver = running(pairs(), attempts=1)
    execution = next(iter(driver.scheduler.graph.executions.values()))
    error = ErrorInfo.of(ValueError("the checkpoint is damaged"))
    driver.scheduler.change_task_state(TaskStateChanged(JOB, execution.attempt_id, "FAILED", error), 0, fails_job=True)
    driver.stop_cancelled()
    driver.now = DELAY_MS
    driver.scheduler.tick(DELAY_MS)
    reset = driver.reset()
    assert reset is not None
    assert reset.is_global
    assert len(reset.vertices) == 4
    assert driver.scheduler.restarts == 1


def test_a_restart_whose_tasks_have_ended_waits_for_its_delay(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    driver.scheduler.tick(DELAY_MS - 1)
    assert driver.reset() is None
    driver.scheduler.tick(DELAY_MS)
    assert driver.reset() is not None


def test_nothing_is_deployed_before_the_reset_is_answered_and_then_the_kept_slots_are_used(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    driver.now = DELAY_MS
    driver.scheduler.tick(DELAY_MS)
    commands = driver.commands()
    assert isinstance(commands[-1], SubtasksReset)
    driver.scheduler.deploy_restarted(commands[-1].restart, driver.now)
    deployed = [command.deployment for command in driver.commands() if isinstance(command, DeployTask)]
    assert [each.task_name for each in deployed] == ["Source: numbers (1/2)", "Sink: out (1/2)"]
    assert {each.attempt_number for each in deployed} == {1}
    assert {each.allocation_id for each in deployed} == {"allocation-1"}
    assert deployed[1].gates[0].channels[0].partition_id == deployed[0].partitions[0].partition_id
    assert driver.scheduler.status is JobStatus.RUNNING
    assert driver.scheduler.restarts == 1


def test_a_task_gets_what_restore_of_gives_at_its_deployment() -> None:
    newest = 1
    asked: list[str] = []

    def restore_of(vertex: ExecutionVertex) -> TaskRestore:
        asked.append(vertex.name)
        return TaskRestore(newest, "memory")

    driver = Driver(pairs(), restart_strategy=FixedDelayRestart(1, 0), restore_of=restore_of)
    driver.scheduler.start(0)
    assert asked == [], "there are no slots yet"
    driver.offer()
    first = [command.deployment for command in driver.commands() if isinstance(command, DeployTask)]
    assert {each.restore.checkpoint_id for each in first if each.restore} == {1}
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    reset = driver.reset()
    assert reset is not None
    newest = 7  # what the reset has led to
    driver.scheduler.deploy_restarted(reset.restart, 0)
    again = [command.deployment for command in driver.commands() if isinstance(command, DeployTask)]
    assert [each.restore.checkpoint_id for each in again if each.restore] == [7, 7]
    assert len(asked) == 6


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (CheckpointSettings(interval_ms=Millis(1_000)), True),
        (CheckpointSettings(interval_ms=Millis(1_000), has_final=False), False),
        (CheckpointSettings(), False),
    ],
)
def test_tasks_are_told_whether_a_checkpoint_follows_their_data(settings: CheckpointSettings, expected: bool) -> None:
    driver = Driver(replace(pairs(), checkpoint_settings=settings))
    driver.scheduler.start(0)
    driver.offer()
    found = [c.deployment.has_checkpoints for c in driver.commands() if isinstance(c, DeployTask)]
    assert found == [expected] * 4


def test_finished_tasks_of_the_region_run_again(driver: Driver) -> None:
    driver.report("Source: numbers (1/2)", "FINISHED")
    driver.fail("Sink: out (1/2)")
    driver.now = DELAY_MS
    driver.scheduler.tick(DELAY_MS)
    assert driver.answer(driver.reset()) == ["Source: numbers (1/2)", "Sink: out (1/2)"]


@pytest.mark.parametrize("mode", ["PIPELINED", "BATCH"])
@pytest.mark.parametrize("is_late", [False, True])
def test_what_a_finished_task_has_made_and_nobody_has_read_is_released_when_it_is_to_run_again(
    mode: str, is_late: bool
) -> None:
    """Its consumer may have failed before it asked for it."""
    driver = running(pairs(mode))
    source = next(each for each in driver.scheduler.graph.vertices.values() if each.name == "Source: numbers (1/2)")
    former = source.current
    if is_late:
        driver.scheduler.fail(ErrorInfo.of(ValueError("the enumerator broke")), driver.now)
        assert not driver.report(source.name, "RUNNING")
        driver.report(source.name, "FINISHED")
        assert driver.state(source.name) == "CANCELED"
    else:
        driver.report(source.name, "FINISHED")
        driver.scheduler.fail(ErrorInfo.of(ValueError("the enumerator broke")), driver.now)
    assert releases(driver) == [], "it may still be read"
    driver.stop_cancelled()
    driver.now += DELAY_MS
    driver.scheduler.tick(driver.now)
    (release,) = releases(driver)
    assert release == ReleaseResultPartitions(TE, AllocationId("allocation-1"), former.partition_ids)


def releases(driver: Driver) -> list[ReleaseResultPartitions]:
    return [command for command in driver.commands() if isinstance(command, ReleaseResultPartitions)]


def test_a_job_whose_last_tasks_restart_has_not_finished(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    for name in ("Source: numbers (2/2)", "Sink: out (2/2)"):
        driver.report(name, "FINISHED")
    assert driver.scheduler.status is JobStatus.RESTARTING
    driver.now = DELAY_MS
    driver.scheduler.tick(DELAY_MS)
    driver.answer(driver.reset())
    for name in ("Source: numbers (1/2)", "Sink: out (1/2)"):
        driver.report(name, "FINISHED")
    assert driver.scheduler.status is JobStatus.FINISHED


def test_a_failure_while_restarting_joins_the_restart(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.now = 60
    driver.fail("Sink: out (2/2)")
    driver.stop_cancelled()
    driver.scheduler.tick(DELAY_MS)
    assert driver.reset() is None
    driver.now = 60 + DELAY_MS
    driver.scheduler.tick(driver.now)
    reset = driver.reset()
    assert reset is not None
    assert len(reset.vertices) == 4
    assert len(driver.answer(reset)) == 4
    assert driver.scheduler.restarts == 1
    (record,) = driver.scheduler.failures
    assert record.root.task_name == "Source: numbers (1/2)"
    assert [each.task_name for each in record.concurrent] == ["Sink: out (2/2)"]


def test_a_failure_after_the_reset_and_before_its_answer_makes_the_answer_stale(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    first = driver.reset()
    driver.fail("Source: numbers (2/2)")
    driver.stop_cancelled()
    assert driver.answer(first) == []
    driver.now = 2 * DELAY_MS
    driver.scheduler.tick(driver.now)
    second = driver.reset()
    assert second is not None
    assert len(second.vertices) == 4
    attempts = {vertex.name: vertex.current.attempt_number for vertex in driver.scheduler.graph.vertices.values()}
    assert set(attempts.values()) == {1}, "what has not run since its reset needs no other attempt"
    assert len(driver.answer(second)) == 4
    assert driver.answer(second) == [], "an answer counts once"


def test_an_error_of_a_task_that_is_being_cancelled_is_no_new_failure() -> None:
    driver = running(pairs(), attempts=1)
    driver.fail("Source: numbers (1/2)")
    driver.fail("Sink: out (1/2)", RuntimeError("interrupted"))
    assert driver.state("Sink: out (1/2)") == "FAILED"
    assert driver.scheduler.status is JobStatus.RESTARTING
    (record,) = driver.scheduler.failures
    assert record.concurrent[0].error.message == "interrupted"


def test_the_job_fails_with_the_failure_that_the_strategy_does_not_survive() -> None:
    driver = running(pairs(), attempts=1)
    driver.fail("Source: numbers (1/2)", ValueError("first"))
    driver.fail("Source: numbers (2/2)", ValueError("second"))
    assert driver.scheduler.status is JobStatus.FAILING
    driver.stop_cancelled()
    assert driver.scheduler.status is JobStatus.FAILED
    assert driver.scheduler.failure is not None
    assert driver.scheduler.failure.message == "second"
    assert [record.decision.split(":")[0] for record in driver.scheduler.failures] == ["restarts after 0.1 s", "fails"]


def test_what_cannot_be_recovered_fails_the_job_at_once(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)", ConfigurationError("no such option"))
    assert driver.scheduler.status is JobStatus.FAILING


def test_the_reason_of_a_complaint_decides_whether_the_job_goes_on(driver: Driver) -> None:
    driver.fail("Sink: out (1/2)", PartitionError("its producer is gone"))
    assert driver.scheduler.status is JobStatus.RESTARTING
    driver.fail("Source: numbers (1/2)", ConfigurationError("no such option"))
    assert driver.scheduler.status is JobStatus.FAILING
    assert driver.scheduler.failure is not None
    assert driver.scheduler.failure.message == "no such option"


def test_a_failure_of_the_job_as_a_whole_restarts_everything_with_new_coordinators(driver: Driver) -> None:
    driver.report("Source: numbers (1/2)", "FINISHED")
    driver.scheduler.fail(ErrorInfo.of(ValueError("the enumerator broke")), 0)
    driver.stop_cancelled()
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    reset = driver.reset()
    assert reset is not None
    assert reset.is_global
    assert len(driver.answer(reset)) == 4


def test_a_global_failure_during_a_restart_makes_it_global(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    driver.scheduler.fail(ErrorInfo.of(ValueError("the enumerator broke")), 0)
    driver.stop_cancelled()
    driver.scheduler.tick(DELAY_MS)
    reset = driver.reset()
    assert reset is not None
    assert reset.is_global


def test_full_failover_restarts_everything_and_keeps_the_coordinators() -> None:
    driver = running(pairs(), failover_strategy=RestartAll)
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    driver.scheduler.tick(DELAY_MS)
    reset = driver.reset()
    assert reset is not None
    assert (len(reset.vertices), reset.is_global) == (4, False)


def test_cancelling_while_restarting_ends_the_job(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.scheduler.cancel(0)
    driver.stop_cancelled()
    assert driver.scheduler.status is JobStatus.CANCELED


def test_cancelling_between_reset_and_answer_deploys_nothing(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    reset = driver.reset()
    driver.scheduler.cancel(driver.now)
    driver.stop_cancelled()
    assert driver.scheduler.status is JobStatus.CANCELED
    assert driver.answer(reset) == []


def test_reports_of_past_attempts_change_nothing(driver: Driver) -> None:
    past = next(iter(driver.scheduler.graph.vertices.values())).current.attempt_id
    driver.fail("Source: numbers (1/2)")
    driver.stop_cancelled()
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    driver.answer(driver.reset())
    for state in ("RUNNING", "FINISHED", "FAILED", "CANCELED"):
        assert not driver.scheduler.change_task_state(TaskStateChanged(JOB, past, state), driver.now)
    assert driver.scheduler.status is JobStatus.RUNNING


# -- slots -------------------------------------------------------------------------------------------------------


def test_a_lost_slot_is_asked_for_again_and_the_others_are_kept() -> None:
    driver = running(four_vertices())
    driver.scheduler.lose_slot(AllocationId("allocation-1"), "kill -9", 0)
    driver.stop_cancelled()
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    assert driver.answer(driver.reset()) == [], "one slot is missing"
    assert driver.scheduler.status is JobStatus.RESTARTING
    assert len(driver.scheduler.pool.unserved()) == 1
    driver.offer()
    assert len(driver.deployed()) == 8
    assert driver.scheduler.status is JobStatus.RUNNING


def test_all_tasks_of_a_lost_task_executor_are_one_failure() -> None:
    driver = running(pairs(), attempts=1)
    driver.scheduler.lose_task_executor(Address("c/te-1"), "its node is gone", 0)
    assert driver.scheduler.status is JobStatus.RESTARTING
    (record,) = driver.scheduler.failures
    assert len(record.concurrent) == 1
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    driver.answer(driver.reset())
    driver.offer()
    assert driver.deployed() == ["Source: numbers (1/2)", "Sink: out (1/2)"]


def test_a_slot_lost_while_its_tasks_are_cancelled_ends_them() -> None:
    driver = running(pairs(), attempts=1)
    driver.fail("Source: numbers (1/2)")
    driver.scheduler.lose_slot(AllocationId("allocation-1"), "kill -9", 0)
    assert driver.state("Sink: out (1/2)") == "CANCELED"
    assert driver.scheduler.status is JobStatus.RESTARTING


def test_a_slot_that_comes_while_restarting_is_kept_for_the_restart(driver: Driver) -> None:
    driver.scheduler.lose_slot(AllocationId("allocation-1"), "kill -9", 0)
    driver.offer()
    assert driver.deployed() == []
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    assert driver.answer(driver.reset()) == ["Source: numbers (1/2)", "Sink: out (1/2)"]


def test_a_task_that_does_not_stop_has_its_slot_killed_and_the_restart_goes_on(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.now = CANCEL_TIMEOUT_MS - 1
    driver.scheduler.tick(driver.now)
    assert driver.commands()[2:] == []
    driver.now = CANCEL_TIMEOUT_MS
    driver.scheduler.tick(driver.now)
    commands = driver.commands()
    released = [command for command in commands if isinstance(command, ReleaseSlot)]
    assert [command.reason for command in released] == ["task 'Sink: out (1/2)' did not stop within 30 s"]
    (reset,) = [command for command in commands if isinstance(command, SubtasksReset)]
    driver.scheduler.deploy_restarted(reset.restart, driver.now)
    driver.offer()
    assert driver.deployed() == ["Source: numbers (1/2)", "Sink: out (1/2)"]


def test_the_time_to_stop_counts_from_each_tasks_own_cancellation(driver: Driver) -> None:
    driver.fail("Source: numbers (1/2)")
    driver.now = 20_000
    driver.fail("Source: numbers (2/2)")
    driver.scheduler.tick(CANCEL_TIMEOUT_MS)
    assert driver.state("Sink: out (1/2)") == "CANCELED"
    assert driver.state("Sink: out (2/2)") == "CANCELING"


def test_what_else_runs_in_a_slot_that_is_killed_restarts_as_well() -> None:
    driver = running(pairs("BATCH"))
    # The source of each pair is a region of its own; the sinks wait for them in the same slots.
    driver.report("Source: numbers (1/2)", "FINISHED")
    run(driver)
    driver.report("Source: numbers (2/2)", "FINISHED")
    run(driver)
    driver.fail("Sink: out (1/2)")
    assert driver.state("Sink: out (2/2)") == "RUNNING"
    driver.scheduler.lose_task_executor(OTHER, "its node is gone", 0)
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    reset = driver.reset()
    assert reset is not None
    # The first source's result is still there, that of the second went with its slot.
    names = [driver.scheduler.graph.vertices[each].name for each in reset.vertices]
    assert names == ["Source: numbers (2/2)", "Sink: out (1/2)", "Sink: out (2/2)"]


def test_a_result_that_its_consumer_cannot_read_is_made_again() -> None:
    driver = running(pairs("BATCH"))
    driver.report("Source: numbers (1/2)", "FINISHED")
    run(driver)
    source = driver.scheduler.graph.executions
    (partition,) = next(e for e in source.values() if e.vertex.name == "Source: numbers (1/2)").partition_ids
    error = PartitionError("the object is lost")
    error.partition_id = partition
    driver.fail("Sink: out (1/2)", error)
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    assert driver.answer(driver.reset()) == ["Source: numbers (1/2)"]
    run(driver)
    driver.report("Source: numbers (1/2)", "FINISHED")
    assert driver.deployed() == ["Sink: out (1/2)"]


def test_a_consumer_that_fails_by_itself_reads_the_same_result_again() -> None:
    driver = running(pairs("BATCH"))
    driver.report("Source: numbers (1/2)", "FINISHED")
    driver.fail("Sink: out (1/2)")
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    assert driver.answer(driver.reset()) == ["Sink: out (1/2)"]


def test_a_consumer_is_not_scheduled_while_another_of_its_producers_restarts() -> None:
    program = Program({"parallelism.default": 2, "pipeline.operator-chaining.enabled": False})
    program.sink(program.partition(program.source(), RebalancePartitioner(), "BATCH"), parallelism=1)
    driver = running(program.job_graph())
    driver.report("Source: numbers (1/2)", "FINISHED")
    driver.fail("Source: numbers (2/2)")
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    assert driver.answer(driver.reset()) == ["Source: numbers (2/2)"]
    run(driver)
    driver.report("Source: numbers (2/2)", "FINISHED")
    assert driver.deployed() == ["Sink: out (1/1)"]


def test_a_message_that_does_not_reach_its_slot_gives_the_slot_up(driver: Driver) -> None:
    driver.scheduler.give_up_slot(AllocationId("allocation-1"), "SubmitTask was lost", 0)
    commands = driver.commands()
    assert ReleaseSlot(TE, AllocationId("allocation-1"), "SubmitTask was lost") in commands
    assert KillSlot(Address("c/te-1/slot-1")) in commands
    assert driver.state("Source: numbers (1/2)") == "FAILED"
    assert driver.scheduler.status is JobStatus.RESTARTING
    driver.scheduler.give_up_slot(AllocationId("allocation-1"), "CancelTask was lost", 0)
    assert driver.commands() == []


def test_slots_that_die_unused_are_one_failure_for_the_strategy() -> None:
    driver = Driver(four_vertices(), restart_strategy=FixedDelayRestart(1, DELAY_MS))
    driver.scheduler.start(0)
    label = driver.scheduler.pool.requests()[0].label

    def lose_three() -> None:
        for _ in range(3):
            driver.offer(label)
            driver.scheduler.lose_slot(AllocationId(f"allocation-{driver.offered}"), "no such module", driver.now)

    lose_three()
    assert driver.scheduler.status is JobStatus.RESTARTING
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    driver.answer(driver.reset())
    lose_three()
    assert driver.scheduler.status is JobStatus.FAILED
    assert driver.scheduler.failure is not None
    assert "3 slots were lost before they could be used" in driver.scheduler.failure.message


def test_used_slots_lost_while_a_restart_waits_for_its_slots_are_not_counted() -> None:
    driver = running(four_vertices(), attempts=9)
    for number in range(4):
        driver.now += DELAY_MS
        driver.scheduler.lose_slot(AllocationId(f"allocation-{2 * number + 1}"), "kill -9", driver.now)
        driver.stop_cancelled()
        driver.now += DELAY_MS
        driver.scheduler.tick(driver.now)
        driver.answer(driver.reset())
        driver.scheduler.lose_slot(AllocationId(f"allocation-{2 * number + 2}"), "kill -9", driver.now)
        driver.offer()
        run(driver)
    assert driver.scheduler.status is JobStatus.RUNNING
    assert driver.scheduler.restarts == 4


def test_slots_that_do_not_come_for_a_restart_are_a_failure_of_what_waits_for_them() -> None:
    """The restart strategy decides: a node that was lost may be replaced later."""
    driver = running(pairs(), attempts=2)
    driver.scheduler.lose_slot(AllocationId("allocation-1"), "kill -9", 0)
    driver.scheduler.tick(5_000)
    driver.now = 5_000
    driver.answer(driver.reset())
    driver.scheduler.tick(5_999)
    assert driver.commands() == []
    driver.scheduler.tick(6_000)
    assert driver.commands() == [SlotsTimedOut()]
    driver.scheduler.fail_for_slots(None, "they did not come", 6_001, is_timeout=True)
    assert driver.scheduler.status is JobStatus.RESTARTING
    assert not [each for each in driver.commands() if isinstance(each, CancelAttempt)], "the other pair runs on"
    driver.now = 6_001 + DELAY_MS
    driver.scheduler.tick(driver.now)
    driver.answer(driver.reset())
    driver.now += 1_000
    driver.scheduler.tick(driver.now)
    driver.scheduler.fail_for_slots(None, "they did not come", driver.now, is_timeout=True)
    assert driver.scheduler.status is JobStatus.FAILING
    assert driver.scheduler.failure is not None
    assert driver.scheduler.failure.type_name == "NoResourceAvailableError"


def test_a_job_that_has_run_under_another_job_master_waits_for_its_slots_as_its_restart_strategy_says() -> None:
    driver = Driver(pairs(), restart_strategy=FixedDelayRestart(1, DELAY_MS), has_run=True)
    driver.scheduler.start(0)
    driver.scheduler.tick(1_000)
    driver.scheduler.fail_for_slots(None, "they did not come", 1_000, is_timeout=True)
    assert driver.scheduler.status is JobStatus.RESTARTING


def test_a_job_that_never_had_all_its_slots_fails_without_them_whatever_its_restart_strategy_says() -> None:
    driver = Driver(pairs(), restart_strategy=FixedDelayRestart(9, DELAY_MS))
    driver.scheduler.start(0)
    driver.offer(driver.scheduler.pool.unserved()[0].label)
    driver.scheduler.tick(1_000)
    driver.scheduler.fail_for_slots(None, "they did not come", 1_000, is_timeout=True)
    assert driver.scheduler.status is JobStatus.FAILING


def test_an_answer_about_slots_that_were_waited_for_before_a_restart_does_not_fail_it() -> None:
    driver = Driver(four_vertices(), restart_strategy=FixedDelayRestart(1, 0))
    driver.scheduler.start(0)
    driver.scheduler.tick(1_000)
    assert driver.commands()[-1] == SlotsTimedOut()
    driver.now = 1_100
    driver.scheduler.fail(ErrorInfo.of(ValueError("the enumerator broke")), driver.now)
    driver.answer(driver.reset())
    driver.scheduler.fail_for_slots(None, "they did not come", 1_200, is_timeout=True)
    assert driver.scheduler.status is JobStatus.RESTARTING
    driver.scheduler.tick(2_100)
    assert driver.commands() == [SlotsTimedOut()]


def test_the_slots_of_a_restart_are_not_given_back_while_it_waits() -> None:
    driver = running(pairs(), idle_timeout_ms=1)
    driver.report("Source: numbers (1/2)", "FINISHED")
    driver.fail("Sink: out (1/2)")
    driver.scheduler.tick(DELAY_MS - 1)
    assert not any(isinstance(command, ReleaseSlot) for command in driver.commands())


def test_an_idle_slot_takes_the_place_of_a_lost_one_at_once() -> None:
    driver = running(pairs(), idle_timeout_ms=10**9)
    for name in ("Source: numbers (1/2)", "Sink: out (1/2)"):
        driver.report(name, "FINISHED")
    driver.scheduler.lose_slot(AllocationId("allocation-2"), "kill -9", 0)
    driver.now = DELAY_MS
    driver.scheduler.tick(driver.now)
    assert driver.answer(driver.reset()) == ["Source: numbers (2/2)", "Sink: out (2/2)"]


def test_figures_of_attempts_that_are_over_are_not_kept() -> None:
    class Values(dict[str, int | float]):
        """A dict that shows whether it is still there."""

    driver = Driver(pairs(), restart_strategy=FixedDelayRestart(9, 0))
    driver.scheduler.start(0)
    driver.offer()
    metrics = JobMetrics(driver.scheduler.graph)
    subtask = next(iter(driver.scheduler.graph.vertices.values()))
    kept = []
    for rows in range(1, 5):
        driver.report(subtask.name, "INITIALIZING", "RUNNING")
        values = Values(rows=rows)
        kept.append(weakref.ref(values))
        metrics.report({subtask.current.attempt_id: TaskMetrics(records_in=rows, accumulators=values)}, now=rows)
        del values
        assert metrics.of(subtask).records_in == rows
        driver.fail(subtask.name)
        driver.stop_cancelled()
        driver.scheduler.tick(0)
        driver.answer(driver.reset())
        assert metrics.of(subtask).records_in == 0, "the new attempt has reported nothing"
    assert [each() for each in kept[:-1]] == [None] * 3
