"""What has been committed and is to go on, checkpoint by checkpoint."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from actors.operators.sinks.committables import encode_messages
from flinkray.batches.batch import Batch
from flinkray.connectors.committer import CommitOutcome, CommitRequest, CommittableSummary

_COMMITTED = (CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED)


class CommittedRows:
    """What a subtask has committed, until all of its checkpoint is.

    Until then it stays in snapshots, so that what goes on for a checkpoint is never a part of it: after a failure it is
    committed again.
    """

    def __init__(self, subtask_index: int, number_of_subtasks: int) -> None:
        self._subtask_index = subtask_index
        self._number_of_subtasks = number_of_subtasks
        self._complete: deque[int] = deque()
        self._last = -1
        self._settled: list[CommitRequest[Any]] = []

    def complete(self, checkpoint_id: int) -> None:
        """That checkpoint is complete, and so its rows go on when all is settled that was prepared up to it."""
        if checkpoint_id > self._last:
            self._last = checkpoint_id
            self._complete.append(checkpoint_id)

    def settle(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Takes those of an attempt that are committed or given up."""
        done = (*_COMMITTED, CommitOutcome.GIVEN_UP)
        self._settled.extend(each for each in requests if each.outcome in done)

    def committables(self) -> list[tuple[int, Any]]:
        """What is committed and has not gone on, each with the checkpoint that it was prepared for."""
        return [(each.checkpoint_id, each.committable) for each in self._settled if each.outcome in _COMMITTED]

    def take(self, first_open: int | None) -> list[Batch]:
        """The rows that go on now.

        Args:
            first_open: the earliest checkpoint of which something is to be committed; None: there is none.
        """
        batches = []
        while self._complete and (first_open is None or self._complete[0] < first_open):
            batches.append(self._rows_of(self._complete.popleft()))
        return batches

    def _rows_of(self, checkpoint_id: int) -> Batch:
        requests = [each for each in self._settled if each.checkpoint_id <= checkpoint_id]
        self._settled = [each for each in self._settled if each.checkpoint_id > checkpoint_id]
        committed = [each.committable for each in requests if each.outcome in _COMMITTED]
        failed = len(requests) - len(committed)
        summary = CommittableSummary(
            self._subtask_index, self._number_of_subtasks, checkpoint_id, len(committed), failed
        )
        return encode_messages(summary, committed)
