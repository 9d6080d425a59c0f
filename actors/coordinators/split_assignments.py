"""Which splits went to which reader since when (Flink's SplitAssignmentTracker)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

Assignments = dict[int, list[Any]]
"""Subtask -> splits, in the order of assignment."""


class SplitAssignments:
    """Remembers splits until a complete checkpoint has them in the state of their readers."""

    def __init__(self) -> None:
        self._since: Assignments = defaultdict(list)
        """What was assigned since the last checkpoint was triggered."""
        self._before: dict[int, Assignments] = {}
        """Checkpoint -> what was assigned between the one before it and it. Ascending."""

    def add(self, splits: Sequence[Any], subtask_index: int) -> None:
        self._since[subtask_index].extend(splits)

    def cut(self, checkpoint_id: int) -> None:
        """What was assigned so far is in the readers' state for that checkpoint."""
        self._before[checkpoint_id], self._since = self._since, defaultdict(list)

    def complete(self, checkpoint_id: int) -> None:
        """Readers start from that checkpoint, or a later one, from now on."""
        self._before = {each: found for each, found in self._before.items() if each > checkpoint_id}

    def take(self, subtask_index: int, checkpoint_id: int | None) -> list[Any]:
        """The splits that a reader does not have when it starts from that checkpoint; None: from nothing."""
        splits: list[Any] = []
        for each, assignments in self._before.items():
            if checkpoint_id is None or each > checkpoint_id:
                splits.extend(assignments.pop(subtask_index, ()))
        return splits + self._since.pop(subtask_index, [])
