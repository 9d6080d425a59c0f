"""Stages: each begins when what it reads is complete, in slots that served the stage before."""

from __future__ import annotations

import random
from typing import Any

import pytest

from actors.protocol.resources import AllocationId, ClusterOverview, ResourceProfile
from actors.scheduling.commands import DeclareSlots, DeployTask, ReleaseResultPartitions, ReleaseSlot, SlotsTimedOut
from actors.scheduling.failover.restart_strategies import FixedDelayRestart
from flinkray.errors import ErrorInfo, PartitionError
from flinkray.execution import JobStatus
from graphs.job_graph import JobGraph
from tests.support.graphs import Program
from tests.support.scheduling import Driver

FINISHED = ("INITIALIZING", "RUNNING", "FINISHED")


def three_stages(parallelism: int = 4) -> JobGraph:
    """Source: numbers, then map, then Sink: out, with a hash exchange before each."""
    program = Program({"parallelism.default": parallelism, "execution.runtime-mode": "batch"})
    mapped = program.map(program.key_by(program.source(), "k"), "map")
    program.sink(program.key_by(mapped, "k"))
    return program.job_graph()


def started(graph: JobGraph, **settings: Any) -> Driver:
    driver = Driver(graph, **settings)
    driver.scheduler.start(0)
    return driver


def released(driver: Driver) -> list[str]:
    commands = [each for each in driver.commands() if isinstance(each, ReleaseResultPartitions)]
    return sorted(partition_id for each in commands for partition_id in each.partition_ids)


def run(driver: Driver, names: list[str]) -> None:
    for name in names:
        driver.report(name, *FINISHED)


def test_a_stage_begins_when_the_one_before_has_finished_in_the_same_slots() -> None:
    driver = started(three_stages())
    driver.offer()
    for stage in ("Source: numbers", "map", "Sink: out"):
        names = [f"{stage} ({index}/4)" for index in (1, 2, 3, 4)]
        assert driver.deployed() == names
        run(driver, names[:3])
        assert driver.deployed() == [], "a result was not complete"
        driver.report(names[3], *FINISHED)
        driver.scheduler.check()
    assert driver.offered == 4
    assert driver.scheduler.status is JobStatus.FINISHED


def test_fewer_slots_than_subtasks_run_one_after_another() -> None:
    driver = started(three_stages())
    driver.offer(*[request.label for request in driver.scheduler.pool.unserved()][:1])
    order = []
    for _ in range(12):
        (name,) = driver.deployed()
        order.append(name)
        driver.report(name, *FINISHED)
    assert driver.scheduler.status is JobStatus.FINISHED
    stages = [name.partition(" (")[0] for name in order]
    assert stages == [stage for stage in ("Source: numbers", "map", "Sink: out") for _ in range(4)]
    assert len(set(order)) == 12


def test_a_job_that_makes_progress_waits_for_slots_for_longer_than_the_timeout() -> None:
    driver = started(three_stages(2))
    driver.offer(*[request.label for request in driver.scheduler.pool.unserved()][:1])
    (name,) = driver.deployed()
    driver.report(name, "INITIALIZING", "RUNNING")
    driver.now = 5_000
    driver.scheduler.tick(driver.now)
    assert SlotsTimedOut() not in driver.commands()
    driver.scheduler.cancel(driver.now)
    assert driver.scheduler.status is JobStatus.CANCELLING


def test_a_job_that_gets_no_slot_at_all_does_not_wait_for_ever() -> None:
    driver = started(three_stages(2))
    driver.scheduler.tick(999)
    assert SlotsTimedOut() not in driver.commands()
    driver.scheduler.tick(1_000)
    assert SlotsTimedOut() in driver.commands()
    driver.scheduler.fail_for_slots(None, "they did not come", 1_000, is_timeout=True)
    assert driver.scheduler.status is JobStatus.FAILED


