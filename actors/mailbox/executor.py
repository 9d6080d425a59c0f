"""How other threads, and operators that wait, reach a task's mailbox (Flink's MailboxExecutor)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from actors.mailbox.mail import Mail
from actors.mailbox.task_mailbox import TaskMailbox

T = TypeVar("T")


class MailboxExecutor:
    """Posts mails of one priority, and lets the operator of this priority wait for other mails."""

    def __init__(self, mailbox: TaskMailbox, priority: int, run: Callable[[Mail], None]) -> None:
        self._mailbox = mailbox
        self._priority = priority
        self._run = run

    @property
    def priority(self) -> int:
        return self._priority

    def execute(
        self, action: Callable[[], None], description: str, *, urgent: bool = False, deferrable: bool = False
    ) -> None:
        """Runs `action` in the task's thread; may be called from any thread.

        Raises:
            MailboxClosed: the task takes no more mails.
        """
        self._mailbox.put(Mail(action, self._priority, description, urgent, deferrable))

    def submit(self, function: Callable[[], T], description: str) -> Future[T]:
        """As `execute`, but gives the result; an error of `function` is the future's, not the task's."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

        self.execute(run, description)
        return future

    def yield_(self) -> None:
        """Runs one other mail of at least this priority, and waits for one; only for the task's thread.

        So the current mail (or batch) waits for what another mail brings, while the task stays responsive. Lower
        priorities belong to operators further up, which must not be entered while one below them is at work.

        Raises:
            MailboxClosed: none can come any more.
        """
        self._run(self._mailbox.take(self._priority))

    def try_yield(self) -> bool:
        """As `yield_`, but without waiting; whether there was a mail to run."""
        mail = self._mailbox.try_take(self._priority)
        if mail is None:
            return False
        self._run(mail)
        return True
