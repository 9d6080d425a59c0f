"""A mail: something to do in a task's thread."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

MIN_PRIORITY = 0
"""The task's own work. Operators have the priorities above it, rising from the head of the chain to its tail."""
MAX_PRIORITY = 1 << 30
"""Above every operator: what must be seen by whoever waits, however deep in the chain."""


class Mail(Struct, frozen=True):
    """An action with the conditions under which it may run.

    Attributes:
        action: runs in the task's thread.
        priority: who yields takes only mails of at least its own priority; it does not change the order otherwise.
        description: for logs and errors.
        urgent: jumps ahead of all mails that are not, also of those in the batch that is being worked through.
        deferrable: runs in the task's loop only, never inside a yield.
    """

    action: Callable[[], None]
    priority: int
    description: str
    urgent: bool = False
    deferrable: bool = False

    def run(self) -> None:
        self.action()

    def __str__(self) -> str:
        return f"{self.description!r} (priority {self.priority})"
