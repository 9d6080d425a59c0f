"""A channel whose producer is in another slot: by messages, within its credit."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import Any, Protocol

from actors.network.consumer.input_channel import (
    BufferAndAvailability,
    InputChannel,
    InputChannelStatistics,
    QueueChannel,
)
from actors.network.flow.buffers import unaligned
from actors.network.flow.credit import ByteBudget, FloatingBuffers, ReceiverCredit
from actors.protocol.data_messages import BufferEntry, ChannelId
from actors.protocol.elements import CheckpointBarrier, Element, EndOfPartition
from actors.protocol.task_messages import ChannelDescriptor
from flinkray.batches.batch import Batch
from flinkray.errors import PartitionError


class RemoteConnector(Protocol):
    """Carries what a channel asks to its producer (`actors.network.connections.receiver`). Any thread may call it."""

    def request(self, channel: RemoteInputChannel) -> None:
        """Asks for the channel's subpartition."""

    def consumed(self, channel: RemoteInputChannel) -> None:
        """The oldest data buffer has been consumed, which frees a buffer to grant a credit for."""

    def resume(self, channel: RemoteInputChannel) -> None:
        """What waits behind an aligned barrier may come."""

    def release(self, channel: RemoteInputChannel) -> None:
        """Nothing more is wanted."""

    def announce_credit(self, channel: RemoteInputChannel) -> None:
        """Only the network loop calls this: the channel's ledger has credit to grant."""

    def announce_buffer_rows(self, channel: RemoteInputChannel) -> None:
        """The producer's buffers should have another number of rows."""

    def send_task_event(self, channel: RemoteInputChannel, event: Any) -> None:
        """Sends an event to the task that makes the partition."""


