"""The queue between a task's thread and everybody else (Flink's TaskMailbox)."""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from actors.mailbox.mail import Mail
from actors.mailbox.waiting import others_act


class MailboxState(enum.Enum):
    """OPEN -> QUIESCED -> CLOSED, never back."""

    OPEN = "open"
    QUIESCED = "quiesced"
    """Takes no more mails; those inside still run."""
    CLOSED = "closed"


class MailboxClosed(Exception):
    """The mailbox takes no more mails: its task ends or has ended, and nobody would run them."""


class MailboxStatistics(NamedTuple):
    """A snapshot of a mailbox."""

    state: MailboxState
    queued: int
    in_batch: int


class TaskMailbox:
    """Mails in the order in which they came.

    `put`, `wake` and `statistics` may be called from any thread, everything else from the task's own. A *batch* is
    what was there when `create_batch` was called: working through it, and not through the queue, is what keeps a mail
    that posts itself again from starving the input.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._queue: deque[Mail] = deque()
        self._urgent: deque[Mail] = deque()
        self._batch: deque[Mail] = deque()
        self._state = MailboxState.OPEN

    # -- any thread ----------------------------------------------------------------------------------------------

    def put(self, mail: Mail) -> None:
        """Adds a mail.

        Raises:
            MailboxClosed: the mailbox is quiesced or closed.
        """
        with self._condition:
            if self._state is not MailboxState.OPEN:
                raise MailboxClosed(f"the mailbox is {self._state.value}, it does not take {mail}")
            (self._urgent if mail.urgent else self._queue).append(mail)
            self._condition.notify_all()

    def wake(self) -> None:
        """Ends a `wait_until`, whose condition is then looked at again."""
        with self._condition:
            self._condition.notify_all()

    def statistics(self) -> MailboxStatistics:
        with self._condition:
            return MailboxStatistics(self._state, len(self._queue) + len(self._urgent), len(self._batch))

    # -- the task's thread ---------------------------------------------------------------------------------------

    @property
    def state(self) -> MailboxState:
        return self._state

    @property
    def has_mail(self) -> bool:
        """Whether any mail waits. Takes no lock, so a mail that is put at this very moment may be missed until the next
        call."""
        return bool(self._batch or self._queue or self._urgent)

    def create_batch(self) -> bool:
        """Makes everything that is queued part of the batch; whether the batch now holds any mail."""
        if self._queue or self._urgent:
            with self._condition:
                self._batch.extendleft(reversed(self._urgent))
                self._urgent.clear()
                self._batch.extend(self._queue)
                self._queue.clear()
        return bool(self._batch)

    def try_take_from_batch(self) -> Mail | None:
        """The next mail of the batch, whatever its priority; an urgent one that came meanwhile goes before it."""
        if self._urgent:
            with self._condition:
                return self._urgent.popleft()
        return self._batch.popleft() if self._batch else None

    def try_take(self, priority: int) -> Mail | None:
        """The first mail that an operator of this priority may run while it yields, or None."""
        with self._condition:
            return self._find(priority)

    def take(self, priority: int) -> Mail:
        """As `try_take`, but waits for a mail.

        Raises:
            MailboxClosed: there is none, and none can come any more.
        """
        with self._condition:
            while (mail := self._find(priority)) is None:
                if self._state is not MailboxState.OPEN:
                    raise MailboxClosed(f"the mailbox is {self._state.value}, no mail can come to wait for")
                act = others_act.get()
                if act is None:
                    self._condition.wait()
                else:
                    act()
            return mail

    def wait_until(self, is_ready: Callable[[], bool], timeout_ms: float | None) -> bool:
        """Blocks until there is any mail, or `is_ready` (looked at after each put or wake), or the timeout."""
        with self._condition:
            return self._condition.wait_for(
                lambda: bool(self._batch or self._queue or self._urgent) or is_ready(),
                None if timeout_ms is None else timeout_ms / 1000,
            )

    def quiesce(self) -> None:
        """Refuses further mails; those inside can still be taken."""
        with self._condition:
            if self._state is MailboxState.OPEN:
                self._state = MailboxState.QUIESCED
            self._condition.notify_all()

    def close(self) -> list[Mail]:
        """Refuses everything from now on; gives the mails that have not run."""
        with self._condition:
            left = [*self._urgent, *self._batch, *self._queue]
            for mails in (self._urgent, self._batch, self._queue):
                mails.clear()
            self._state = MailboxState.CLOSED
            self._condition.notify_all()
            return left

    def _find(self, priority: int) -> Mail | None:
        for mails in (self._urgent, self._batch, self._queue):
            index = _first(mails, priority)
            if index is not None:
                mail = mails[index]
                del mails[index]
                return mail
        return None


def _first(mails: Iterable[Mail], priority: int) -> int | None:
    for index, mail in enumerate(mails):
        if mail.priority >= priority and not mail.deferrable:
            return index
    return None
