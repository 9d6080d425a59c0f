"""The timers of a task, which become mails when they are due. None fires once the task is at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from actors.mailbox.executor import MailboxExecutor
from actors.mailbox.task_mailbox import MailboxClosed
from actors.protocol.ports import Cancellable, Timers


class TaskTimers:
    """Timers whose actions run in the task's thread, with the priority of the executor that each is given."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._lock = threading.Lock()
        self._pending: set[TaskTimer] = set()
        self._is_quiesced = False

    @property
    def is_quiesced(self) -> bool:
        return self._is_quiesced

    def call_later(
        self, delay_ms: float, action: Callable[[], None], executor: MailboxExecutor, description: str
    ) -> Cancellable:
        timer = TaskTimer(self, action, executor, description)
        with self._lock:
            if self._is_quiesced:
                return timer
            self._pending.add(timer)
        timer.handle = self._timers.call_later(delay_ms, timer.post)
        return timer

    def quiesce(self) -> None:
        """Lets no timer fire from now on, not even one whose mail waits already, as it would act after the end."""
        with self._lock:
            self._is_quiesced = True
            pending, self._pending = self._pending, set()
        for timer in pending:
            timer.cancel()

    def forget(self, timer: TaskTimer) -> None:
        """Removes a timer that has fired or was cancelled."""
        with self._lock:
            self._pending.discard(timer)


class TaskTimer:
    """One timer (a Cancellable). Once it is cancelled its action does not run, even if its mail waits already."""

    def __init__(
        self, owner: TaskTimers, action: Callable[[], None], executor: MailboxExecutor, description: str
    ) -> None:
        self._owner = owner
        self._action: Callable[[], None] | None = action
        self._executor = executor
        self._description = description
        self.handle: Cancellable | None = None

    def post(self) -> None:
        """Hands the action to the task's thread. Called on a thread of the host's."""
        try:
            self._executor.execute(self._run, self._description)
        except MailboxClosed:
            self.cancel()  # the task has ended

    def cancel(self) -> None:
        self._action = None
        if self.handle is not None:
            self.handle.cancel()
        self._owner.forget(self)

    def _run(self) -> None:
        self._owner.forget(self)
        action, self._action = self._action, None
        if action is not None and not self._owner.is_quiesced:
            action()
