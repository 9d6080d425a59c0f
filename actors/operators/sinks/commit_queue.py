"""What was prepared and is not yet committed, by checkpoint, and what is to be committed next."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from flinkray.connectors.committer import CommitOutcome, CommitRequest

FIRST_PAUSE_MS = 100.0
"""How long a commit that was put off waits the first time; then twice as long each time."""
LONGEST_PAUSE_MS = 10_000.0


class CommitQueue:
    """Committables by checkpoint. Those of one are settled before those of the next, ascending, are begun; what is
    carried over comes with each of the next until it is settled."""

    def __init__(self) -> None:
        self._requests: dict[int, list[CommitRequest[Any]]] = {}
        self._carried: list[CommitRequest[Any]] = []
        self._complete = -1

    def add(self, checkpoint_id: int, committables: Sequence[Any]) -> None:
        """What was prepared for a checkpoint that is not complete yet."""
        if committables:
            requests = self._requests.setdefault(checkpoint_id, [])
            requests.extend(CommitRequest(each, checkpoint_id) for each in committables)

    def complete(self, checkpoint_id: int) -> None:
        """That checkpoint is complete: what was prepared for it, and for earlier ones that failed, is due."""
        self._complete = max(self._complete, checkpoint_id)

    @property
    def complete_checkpoint(self) -> int:
        """The newest complete checkpoint."""
        return self._complete

    @property
    def first_checkpoint(self) -> int | None:
        """The earliest checkpoint of which something is left, but for what is carried over; None: there is none."""
        return min(self._requests, default=None)

    @property
    def due_checkpoints(self) -> int:
        """How many checkpoints have something that is due."""
        return sum(each <= self._complete for each in self._requests)

    @property
    def pending(self) -> int:
        """How many committables are not committed."""
        return sum(map(len, self._requests.values())) + len(self._carried)

    def next(self) -> list[CommitRequest[Any]]:
        """What is to be committed now: what was carried over, and all that is left of the earliest checkpoint; empty:
        no checkpoint is due."""
        first = self.first_checkpoint
        return [] if first is None or first > self._complete else [*self._carried, *self._requests[first]]

    def settle(self, requests: Sequence[CommitRequest[Any]]) -> Counter[CommitOutcome]:
        """Takes back what `next` gave, after the attempt. What was put off stays, as a new request.

        Returns:
            How many requests had which outcome.
        """
        first = min(self._requests)
        again = [
            CommitRequest(each.committable, each.checkpoint_id, each.attempt + 1)
            for each in requests
            if each.outcome is CommitOutcome.RETRY_LATER
        ]
        self._carried = [
            CommitRequest(each.committable, each.checkpoint_id)
            for each in requests
            if each.outcome is CommitOutcome.CARRIED_OVER
        ]
        if again:
            self._requests[first] = again
        else:
            del self._requests[first]
        return Counter(each.outcome for each in requests)

    def committables(self) -> Iterable[tuple[int, list[Any]]]:
        """All that is not committed, for a snapshot: checkpoint -> committables."""
        found: dict[int, list[Any]] = {}
        for request in (*self._carried, *itertools.chain.from_iterable(self._requests.values())):
            found.setdefault(request.checkpoint_id, []).append(request.committable)
        return sorted(found.items(), key=itemgetter(0))


def pause_ms(attempt: int) -> float:
    """How long to wait before that attempt, 1 being the first that follows one that was put off."""
    return float(min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS))
