"""When the results that a function gives one at a time are flushed as a batch."""

from __future__ import annotations

from actors.operators.contract.chunking import TARGET_MS
from actors.operators.contract.operator import OperatorContext

_FIRST_ROWS = 64
"""How many rows are flushed at first, while nothing is known of their size."""
_GROWTH = 8
_MOST_BETWEEN_CHECKS = 256
"""The clock is looked at again after at most so many rows, however quickly they came: looking takes as long as some
rows do, and rows that came quickly wait for those that come slowly."""


class FlushPolicy:
    """Decides when collected results are flushed: once they are as many, or as large, as a batch aims at; or earlier,
    where the function is slow, for example waits for something between two results. Pure; belongs to one thread.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._most = min(_FIRST_ROWS, context.batch_rows)
        self.begin()

    def begin(self) -> None:
        """The first row of a batch comes now."""
        self._began_ms = self._context.clock.monotonic_ms()
        self.check_at = 1
        """The number of rows from which on `is_due` has to be called; fewer rows are not due."""

    def rows_until_check(self, rows: int) -> int:
        """How many more rows, at least one, may come before `is_due` has to be called again."""
        return max(1, self.check_at - rows)

    def is_due(self, rows: int) -> bool:
        """Whether so many rows, at least one, are to be flushed now."""
        if rows < self.check_at:
            return False
        if rows >= self._most or self._context.clock.monotonic_ms() - self._began_ms >= TARGET_MS:
            return True
        self.check_at = min(rows + min(rows, _MOST_BETWEEN_CHECKS), self._most)
        return False

    def passed(self, rows: int, nbytes: int) -> None:
        """So many rows of so many bytes were flushed."""
        if rows >= self._most:
            self._most *= _GROWTH
        fitting = self._context.batch_bytes * rows // max(nbytes, 1)
        self._most = max(1, min(self._most, self._context.batch_rows, fitting))
        self.begin()
