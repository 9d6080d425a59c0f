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


LONGEST_MS = 500.0
"""The rows of a chunk may take as long beside what the call takes: barriers wait behind chunks that are under way."""
_USEFUL_SHARE = 0.85
"""Of what full batches would let through, chunks are to let through as much."""
_KEPT_COST = 0.9
"""Of what is known of earlier chunks, with each one."""
_SPREAD = 0.05
"""Chunks tell a call from its rows where the variance of their rows is such a part of the square of their mean."""


class ChunkCost:
    """What a call takes, and what a row: a line through the chunks of late, by least squares. Pure.

    A call of a model takes tens of milliseconds whatever it is given, so its time says nothing of its rows. Chunks of
    different sizes tell the two apart. What may as well be chance counts as the time of rows.
    """

    def __init__(self) -> None:
        self.call_ms = 0.0
        """At least, as far as can be told."""
        self.row_ms = 0.0
        """Until chunks of several sizes have passed, all of their time counts as that of their rows."""
        self.most_rows = 0.0
        """Of the chunks that it was learned from, of late."""
        self._fitted_ms = 0.0
        """What the line says of the call."""
        self._doubt_ms = 0.0
        """By how much the call may be overestimated: three standard errors."""
        self._chunks = self._rows = self._ms = self._rows_squared = self._ms_squared = self._rows_ms = 0.0

    def passed(self, rows: int, took_ms: float) -> None:
        """A chunk of so many rows took so long."""
        kept = _KEPT_COST
        self._chunks = kept * self._chunks + 1
        self._rows = kept * self._rows + rows
        self._ms = kept * self._ms + took_ms
        self._rows_squared = kept * self._rows_squared + rows * rows
        self._ms_squared = kept * self._ms_squared + took_ms * took_ms
        self._rows_ms = kept * self._rows_ms + rows * took_ms
        self.most_rows = max(kept * self.most_rows, rows)
        mean_rows, mean_ms = self._rows / self._chunks, self._ms / self._chunks
        variance = self._rows_squared / self._chunks - mean_rows * mean_rows
        if self._chunks > 2 and variance > _SPREAD * mean_rows * mean_rows:
            self.row_ms = max(0.0, (self._rows_ms / self._chunks - mean_rows * mean_ms) / variance)
            self.row_ms = min(self.row_ms, mean_ms / mean_rows)
            unexplained = self._ms_squared / self._chunks - mean_ms * mean_ms - self.row_ms * self.row_ms * variance
            error = max(0.0, unexplained) / (self._chunks - 2) * (1 + mean_rows * mean_rows / variance)
            self._doubt_ms = 3 * math.sqrt(error)
            self._fitted_ms = mean_ms - self.row_ms * mean_rows
        else:
            # Chunks of one size say what both take together: what is more than the call took is that of the rows.
            self._fitted_ms = min(self._fitted_ms, mean_ms)
            self.row_ms = (mean_ms - self._fitted_ms) / mean_rows
        self.call_ms = max(0.0, self._fitted_ms - self._doubt_ms)

    @property
    def useful_rows(self) -> int:
        """Rows of a chunk that lets through nearly as many in a second as the largest would, and takes no longer than
        it may. At most a few times as many as there have been, as nobody knows what more would take: four times, or
        sixteen where the call takes nearly all of the time."""
        call, row, largest = self.call_ms, self.row_ms, rows_of_size(LAST_SIZE)
        if call <= 0:
            return 0
        useful = _USEFUL_SHARE * largest * call / (call + (1 - _USEFUL_SHARE) * row * largest)
        in_time = LONGEST_MS / row if row else math.inf
        growth = rows_of_size(2 if rows_of_size(1) * row * self.most_rows <= call else 1)
        return int(min(useful, in_time, growth * self.most_rows))


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
        self._cost = ChunkCost()
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
            self._row_ms, known_ms, self._cost = {}, row_ms, ChunkCost()
        self._row_ms[size] = known_ms + _NEW_SHARE * (row_ms - known_ms)
        self._cost.passed(rows, took_ms)
        self.rows = max(rows_of_size(min(self._best_size(), LAST_SIZE)), self._cost.useful_rows)

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
