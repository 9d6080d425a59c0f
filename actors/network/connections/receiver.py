"""The receiving half of the connections to other slots: hands buffers to remote channels, and carries what the channels
grant, resume and release back to their producers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct, field

from actors.network.connections.partition_requests import PartitionRequests, not_registered
from actors.network.consumer.remote_channel import RemoteInputChannel
from actors.protocol.data_messages import (
    AddCredit,
    AnnounceBacklog,
    BufferEntry,
    Buffers,
    CancelSubpartition,
    ChannelId,
    NewBufferSize,
    ResumeConsumption,
    SendTaskEvent,
    SubpartitionError,
)
from actors.protocol.elements import CheckpointBarrier, Element
from actors.protocol.ports import Address, EndpointContext, Payloads
from flinkray.errors import PartitionError

Post = Callable[[Callable[[], None]], None]
"""Has the network loop run a command; any thread may call it."""


class _Producer(Struct):
    """One other slot, with what the next messages to it are to say for all channels that it feeds."""

    address: Address
    channels: int = 0
    """How many channels it feeds now. A slot that feeds none is forgotten once it has been sent everything."""
    credit_due: dict[RemoteInputChannel, None] = field(default_factory=dict)
    resized: dict[RemoteInputChannel, None] = field(default_factory=dict)
    resumed: list[ChannelId] = field(default_factory=list)
    cancelled: list[ChannelId] = field(default_factory=list)
    is_queued: bool = False
    """Whether it stands in the queue of slots that are to be sent something."""


class PartitionReceiver:
    """Implements `remote_channel.RemoteConnector`.

    Channels call its first methods on any thread, and what they ask is posted to the network loop; the `on_` methods,
    `send_round` and the `fail_` methods run there.
    """

    def __init__(self, context: EndpointContext, post: Post, watch: Callable[[Address], None]) -> None:
        self._context = context
        self._watch = watch
        self._post = post
        self._channels: dict[ChannelId, RemoteInputChannel] = {}
        self._producers: dict[Address, _Producer] = {}
        self._to_send: deque[_Producer] = deque()
        self._requests = PartitionRequests(context, post)

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
        self._requests.send(channel, credit)

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
        self._requests.forget(channel)
        if self._channels.pop(channel.channel_id, None) is not None:
            producer = self._producer(channel)
            producer.channels -= 1
            producer.credit_due.pop(channel, None)
            producer.resized.pop(channel, None)
            # Also after the last element: it tells the producer's slot that it need not stay for this channel.
            producer.cancelled.append(channel.channel_id)
            self._queue(producer)

    def on_buffers(self, message: Buffers, payloads: Payloads) -> None:
        """Hands the elements to their channels; drops those of channels that are released, as their producers hear."""
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
        if not self._requests.send_again_later(channel):
            self._fail(channel, not_registered(channel))

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
        """Sends one producer everything that is due for it; False where nothing is due for any."""
        if not self._to_send:
            return False
        producer = self._to_send.popleft()
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
            self._to_send.append(producer)

    def check(self) -> None:
        fed = Counter(channel.descriptor.producer for channel in self._channels.values())
        assert all(producer.channels == fed[address] for address, producer in self._producers.items())
        for channel in self._channels.values():
            channel.credit.check()
