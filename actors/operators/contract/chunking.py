"""How many rows of a batch go through a chain of operators at a time: the chunks that a batch is cut into.

A chunk is as large as passes within TARGET_MS, so that the task soon looks at its mailbox again; and no larger than the
exchanges behind the task want their buffers to be.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Protocol

from msgspec import Struct

from flinkray.batches.batch import Batch

TARGET_MS = 100.0
"""How long a chunk may take. Timers, barriers and cancelling wait for so long, or for as long as one row takes."""
FIRST_SIZE = 1
"""Sizes are powers of four; this is the one while nothing is known: a call of a model may take seconds per row."""
LAST_SIZE = 10
"""The largest size, of 4 ** 10 rows."""
WORTH = 2.0
"""A size is too small if a row takes so many times as long in it as in the best size."""
_NEW_SHARE = 0.5
"""The weight of a new measurement in what is known of its size."""
_OTHER_TIMES = 8.0
"""If a row takes so many times as long, or as short, as it did in the same size, what is known of other sizes is
forgotten."""
_REST = 8
"""A rest of at most one such part of a chunk goes with the chunk: however few its rows, a chunk takes some tenths of a
millisecond, and batches that were split among channels have a few rows more or less than they should."""


def rows_of_size(size: int) -> int:
    return int(4**size)


class ChunkConsumer(Protocol):
    """Where the rows that a task makes of its chunks leave it, for example a record writer."""

    @property
    def rows_written(self) -> int:
        """How many rows have left here so far."""

    @property
    def rows_wanted(self) -> float:
        """How many rows should leave here at a time; infinity: any number."""


class _Yield(Struct):
    """How many rows a consumer got of late for how many that the task took."""

    rows_in: float = 0.0
    rows_out: float = 0.0
    total_out: int = 0
    """`rows_written` of the consumer when it was last looked at."""


_DECAY = 0.9
"""What is known of earlier chunks counts so much less with each new one."""


class ChunkLimit:
    """How many rows a task may take at a time for the sake of the exchanges behind it. Pure; belongs to its thread.

    Args:
        consumers: where the task's rows leave it; there may be more of them later.
    """

    def __init__(self, consumers: Collection[ChunkConsumer] = ()) -> None:
        self._consumers = consumers
        self._yields: dict[int, _Yield] = {}

    @property
    def rows(self) -> int | None:
        """The most rows of a chunk; None: any number."""
        most = min((self._rows_for(index, each) for index, each in enumerate(self._consumers)), default=math.inf)
        return None if most == math.inf else max(1, int(most))

    def _rows_for(self, index: int, consumer: ChunkConsumer) -> float:
        wanted, known = consumer.rows_wanted, self._yields.get(index)
        if wanted == math.inf or known is None or not known.rows_out:
            return math.inf
        return wanted * known.rows_in / known.rows_out

    def passed(self, rows: int) -> None:
        """The task has taken so many rows, and what it makes of them is written."""
        for index, each in enumerate(self._consumers):
            known = self._yields.setdefault(index, _Yield())
            written = each.rows_written
            known.rows_in = _DECAY * known.rows_in + rows
            known.rows_out = _DECAY * known.rows_out + written - known.total_out
            known.total_out = written


LONGEST_MS = 500.0
"""How long the rows of a chunk may take beside the call itself: barriers wait behind chunks that are under way."""
_USEFUL_SHARE = 0.85
"""Chunks are to let through at least this share of the rows per second that full batches would."""
_SPREAD = 0.05
"""Chunks tell the cost of a call from that of its rows where the variance of their sizes is at least this part of the
square of their mean."""


class ChunkCost:
    """What a call takes and what a row takes, fitted to the latest chunks by least squares. Pure.

    A call of a model takes tens of milliseconds whatever it is given, so its time says nothing of its rows. Chunks of
    different sizes tell the two apart. What may as well be chance counts as the time of rows.
    """

    def __init__(self) -> None:
        self.call_ms = 0.0
        """What a call takes at least, as far as can be told."""
        self.row_ms = 0.0
        """What a row takes. Until chunks of several sizes have passed, all their time counts as that of their rows."""
        self.most_rows = 0.0
        """The rows of the largest chunk of late."""
        self._fitted_ms = 0.0
        """What a call takes by the fitted line."""
        self._doubt_ms = 0.0
        """How much less than that a call may take: three standard errors."""
        self._chunks = self._rows = self._ms = self._rows_squared = self._ms_squared = self._rows_ms = 0.0

    def passed(self, rows: int, took_ms: float) -> None:
        """A chunk of so many rows took so long."""
        self._chunks = _DECAY * self._chunks + 1
        self._rows = _DECAY * self._rows + rows
        self._ms = _DECAY * self._ms + took_ms
        self._rows_squared = _DECAY * self._rows_squared + rows * rows
        self._ms_squared = _DECAY * self._ms_squared + took_ms * took_ms
        self._rows_ms = _DECAY * self._rows_ms + rows * took_ms
        self.most_rows = max(_DECAY * self.most_rows, rows)
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
    """Cuts batches into chunks, and learns how quickly rows pass in chunks of each size. Pure; belongs to one thread.

    A call may take a while whatever it is given: chunks are not made so small that this is most of their time.

    Args:
        limit: the task's, which its other inputs share; None: only the time that rows take counts.
    """

    def __init__(self, limit: ChunkLimit | None = None) -> None:
        self._limit = limit or ChunkLimit()
        self.rows = rows_of_size(FIRST_SIZE)
        """How many rows pass quickly enough."""
        self._cost = ChunkCost()
        self._row_ms: dict[int, float] = {}
        """Size -> what a row takes in chunks of that size (of so many rows, and up to four times as many)."""

    @property
    def buffer_rows(self) -> int:
        """How many rows the buffers to the task should have: as many as pass quickly enough, also where no chunk was as
        large yet."""
        row_ms = min(self._row_ms.values(), default=math.inf)
        in_time = int(TARGET_MS / row_ms) if row_ms else rows_of_size(LAST_SIZE)
        return self._limited(max(self.rows, in_time))

    def _limited(self, rows: int) -> int:
        most = self._limit.rows
        return rows if most is None else min(rows, most)

    def cut(self, batch: Batch) -> tuple[Batch, Batch | None]:
        """The chunk to be processed now, and the rows that are left behind it, if any."""
        rows = self._limited(self.rows)
        if batch.num_rows <= rows or batch.num_rows <= min(rows + rows // _REST, self.buffer_rows):
            return batch, None
        return batch.slice(0, rows), batch.slice(rows)

    def passed(self, rows: int, took_ms: float) -> None:
        """A chunk of so many rows (at least one) took so long."""
        self._limit.passed(rows)
        size = min((rows.bit_length() - 1) // 2, LAST_SIZE)
        row_ms = took_ms / rows
        known_ms = self._row_ms.get(size, row_ms)
        slower_ms = max(row_ms, known_ms)
        # A chunk that was slow among quick ones most likely met a moment in which something else had the core.
        if slower_ms > _OTHER_TIMES * min(row_ms, known_ms) and slower_ms * rows > TARGET_MS:
            self._row_ms, known_ms, self._cost = {}, row_ms, ChunkCost()
        self._row_ms[size] = known_ms + _NEW_SHARE * (row_ms - known_ms)
        self._cost.passed(rows, took_ms)
        self.rows = max(rows_of_size(min(self._best_size(), LAST_SIZE)), self._cost.useful_rows)

    def _best_size(self) -> int:
        """The largest size that is quick enough; where none is, the smallest one that is worth it; or a neighbour of
        that size which is to be tried."""
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