def test_a_cluster_that_has_room_for_one_region_is_large_enough() -> None:
    driver = started(three_stages(2))
    overview = ClusterOverview(1, 0, 1, 1, 1.0, 1, ResourceProfile(1.0), total_cpus=1.0)
    driver.scheduler.fail_for_slots(overview, "its TaskExecutors take 2 CPUs, and the cluster has 1", 0)
    assert driver.scheduler.status is JobStatus.RUNNING
    none = ClusterOverview(0, 0, 0, 0, 0.0, 1, ResourceProfile(1.0), total_cpus=0.5)
    driver.scheduler.fail_for_slots(none, "it takes more than there is", 0)
    assert driver.scheduler.status is JobStatus.FAILED


def test_workers_that_do_not_come_up_at_all_fail_a_job_that_could_do_with_fewer() -> None:
    driver = started(three_stages(2))
    overview = ClusterOverview(0, 1, 0, 0, 0.0, 1, ResourceProfile(1.0), total_cpus=8.0)
    driver.scheduler.fail_for_slots(overview, "3 TaskExecutors died: no such module", 0, is_about_starts=True)
    assert driver.scheduler.status is JobStatus.FAILED
    assert driver.scheduler.failure is not None
    assert "no such module" in driver.scheduler.failure.message


def test_a_job_that_does_not_wait_for_slots_does_not_mind_workers_that_do_not_come_up() -> None:
    driver = started(three_stages(2))
    driver.offer()
    driver.scheduler.fail_for_slots(ClusterOverview(), "3 TaskExecutors died", 0, is_about_starts=True)
    assert driver.scheduler.status is JobStatus.RUNNING


def test_results_are_released_when_all_that_read_them_have_finished() -> None:
    driver = started(three_stages(2))
    driver.offer()
    run(driver, driver.deployed())
    (first, second) = driver.deployed()
    driver.report(first, *FINISHED)
    assert released(driver) == []
    driver.report(second, *FINISHED)
    sources = [vertex for vertex in driver.scheduler.graph.vertices.values() if vertex.name.startswith("Source")]
    assert released(driver) == sorted(each for vertex in sources for each in vertex.current.partition_ids)


def test_a_slot_that_holds_results_is_not_given_back_while_it_is_idle() -> None:
    driver = started(three_stages(2), idle_timeout_ms=100)
    driver.offer()
    first, second = driver.deployed()
    driver.report(first, *FINISHED)
    driver.now = 1_000
    driver.scheduler.tick(driver.now)
    assert not any(isinstance(command, ReleaseSlot) for command in driver.commands())
    driver.report(second, *FINISHED)
    assert driver.deployed() == ["map (1/2)", "map (2/2)"]


def test_a_slot_whose_task_has_finished_is_asked_for_again_only_by_the_next_stage() -> None:
    driver = started(three_stages(2))
    driver.offer()
    first, _ = driver.deployed()
    driver.report(first, *FINISHED)
    (declared,) = [command for command in driver.commands() if isinstance(command, DeclareSlots)]
    assert len(declared.requests) == 1


def test_a_failure_restarts_its_own_region_and_those_that_read_from_it_only() -> None:
    driver = started(three_stages(2), restart_strategy=FixedDelayRestart(3, 0))
    driver.offer()
    run(driver, driver.deployed())
    driver.commands()
    driver.report("map (1/2)", "INITIALIZING", "RUNNING")
    driver.report("map (2/2)", *FINISHED)
    driver.fail("map (1/2)")
    driver.scheduler.tick(driver.now)
    reset = driver.reset()
    assert reset is not None
    names = [driver.scheduler.graph.vertices[vertex].name for vertex in reset.vertices]
    # The sinks have not run, and have no new attempt; they are there because they read from it.
    assert names == ["map (1/2)", "Sink: out (1/2)", "Sink: out (2/2)"]
    assert driver.answer(reset) == ["map (1/2)"]
    run(driver, ["map (1/2)"])
    assert driver.deployed() == ["Sink: out (1/2)", "Sink: out (2/2)"]
    run(driver, ["Sink: out (1/2)", "Sink: out (2/2)"])
    assert driver.scheduler.status is JobStatus.FINISHED


