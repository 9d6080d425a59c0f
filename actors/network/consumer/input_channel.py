"""One consumed subpartition, at the consumer: what local and remote channels have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from actors.network.consumer.capture import ChannelCapture
from actors.network.flow.credit import CreditStatistics
from actors.protocol.data_messages import ChannelId
from actors.protocol.elements import CheckpointBarrier, Element
from actors.protocol.task_messages import ChannelDescriptor
from flinkray.batches.batch import Batch
from flinkray.errors import PartitionError

QueueChannel = Callable[[int], None]
"""Tells the gate that the channel with this index turned readable. Any thread may call it."""


class BufferAndAvailability(Struct, frozen=True):
    """An element that a channel gave its gate (Flink's BufferAndAvailability)."""

    element: Element
    nbytes: int
    has_more: bool
    """Whether another element can be read right now. If not, the channel tells the gate once there is one."""


class InputChannelStatistics(Struct, frozen=True):
    """A snapshot of one input channel."""

    channel_id: ChannelId
    producer: str
    is_local: bool
    queued_buffers: int
    """Buffers that are received (or, in the same slot, wait in the subpartition) and not yet read."""
    taken_buffers: int
    taken_bytes: int
    credit: CreditStatistics | None
    """The ledger of the channel's credits; None: it is a local channel, which needs none."""
    queued_bytes: int = 0
    """Bytes of the rows in `queued_buffers`."""


class InputChannel(ABC):
    """The consumer's end of one channel. The task's thread calls it, except where a method says otherwise."""

    def __init__(self, channel_id: ChannelId, index: int, descriptor: ChannelDescriptor, queue: QueueChannel) -> None:
        self.channel_id = channel_id
        self.index = index
        self.descriptor = descriptor
        self._queue_in_gate = queue
        self._error: PartitionError | None = None
        self._taken_buffers = 0
        self._taken_bytes = 0
        self._is_blocked = False
        self._capture = ChannelCapture()
        self._buffer_rows: int | None = None
        self.is_released = False

    @abstractmethod
    def request(self) -> None:
        """Asks the producer for the subpartition. Returns at once; a failure comes out of `poll`."""

    def poll(self) -> BufferAndAvailability | None:
        """The next element, or None; never blocks.

        Raises:
            PartitionError: the channel is broken.
        """
        return self._read(self._take)

    @property
    def has_priority(self) -> bool:
        """Whether a barrier waits that goes before all data. Any thread may ask."""
        return False

    def poll_priority(self) -> BufferAndAvailability | None:
        """The next element if it is a barrier that goes before all data. Raises as `poll` does."""
        return self._read(self._take_priority)

    def _read(self, take: Callable[[], BufferAndAvailability | None]) -> BufferAndAvailability | None:
        try:
            if self._error is not None:
                raise self._error
            taken = take()
        except PartitionError as error:
            # What else reads or makes the partition is restarted with this task.
            error.partition_id = self.descriptor.partition_id
            raise
        if taken is not None:
            self._taken_buffers += 1
            self._taken_bytes += taken.nbytes
            self._on_read(taken.element)
            if isinstance(taken.element, CheckpointBarrier):
                self._is_blocked |= taken.element.blocks_channel
        return taken

    @abstractmethod
    def _take(self) -> BufferAndAvailability | None: ...

    def _take_priority(self) -> BufferAndAvailability | None:
        return None

    def _on_read(self, element: Element) -> None:
        """Tells the capture that the element arrived, for channels whose elements arrive by being read."""
        self._capture.on_arrived(element)
        if isinstance(element, CheckpointBarrier):
            self._capture.on_barrier_read(element.checkpoint_id)

    @abstractmethod
    def recycle(self) -> None:
        """The operator is done with the batch that `poll` gave last."""

    @abstractmethod
    def resume(self) -> None:
        """The aligned barrier that came last has been handled: what waits behind it may come.

        Without effect where none came since the last time: the next barrier must not be resumed for the one before.
        """

    def _unblock(self) -> bool:
        """Whether a barrier blocks the channel; from now on none does."""
        was_blocked, self._is_blocked = self._is_blocked, False
        return was_blocked

    def begin_capture(self, checkpoint_id: int) -> None:
        """Collects the rows that precede this barrier and have not been read; see `InputGate.begin_capture`."""
        self._capture.begin(checkpoint_id, ())

    @property
    def last_barrier(self) -> int:
        """The newest checkpoint whose barrier has been read; -1: none."""
        return self._capture.last_read

    def is_captured(self, checkpoint_id: int) -> bool:
        """Whether all rows that precede this barrier have been collected; see `InputGate.is_captured`."""
        return not self._capture.is_waiting_for(checkpoint_id)

    def end_capture(self, checkpoint_id: int) -> list[Batch]:
        """The collected rows, oldest first; stops collecting."""
        return self._capture.end(checkpoint_id)

    def set_buffer_rows(self, rows: int) -> None:
        """How many rows the producer's buffers should have from now on, also where it is not connected yet."""
        self._buffer_rows = rows

    @abstractmethod
    def release(self) -> None:
        """The task wants nothing more of this channel. Calling it again has no effect."""

    @abstractmethod
    def send_task_event(self, event: Any) -> None:
        """Sends an event upstream, to the task that makes the partition."""

    def fail(self, error: PartitionError) -> None:
        """Lets the next poll raise. Any thread may call it; only the first error counts."""
        if self._error is None and not self.is_released:
            self._error = error
            self._queue_in_gate(self.index)

    @property
    def queued_buffers(self) -> int:
        """As in its statistics. Any thread."""
        return self.statistics().queued_buffers

    @abstractmethod
    def statistics(self) -> InputChannelStatistics: ...

    def __str__(self) -> str:
        where = f"subpartition {self.descriptor.subpartition} of {self.descriptor.partition_id}"
        return f"channel {self.channel_id} ({where} at {self.descriptor.producer})"
