"""A channel whose producer is in the same slot: by reference, without credit."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Protocol

from actors.network.consumer.input_channel import (
    BufferAndAvailability,
    InputChannel,
    InputChannelStatistics,
    QueueChannel,
)
from actors.network.producer.result_partition import ResultPartition, SubpartitionView
from actors.network.producer.subpartition import BufferAndBacklog, NextKind
from actors.protocol.data_messages import ChannelId
from actors.protocol.task_messages import ChannelDescriptor
from flinkray.errors import PartitionError


class LocalConnector(Protocol):
    """Finds the partitions of this slot (`actors.network.connections.partition_registry`)."""

    def connect(self, channel: LocalInputChannel) -> None:
        """Attaches the partition now, or when its task has registered it."""

    def disconnect(self, channel: LocalInputChannel) -> None:
        """The channel waits for its partition no longer."""

    def publish(self, channel: InputChannel, event: Any) -> None:
        """Hands an event to the task that makes the channel's partition."""


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
        """The partition is registered: the channel reads from it from now on. Any thread may call it."""
        with self._lock:
            if self.is_released:
                return
            try:
                listener = partial(self._queue_in_gate, self.index)
                self._view = partition.create_view(self.descriptor.subpartition, listener)
            except PartitionError as error:
                self._error = error
        self._pass_on_buffer_rows()
        self._queue_in_gate(self.index)

    def set_buffer_rows(self, rows: int) -> None:
        super().set_buffer_rows(rows)
        self._pass_on_buffer_rows()

    def _pass_on_buffer_rows(self) -> None:
        view, rows = self._view, self._buffer_rows
        if view is not None and rows is not None:
            view.set_buffer_rows(rows)

    def _take(self) -> BufferAndAvailability | None:
        view = self._view
        return _as_available(view.poll()) if view is not None else None

    @property
    def has_priority(self) -> bool:
        view = self._view
        return view is not None and view.has_priority

    def _take_priority(self) -> BufferAndAvailability | None:
        view = self._view
        return _as_available(view.poll(only_priority=True)) if view is not None else None

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


def _as_available(polled: BufferAndBacklog | None) -> BufferAndAvailability | None:
    if polled is None:
        return None
    buffer = polled.buffer
    return BufferAndAvailability(buffer.element, buffer.nbytes, polled.next_kind is not NextKind.NOTHING)