def test_a_slot_that_is_lost_with_results_has_them_made_again() -> None:
    driver = started(three_stages(2), restart_strategy=FixedDelayRestart(3, 0))
    driver.offer()
    run(driver, driver.deployed())
    running = driver.deployed()
    for name in running:
        driver.report(name, "INITIALIZING", "RUNNING")
    driver.scheduler.lose_slot(AllocationId("allocation-1"), "its process died", driver.now)
    driver.stop_cancelled()
    driver.scheduler.tick(driver.now)
    # In the slot that is left.
    assert driver.answer(driver.reset()) == ["Source: numbers (1/2)"]
    run(driver, ["Source: numbers (1/2)"])
    assert driver.deployed() == ["map (1/2)"]
    driver.offer()
    assert driver.deployed() == ["map (2/2)"]


def test_a_result_that_cannot_be_read_is_made_again_and_the_former_one_released() -> None:
    driver = started(three_stages(2), restart_strategy=FixedDelayRestart(3, 0))
    driver.offer()
    run(driver, driver.deployed())
    for name in driver.deployed():
        driver.report(name, "INITIALIZING", "RUNNING")
    source = next(v for v in driver.scheduler.graph.vertices.values() if v.name == "Source: numbers (2/2)")
    (lost,) = source.current.partition_ids
    error = PartitionError("its file is gone")
    error.partition_id = lost
    driver.report("map (1/2)", "FAILED", error=ErrorInfo.of(error))
    driver.stop_cancelled()
    driver.scheduler.tick(driver.now)
    commands = driver.commands()
    assert [each.partition_ids for each in commands if isinstance(each, ReleaseResultPartitions)] == [(lost,)]
    assert source.current.attempt_number == 1


@pytest.mark.parametrize("seed", range(15))
def test_any_number_of_slots_and_any_failures_bring_a_job_to_its_end(seed: int) -> None:
    chance = random.Random(seed)
    driver = started(three_stages(chance.randint(1, 4)), restart_strategy=FixedDelayRestart(100, 10))
    held: set[str] = set()
    running: list[str] = []
    for _ in range(2_000):
        if driver.scheduler.status.is_terminal:
            break
        for command in driver.commands():
            if isinstance(command, DeployTask):
                running.append(command.deployment.task_name)
                held.update(str(each.partition_id) for each in command.deployment.partitions)
                for gate in command.deployment.gates:
                    gone = [each.partition_id for each in gate.channels if each.partition_id not in held]
                    assert not gone, f"seed {seed}: it reads what was released"
            elif isinstance(command, ReleaseResultPartitions):
                held.difference_update(command.partition_ids)
        driver.now += 5
        driver.scheduler.tick(driver.now)
        driver.stop_cancelled()
        if len(driver.scheduler.pool.slots()) < 2 and driver.scheduler.pool.unserved():
            driver.offer(driver.scheduler.pool.unserved()[0].label)
        reset = driver.scheduler._restarts.pending
        if reset is not None and reset.is_reset:
            driver.scheduler.deploy_restarted(reset.number, driver.now)
        live = [name for name in running if driver.state(name) in ("DEPLOYING", "RUNNING")]
        running = live
        if live:
            name = chance.choice(live)
            if chance.random() < 0.05:
                driver.fail(name)
            elif chance.random() < 0.05:
                slots = driver.scheduler.pool.slots()
                driver.scheduler.lose_slot(chance.choice(slots).allocation_id, "kill -9", driver.now)
            else:
                driver.report(name, *FINISHED)
    assert driver.scheduler.status is JobStatus.FINISHED, f"seed {seed}: {driver.scheduler.status}"
