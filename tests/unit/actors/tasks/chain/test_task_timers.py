"""Timers of a task hand their callbacks to a mailbox: none runs on the timers' thread, and none after the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.mailbox.processor import MailboxProcessor
from actors.tasks.chain.timers import TaskTimers
from actors.testing.context import HarnessContext


class ManualTimers:
    """Timers of a host that fire when the test says so."""

    def __init__(self) -> None:
        self.context = HarnessContext()

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        return self.context.call_later(delay_ms, callback, "timer")


def set_up() -> tuple[MailboxProcessor, ManualTimers, TaskTimers, list[str]]:
    done: list[str] = []
    host = ManualTimers()
    processor = MailboxProcessor(lambda: processor.all_actions_completed(), lambda _error: None)
    return processor, host, TaskTimers(host), done


def test_a_timer_that_is_due_posts_a_mail_and_runs_in_the_mailbox() -> None:
    processor, host, timers, done = set_up()
    timers.call_later(10, lambda: done.append("timer"), processor.executor(1), "timer")
    host.context.advance(10)
    assert done == []
    processor.step()
    assert done == ["timer"]


def test_a_callback_has_the_priority_of_its_executor_whoever_waits_below_it_is_not_entered() -> None:
    processor, host, timers, done = set_up()
    first, last = processor.executor(1), processor.executor(2)
    timers.call_later(10, lambda: done.append("head"), first, "of the head")
    timers.call_later(10, lambda: done.append("tail"), last, "of the tail")
    host.context.advance(10)
    last.yield_()
    assert done == ["tail"], "the tail waits, and only what is at or behind it may run meanwhile"
    processor.step()
    assert sorted(done) == ["head", "tail"]


def test_no_timer_runs_after_quiescing_not_even_one_whose_mail_waits() -> None:
    processor, host, timers, done = set_up()
    executor = processor.executor(1)
    timers.call_later(10, lambda: done.append("waits"), executor, "waits")
    timers.call_later(20, lambda: done.append("later"), executor, "later")
    host.context.advance(10)
    timers.quiesce()
    timers.call_later(1, lambda: done.append("new"), executor, "new")
    host.context.advance(100)
    processor.step()
    assert done == []
