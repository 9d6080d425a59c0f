"""Timers of a task: the host's thread posts mails, which the task's thread runs, and none after the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.mailbox.executor import MailboxExecutor
from actors.mailbox.mail import Mail
from actors.mailbox.task_mailbox import TaskMailbox
from actors.operators.time.timers import InternalTimerService, Timer
from actors.tasks.chain.timers import TaskTimers
from tests.support.operators import FakeContext


class Handle:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HostTimers:
    """A host whose timers the test fires."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None], Handle]] = []

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Handle:
        handle = Handle()
        self.waiting.append((delay_ms, callback, handle))
        return handle

    def fire(self) -> None:
        """As the host's timer thread does: also those that are cancelled at that moment."""
        for _, callback, _ in self.waiting:
            callback()
        self.waiting.clear()


class Task:
    """A mailbox with an executor for each of two operators of a chain, the second behind the first."""

    def __init__(self) -> None:
        self.host = HostTimers()
        self.mailbox = TaskMailbox()
        self.timers = TaskTimers(self.host)
        self.executors = [MailboxExecutor(self.mailbox, priority, self.run) for priority in (0, 1)]
        self.ran: list[str] = []

    def run(self, mail: Mail) -> None:
        mail.action()

    def set_timer(self, name: str, operator: int = 0) -> None:
        self.timers.call_later(10, lambda: self.ran.append(name), self.executors[operator], name)

    def work_off(self) -> None:
        while self.executors[0].try_yield():
            pass


@pytest.fixture
def task() -> Task:
    return Task()


def test_the_timer_thread_posts_a_mail_and_runs_no_user_code(task: Task) -> None:
    task.set_timer("a")
    task.host.fire()
    assert task.ran == []
    task.work_off()
    assert task.ran == ["a"]


def test_a_timer_has_the_priority_of_its_operators_executor(task: Task) -> None:
    """Who waits in the second operator runs its own timers, and leaves those of the operator before it alone."""
    task.set_timer("first", operator=0)
    task.set_timer("second", operator=1)
    task.host.fire()
    while task.executors[1].try_yield():
        pass
    assert task.ran == ["second"]
    task.work_off()
    assert task.ran == ["second", "first"]


def test_no_timer_fires_after_the_end_not_even_one_whose_mail_waits(task: Task) -> None:
    task.set_timer("mail waits")
    task.host.fire()
    task.set_timer("not due")
    task.timers.quiesce()
    assert [handle.is_cancelled for _, _, handle in task.host.waiting] == [True]
    task.host.fire()
    task.set_timer("after the end")
    assert task.host.waiting == []
    task.work_off()
    assert task.ran == []


def test_a_timer_that_is_due_when_the_mailbox_is_closed_is_dropped(task: Task) -> None:
    task.set_timer("late")
    task.mailbox.quiesce()
    task.mailbox.close()
    task.host.fire()
    assert task.ran == []


def test_many_processing_time_timers_are_one_timer_of_the_host() -> None:
    context = FakeContext()
    fired: list[Timer] = []
    service = InternalTimerService(context, lambda: fired.extend(service.due_processing_timers()))
    for key in range(100):
        for timestamp in (30, 20, 10):
            service.register_processing_time_timer(key, timestamp)
    waiting = [timer for timer in context.timers if not timer.is_cancelled]
    assert [timer.due_ms for timer in waiting] == [10]
    context.advance(30)
    assert len(fired) == 300
    assert [timer for timer in context.timers if not timer.is_cancelled] == []
