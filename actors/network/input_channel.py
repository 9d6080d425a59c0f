"""One consumed subpartition, at the consumer: in the same slot by reference, from another slot by messages."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from actors.elements import CheckpointBarrier, Element, EndOfPartition
from actors.messages import BufferEntry, ChannelDescriptor, ChannelId
from actors.network.buffers import unaligned
from actors.network.capture import ChannelCapture
from actors.network.credit import ByteBudget, CreditStatistics, FloatingBuffers, ReceiverCredit
from actors.network.result_partition import ResultPartition, SubpartitionView
from actors.network.subpartition import NextKind, Polled
from flinkray.batch import Batch
from flinkray.errors import PartitionError

QueueChannel = Callable[[int], None]
"""The gate's: this channel turned readable. Any thread may call it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """An element on its way to the operator."""

    element: Element
    nbytes: int
    has_more: bool
    """Whether another can be read right now. If not, the channel will announce itself."""


@dataclass(frozen=True, slots=True)
class InputChannelStatistics:
    """A snapshot of one input channel."""

    channel_id: ChannelId
    producer: str
    is_local: bool
    queued_buffers: int
    """Received (or, in the same slot, waiting in the subpartition) and not yet read."""
    taken_buffers: int
    taken_bytes: int
    credit: CreditStatistics | None
    """None for a local channel, which needs none."""
    queued_bytes: int = 0
    """Of the rows in `queued_buffers`."""


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
        self.is_released = False

    @abstractmethod
    def request(self) -> None:
        """Asks the producer for the subpartition. Returns at once; a failure comes out of `poll`."""

    def poll(self) -> Taken | None:
        """The next element, or None; never blocks.

        Raises:
            PartitionError: the channel is broken.
        """
        return self._read(self._take)

    @property
    def has_priority(self) -> bool:
        """Whether a barrier waits that goes before all data. Any thread may ask."""
        return False

    def poll_priority(self) -> Taken | None:
        """The next element if it is a barrier that goes before all data. Raises as `poll` does."""
        return self._read(self._take_priority)

    def _read(self, take: Callable[[], Taken | None]) -> Taken | None:
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
    def _take(self) -> Taken | None: ...

    def _take_priority(self) -> Taken | None:
        return None

    def _on_read(self, element: Element) -> None:
        """Tells the capture; here for channels whose elements arrive by being read."""
        self._capture.on_arrived(element)
        if isinstance(element, CheckpointBarrier):
            self._capture.on_barrier_read(element.checkpoint_id)

    @abstractmethod
    def recycle(self) -> None:
        """The batch that came last has been consumed."""

    @abstractmethod
    def resume(self) -> None:
        """The aligned barrier that came last has been handled: what waits behind it may come.

        Without effect where none came since the last time: the next barrier must not be resumed for the one before.
        """

    def _unblock(self) -> bool:
        """Whether there is a barrier to resume for; not from now on."""
        was_blocked, self._is_blocked = self._is_blocked, False
        return was_blocked

    def begin_capture(self, checkpoint_id: int) -> None:
        """Collects the rows that precede this barrier and have not been read; see `InputGate.begin_capture`."""
        self._capture.begin(checkpoint_id, ())

    def is_captured(self, checkpoint_id: int) -> bool:
        return not self._capture.is_waiting_for(checkpoint_id)

    def end_capture(self, checkpoint_id: int) -> list[Batch]:
        return self._capture.end(checkpoint_id)

    @abstractmethod
    def release(self) -> None:
        """Nothing more is wanted. Calling it again has no effect."""

    @abstractmethod
    def send_task_event(self, event: Any) -> None:
        """Sends an event upstream, to the task that makes the partition."""

    def fail(self, error: PartitionError) -> None:
        """Lets the next poll raise. Any thread may call it; only the first error counts."""
        if self._error is None and not self.is_released:
            self._error = error
            self._queue_in_gate(self.index)

    @abstractmethod
    def statistics(self) -> InputChannelStatistics: ...

    def __str__(self) -> str:
        where = f"subpartition {self.descriptor.subpartition} of {self.descriptor.partition_id}"
        return f"channel {self.channel_id} ({where} at {self.descriptor.producer})"


class LocalConnector(Protocol):
    """Finds the partitions of this slot (`actors.network.partition_registry`)."""

    def connect(self, channel: LocalInputChannel) -> None:
        """Attaches the partition now, or when its task has registered it."""

    def disconnect(self, channel: LocalInputChannel) -> None: ...

    def publish(self, channel: InputChannel, event: Any) -> None: ...


