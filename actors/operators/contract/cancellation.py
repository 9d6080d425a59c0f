"""How an operator learns that its task is cancelled."""

from __future__ import annotations


class TaskCanceled(BaseException):
    """Ends a task from within, wherever it is. It is no Exception, so that user code does not catch it."""


class Cancellation(list[None]):
    """Whether one task is cancelled: true once another thread has called `set`.

    A list, since loops ask it for each row or timer that emits nothing: asking a list takes 5 ns, a call takes 40.
    """

    def set(self) -> None:
        self.append(None)

    def check(self) -> None:
        """Raises TaskCanceled once the task is cancelled."""
        if self:
            raise TaskCanceled
