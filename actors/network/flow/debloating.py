"""How many rows the buffers to a task should have. Pure. After Flink's buffer debloating (FLIP-183).

An aligned barrier waits behind the rows that are on their way to a task. So a buffer begins small, and grows as far as
its rows go through the task in good time: the consumer finds out, and tells its producers. Rows that an operator has
taken and holds have not gone through: asynchronous calls are made for as many at once as there is capacity, and say
nothing about those behind them before they give results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from flinkray.config.configuration import Configuration
from flinkray.config.options import BATCH_ROWS, BUFFER_DEBLOAT_ENABLED, RUNTIME_MODE

FIRST_ROWS = 4
"""Rows of a buffer while its consumer has said nothing: as many as the first chunk of a `ChunkSizer` (`FIRST_SIZE`)."""

BUFFER_MS = 100.0
"""How long a task may wait for room because of one buffer."""

# A measurement ends after so much waiting, or so many buffers: credit comes in halves and waiting in lumps, so that
# shorter ones would say little.
_ENOUGH_MS = 500.0
_ENOUGH_BUFFERS = 32


class Held(Protocol):
    """What a `BufferDebloater` looks at of rows that the task has taken and holds."""

    @property
    def rows(self) -> int:
        """How many there are now."""

    @property
    def total_ms(self) -> float:
        """For how long there have been any so far."""


class BufferDebloater:
    """Learns how many rows a task can take at a time. Belongs to its thread.

    Args:
        first_rows: what its producers begin with.
        most_rows: of a buffer, where rows are quick.
        waited_ms: how long the task has waited for room at its outputs so far.
        held: the rows that operators of the task hold; None: each row is done with when it has been taken.
    """

    def __init__(
        self, first_rows: int, most_rows: int, waited_ms: Callable[[], float], held: Held | None = None
    ) -> None:
        self.rows = first_rows
        """How many rows the task's buffers should have."""
        self._most_rows = most_rows
        self._waited_ms = waited_ms
        self._held = held
        self._passed = 0
        """How many rows have gone through since the measurement began."""
        self._waited_before_ms = self._held_before_ms = 0.0
        self._held_before = self._held_at_begin = 0
        self._rows_in_time = math.inf if held is None else first_rows
        """How many rows leave the task in BUFFER_MS, for its consumers or out of what its operators hold."""

    def passed(self, rows: int, quick_rows: int) -> bool:
        """Whether `rows` is something else than before, now that the task has taken so many rows (not none).

        Args:
            quick_rows: how many pass its operators quickly enough (see `ChunkSizer.buffer_rows`).
        """
        self._passed += rows
        held_ms = 0.0
        if self._held is not None:
            held, held_ms = self._held.rows, self._held.total_ms
            self._passed += self._held_before - held
            self._held_before = held
        waited_ms = self._waited_ms()
        waited = max(waited_ms - self._waited_before_ms, held_ms - self._held_before_ms)
        # What was held has left by then: such rows may leave all at once, a moment after a measurement has begun.
        enough = max(_ENOUGH_BUFFERS * self.rows, self._held_at_begin)
        if self._passed >= enough or (waited >= _ENOUGH_MS and self._passed > 0):
            self._rows_in_time = BUFFER_MS * self._passed / waited if waited else math.inf
            self._passed, self._waited_before_ms, self._held_before_ms = 0, waited_ms, held_ms
            self._held_at_begin = self._held_before
        before, self.rows = self.rows, self._wanted(quick_rows)
        return self.rows != before

    def _wanted(self, quick_rows: int) -> int:
        rows = min(quick_rows, self._rows_in_time)
        if rows >= self._most_rows:
            return self._most_rows
        return 1 << (int(max(1.0, rows)).bit_length() - 1)  # rounded, so that not each measurement changes it


def debloater(
    configuration: Configuration, waited_ms: Callable[[], float], held: Held | None = None
) -> BufferDebloater | None:
    """For an input of a task; None: its buffers are to be full. In batch mode no barrier waits."""
    if not _is_enabled(configuration):
        return None
    return BufferDebloater(first_buffer_rows(configuration), configuration.get(BATCH_ROWS), waited_ms, held)


def first_buffer_rows(configuration: Configuration) -> int:
    """Rows that buffers aim at until their consumer says something else."""
    rows = configuration.get(BATCH_ROWS)
    return min(FIRST_ROWS, rows) if _is_enabled(configuration) else rows


def _is_enabled(configuration: Configuration) -> bool:
    return configuration.get(BUFFER_DEBLOAT_ENABLED) and configuration.get(RUNTIME_MODE) != "batch"
