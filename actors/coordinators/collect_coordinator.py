"""Holds the rows of a collecting sink until the driver takes them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from actors.coordinators.base import CoordinatorContext, OperatorCoordinator
from actors.messages import RowsCollected, RowsTaken
from flinkray.batch import Batch
from flinkray.errors import FlinkrayError


@dataclass(slots=True)
class _Subtask:
    expected: int = 0
    """Sequence of the next batch."""
    taken: int = 0
    """Batches of the current attempt that the driver has."""


class CollectCoordinator(OperatorCoordinator):
    """A buffer of batches between the sink's subtasks and the driver.

    It is bounded because each subtask has a bounded number of batches that were not acknowledged with RowsTaken, and
    only `take` acknowledges. Batches of one subtask keep their order; one that comes twice counts once.
    """

    def __init__(self, operator_name: str, collect_id: str, context: CoordinatorContext) -> None:
        self.collect_id = collect_id
        """Which CollectSink this is (`JobClient.collected`)."""
        self._operator_name = operator_name
        self._context = context
        self._subtasks = [_Subtask() for _ in range(context.parallelism)]
        self._buffer: deque[tuple[int, int, Batch]] = deque()
        """(subtask, sequence, batch)"""
        self._is_closed = False
        self._error: FlinkrayError | None = None

    def start(self) -> None: ...

    def handle_event(self, subtask_index: int, event: Any) -> None:
        if not isinstance(event, RowsCollected):
            raise TypeError(f"the coordinator of sink {self._operator_name!r} cannot handle {event!r}")
        subtask = self._subtasks[subtask_index]
        if event.sequence < subtask.expected:
            return
        if event.sequence > subtask.expected:
            missing = f"batch {event.sequence} came where {subtask.expected} was due"
            self._context.fail_job(
                FlinkrayError(f"sink {self._operator_name!r} (subtask {subtask_index + 1}): rows were lost, {missing}")
            )
            return
        subtask.expected += 1
        self._buffer.append((subtask_index, event.sequence, event.batch))

    def subtask_failed(self, subtask_index: int) -> None:
        """The next attempt sends everything again, so what is still here must go.

        Rows that the driver already has cannot be called back: then every further `take` raises, as Flink's
        collecting iterator does for a job that restarts without checkpoints.
        """
        if self._subtasks[subtask_index].taken:
            self._error = FlinkrayError(
                f"sink {self._operator_name!r} (subtask {subtask_index + 1} of {len(self._subtasks)}) was restarted "
                "after some of its rows had been handed to the driver, which would now get them twice; run the job "
                "again, or write to a sink that commits"
            )
        self._subtasks[subtask_index] = _Subtask()
        self._buffer = deque(entry for entry in self._buffer if entry[0] != subtask_index)

    def close(self) -> None:
        """No more rows will come; those that are here can still be taken."""
        self._is_closed = True

    def take(self, max_batches: int) -> tuple[list[Batch], bool]:
        """Up to that many batches, oldest first, and whether the driver has everything now (the job has ended).

        Raises:
            FlinkrayError: rows that were taken before would come again (see `subtask_failed`).
        """
        if self._error is not None:
            raise self._error
        batches: list[Batch] = []
        highest: dict[int, int] = {}
        while self._buffer and len(batches) < max_batches:
            subtask_index, sequence, batch = self._buffer.popleft()
            batches.append(batch)
            highest[subtask_index] = sequence
            self._subtasks[subtask_index].taken += 1
        if not self._is_closed:
            for subtask_index, sequence in highest.items():
                self._context.send_event(subtask_index, RowsTaken(sequence))
        return batches, self._is_closed and not self._buffer
