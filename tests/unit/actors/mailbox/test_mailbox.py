"""Rules of the task mailbox and its loop."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from actors.mailbox.mail import MAX_PRIORITY, MIN_PRIORITY, Mail
from actors.mailbox.processor import MailboxProcessor
from actors.mailbox.task_mailbox import MailboxClosed, MailboxState, TaskMailbox

DEADLINE_S = 20.0


class Recorder:
    """A processor whose default action and mails write down that they ran."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.errors: list[BaseException] = []
        self.processor = MailboxProcessor(lambda: self.log.append("input"), self.errors.append)

    def mail(self, name: str) -> Callable[[], None]:
        return lambda: self.log.append(name)

    def steps(self, count: int) -> list[str]:
        for _ in range(count):
            self.processor.step()
        return self.log


class CountingTimer:
    def __init__(self) -> None:
        self.log: list[str] = []

    def start(self) -> None:
        self.log.append("start")

    def stop(self) -> None:
        self.log.append("stop")


def mail(log: list[str], name: str, priority: int = MIN_PRIORITY, **options: bool) -> Mail:
    return Mail(lambda: log.append(name), priority, name, **options)


@pytest.fixture
def loop() -> Recorder:
    return Recorder()


def test_a_batch_of_mails_runs_before_one_default_action(loop: Recorder) -> None:
    for name in ("first", "second"):
        loop.processor.main_executor.execute(loop.mail(name), name)
    assert loop.steps(4) == ["first", "second", "input", "input"]


def test_a_mail_that_requeues_itself_does_not_starve_the_input(loop: Recorder) -> None:
    def requeue() -> None:
        loop.log.append("timer")
        loop.processor.main_executor.execute(requeue, "timer")

    requeue()
    loop.log.clear()
    assert loop.steps(4) == ["timer", "input", "timer", "input"]


def test_mail_posted_while_a_batch_runs_waits_for_the_default_action(loop: Recorder) -> None:
    def post() -> None:
        loop.log.append("post")
        loop.processor.main_executor.execute(loop.mail("posted"), "posted")

    loop.processor.main_executor.execute(post, "post")
    loop.processor.main_executor.execute(loop.mail("other"), "other")
    assert loop.steps(4) == ["post", "other", "input", "posted"]


def test_urgent_mail_jumps_into_the_running_batch(loop: Recorder) -> None:
    def post() -> None:
        loop.log.append("post")
        loop.processor.main_executor.execute(loop.mail("ordinary"), "ordinary")
        loop.processor.main_executor.execute(loop.mail("urgent"), "urgent", urgent=True)

    loop.processor.main_executor.execute(post, "post")
    loop.processor.main_executor.execute(loop.mail("other"), "other")
    assert loop.steps(5) == ["post", "urgent", "other", "input", "ordinary"]


def test_urgent_mails_keep_their_own_order_ahead_of_a_new_batch() -> None:
    mailbox, log = TaskMailbox(), list[str]()
    mailbox.put(mail(log, "ordinary"))
    mailbox.put(mail(log, "urgent 1", urgent=True))
    mailbox.put(mail(log, "urgent 2", urgent=True))
    mailbox.create_batch()
    while (taken := mailbox.try_take_from_batch()) is not None:
        taken.run()
    assert log == ["urgent 1", "urgent 2", "ordinary"]


def test_priority_filters_but_does_not_reorder() -> None:
    mailbox, log = TaskMailbox(), list[str]()
    for name, priority in (("low", 0), ("middle", 1), ("high", MAX_PRIORITY), ("middle 2", 1)):
        mailbox.put(mail(log, name, priority))
    while (taken := mailbox.try_take(1)) is not None:
        taken.run()
    assert log == ["middle", "high", "middle 2"]
    assert mailbox.create_batch()
    left = mailbox.try_take_from_batch()
    assert left is not None
    assert left.description == "low"


def test_try_take_finds_mails_of_the_running_batch_before_newer_ones() -> None:
    mailbox, log = TaskMailbox(), list[str]()
    mailbox.put(mail(log, "batched"))
    mailbox.create_batch()
    mailbox.put(mail(log, "newer"))
    taken = mailbox.try_take(MIN_PRIORITY)
    assert taken is not None
    assert taken.description == "batched"


def test_a_deferrable_mail_never_runs_on_a_yield_but_does_in_the_loop(loop: Recorder) -> None:
    loop.processor.main_executor.execute(loop.mail("deferrable"), "deferrable", deferrable=True)
    assert not loop.processor.main_executor.try_yield()
    assert loop.steps(1) == ["deferrable"]


def test_yield_takes_no_mail_of_an_operator_further_up(loop: Recorder) -> None:
    head, tail = loop.processor.executor(1), loop.processor.executor(2)
    head.execute(loop.mail("head"), "head")
    tail.execute(loop.mail("tail"), "tail")
    assert tail.try_yield()
    assert not tail.try_yield()
    assert head.try_yield()
    assert loop.log == ["tail", "head"]


