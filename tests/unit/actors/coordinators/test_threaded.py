"""A coordinator in a thread of its own: what it sends, when that arrives, and for whom it does not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from actors.coordinators.base import CoordinatorContext, OperatorCoordinator
from actors.coordinators.threaded import CLOSE_TIMEOUT_MS, ThreadedCoordinator
from actors.protocol.ports import Cancellable, Loop
from tests.support.tasks import ManualTime


class FakeJobMaster:
    """A JobMasterContext whose thread acts when the test says so, as the coordinator's does."""

    parallelism = 2

    def __init__(self) -> None:
        self.sent: list[tuple[int, Any]] = []
        self.failures: list[str] = []
        self.loops: list[Loop] = []
        self.time = ManualTime()
        self._callbacks: deque[Callable[[], None]] = deque()

    def now_ms(self) -> int:
        return self.time.now

    def send_event(self, subtask_index: int, event: Any) -> None:
        self.sent.append((subtask_index, event))

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Cancellable:
        return self.time.call_later(delay_ms, callback)

    def fail_job(self, error: BaseException) -> None:
        self.failures.append(str(error))

    def run(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def start_loop(self, name: str, loop: Loop) -> None:
        self.loops.append(loop)

    def act(self) -> None:
        """Does what has come from coordinators."""
        while self._callbacks:
            self._callbacks.popleft()()

    def settle(self) -> None:
        """All threads do what they have to do."""
        for loop in self.loops:
            while not loop.is_done and loop.step():
                pass
        self.act()


class Echo(OperatorCoordinator):
    """Sends back what it gets, and notes what it is told."""

    def __init__(self, context: CoordinatorContext) -> None:
        self.context = context
        self.told: list[Any] = []

    def start(self) -> None:
        self.told.append("start")

    def handle_event(self, subtask_index: int, event: Any) -> None:
        if event == "raise":
            raise ValueError("a bad event")
        if event == "later":
            self.context.call_later(10, lambda: self.context.send_event(subtask_index, "it is later"))
        else:
            self.context.send_event(subtask_index, event)

    def subtask_failed(self, subtask_index: int, checkpoint_id: int | None = None) -> None:
        self.told.append(("failed", subtask_index, checkpoint_id))

    def snapshot(self, checkpoint_id: int) -> bytes:
        return b"state %d" % checkpoint_id

    def close(self) -> None:
        self.told.append("close")


@pytest.fixture
def job_master() -> FakeJobMaster:
    return FakeJobMaster()


@pytest.fixture
def coordinator(job_master: FakeJobMaster) -> ThreadedCoordinator:
    coordinator = ThreadedCoordinator("echo", job_master, Echo)
    coordinator.start()
    return coordinator


def echo_of(coordinator: ThreadedCoordinator) -> Echo:
    assert isinstance(coordinator._coordinator, Echo)
    return coordinator._coordinator


def test_nothing_of_the_coordinator_runs_in_the_thread_that_calls(
    job_master: FakeJobMaster, coordinator: ThreadedCoordinator
) -> None:
    coordinator.handle_event(0, "a")
    coordinator.close()
    job_master.act()
    assert echo_of(coordinator).told == job_master.sent == []


def test_what_it_sends_arrives_in_order(job_master: FakeJobMaster, coordinator: ThreadedCoordinator) -> None:
    for number in range(4):
        coordinator.handle_event(number % 2, number)
    job_master.settle()
    assert job_master.sent == [(0, 0), (1, 1), (0, 2), (1, 3)]


def test_what_is_called_later_runs_in_its_thread(job_master: FakeJobMaster, coordinator: ThreadedCoordinator) -> None:
    coordinator.handle_event(0, "later")
    job_master.settle()
    job_master.time.advance(10)
    job_master.act()
    assert job_master.sent == []
    job_master.settle()
    assert job_master.sent == [(0, "it is later")]


def test_what_it_sends_after_its_snapshot_waits_for_the_barriers(
    job_master: FakeJobMaster, coordinator: ThreadedCoordinator
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
    job_master: FakeJobMaster, coordinator: ThreadedCoordinator
) -> None:
    states: list[Any] = []
    coordinator.begin_snapshot(7, states.append)
    coordinator.end_snapshot()
    coordinator.handle_event(0, "a")
    job_master.settle()
    assert states == []
    assert job_master.sent == [(0, "a")]


def test_what_is_sent_to_an_attempt_that_has_ended_does_not_reach_the_next_one(
    job_master: FakeJobMaster, coordinator: ThreadedCoordinator
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
    job_master: FakeJobMaster, coordinator: ThreadedCoordinator
) -> None:
    coordinator.begin_snapshot(7, lambda _: None)
    coordinator.handle_event(0, "a")
    job_master.settle()
    coordinator.subtask_failed(0, None)
    coordinator.end_snapshot()
    job_master.settle()
    assert job_master.sent == []


def test_what_it_raises_fails_the_job_unless_it_was_closed_before(
    job_master: FakeJobMaster, coordinator: ThreadedCoordinator
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
    job_master: FakeJobMaster, coordinator: ThreadedCoordinator
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
    job_master: FakeJobMaster, coordinator: ThreadedCoordinator, does_hang: bool
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
