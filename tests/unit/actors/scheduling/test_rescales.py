"""What a job does that gets another parallelism, driven by hand."""

from __future__ import annotations

from actors.scheduling.commands import DeclareSlots, SlotsTimedOut
from actors.scheduling.failover.restart_strategies import FixedDelayRestart, NoRestart
from flinkray.execution import JobStatus
from graphs.rescaling import Parallelisms
from tests.support.scheduling import Driver
from tests.unit.actors.scheduling.test_restarts import pairs, run

ATTEMPTS = FixedDelayRestart(5, 100)


def running(restart_strategy: FixedDelayRestart | NoRestart = ATTEMPTS) -> Driver:
    """A source and a sink with two subtasks each, in two slots."""
    driver = Driver(pairs(), restart_strategy=restart_strategy)
    driver.scheduler.start(0)
    driver.offer()
    run(driver)
    driver.commands()
    return driver


def all_with(driver: Driver, parallelism: int) -> Parallelisms:
    return dict.fromkeys(driver.scheduler.graph.job_vertices, parallelism)


def rescale(driver: Driver, parallelism: int) -> list[str]:
    """The names of what is deployed then, with the slots that there are."""
    driver.stop_cancelled()
    reset = driver.reset()
    assert reset is not None
    assert reset.is_global
    driver.scheduler.rescale(all_with(driver, parallelism), driver.now)
    return driver.answer(reset)


def test_more_slots_are_asked_for_while_the_job_runs_and_used_after() -> None:
    driver = running()
    driver.scheduler.ask_for_room(driver.scheduler.graph.rescaled(all_with(driver, 3)), 0)
    (declared,) = (each for each in driver.commands() if isinstance(each, DeclareSlots))
    assert len(declared.requests) == 3
    assert driver.scheduler.room.missing == 1
    driver.offer()
    assert (driver.scheduler.room.missing, driver.scheduler.status) == (0, JobStatus.RUNNING)
    driver.scheduler.restart(0)
    assert driver.scheduler.status is JobStatus.RESTARTING
    assert len(rescale(driver, 3)) == 6
    run(driver)
    assert driver.scheduler.status is JobStatus.RUNNING
    assert len({each.allocation_id for each in driver.scheduler.graph.executions.values()}) == 3
    assert driver.scheduler.failures == ()


def test_slots_that_are_not_needed_any_more_are_given_back() -> None:
    driver = running()
    driver.scheduler.restart(0)
    assert len(rescale(driver, 1)) == 2
    assert len(driver.scheduler.pool.requests()) == 1
    driver.now = 1_000
    driver.scheduler.tick(1_000)
    assert len(driver.scheduler.pool.slots()) == 1


def test_room_that_does_not_come_in_time_disturbs_nothing() -> None:
    driver = running()
    driver.scheduler.ask_for_room(driver.scheduler.graph.rescaled(all_with(driver, 3)), 0)
    driver.commands()
    driver.now = 1_000
    driver.scheduler.tick(1_000)
    assert any(isinstance(each, SlotsTimedOut) for each in driver.commands())
    driver.scheduler.fail_for_slots(None, "they did not come", 1_000, is_timeout=True)
    assert driver.scheduler.room.error is not None
    assert driver.scheduler.status is JobStatus.RUNNING
    assert len(driver.scheduler.pool.requests()) == 2


def test_what_restarts_has_the_slots_that_were_to_be_for_a_rescale() -> None:
    driver = running()
    driver.scheduler.ask_for_room(driver.scheduler.graph.rescaled(all_with(driver, 3)), 0)
    driver.offer()
    lost = next(iter(driver.scheduler.graph.executions.values())).allocation_id
    driver.scheduler.lose_slot(lost, "its process died", 0)
    driver.stop_cancelled()
    driver.now = 100
    driver.scheduler.tick(100)
    assert len(driver.answer(driver.reset())) == 2


def test_a_task_that_fails_while_it_is_cancelled_for_a_rescale_is_no_failure() -> None:
    driver = running(NoRestart())
    driver.scheduler.restart(0)
    driver.fail("Source: numbers (1/2)")
    assert driver.scheduler.failures == ()
    assert len(rescale(driver, 1)) == 2


def test_a_slot_that_is_lost_while_a_rescale_is_under_way_is_a_failure_of_its_own() -> None:
    driver = running()
    driver.scheduler.restart(0)
    driver.stop_cancelled()
    reset = driver.reset()
    assert reset is not None
    driver.scheduler.rescale(all_with(driver, 3), 0)
    driver.answer(reset)
    driver.offer()
    lost = next(iter(driver.scheduler.graph.executions.values())).allocation_id
    driver.scheduler.lose_slot(lost, "its process died", 0)
    assert [record.decision.split(":")[0] for record in driver.scheduler.failures] == ["restarts after 0.1 s"]
