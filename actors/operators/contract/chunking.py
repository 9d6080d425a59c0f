"""How many rows of a batch go through a chain of operators at a time: so many that the task soon looks at its mailbox,
and that no exchange behind it gets more than it wants."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Protocol

from msgspec import Struct

from flinkray.batches.batch import Batch

TARGET_MS = 100.0
"""In which rows should pass: so long, or for one row, timers, barriers and cancelling wait."""
FIRST_SIZE = 1
"""Sizes are powers of four. This is the one while nothing is known: a call of a model may take seconds per row."""
LAST_SIZE = 10
WORTH = 2.0
"""A size is too small if a row takes so many times as long in it as in the best one."""
_NEW_SHARE = 0.5
"""Of a piece in what is known of its size."""
_OTHER_TIMES = 8.0
"""A row that takes so many times as long, or as short, as it did: what is known of other sizes counts no more."""
_REST = 8
"""Of a piece at most one such part goes with it where no more would be left: however few its rows, a piece takes some
tenths of a millisecond, and batches that were split among channels have a few rows more than they should, or less."""


def rows_of_size(size: int) -> int:
    return int(4**size)


class ChunkConsumer(Protocol):
    """Where rows leave a task."""

    @property
    def rows_written(self) -> int:
        """So far."""

    @property
    def rows_wanted(self) -> float:
        """At a time."""


class _Share(Struct):
    """How many rows of those that a task took an exit has got, of late."""

    taken: float = 0.0
    written: float = 0.0
    all_written: int = 0


_KEPT_SHARE = 0.9
"""Of what is known of earlier pieces, with each one."""


class ChunkLimit:
    """How many rows a task may take at a time. Pure; belongs to its thread.

    Args:
        exits: of the task; there may be more of them later.
    """

    def __init__(self, exits: Collection[ChunkConsumer] = ()) -> None:
        self._exits = exits
        self._shares: dict[int, _Share] = {}

    @property
    def rows(self) -> int | None:
        """None: any number."""
        most = min((self._rows_for(number, each) for number, each in enumerate(self._exits)), default=math.inf)
        return None if most == math.inf else max(1, int(most))

    def _rows_for(self, number: int, each: ChunkConsumer) -> float:
        wanted, share = each.rows_wanted, self._shares.get(number)
        if wanted == math.inf or share is None or not share.written:
            return math.inf
        return wanted * share.taken / share.written

    def passed(self, rows: int) -> None:
        """The task has taken so many, and what it makes of them is written."""
        for number, each in enumerate(self._exits):
            share = self._shares.setdefault(number, _Share())
            written = each.rows_written
            share.taken = _KEPT_SHARE * share.taken + rows
            share.written = _KEPT_SHARE * share.written + written - share.all_written
            share.all_written = written


class ChunkSizer:
    """Learns how quickly rows pass in pieces of each size. Pure; belongs to one thread.

    A call may take a while whatever it is given: pieces are not made so small that this is most of their time.

    Args:
        limit: of the task, whose other inputs have it too; None: only what rows take counts.
    """

    def __init__(self, limit: ChunkLimit | None = None) -> None:
        self._limit = limit or ChunkLimit()
        self.rows = rows_of_size(FIRST_SIZE)
        """That pass quickly enough."""
        self._row_ms: dict[int, float] = {}
        """What a row takes in pieces of a size (of so many rows, and up to four times as many)."""

    @property
    def buffer_rows(self) -> int:
        """That buffers to the task should have: as many as pass quickly enough, also where none had so many yet."""
        row_ms = min(self._row_ms.values(), default=math.inf)
        in_time = int(TARGET_MS / row_ms) if row_ms else rows_of_size(LAST_SIZE)
        return self._limited(max(self.rows, in_time))

    def _limited(self, rows: int) -> int:
        most = self._limit.rows
        return rows if most is None else min(rows, most)

    def cut(self, batch: Batch) -> tuple[Batch, Batch | None]:
        """The rows to be given on now, and those that are left, if any."""
        rows = self._limited(self.rows)
        if batch.num_rows <= rows or batch.num_rows <= min(rows + rows // _REST, self.buffer_rows):
            return batch, None
        return batch.slice(0, rows), batch.slice(rows)

    def passed(self, rows: int, took_ms: float) -> None:
        """So many rows (not none) took so long."""
        self._limit.passed(rows)
        size = min((rows.bit_length() - 1) // 2, LAST_SIZE)
        row_ms = took_ms / rows
        known_ms = self._row_ms.get(size, row_ms)
        slower_ms = max(row_ms, known_ms)
        # Where all is quick, it is most likely a moment in which something else had the core.
        if slower_ms > _OTHER_TIMES * min(row_ms, known_ms) and slower_ms * rows > TARGET_MS:
            self._row_ms, known_ms = {}, row_ms
        self._row_ms[size] = known_ms + _NEW_SHARE * (row_ms - known_ms)
        self.rows = rows_of_size(min(self._best_size(), LAST_SIZE))

    def _best_size(self) -> int:
        """The largest size that is quick enough; with none, the smallest that is worth it. Or one beside it that is to
        be tried."""
        bound = WORTH * min(self._row_ms.values())
        worth = [size for size, row_ms in self._row_ms.items() if row_ms <= bound]
        quick = [size for size in worth if self._ms(size) <= TARGET_MS]
        if quick:
            size = max(quick)
            if self._ms(size) * rows_of_size(1) <= TARGET_MS:
                return size + 1
            # A larger one is only tried where this one is better than a smaller one: buffers of its size are under way
            # by the time that it turns out too slow, and barriers wait behind them.
            if size and size - 1 not in self._row_ms:
                return size - 1
            return size + 1 if self._is_better_than_smaller(size) and size + 1 not in self._row_ms else size
        size = min(worth)
        if size and size - 1 not in self._row_ms:
            fitting = int(math.log(max(1.0, TARGET_MS / self._row_ms[size]), rows_of_size(1)))
            return size - 1 if fitting in self._row_ms else min(fitting, size - 1)
        return size + 1 if self._is_better_than_smaller(size) and size + 1 not in self._row_ms else size

    def _is_better_than_smaller(self, size: int) -> bool:
        """Whether a row takes half as long as in the next smaller size, or less; both must be known."""
        return size > 0 and self._row_ms[size] * WORTH <= self._row_ms[size - 1]

    def _ms(self, size: int) -> float:
        return rows_of_size(size) * self._row_ms[size]
