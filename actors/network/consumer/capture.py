"""What one input channel gives to unaligned checkpoints: the rows that precede their barriers, by reference."""

from __future__ import annotations

from collections.abc import Iterable

from actors.protocol.elements import CheckpointBarrier, Element, EndOfPartition
from flinkray.batches.batch import Batch


class ChannelCapture:
    """Knows which barriers have come on a channel, and collects rows for the checkpoints whose barrier has not.

    A row that leaves the producer's queue behind the barrier is in the producer's part of the checkpoint. So what
    counts is the order in which elements leave that queue, and not the one in which they are processed: `on_arrived`
    is told every element in that order, at a position that grows. One thread at a time.
    """

    def __init__(self) -> None:
        self._rows: dict[int, list[Batch]] = {}
        self._open: set[int] = set()
        """Checkpoints whose rows are collected, since their barrier has not come."""
        self._positions: dict[int, int] = {}
        """Checkpoint id -> the position of its barrier, for barriers that came and are not older than `last_read`."""
        self.last_read = -1
        """The newest checkpoint whose barrier the task has read; -1: none."""
        self._has_ended = False

    def is_waiting_for(self, checkpoint_id: int) -> bool:
        """Whether rows are collected until this barrier comes."""
        return checkpoint_id in self._open

    def has_come(self, checkpoint_id: int) -> bool:
        """Whether this barrier has left the producer's queue."""
        return checkpoint_id in self._positions

    def on_arrived(self, element: Element, position: int = 0) -> None:
        """The element left the producer's queue, as the next one."""
        if isinstance(element, Batch):
            for checkpoint_id in self._open:
                self._rows[checkpoint_id].append(element)
        elif isinstance(element, CheckpointBarrier):
            self._open.discard(element.checkpoint_id)
            self._positions[element.checkpoint_id] = position
        elif isinstance(element, EndOfPartition):
            self._has_ended = True
            self._open.clear()

    def on_barrier_read(self, checkpoint_id: int) -> None:
        """The task has the barrier: checkpoints before it do not begin any more."""
        self.last_read = max(self.last_read, checkpoint_id)
        self._positions = {each: at for each, at in self._positions.items() if each >= self.last_read}

    def begin(self, checkpoint_id: int, unread: Iterable[tuple[Batch, int]]) -> None:
        """Collects rows for the checkpoint from now on, beginning with those that are not read yet.

        Args:
            unread: rows that have arrived and are not read, with their positions, oldest first.
        """
        assert checkpoint_id not in self._rows, f"checkpoint {checkpoint_id} is captured already"
        barrier = self._positions.get(checkpoint_id)
        if barrier is not None:
            self._rows[checkpoint_id] = [batch for batch, position in unread if position < barrier]
        elif checkpoint_id < self.last_read:
            self._rows[checkpoint_id] = []
        else:
            self._rows[checkpoint_id] = [batch for batch, _ in unread]
            if not self._has_ended:
                self._open.add(checkpoint_id)

    def end(self, checkpoint_id: int) -> list[Batch]:
        """Stops collecting for the checkpoint, and gives what was collected; nothing if `begin` was not called."""
        self._open.discard(checkpoint_id)
        return self._rows.pop(checkpoint_id, [])
