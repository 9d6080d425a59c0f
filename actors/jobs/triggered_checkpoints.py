"""Checkpoints that clients have asked for: which of the periodic ones serves each request, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable

from actors.protocol.client_requests import TriggeredCheckpoint
from flinkray.state.checkpoint_statistics import CheckpointKind, CheckpointStatistics, CheckpointStatus

REMEMBERED = 64
_UNDER_WAY = TriggeredCheckpoint()


class TriggeredCheckpoints:
    """The last requests. A request is served by the first checkpoint that begins after it and ends. Not thread-safe."""

    def __init__(self) -> None:
        self._lowest: dict[str, int] = {}
        """Request -> the lowest id of a checkpoint that serves it; of those under way."""
        self._known: dict[str, TriggeredCheckpoint] = {}

    @property
    def are_open(self) -> bool:
        return bool(self._lowest)

    def add(self, request_id: str, lowest_id: int) -> None:
        self._lowest[request_id] = lowest_id
        self._known[request_id] = _UNDER_WAY
        while len(self._known) > REMEMBERED:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._lowest.pop(oldest, None)

    def of(self, request_id: str) -> TriggeredCheckpoint | None:
        """What has become of it; None: there was no such request, or it is forgotten."""
        return self._known.get(request_id)

    def look(self, history: Iterable[CheckpointStatistics]) -> None:
        """Notes what has ended, given the last checkpoints and savepoints."""
        ended = sorted(
            (each for each in history if each.ended_ms is not None and each.kind is CheckpointKind.CHECKPOINT),
            key=lambda each: each.checkpoint_id,
        )
        for request_id, lowest in list(self._lowest.items()):
            serving = next((each for each in ended if each.checkpoint_id >= lowest), None)
            if serving is not None:
                del self._lowest[request_id]
                self._known[request_id] = _result(serving)


def _result(checkpoint: CheckpointStatistics) -> TriggeredCheckpoint:
    if checkpoint.status is CheckpointStatus.COMPLETED:
        return TriggeredCheckpoint(checkpoint.checkpoint_id)
    return TriggeredCheckpoint(failure=checkpoint.failure or "it failed")
