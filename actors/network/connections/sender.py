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
"""Buffers that one message carries at most."""
BYTES_PER_MESSAGE = 8 << 20
"""Bytes from which a message takes no more buffers: a large one delays its first buffer until its last is copied."""

ANNOUNCE_AFTER_MS = 20.0
"""How long data waits without credit before its backlog is announced to the receiver. Credit comes back by itself with
what is consumed; only a receiver that is short of bytes must know. Announced at once, every second message was one."""


class ReaderStatistics(Struct, frozen=True):
    """A snapshot of one remote consumer, at its producer."""

    channel_id: ChannelId
    consumer: Address
    credit_granted: int
    credit_available: int
    sent_buffers: int
    """Buffers sent so far, events included."""
    sent_bytes: int
    queued_buffers: int
    is_lingering: bool
    """Whether its finished rows wait for more rows, so that they go in one message."""
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
    """Whether a timer runs, after which the receiver is told that data waits here without credit."""
    announced: int | None = None
    """Credits that had been granted when the backlog was last announced to the receiver; None: it never was."""

    def can_send(self, next_kind: NextKind) -> bool:
        """Whether it may send what comes next: an event always, data only with credit."""
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
    """How many readers serve it. A slot with none is forgotten."""
    sendable: deque[_Reader] = field(default_factory=deque)
    backlogs: dict[ChannelId, int] = field(default_factory=dict)
    is_queued: bool = False


class PartitionSender:
    """Sends what this slot's partitions have for consumers in other slots.

    Everything here runs in the network loop, except `statistics`.
    """

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
        """Announces the backlog of a reader whose credit is still what it was; one that got more and waits again gets a
        timer anew."""
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
        polled_buffers = self._poll_readers(consumer)
        payloads: list[BatchesRef] = []
        try:
            locations = self._put(polled_buffers, payloads)
        except Exception as error:
            # Whatever keeps batches from leaving (a full object store), their rows are lost to the consumer.
            lost = {id(reader): reader for reader, polled in polled_buffers if self._is_large(polled.buffer)}
            for reader in lost.values():
                self._fail_partition(reader, f"a batch cannot be sent: {type(error).__name__}: {error}")
            polled_buffers, payloads, locations = [each for each in polled_buffers if id(each[0]) not in lost], [], {}
        if polled_buffers:
            entries = tuple(
                _entry(reader.channel_id, polled, locations.get(number))
                for number, (reader, polled) in enumerate(polled_buffers)
            )
            self._context.tell(consumer.address, Buffers(entries), payloads)

    def _poll_readers(self, consumer: _Consumer) -> list[tuple[_Reader, BufferAndBacklog]]:
        """The buffers for one message, one of each reader in turn."""
        polled_buffers: list[tuple[_Reader, BufferAndBacklog]] = []
        nbytes = 0
        while consumer.sendable and len(polled_buffers) < ENTRIES_PER_MESSAGE and nbytes < BYTES_PER_MESSAGE:
            reader = consumer.sendable.popleft()
            reader.is_queued = False
            try:
                polled = reader.view.poll()
            except PartitionError as error:
                self._fail_partition(reader, str(error))
                continue
            if polled is not None:
                polled_buffers.append((reader, polled))
                nbytes += polled.buffer.nbytes
                self._account(reader, polled)
        return polled_buffers

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
        self, polled_buffers: list[tuple[_Reader, BufferAndBacklog]], payloads: list[BatchesRef]
    ) -> dict[int, tuple[int, int]]:
        """Puts what is too large to travel inside the message into the object store.

        All of it becomes one object, except what other consumers get too: that is put once for all of them.

        Returns:
            Index in `polled_buffers` -> (index in `payloads`, index of the batch in that payload).
        """
        large = {
            number: polled.buffer for number, (_, polled) in enumerate(polled_buffers) if self._is_large(polled.buffer)
        }
        unshared = [number for number, buffer in large.items() if not buffer.is_shared]
        locations: dict[int, tuple[int, int]] = {}
        for number, buffer in large.items():
            if buffer.is_shared:
                locations[number] = (len(payloads), 0)
                payloads.append(buffer.reference(self._context.objects))
        if unshared:
            locations |= {number: (len(payloads), position) for position, number in enumerate(unshared)}
            payloads.append(self._context.objects.put([large[number].batch for number in unshared]))
        return locations

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


def _entry(channel_id: ChannelId, polled: BufferAndBacklog, location: tuple[int, int] | None) -> BufferEntry:
    buffer = polled.buffer
    if location is None:
        element = buffer.element
        return BufferEntry(channel_id, polled.sequence, polled.backlog, element, nbytes=buffer.nbytes)
    return BufferEntry(channel_id, polled.sequence, polled.backlog, None, *location, nbytes=buffer.nbytes)