class RemoteInputChannel(InputChannel):
    """Receives from another slot.

    The network loop owns `credit` and calls `receive`; the queue between it and the task's thread has a lock.
    """

    def __init__(
        self,
        channel_id: ChannelId,
        index: int,
        descriptor: ChannelDescriptor,
        queue: QueueChannel,
        connector: RemoteConnector,
        *,
        exclusive_buffers: int,
        floating: FloatingBuffers,
        budget: ByteBudget,
    ) -> None:
        super().__init__(channel_id, index, descriptor, queue)
        self._connector = connector
        self._lock = threading.Lock()
        self._received: deque[tuple[Element, int, int]] = deque()
        """(element, bytes, sequence), oldest first."""
        self._urgent: deque[CheckpointBarrier] = deque()
        """Barriers that go before all that waits in `_received`, oldest first."""
        self._queued_bytes = 0
        self._next_sequence = 0
        self.has_ended = False
        """Whether everything has arrived, though it may not be read yet: the producer needs no credit any more."""
        self.credit = ReceiverCredit(exclusive_buffers, floating, budget, partial(connector.announce_credit, self))

    def request(self) -> None:
        self._connector.request(self)

    def receive(self, entry: BufferEntry, element: Element) -> None:
        """An element has arrived. Network loop only.

        Raises:
            PartitionError: it is not the one that was to come next, or it came without credit.
        """
        if entry.sequence != self._next_sequence:
            raise PartitionError(f"{self}: buffer {self._next_sequence} was to come, and {entry.sequence} came")
        self._next_sequence += 1
        if isinstance(element, Batch):
            element.set_nbytes(entry.nbytes)
            self.credit.on_data(entry.nbytes)
        self.credit.on_backlog(entry.backlog)
        self.has_ended = isinstance(element, EndOfPartition)
        with self._lock:
            if self.is_released:
                return
            must_resume = False
            if isinstance(element, CheckpointBarrier) and (
                element.overtakes or self._capture.is_waiting_for(element.checkpoint_id)
            ):
                self._urgent.append(unaligned(element))
                must_announce, must_resume = True, element.blocks_channel
            else:
                self._received.append((element, entry.nbytes, entry.sequence))
                self._queued_bytes += entry.nbytes
                must_announce = len(self._received) == 1
            self._capture.on_arrived(element, entry.sequence)
        if must_resume:
            self._resume_behind_barrier()
        if must_announce:
            self._queue_in_gate(self.index)

    def _resume_behind_barrier(self) -> None:
        """Lets the producer send what waits behind a barrier that went ahead: the capture knows where the barrier
        stood.

        Not to be called under the lock: the thread may have to run what the network loop has queued for this channel.
        """
        self._connector.resume(self)

    def _take(self) -> BufferAndAvailability | None:
        with self._lock:
            if self._urgent:
                return self._with_availability(self._urgent.popleft(), 0)
            if not self._received:
                return None
            element, nbytes, _ = self._received.popleft()
            self._queued_bytes -= nbytes
            return self._with_availability(element, nbytes)

    @property
    def has_priority(self) -> bool:
        return bool(self._urgent)

    def _take_priority(self) -> BufferAndAvailability | None:
        with self._lock:
            return self._with_availability(self._urgent.popleft(), 0) if self._urgent else None

    def _with_availability(self, element: Element, nbytes: int) -> BufferAndAvailability:
        return BufferAndAvailability(element, nbytes, bool(self._urgent or self._received))

    def _on_read(self, element: Element) -> None:
        if isinstance(element, CheckpointBarrier):
            with self._lock:
                self._capture.on_barrier_read(element.checkpoint_id)

    def begin_capture(self, checkpoint_id: int) -> None:
        with self._lock:
            unread = ((element, at) for element, _, at in self._received if isinstance(element, Batch))
            self._capture.begin(checkpoint_id, unread)
        self.let_overtake(checkpoint_id)

    @property
    def has_several_unread(self) -> bool:
        """Whether the element that came last waits behind another one."""
        return len(self._received) > 1

    def let_overtake(self, checkpoint_id: int) -> None:
        """An aligned barrier that waits here becomes an unaligned one, and goes before all rows. Any thread."""
        with self._lock:
            for position, (element, _, _) in enumerate(self._received):
                if isinstance(element, CheckpointBarrier) and element.checkpoint_id == checkpoint_id:
                    if not element.may_turn_unaligned:
                        return
                    del self._received[position]
                    self._urgent.append(unaligned(element))
                    break
            else:
                return
        self._resume_behind_barrier()
        self._queue_in_gate(self.index)

    def is_captured(self, checkpoint_id: int) -> bool:
        with self._lock:
            return super().is_captured(checkpoint_id)

    def end_capture(self, checkpoint_id: int) -> list[Batch]:
        with self._lock:
            return super().end_capture(checkpoint_id)

    @property
    def buffer_rows(self) -> int | None:
        """Rows that the producer's buffers should have; None: the task has not said so far. Any thread may ask."""
        return self._buffer_rows

    def set_buffer_rows(self, rows: int) -> None:
        super().set_buffer_rows(rows)
        self._connector.announce_buffer_rows(self)

    def recycle(self) -> None:
        self._connector.consumed(self)

    def resume(self) -> None:
        if self._unblock():
            self._connector.resume(self)

    def release(self) -> None:
        with self._lock:
            if self.is_released:
                return
            self.is_released = True
            self._received.clear()
            self._urgent.clear()
            self._queued_bytes = 0
        self._connector.release(self)

    def send_task_event(self, event: Any) -> None:
        self._connector.send_task_event(self, event)

    @property
    def queued_buffers(self) -> int:
        return len(self._urgent) + len(self._received)

    def statistics(self) -> InputChannelStatistics:
        return InputChannelStatistics(
            channel_id=self.channel_id,
            producer=self.descriptor.producer,
            is_local=False,
            queued_buffers=self.queued_buffers,
            taken_buffers=self._taken_buffers,
            taken_bytes=self._taken_bytes,
            credit=self.credit.statistics(),
            queued_bytes=self._queued_bytes,
        )
