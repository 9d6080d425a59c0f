"""Rows that operators have taken and hold: they wait for answers, or for somebody who takes them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection


class HeldRows:
    """How many rows an operator holds, and for how long it has held any. Belongs to the task's thread.

    Args:
        now_ms: a clock that never goes back.
    """

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._total_ms = 0.0
        self._since_ms = 0.0
        self.rows = 0

    def set(self, rows: int) -> None:
        """The operator holds so many rows now."""
        if rows and not self.rows:
            self._since_ms = self._now_ms()
        elif self.rows and not rows:
            self._total_ms = self.total_ms
        self.rows = rows

    @property
    def total_ms(self) -> float:
        """Milliseconds so far in which there were rows."""
        return self._total_ms + self._now_ms() - self._since_ms if self.rows else self._total_ms


class HeldRowsOfAll:
    """The rows that any of several operators holds."""

    def __init__(self, operators: Collection[HeldRows]) -> None:
        self._operators = operators

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self._operators)

    @property
    def total_ms(self) -> float:
        """The time of the operator that has held rows for longest."""
        return max((each.total_ms for each in self._operators), default=0.0)
