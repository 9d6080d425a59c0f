"""The loop of a task: a batch of mails, then the default action once (Flink's MailboxProcessor)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from actors.mailbox.executor import MailboxExecutor
from actors.mailbox.mail import MAX_PRIORITY, MIN_PRIORITY, Mail
from actors.mailbox.task_mailbox import TaskMailbox


class PeriodTimer(Protocol):
    """Measures how long the default action is suspended. Both may be called twice in a row."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Suspension:
    """One period in which the default action does not run."""

    def __init__(self, mailbox: TaskMailbox, timer: PeriodTimer | None) -> None:
        self._mailbox = mailbox
        self._timer = timer
        self.is_resumed = False

    def resume(self) -> None:
        """Lets the default action run again; may be called from any thread, any number of times."""
        if not self.is_resumed:
            self.is_resumed = True
            self._mailbox.wake()

    def start_timer(self) -> None:
        if self._timer is not None:
            self._timer.start()

    def stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()


class MailboxProcessor:
    """Runs mails and the default action in one thread; a `Loop`, so its caller may step it.

    Args:
        default_action: does a small part of the task's work, for example takes one batch from the input. When there
            is nothing to do, it calls `suspend_default_action`; when the work is over, `all_actions_completed`.
        on_error: gets what a mail or the default action raised; the loop has ended then.
    """

    def __init__(self, default_action: Callable[[], None], on_error: Callable[[BaseException], None]) -> None:
        self.mailbox = TaskMailbox()
        self._default_action = default_action
        self._on_error = on_error
        self._suspension: Suspension | None = None
        self._is_done = False
        # Set by the first mail of a batch: mails that are posted meanwhile wait until the default action has run once.
        self._is_default_action_due = False

    # -- any thread ----------------------------------------------------------------------------------------------

    def executor(self, priority: int) -> MailboxExecutor:
        """Posts mails of this priority."""
        return MailboxExecutor(self.mailbox, priority, self._run_mail)

    @property
    def main_executor(self) -> MailboxExecutor:
        """For the task's own mails."""
        return self.executor(MIN_PRIORITY)

    @property
    def control_executor(self) -> MailboxExecutor:
        """For what must reach the task even while an operator waits."""
        return self.executor(MAX_PRIORITY)

    # -- the loop ------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Runs one mail, or the default action once; False when there is neither.

        Mails that are there when a batch begins all run before the default action; what they post waits for the
        batch after it.
        """
        if self._is_done:
            return False
        try:
            return self._step()
        except BaseException as error:
            # The owner reports the error. A loop that raised would end its host's thread instead.
            self._is_done = True
            self._on_error(error)
            return True

    def wait(self, timeout_ms: float | None) -> None:
        self.mailbox.wait_until(self._may_act, timeout_ms)

    @property
    def is_done(self) -> bool:
        return self._is_done

    def run(self) -> None:
        """Repeats `step` until the loop is done."""
        while not self._is_done:
            if not self.step():
                self.wait(None)

    # -- for the default action and mails ------------------------------------------------------------------------

    def suspend_default_action(self, timer: PeriodTimer | None = None) -> Suspension:
        """Lets only mails run until the suspension is resumed; gives the present suspension where there is one.

        `timer` runs meanwhile, except while mails do.
        """
        if self._suspension is None:
            self._suspension = Suspension(self.mailbox, timer)
            self._suspension.start_timer()
        return self._suspension

    @property
    def is_default_action_available(self) -> bool:
        return self._suspension is None or self._suspension.is_resumed

    def all_actions_completed(self) -> None:
        """Ends the loop after the current action; mails that are left can still be drained."""
        self._is_done = True
        self.mailbox.wake()

    def prepare_close(self) -> None:
        """Refuses further mails."""
        self.mailbox.quiesce()

    def drain(self) -> None:
        """Runs the mails that are left, whatever their priority."""
        while self.mailbox.create_batch():
            while (mail := self.mailbox.try_take_from_batch()) is not None:
                self._run_mail(mail)

    def close(self) -> list[Mail]:
        """Closes the mailbox; gives the mails that never ran."""
        self._end_suspension()
        return self.mailbox.close()

    # -- inside --------------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        mail = self._next_mail()
        if mail is None:
            self._is_default_action_due = False
            if self._run_default_action():
                return True
            mail = self._next_mail()
            if mail is None:
                return False
        self._is_default_action_due = True
        self._run_mail(mail)
        return True

    def _next_mail(self) -> Mail | None:
        mail = self.mailbox.try_take_from_batch()
        if mail is None and not self._is_default_action_due and self.mailbox.create_batch():
            mail = self.mailbox.try_take_from_batch()
        return mail

    def _run_default_action(self) -> bool:
        suspension = self._suspension
        if suspension is not None:
            if not suspension.is_resumed:
                return False
            self._end_suspension()
        self._default_action()
        return True

    def _run_mail(self, mail: Mail) -> None:
        suspension = self._suspension
        if suspension is None:
            mail.run()
            return
        suspension.stop_timer()
        try:
            mail.run()
        finally:
            if self._suspension is suspension and not suspension.is_resumed:
                suspension.start_timer()

    def _end_suspension(self) -> None:
        if self._suspension is not None:
            self._suspension.stop_timer()
            self._suspension = None

    def _may_act(self) -> bool:
        return self._is_done or self.is_default_action_available
