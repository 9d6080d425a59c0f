"""The sending half of the connections to other slots: a reader per remote consumer, one message for many readers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

from actors.network.connections.partition_registry import PartitionRegistry
from actors.network.flow.buffers import Buffer
from actors.network.flow.credit import SenderCredit
from actors.network.producer.result_partition import SubpartitionView
from actors.network.producer.subpartition import BufferAndBacklog, NextKind
from actors.protocol.data_messages import (
    AddCredit,
    AnnounceBacklog,
    BufferEntry,
    Buffers,
    CancelSubpartition,
    ChannelId,
    NewBufferSize,
    RequestSubpartition,
    ResumeConsumption,
    SendTaskEvent,
    SubpartitionError,
)
from actors.protocol.ports import Address, BatchesRef, EndpointContext
from flinkray.errors import PartitionError

ENTRIES_PER_MESSAGE = 64
BYTES_PER_MESSAGE = 8 << 20
"""What one message carries at most: a large one delays the first of its buffers until the last has been copied."""

ANNOUNCE_AFTER_MS = 20.0
"""How long data waits without credit before its receiver is told. Credit comes back by itself with what is consumed;
only a receiver that is short of bytes must know. Told at once, every second message was such a one."""


class ReaderStatistics(Struct, frozen=True):
    """A snapshot of one remote consumer, at its producer."""

    channel_id: ChannelId
    consumer: Address
    credit_granted: int
    credit_available: int
    sent_buffers: int
    """Events included."""
    sent_bytes: int
    queued_buffers: int
    is_lingering: bool
    """They wait for more, as they may."""
    backlog: int


class _Reader(Struct, eq=False):
    """Reads one subpartition for one remote channel."""

    channel_id: ChannelId
    consumer: _Consumer
    credit: SenderCredit
    view: SubpartitionView
    sent_buffers: int = 0
    sent_bytes: int = 0
    is_queued: bool = False
    is_announcing: bool = False
    """A timer runs, after which the receiver is told that data waits here without credit."""
    announced: int | None = None
    """What it had been granted when the receiver was told last."""

    def can_send(self, next_kind: NextKind) -> bool:
        """An event always; data only with credit."""
        if next_kind is NextKind.DATA:
            return self.credit.available > 0
        return next_kind is not NextKind.NOTHING

    def statistics(self) -> ReaderStatistics:
        queue = self.view.statistics()
        return ReaderStatistics(
            channel_id=self.channel_id,
            consumer=self.consumer.address,
            credit_granted=self.credit.granted,
            credit_available=self.credit.available,
            sent_buffers=self.sent_buffers,
            sent_bytes=self.sent_bytes,
            queued_buffers=queue.queued_buffers,
            is_lingering=queue.is_lingering,
            backlog=queue.backlog,
        )


class _Consumer(Struct, eq=False):
    """One other slot, with the readers that can send to it, in turn."""

    address: Address
    readers: int = 0
    """Without any it is forgotten."""
    sendable: deque[_Reader] = field(default_factory=deque)
    backlogs: dict[ChannelId, int] = field(default_factory=dict)
    is_queued: bool = False


class PartitionSender:
    """Everything here runs in the network loop, except `statistics`."""

    def __init__(
        self,
        context: EndpointContext,
        registry: PartitionRegistry,
        post: Callable[[Callable[[], None]], None],
        watch: Callable[[Address], None],
        inline_bytes: int,
        frame_bytes: int,
    ) -> None:
        self._context = context
        self._watch = watch
        self._registry = registry
        self._post = post
        self._inline_bytes = inline_bytes
        self._frame_bytes = frame_bytes
        self._readers: dict[ChannelId, _Reader] = {}
        self._consumers: dict[Address, _Consumer] = {}
        self._to_send: deque[_Consumer] = deque()

    # -- messages --------------------------------------------------------------------------------------------------

    def on_request(self, message: RequestSubpartition) -> None:
        """Begins to send a subpartition, or answers why that cannot be."""
        partition = self._registry.find(message.partition_id)
        if partition is None:
            self._tell_error(message.consumer, message.channel_id, "the partition is not registered", is_missing=True)
            return
        listener = partial(self._post, partial(self._on_readable, message.channel_id))
        try:
            view = partition.create_view(message.subpartition, listener, self._frame_bytes)
        except PartitionError as error:
            self._tell_error(message.consumer, message.channel_id, str(error))
            return
        if message.buffer_rows is not None:
            view.set_buffer_rows(message.buffer_rows)
        consumer = self._consumer(message.consumer)
        consumer.readers += 1
        reader = _Reader(message.channel_id, consumer, SenderCredit(message.credit), view)
        self._readers[message.channel_id] = reader
        self._consider(reader)

    def on_add_credit(self, message: AddCredit) -> None:
        for channel_id, count in message.credits:
            reader = self._readers.get(channel_id)
            if reader is not None:
                reader.credit.add(count)
                self._consider(reader)

    def on_new_buffer_size(self, message: NewBufferSize) -> None:
        for channel_id, rows in message.sizes:
            reader = self._readers.get(channel_id)
            if reader is not None:
                reader.view.set_buffer_rows(rows)

    def on_resume(self, message: ResumeConsumption) -> None:
        for channel_id in message.channel_ids:
            reader = self._readers.get(channel_id)
            if reader is not None:
                reader.view.resume()
                self._consider(reader)

    def on_cancel(self, message: CancelSubpartition) -> None:
        for channel_id in message.channel_ids:
            reader = self._readers.get(channel_id)
            if reader is not None:
                self._remove(reader)

    def on_task_event(self, message: SendTaskEvent) -> None:
        partition = self._registry.find(message.partition_id)
        if partition is not None:
            partition.publish_task_event(message.event)

    # -- what can go wrong -----------------------------------------------------------------------------------------

    def fail_consumer(self, address: Address, cause: str) -> None:
        """The slot is gone: the partitions that it was reading have lost rows, and fail their writers."""
        for reader in [each for each in self._readers.values() if each.consumer.address == address]:
            self._fail_partition(reader, f"its consumer's slot {address} is gone: {cause}")
        self._consumers.pop(address, None)

    def fail_channels(self, channel_ids: list[ChannelId], cause: str) -> None:
        """Buffers for these channels did not arrive."""
        for channel_id in channel_ids:
            reader = self._readers.get(channel_id)
            if reader is not None:
                self._fail_partition(reader, f"buffers for {channel_id} were lost on the way: {cause}")

    def _fail_partition(self, reader: _Reader, cause: str) -> None:
        self._tell_error(reader.consumer.address, reader.channel_id, cause)
        reader.view.fail_partition(cause)
        self._remove(reader)

    def _tell_error(self, consumer: Address, channel_id: ChannelId, cause: str, is_missing: bool = False) -> None:
        self._context.tell(consumer, SubpartitionError(channel_id, cause, is_partition_missing=is_missing))

    def _remove(self, reader: _Reader) -> None:
        del self._readers[reader.channel_id]
        if reader.is_queued:
            reader.consumer.sendable.remove(reader)
        consumer = reader.consumer
        consumer.backlogs.pop(reader.channel_id, None)
        consumer.readers -= 1
        if not consumer.readers and self._consumers.get(consumer.address) is consumer:
            del self._consumers[consumer.address]
        reader.view.release()

    # -- sending ---------------------------------------------------------------------------------------------------

    def _on_readable(self, channel_id: ChannelId) -> None:
        reader = self._readers.get(channel_id)
        if reader is not None:
            self._consider(reader)

    def _consider(self, reader: _Reader) -> None:
        """Queues a reader that can send; announces the backlog of one that lacks credit, if it does for a while.

        The receiver grants a credit beyond its byte budget only to a channel that it knows to have data waiting.
        """
        if reader.is_queued and not reader.view.has_priority:
            return
        try:
            next_kind = reader.view.next_kind
        except PartitionError as error:
            self._tell_error(reader.consumer.address, reader.channel_id, str(error))
            self._remove(reader)
            return
        if reader.can_send(next_kind):
            self._queue(reader, next_kind)
        elif next_kind is NextKind.DATA and not reader.is_announcing and reader.announced != reader.credit.granted:
            reader.is_announcing = True
            announce = partial(self._announce, reader, reader.credit.granted)
            self._context.timers.call_later(ANNOUNCE_AFTER_MS, partial(self._post, announce))

    def _announce(self, reader: _Reader, granted: int) -> None:
        """Tells the backlog of a reader that has got no credit since that many; later if it has, and waits again."""
        reader.is_announcing = False
        if self._readers.get(reader.channel_id) is not reader:
            return
        if reader.credit.granted != granted:
            self._consider(reader)
            return
        reader.announced = granted
        reader.consumer.backlogs[reader.channel_id] = reader.view.backlog
        self._queue_consumer(reader.consumer)

    def _queue(self, reader: _Reader, next_kind: NextKind) -> None:
        consumer = reader.consumer
        if next_kind is NextKind.PRIORITY:
            if reader.is_queued:
                consumer.sendable.remove(reader)
            consumer.sendable.appendleft(reader)
        elif not reader.is_queued:
            consumer.sendable.append(reader)
        reader.is_queued = True
        self._queue_consumer(consumer)

    def _queue_consumer(self, consumer: _Consumer) -> None:
        if not consumer.is_queued:
            consumer.is_queued = True
            self._to_send.append(consumer)

    def send_round(self) -> bool:
        """Sends one consumer one message of what its readers have, a buffer of each in turn."""
        if not self._to_send:
            return False
        consumer = self._to_send.popleft()
        consumer.is_queued = False
        if consumer.backlogs:
            self._context.tell(consumer.address, AnnounceBacklog(tuple(consumer.backlogs.items())))
            consumer.backlogs.clear()
        self._send_buffers(consumer)
        if consumer.sendable:
            self._queue_consumer(consumer)
        return True

    def _send_buffers(self, consumer: _Consumer) -> None:
        taken = self._take(consumer)
        payloads: list[BatchesRef] = []
        try:
            places = self._put(taken, payloads)
        except Exception as error:
            # Whatever keeps batches from leaving (a full object store), their rows are lost to the consumer.
            lost = {id(reader): reader for reader, polled in taken if self._is_large(polled.buffer)}
            for reader in lost.values():
                self._fail_partition(reader, f"a batch cannot be sent: {type(error).__name__}: {error}")
            taken, payloads, places = [each for each in taken if id(each[0]) not in lost], [], {}
        if taken:
            entries = tuple(
                _entry(reader.channel_id, polled, places.get(number)) for number, (reader, polled) in enumerate(taken)
            )
            self._context.tell(consumer.address, Buffers(entries), payloads)

    def _take(self, consumer: _Consumer) -> list[tuple[_Reader, BufferAndBacklog]]:
        """A message full of buffers, one of each reader in turn."""
        taken: list[tuple[_Reader, BufferAndBacklog]] = []
        nbytes = 0
        while consumer.sendable and len(taken) < ENTRIES_PER_MESSAGE and nbytes < BYTES_PER_MESSAGE:
            reader = consumer.sendable.popleft()
            reader.is_queued = False
            try:
                polled = reader.view.poll()
            except PartitionError as error:
                self._fail_partition(reader, str(error))
                continue
            if polled is not None:
                taken.append((reader, polled))
                nbytes += polled.buffer.nbytes
                self._account(reader, polled)
        return taken

    def _account(self, reader: _Reader, polled: BufferAndBacklog) -> None:
        if not polled.buffer.is_event:
            reader.credit.spend()
        reader.sent_buffers += 1
        reader.sent_bytes += polled.buffer.nbytes
        # After its last event too the reader stays until the consumer cancels: only then everything has arrived.
        if reader.can_send(polled.next_kind):
            self._queue(reader, polled.next_kind)

    def _is_large(self, buffer: Buffer) -> bool:
        return not buffer.is_event and buffer.nbytes > self._inline_bytes

    def _put(
        self, taken: list[tuple[_Reader, BufferAndBacklog]], payloads: list[BatchesRef]
    ) -> dict[int, tuple[int, int]]:
        """Puts what is too large to travel inside the message; gives (payload, position) by its number in `taken`.

        All of it together as one object, except what other consumers get too: that is put once for all of them.
        """
        large = {number: polled.buffer for number, (_, polled) in enumerate(taken) if self._is_large(polled.buffer)}
        together = [number for number, buffer in large.items() if not buffer.is_shared]
        places: dict[int, tuple[int, int]] = {}
        for number, buffer in large.items():
            if buffer.is_shared:
                places[number] = (len(payloads), 0)
                payloads.append(buffer.reference(self._context.objects))
        if together:
            places |= {number: (len(payloads), position) for position, number in enumerate(together)}
            payloads.append(self._context.objects.put([large[number].batch for number in together]))
        return places

    def _consumer(self, address: Address) -> _Consumer:
        consumer = self._consumers.get(address)
        if consumer is None:
            consumer = self._consumers[address] = _Consumer(address)
            self._watch(address)
        return consumer

    def statistics(self) -> tuple[ReaderStatistics, ...]:
        """A snapshot per remote consumer. Any thread may call it."""
        return tuple(reader.statistics() for reader in list(self._readers.values()))

    def check(self) -> None:
        """A reader is queued exactly when it stands in its consumer's queue, and none has overdrawn its credit."""
        for reader in self._readers.values():
            assert reader.consumer.sendable.count(reader) == int(reader.is_queued), reader.channel_id
            assert reader.credit.available >= 0, f"{reader.channel_id} sent without credit"
            assert not reader.is_queued or reader.consumer.is_queued, reader.channel_id
        assert sum(consumer.readers for consumer in self._consumers.values()) == len(self._readers)


def _entry(channel_id: ChannelId, polled: BufferAndBacklog, place: tuple[int, int] | None) -> BufferEntry:
    buffer = polled.buffer
    if place is None:
        element = buffer.element
        return BufferEntry(channel_id, polled.sequence, polled.backlog, element, nbytes=buffer.nbytes)
    return BufferEntry(channel_id, polled.sequence, polled.backlog, None, *place, nbytes=buffer.nbytes)
