"""The mailbox against a plain list, and under many threads."""

from __future__ import annotations

import threading

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.mailbox.mail import Mail
from actors.mailbox.processor import MailboxProcessor
from actors.mailbox.task_mailbox import TaskMailbox


class MailboxAgainstLists(RuleBasedStateMachine):
    """The model: three lists. Urgent mails go first, then the batch, then what came after it."""

    def __init__(self) -> None:
        super().__init__()
        self.mailbox = TaskMailbox()
        self.urgent: list[Mail] = []
        self.batch: list[Mail] = []
        self.queue: list[Mail] = []
        self.number = 0

    @rule(priority=st.integers(0, 3), urgent=st.booleans(), deferrable=st.booleans())
    def put(self, priority: int, urgent: bool, deferrable: bool) -> None:
        self.number += 1
        mail = Mail(lambda: None, priority, str(self.number), urgent, deferrable)
        (self.urgent if urgent else self.queue).append(mail)
        self.mailbox.put(mail)

    @rule()
    def create_batch(self) -> None:
        self.batch = [*self.urgent, *self.batch, *self.queue]
        self.urgent, self.queue = [], []
        assert self.mailbox.create_batch() == bool(self.batch)

    @rule()
    def take_from_batch(self) -> None:
        source = self.urgent or self.batch
        assert self.mailbox.try_take_from_batch() == (source.pop(0) if source else None)

    @rule(priority=st.integers(0, 3))
    def yield_(self, priority: int) -> None:
        expected = None
        for mails in (self.urgent, self.batch, self.queue):
            fitting = [mail for mail in mails if mail.priority >= priority and not mail.deferrable]
            if fitting:
                expected = fitting[0]
                mails.remove(expected)
                break
        assert self.mailbox.try_take(priority) == expected

    @invariant()
    def counts_agree(self) -> None:
        statistics = self.mailbox.statistics()
        assert (statistics.queued, statistics.in_batch) == (len(self.urgent) + len(self.queue), len(self.batch))
        assert self.mailbox.has_mail == bool(self.urgent or self.batch or self.queue)


TestMailboxAgainstLists = MailboxAgainstLists.TestCase
TestMailboxAgainstLists.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_every_mail_of_many_threads_runs_once_in_the_order_of_its_thread() -> None:
    threads, mails = 4, 500
    ran: list[tuple[int, int]] = []

    def act() -> None:
        if len(ran) == threads * mails:
            processor.all_actions_completed()
        else:
            processor.suspend_default_action()

    processor = MailboxProcessor(act, lambda _error: None)

    def post(thread: int) -> None:
        for number in range(mails):
            processor.main_executor.execute(lambda entry=(thread, number): record(entry), "mail")

    def record(entry: tuple[int, int]) -> None:
        ran.append(entry)
        if len(ran) == threads * mails:
            processor.suspend_default_action().resume()

    posting = [threading.Thread(target=post, args=(thread,)) for thread in range(threads)]
    loop = threading.Thread(target=processor.run, daemon=True)
    for thread in (loop, *posting):
        thread.start()
    for thread in (*posting, loop):
        thread.join(timeout=20)
    assert not loop.is_alive()
    assert {thread: [n for t, n in ran if t == thread] for thread in range(threads)} == {
        thread: list(range(mails)) for thread in range(threads)
    }
