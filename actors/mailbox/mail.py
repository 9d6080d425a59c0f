"""A mail: something to do in a task's thread."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

MIN_PRIORITY = 0
"""The priority of the task's own mails. Operators have higher ones, rising from the head of the chain to its tail."""
MAX_PRIORITY = 1 << 30
"""The priority above every operator: its mails run even while an operator waits, however deep in the chain."""


class Mail(Struct, frozen=True):
    """An action with the conditions under which it may run.

    Attributes:
        action: runs in the task's thread.
        priority: an operator that yields runs only mails of at least its own priority; the order does not depend on it.
        description: for logs and errors.
        urgent: goes before all mails that are not urgent, also those of the batch that is being worked through.
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