def test_yield_lets_a_mail_wait_for_what_another_mail_brings(loop: Recorder) -> None:
    def wait() -> None:
        loop.log.append("begin")
        loop.processor.main_executor.yield_()
        loop.log.append("end")

    loop.processor.main_executor.execute(wait, "wait")
    loop.processor.main_executor.execute(loop.mail("bring"), "bring")
    assert loop.steps(2) == ["begin", "bring", "end", "input"]


def test_yield_blocks_until_another_thread_puts_a_mail(loop: Recorder) -> None:
    executor = loop.processor.main_executor
    waiting = threading.Thread(target=executor.yield_)
    waiting.start()
    executor.execute(loop.mail("awaited"), "awaited")
    waiting.join(DEADLINE_S)
    assert loop.log == ["awaited"]


def test_a_suspended_default_action_runs_only_mails_until_it_is_resumed(loop: Recorder) -> None:
    suspension = loop.processor.suspend_default_action()
    assert not loop.processor.step()
    loop.processor.main_executor.execute(loop.mail("mail"), "mail")
    assert loop.processor.step()
    assert not loop.processor.step()
    suspension.resume()
    suspension.resume()
    assert loop.steps(1) == ["mail", "input"]


def test_step_finds_queued_mail_when_the_default_action_suspends_at_its_turn(loop: Recorder) -> None:
    loop.processor.suspend_default_action()
    executor = loop.processor.main_executor
    executor.execute(lambda: executor.execute(loop.mail("second"), "second"), "first")
    assert loop.processor.step()
    assert loop.processor.step(), "the queued mail is work, though the default action is suspended"
    assert loop.log == ["second"]


def test_suspending_twice_gives_the_same_suspension(loop: Recorder) -> None:
    assert loop.processor.suspend_default_action() is loop.processor.suspend_default_action()


def test_a_resume_from_another_thread_ends_the_wait(loop: Recorder) -> None:
    suspension = loop.processor.suspend_default_action()
    waiting = threading.Thread(target=loop.processor.wait, args=(None,))
    waiting.start()
    suspension.resume()
    waiting.join(DEADLINE_S)
    assert not waiting.is_alive()


def test_the_timer_of_a_suspension_is_paused_while_mails_run(loop: Recorder) -> None:
    timer = CountingTimer()
    suspension = loop.processor.suspend_default_action(timer)
    loop.processor.main_executor.execute(lambda: timer.log.append("mail"), "mail")
    loop.processor.step()
    assert timer.log == ["start", "stop", "mail", "start"]
    suspension.resume()
    loop.processor.step()
    assert timer.log[4:] == ["stop"]


def test_a_quiesced_mailbox_refuses_new_mails_and_runs_the_old(loop: Recorder) -> None:
    loop.processor.main_executor.execute(loop.mail("old"), "old")
    loop.processor.prepare_close()
    with pytest.raises(MailboxClosed, match="quiesced, it does not take 'new'"):
        loop.processor.main_executor.execute(loop.mail("new"), "new")
    loop.processor.drain()
    assert loop.log == ["old"]
    with pytest.raises(MailboxClosed):
        loop.processor.main_executor.yield_()


def test_closing_gives_the_mails_that_never_ran(loop: Recorder) -> None:
    loop.processor.main_executor.execute(loop.mail("left"), "left")
    assert [left.description for left in loop.processor.close()] == ["left"]
    assert loop.processor.mailbox.statistics() == (MailboxState.CLOSED, 0, 0)


def test_who_waits_in_a_yield_is_released_when_the_mailbox_closes(loop: Recorder) -> None:
    outcome: list[type[BaseException]] = []

    def wait() -> None:
        try:
            loop.processor.main_executor.yield_()
        except MailboxClosed as error:
            outcome.append(type(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    loop.processor.close()
    waiting.join(DEADLINE_S)
    assert outcome == [MailboxClosed]


def test_an_error_ends_the_loop_and_reaches_its_owner(loop: Recorder) -> None:
    def fail() -> None:
        raise ValueError("boom")

    loop.processor.main_executor.execute(fail, "fail")
    assert loop.processor.step()
    assert loop.processor.is_done
    assert not loop.processor.step()
    assert [str(error) for error in loop.errors] == ["boom"]


def test_run_only_repeats_step_until_all_actions_are_completed() -> None:
    rounds: list[int] = []

    def act() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 3:
            processor.all_actions_completed()

    processor = MailboxProcessor(act, lambda _error: None)
    processor.run()
    assert rounds == [0, 1, 2]


def test_submit_gives_the_result_or_the_error_to_its_caller(loop: Recorder) -> None:
    good = loop.processor.main_executor.submit(lambda: 42, "good")
    bad = loop.processor.main_executor.submit(lambda: 1 // 0, "bad")
    loop.steps(2)
    assert good.result(timeout=0) == 42
    with pytest.raises(ZeroDivisionError):
        bad.result(timeout=0)
    assert not loop.processor.is_done
