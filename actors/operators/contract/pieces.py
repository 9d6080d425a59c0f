"""Work of which a mail or a watermark brings much at once, done in pieces: timers, windows, results of calls. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from actors.operators.contract.chunking import TARGET_MS, ChunkSizer

_LONG = 1.5
"""A piece that takes so many times as long as it should says that the operators behind take long: each takes a little
longer than it should."""


class Pieces:
    """Says when to stop for the mailbox to be looked at: a piece takes TARGET_MS, or as long as one step of it takes.

    What a step gives may wait until the end of the piece, and then take the operators behind it long. So once a piece
    has taken longer, pieces have as many steps as pass in time (`ChunkSizer`). Belongs to the task's thread.

    Args:
        now_ms: a clock that never goes back.
    """

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._sizer: ChunkSizer | None = None
        self._most = math.inf
        self._steps = 0
        self._end_ms = 0.0

    def begin(self) -> None:
        """The first step of a piece comes now."""
        self._steps = 0
        self._end_ms = self._now_ms() + TARGET_MS

    def is_over(self) -> bool:
        """Whether the piece ends with the step that has just been made; called after each of them."""
        self._steps += 1
        return self._steps >= self._most or self._now_ms() >= self._end_ms

    def make(self, steps: Iterator[object], to_the_end: bool = False) -> bool:
        """Makes the steps of one piece, or all of them; gives whether some may be left. `end` is to be called next."""
        self.begin()
        return any(self.is_over() and not to_the_end for _ in steps)

    def end(self) -> None:
        """What the steps of the piece gave has gone on to the operators behind."""
        took_ms = self._now_ms() - self._end_ms + TARGET_MS
        if self._sizer is None and took_ms > _LONG * TARGET_MS:
            self._sizer = ChunkSizer()
        if self._sizer is not None and self._steps:
            self._sizer.passed(self._steps, took_ms)
            self._most = self._sizer.rows
