"""The receiving half of the connections to other slots: remote channels, and what they tell their producers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct, field

from actors.network.connections.partition_registry import PARTITION_PATIENCE_MS
from actors.network.consumer.remote_channel import RemoteInputChannel
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
from actors.protocol.elements import CheckpointBarrier, Element
from actors.protocol.ports import Address, EndpointContext, Payloads
from flinkray.errors import PartitionError

FIRST_RETRY_MS = 10.0
"""Before a partition that is not there yet is asked for again; doubles each time, up to LAST_RETRY_MS."""
LAST_RETRY_MS = 1_000.0

Post = Callable[[Callable[[], None]], None]
"""Has the network loop run a command."""


class _Producer(Struct):
    """What is to be told to one other slot, for all channels that it feeds, with the next messages."""

    address: Address
    channels: int = 0
    """That it feeds now; without any it is forgotten once everything has been told."""
    credit_due: dict[RemoteInputChannel, None] = field(default_factory=dict)
    resized: dict[RemoteInputChannel, None] = field(default_factory=dict)
    resumed: list[ChannelId] = field(default_factory=list)
    cancelled: list[ChannelId] = field(default_factory=list)
    is_queued: bool = False


class _Patience(Struct):
    """How long a channel has been asking for a partition that is not there yet."""

    since_ms: float
    delay_ms: float


class PartitionReceiver:
    """Implements `remote_channel.RemoteConnector`. What a channel asks is posted to the network loop; the `on_`
    methods, `send_round` and the `fail_` methods run there."""

    def __init__(self, context: EndpointContext, post: Post, watch: Callable[[Address], None]) -> None:
        self._context = context
        self._watch = watch
        self._post = post
        self._channels: dict[ChannelId, RemoteInputChannel] = {}
        self._producers: dict[Address, _Producer] = {}
        self._to_tell: deque[_Producer] = deque()
        self._asking: dict[RemoteInputChannel, _Patience] = {}

    # -- from the channels, on any thread --------------------------------------------------------------------------

    def request(self, channel: RemoteInputChannel) -> None:
        self._post(partial(self._request, channel))

    def consumed(self, channel: RemoteInputChannel) -> None:
        self._post(partial(self._consumed, channel))

    def resume(self, channel: RemoteInputChannel) -> None:
        self._post(partial(self._resume, channel))

    def announce_buffer_rows(self, channel: RemoteInputChannel) -> None:
        self._post(partial(self._resize, channel))

    def release(self, channel: RemoteInputChannel) -> None:
        self._post(partial(self._release, channel))

    def send_task_event(self, channel: RemoteInputChannel, event: Any) -> None:
        message = SendTaskEvent(channel.descriptor.partition_id, event)
        self._context.tell(channel.descriptor.producer, message)

    # -- in the loop -----------------------------------------------------------------------------------------------

    def announce_credit(self, channel: RemoteInputChannel) -> None:
        if channel.channel_id in self._channels and not channel.has_ended:
            producer = self._producer(channel)
            producer.credit_due[channel] = None
            self._queue(producer)

    def _request(self, channel: RemoteInputChannel) -> None:
        if channel.is_released:
            return
        self._producer(channel).channels += 1
        credit = channel.credit.initial_credit()
        self._channels[channel.channel_id] = channel
        self._ask(channel, credit)

    def _ask(self, channel: RemoteInputChannel, credit: int) -> None:
        descriptor = channel.descriptor
        self._context.tell(
            descriptor.producer,
            RequestSubpartition(
                channel_id=channel.channel_id,
                partition_id=descriptor.partition_id,
                subpartition=descriptor.subpartition,
                credit=credit,
                consumer=self._context.address,
                buffer_rows=channel.buffer_rows,
            ),
        )

    def _consumed(self, channel: RemoteInputChannel) -> None:
        if not channel.credit.is_released:
            channel.credit.on_consumed()

    def _resume(self, channel: RemoteInputChannel) -> None:
        if channel.channel_id in self._channels:
            producer = self._producer(channel)
            producer.resumed.append(channel.channel_id)
            self._queue(producer)

    def _resize(self, channel: RemoteInputChannel) -> None:
        if channel.channel_id in self._channels and not channel.has_ended:
            producer = self._producer(channel)
            producer.resized[channel] = None
            self._queue(producer)

    def _release(self, channel: RemoteInputChannel) -> None:
        channel.credit.release()
        self._asking.pop(channel, None)
        if self._channels.pop(channel.channel_id, None) is not None:
            producer = self._producer(channel)
            producer.channels -= 1
            producer.credit_due.pop(channel, None)
            producer.resized.pop(channel, None)
            # Also after the last element: it tells the producer's slot that it need not stay for this channel.
            producer.cancelled.append(channel.channel_id)
            self._queue(producer)

    def on_buffers(self, message: Buffers, payloads: Payloads) -> None:
        """Hands the elements to their channels. One for a channel that is gone is dropped: its producer knows."""
        for entry in message.entries:
            channel = self._channels.get(entry.channel_id)
            if channel is not None:
                self._receive(channel, entry, payloads)

    def _receive(self, channel: RemoteInputChannel, entry: BufferEntry, payloads: Payloads) -> None:
        element: Element | None = entry.element
        if element is None:
            element = payloads[entry.payload_index][entry.position]
        try:
            channel.receive(entry, element)
        except PartitionError as error:
            self._fail(channel, error)
            return
        if isinstance(element, CheckpointBarrier) and channel.has_several_unread:
            self._limit_wait(channel, element)

    def _limit_wait(self, channel: RemoteInputChannel, barrier: CheckpointBarrier) -> None:
        """A barrier with a timeout waits behind rows until then, and overtakes them: its task, which does not know of
        the checkpoint before it reads a barrier, may take longer for them."""
        timeout_ms = barrier.options.aligned_timeout_ms
        if timeout_ms is None or not barrier.may_turn_unaligned:
            return
        left_ms = barrier.timestamp_ms + timeout_ms - self._context.clock.now_ms()
        overtake = partial(channel.let_overtake, barrier.checkpoint_id)
        if left_ms > 0:
            self._context.timers.call_later(left_ms, overtake)
        else:
            overtake()

    def on_backlog(self, message: AnnounceBacklog) -> None:
        for channel_id, backlog in message.backlogs:
            channel = self._channels.get(channel_id)
            if channel is not None:
                channel.credit.on_backlog(backlog)

    def on_error(self, message: SubpartitionError) -> None:
        """Asks again for a partition that is not there yet; fails the channel for anything else."""
        channel = self._channels.get(message.channel_id)
        if channel is None:
            return
        if not message.is_partition_missing:
            self._fail(channel, PartitionError(f"{channel}: {message.cause}"))
            return
        now = self._context.clock.monotonic_ms()
        patience = self._asking.setdefault(channel, _Patience(since_ms=now, delay_ms=FIRST_RETRY_MS))
        if now - patience.since_ms >= PARTITION_PATIENCE_MS:
            self._fail(
                channel,
                PartitionError(
                    f"{channel}: its producer did not register the partition within {PARTITION_PATIENCE_MS} ms"
                ),
            )
            return
        ask_again = partial(self._post, partial(self._ask_again, channel))
        self._context.timers.call_later(patience.delay_ms, ask_again)
        patience.delay_ms = min(2 * patience.delay_ms, LAST_RETRY_MS)

    def _ask_again(self, channel: RemoteInputChannel) -> None:
        # The producer has forgotten the credits that it got in between, so the request repeats all of them.
        if channel.channel_id in self._channels:
            self._ask(channel, channel.credit.outstanding)

    def _fail(self, channel: RemoteInputChannel, error: PartitionError) -> None:
        channel.fail(error)
        self._release(channel)

    def fail_producer(self, address: Address, cause: str) -> None:
        """The slot is gone, and with it what its partitions still held. Channels that have everything go on."""
        for channel in [each for each in self._channels.values() if each.descriptor.producer == address]:
            if channel.has_ended:
                del self._channels[channel.channel_id]
            else:
                self._fail(channel, PartitionError(f"{channel}: its slot {address} is gone: {cause}"))
        self._producers.pop(address, None)

    def fail_channels(self, channel_ids: tuple[ChannelId, ...], cause: str) -> None:
        """A message about these channels could not be delivered to their producer. Those that have everything go on."""
        for channel_id in channel_ids:
            channel = self._channels.get(channel_id)
            if channel is not None and not channel.has_ended:
                self._fail(channel, PartitionError(f"{channel}: its producer cannot be reached: {cause}"))

    def send_round(self) -> bool:
        """Tells one producer everything that is due for it."""
        if not self._to_tell:
            return False
        producer = self._to_tell.popleft()
        producer.is_queued = False
        due = [(channel.channel_id, channel.credit.take_announcement()) for channel in producer.credit_due]
        credits = tuple((channel_id, count) for channel_id, count in due if count)
        producer.credit_due.clear()
        sizes = tuple((each.channel_id, each.buffer_rows) for each in producer.resized if each.buffer_rows is not None)
        producer.resized.clear()
        resumed, producer.resumed = producer.resumed, []
        cancelled, producer.cancelled = producer.cancelled, []
        if sizes:  # first, so that what the credits are for has them
            self._context.tell(producer.address, NewBufferSize(sizes))
        if credits:
            self._context.tell(producer.address, AddCredit(credits))
        if resumed:
            self._context.tell(producer.address, ResumeConsumption(tuple(resumed)))
        if cancelled:
            self._context.tell(producer.address, CancelSubpartition(tuple(cancelled)))
        if not producer.channels and self._producers.get(producer.address) is producer:
            del self._producers[producer.address]
        return True

    def _producer(self, channel: RemoteInputChannel) -> _Producer:
        address = channel.descriptor.producer
        producer = self._producers.get(address)
        if producer is None:
            producer = self._producers[address] = _Producer(address)
            self._watch(address)
        return producer

    def _queue(self, producer: _Producer) -> None:
        if not producer.is_queued:
            producer.is_queued = True
            self._to_tell.append(producer)

    def check(self) -> None:
        fed = Counter(channel.descriptor.producer for channel in self._channels.values())
        assert all(producer.channels == fed[address] for address, producer in self._producers.items())
        for channel in self._channels.values():
            channel.credit.check()
