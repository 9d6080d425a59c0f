"""A coordinator in a thread of its own: what it sends, when that arrives, and for whom it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.coordinators.job_coordinators import JobCoordinators
from actors.coordinators.threaded import CLOSE_TIMEOUT_MS, ThreadedCoordinator
from flinkray.types.records import OperatorId
from tests.support.coordinator_threads import Echo, SteppedThreads


@pytest.fixture
def job_master() -> SteppedThreads:
    return SteppedThreads()


@pytest.fixture
def coordinator(job_master: SteppedThreads) -> ThreadedCoordinator:
    coordinator = ThreadedCoordinator("echo", job_master, Echo)
    coordinator.start()
    return coordinator


def echo_of(coordinator: ThreadedCoordinator) -> Echo:
    assert isinstance(coordinator._coordinator, Echo)
    return coordinator._coordinator


def test_nothing_of_the_coordinator_runs_in_the_thread_that_calls(
    job_master: SteppedThreads, coordinator: ThreadedCoordinator
) -> None:
    coordinator.handle_event(0, "a")
    coordinator.close()
    job_master.act()
    assert echo_of(coordinator).told == job_master.sent == []


def test_what_it_sends_arrives_in_order(job_master: SteppedThreads, coordinator: ThreadedCoordinator) -> None:
    for number in range(4):
        coordinator.handle_event(number % 2, number)
    job_master.settle()
    assert job_master.sent == [(0, 0), (1, 1), (0, 2), (1, 3)]


def test_what_is_called_later_runs_in_its_thread(job_master: SteppedThreads, coordinator: ThreadedCoordinator) -> None:
    coordinator.handle_event(0, "later")
    job_master.settle()
    job_master.time.advance(10)
    job_master.act()
    assert job_master.sent == []
    job_master.settle()
    assert job_master.sent == [(0, "it is later")]


def test_what_it_sends_after_its_snapshot_waits_for_the_barriers(
    job_master: SteppedThreads, coordinator: ThreadedCoordinator
) -> None:
    states: list[Any] = []
    coordinator.handle_event(0, "before")
    coordinator.begin_snapshot(7, states.append)
    coordinator.handle_event(0, "behind")
    job_master.settle()
    assert states == [b"state 7"]
    assert job_master.sent == [(0, "before")]
    coordinator.end_snapshot()
    coordinator.handle_event(0, "later than that")
    job_master.settle()
    assert job_master.sent == [(0, "before"), (0, "behind"), (0, "later than that")]


def test_the_snapshot_of_a_checkpoint_that_was_given_up_holds_nothing_back(
    job_master: SteppedThreads, coordinator: ThreadedCoordinator
) -> None:
    states: list[Any] = []
    coordinator.begin_snapshot(7, states.append)
    coordinator.end_snapshot()
    coordinator.handle_event(0, "a")
    job_master.settle()
    assert states == []
    assert job_master.sent == [(0, "a")]


def test_what_is_sent_to_an_attempt_that_has_ended_does_not_reach_the_next_one(
    job_master: SteppedThreads, coordinator: ThreadedCoordinator
) -> None:
    coordinator.handle_event(0, "for the first")
    coordinator.handle_event(1, "for another subtask")
    while job_master.loops[0].step():
        pass
    coordinator.subtask_failed(0, 3)
    job_master.act()
    assert job_master.sent == [(1, "for another subtask")]
    coordinator.handle_event(0, "for the second")
    job_master.settle()
    assert echo_of(coordinator).told == ["start", ("failed", 0, 3)]
    assert job_master.sent == [(1, "for another subtask"), (0, "for the second")]


def test_what_is_held_back_for_an_attempt_that_ends_meanwhile_is_dropped(
    job_master: SteppedThreads, coordinator: ThreadedCoordinator
) -> None:
    coordinator.begin_snapshot(7, lambda _: None)
    coordinator.handle_event(0, "a")
    job_master.settle()
    coordinator.subtask_failed(0, None)
    coordinator.end_snapshot()
    job_master.settle()
    assert job_master.sent == []


def test_what_it_raises_fails_the_job_unless_it_was_closed_before(
    job_master: SteppedThreads, coordinator: ThreadedCoordinator
) -> None:
    coordinator.handle_event(0, "raise")
    job_master.settle()
    assert job_master.failures == ["a bad event"]
    coordinator.handle_event(0, "raise")
    assert job_master.loops[0].step()
    coordinator.close()
    job_master.settle()
    assert job_master.failures == ["a bad event"]


def test_its_end_leaves_out_what_waits_and_is_told_when_it_is_closed(
    job_master: SteppedThreads, coordinator: ThreadedCoordinator
) -> None:
    closed: list[str] = []
    job_master.settle()
    coordinator.handle_event(0, "too late")
    coordinator.close_then(lambda: closed.append("closed"))
    coordinator.handle_event(0, "later still")
    assert closed == []
    job_master.settle()
    assert closed == ["closed"]
    assert echo_of(coordinator).told == ["start", "close"]
    assert job_master.sent == []
    assert job_master.loops[0].is_done


@pytest.mark.parametrize("does_hang", [False, True])
def test_one_that_takes_anothers_place_begins_when_that_is_closed_or_hangs_for_long(
    job_master: SteppedThreads, coordinator: ThreadedCoordinator, does_hang: bool
) -> None:
    coordinator.close()
    successor = ThreadedCoordinator("echo", job_master, Echo)
    successor.start_after(coordinator)
    former, later = job_master.loops
    assert not later.step()
    if does_hang:
        job_master.time.advance(int(CLOSE_TIMEOUT_MS))
    else:
        assert former.step()
    assert later.step()
    assert echo_of(successor).told == ["start"]


# -- all of a job ------------------------------------------------------------------------------------------------


def job_of(job_master: SteppedThreads, *threaded: str) -> JobCoordinators:
    """A job with these coordinators in threads, and `plain` without one."""
    graph: Any = SimpleNamespace(job_vertices={})
    job = JobCoordinators(graph, lambda *_: job_master, True)
    job._coordinators = {OperatorId("plain"): Echo(job_master)}
    for name in threaded:
        coordinator = ThreadedCoordinator(name, job_master, Echo)
        coordinator.start()
        job._coordinators[OperatorId(name)] = coordinator
    return job


def step(job_master: SteppedThreads, index: int) -> None:
    """One of the coordinators does all that it has to do."""
    while job_master.loops[index].step():
        pass
    job_master.act()


def test_a_snapshot_is_there_when_every_thread_has_given_its_own(job_master: SteppedThreads) -> None:
    job = job_of(job_master, "one", "two")
    states: list[Any] = []
    job.snapshot(7, states.append)
    step(job_master, 0)
    job.handle_event(OperatorId("one"), 0, "behind")
    step(job_master, 0)
    job.let_events_go()
    assert states == job_master.sent == []
    step(job_master, 1)
    assert states == [dict.fromkeys(("plain", "one", "two"), b"state 7")]
    assert job_master.sent == []
    job.let_events_go()
    assert job_master.sent == [(0, "behind")]


def test_what_is_held_back_for_a_checkpoint_that_is_given_up_goes_on(job_master: SteppedThreads) -> None:
    job = job_of(job_master, "one", "two")
    states: list[Any] = []
    job.snapshot(7, states.append)
    job.handle_event(OperatorId("one"), 0, "behind")
    step(job_master, 0)
    job.notify(7, is_complete=False)
    assert job_master.sent == [(0, "behind")]
    job.snapshot(8, states.append)
    job_master.settle()
    assert states == [dict.fromkeys(("plain", "one", "two"), b"state 8")]


def test_the_first_coordinator_that_has_no_state_decides(
    job_master: SteppedThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(job_master, "one", "two")

    def fail(_self: Echo, _checkpoint_id: int) -> bytes:
        raise ValueError("it has none")

    monkeypatch.setattr(Echo, "snapshot", fail)
    results: list[Any] = []
    job.snapshot(7, results.append)
    job_master.settle()
    assert [str(result) for result in results] == ["it has none"]


def test_a_job_is_over_when_all_of_its_coordinators_are_closed(job_master: SteppedThreads) -> None:
    job = job_of(job_master, "one", "two")
    closed: list[bool] = []
    job.close(lambda: closed.append(True))
    step(job_master, 0)
    assert closed == []
    step(job_master, 1)
    assert closed == [True]
    job_of(job_master).close(lambda: closed.append(True))
    assert closed == [True, True]