class LocalInputChannel(InputChannel):
    """Reads the subpartition itself, in the same process: references, no credit, no sequence to check."""

    def __init__(
        self,
        channel_id: ChannelId,
        index: int,
        descriptor: ChannelDescriptor,
        queue: QueueChannel,
        connector: LocalConnector,
    ) -> None:
        super().__init__(channel_id, index, descriptor, queue)
        self._connector = connector
        self._lock = threading.Lock()
        self._view: SubpartitionView | None = None

    def request(self) -> None:
        self._connector.connect(self)

    def attach(self, partition: ResultPartition) -> None:
        """The partition is there. Any thread may call it."""
        with self._lock:
            if self.is_released:
                return
            try:
                listener = partial(self._queue_in_gate, self.index)
                self._view = partition.create_view(self.descriptor.subpartition, listener)
            except PartitionError as error:
                self._error = error
        self._queue_in_gate(self.index)

    def _take(self) -> Taken | None:
        view = self._view
        return self._taken(view.poll()) if view is not None else None

    @property
    def has_priority(self) -> bool:
        view = self._view
        return view is not None and view.has_priority

    def _take_priority(self) -> Taken | None:
        view = self._view
        return self._taken(view.poll(only_priority=True)) if view is not None else None

    @staticmethod
    def _taken(polled: Polled | None) -> Taken | None:
        if polled is None:
            return None
        buffer = polled.buffer
        return Taken(buffer.element, buffer.nbytes, polled.next_kind is not NextKind.NOTHING)

    def begin_capture(self, checkpoint_id: int) -> None:
        view = self._view
        overtaken = view.overtake(checkpoint_id) if view is not None else None
        # What waits in the producer's queue is captured there, unless its barrier waits behind it.
        self._capture.begin(checkpoint_id, ((batch, 0) for batch in overtaken or ()))
        if overtaken is not None:
            self._queue_in_gate(self.index)

    def recycle(self) -> None:
        """Without effect: the buffer left the producer's count when it was read."""

    def resume(self) -> None:
        if self._unblock() and self._view is not None and self._view.resume() is not NextKind.NOTHING:
            self._queue_in_gate(self.index)

    def release(self) -> None:
        with self._lock:
            if self.is_released:
                return
            self.is_released = True
            view, self._view = self._view, None
        if view is not None:
            view.release()
        else:
            self._connector.disconnect(self)

    def send_task_event(self, event: Any) -> None:
        self._connector.publish(self, event)

    def statistics(self) -> InputChannelStatistics:
        view = self._view
        queue = view.statistics() if view is not None else None
        return InputChannelStatistics(
            channel_id=self.channel_id,
            producer=self.descriptor.producer,
            is_local=True,
            queued_buffers=queue.queued_buffers if queue is not None else 0,
            taken_buffers=self._taken_buffers,
            taken_bytes=self._taken_bytes,
            credit=None,
            queued_bytes=queue.queued_bytes if queue is not None else 0,
        )


class RemoteConnector(Protocol):
    """Carries a channel's wishes to its producer (`actors.network.receiver`). Any thread may call it."""

    def request(self, channel: RemoteInputChannel) -> None: ...

    def consumed(self, channel: RemoteInputChannel) -> None: ...

    def resume(self, channel: RemoteInputChannel) -> None: ...

    def release(self, channel: RemoteInputChannel) -> None: ...

    def announce_credit(self, channel: RemoteInputChannel) -> None:
        """Only the network loop calls this: the channel's ledger has credit to grant."""

    def send_task_event(self, channel: RemoteInputChannel, event: Any) -> None: ...


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
        """Barriers that go before everything that was received."""
        self._queued_bytes = 0
        self._next_sequence = 0
        self.has_ended = False
        """Everything has arrived, though it may not be read yet: the producer needs no credit any more."""
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
            self.credit.on_data(entry.nbytes)
        self.credit.on_backlog(entry.backlog)
        self.has_ended = isinstance(element, EndOfPartition)
        with self._lock:
            if self.is_released:
                return
            must_announce = self._store(element, entry)
        if must_announce:
            self._queue_in_gate(self.index)

    def _store(self, element: Element, entry: BufferEntry) -> bool:
        """Whether the gate must hear of it."""
        if isinstance(element, CheckpointBarrier) and (
            element.options.is_unaligned or self._capture.is_waiting_for(element.checkpoint_id)
        ):
            self._put_forward(element)
            must_announce = True
        else:
            self._received.append((element, entry.nbytes, entry.sequence))
            self._queued_bytes += entry.nbytes
            must_announce = len(self._received) == 1
        self._capture.on_arrived(element, entry.sequence)
        return must_announce

    def _take(self) -> Taken | None:
        with self._lock:
            if self._urgent:
                return self._taken(self._urgent.popleft(), 0)
            if not self._received:
                return None
            element, nbytes, _ = self._received.popleft()
            self._queued_bytes -= nbytes
            return self._taken(element, nbytes)

    @property
    def has_priority(self) -> bool:
        return bool(self._urgent)

    def _take_priority(self) -> Taken | None:
        with self._lock:
            return self._taken(self._urgent.popleft(), 0) if self._urgent else None

    def _taken(self, element: Element, nbytes: int) -> Taken:
        return Taken(element, nbytes, bool(self._urgent or self._received))

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
        """Whether what came last waits behind something else."""
        return len(self._received) > 1

    def let_overtake(self, checkpoint_id: int) -> None:
        """An aligned barrier that waits here becomes an unaligned one, and goes before all rows. Any thread."""
        with self._lock:
            for position, (element, _, _) in enumerate(self._received):
                if isinstance(element, CheckpointBarrier) and element.checkpoint_id == checkpoint_id:
                    if not element.blocks_channel:
                        return
                    del self._received[position]
                    self._put_forward(element)
                    break
            else:
                return
        self._queue_in_gate(self.index)

    def _put_forward(self, barrier: CheckpointBarrier) -> None:
        self._urgent.append(unaligned(barrier))
        if barrier.blocks_channel:
            # Nothing must wait behind it at the producer any more: the capture knows where it stood.
            self._connector.resume(self)

    def is_captured(self, checkpoint_id: int) -> bool:
        with self._lock:
            return super().is_captured(checkpoint_id)

    def end_capture(self, checkpoint_id: int) -> list[Batch]:
        with self._lock:
            return super().end_capture(checkpoint_id)

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

    def statistics(self) -> InputChannelStatistics:
        return InputChannelStatistics(
            channel_id=self.channel_id,
            producer=self.descriptor.producer,
            is_local=False,
            queued_buffers=len(self._urgent) + len(self._received),
            taken_buffers=self._taken_buffers,
            taken_bytes=self._taken_bytes,
            credit=self.credit.statistics(),
            queued_bytes=self._queued_bytes,
        )
