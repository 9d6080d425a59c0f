"""When the rows that a function gives one at a time go on as a batch."""

from __future__ import annotations

from actors.operators.contract.chunking import TARGET_MS
from actors.operators.contract.operator import OperatorContext

_FIRST_ROWS = 64
"""How many go on at first, when nobody knows yet how large they are."""
_GROWTH = 8
_MOST_BETWEEN_LOOKS = 256
"""Rows that came quickly wait for so many more, however slowly those come; a look takes as long as some rows do."""


class FlushPolicy:
    """Of a batch that comes together: rows go on when they are as many, or as large, as a batch aims at; and before,
    where the function takes its time, as one that waits for something between two rows. Pure; belongs to one thread.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._most = min(_FIRST_ROWS, context.batch_rows)
        self.begin()

    def begin(self) -> None:
        """From now on rows wait."""
        self._began_ms = self._context.clock.monotonic_ms()
        self.check_at = 1
        """Fewer rows are not due."""

    def rows_until_check(self, rows: int) -> int:
        """How many more than so many, one at least, it takes to be asked again."""
        return max(1, self.check_at - rows)

    def is_due(self, rows: int) -> bool:
        """Whether that many rows, which are not none, are to go on now."""
        if rows < self.check_at:
            return False
        if rows >= self._most or self._context.clock.monotonic_ms() - self._began_ms >= TARGET_MS:
            return True
        self.check_at = min(rows + min(rows, _MOST_BETWEEN_LOOKS), self._most)
        return False

    def passed(self, rows: int, nbytes: int) -> None:
        """So many went on, of so many bytes."""
        if rows >= self._most:
            self._most *= _GROWTH
        fitting = self._context.batch_bytes * rows // max(nbytes, 1)
        self._most = max(1, min(self._most, self._context.batch_rows, fitting))
        self.begin()
