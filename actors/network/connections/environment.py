"""The data exchange of one slot: its partitions, its gates, and its connections to other slots."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from actors.network.connections.network_loop import NetworkLoop
from actors.network.connections.partition_registry import PartitionRegistry
from actors.network.connections.receiver import PartitionReceiver
from actors.network.connections.sender import PartitionSender, ReaderStatistics
from actors.network.connections.stall import ChannelProgress, StallDetector
from actors.network.consumer.input_channel import (
    InputChannel,
    InputChannelStatistics,
    QueueChannel,
)
from actors.network.consumer.input_gate import SingleInputGate
from actors.network.consumer.local_channel import LocalInputChannel
from actors.network.consumer.remote_channel import RemoteInputChannel
from actors.network.flow.credit import ByteBudget, FloatingBuffers
from actors.network.flow.debloating import first_buffer_rows
from actors.network.producer.blocking_partition import BlockingResultPartition, ResultMemory
from actors.network.producer.pipelined_partition import PipelinedResultPartition
from actors.network.producer.result_partition import PartitionStatistics, ResultPartition
from actors.protocol.data_messages import (
    AddCredit,
    AnnounceBacklog,
    Buffers,
    CancelSubpartition,
    ChannelId,
    DataMessage,
    NewBufferSize,
    RequestSubpartition,
    ResumeConsumption,
    SendTaskEvent,
    SubpartitionError,
)
from actors.protocol.ports import Address, Cancellable, DeliveryFailed, EndpointContext, Payloads
from actors.protocol.task_messages import ChannelDescriptor, GateDescriptor, PartitionDescriptor
from flinkray.config.configuration import Configuration
from flinkray.config.options import (
    BATCH_BYTES,
    BATCH_ROWS,
    BYTES_IN_FLIGHT,
    EXCLUSIVE_BUFFERS,
    FLOATING_BUFFERS,
    FRAME_BYTES,
    INLINE_BYTES,
    RESULT_MEMORY,
    STALL_TIMEOUT,
    TEMPORARY_DIRECTORY,
)
from graphs.execution_graph import AttemptId, PartitionId

_LOG = logging.getLogger(__name__)


class NetworkStatistics(Struct, frozen=True):
    """A snapshot of a slot's data exchange."""

    partitions: tuple[PartitionStatistics, ...]
    readers: tuple[ReaderStatistics, ...]
    """One per remote consumer of these partitions."""
    channels: tuple[InputChannelStatistics, ...]
    bytes_reserved: int
    """Bytes that are granted or received and not yet consumed; `bytes_limit` is the slot's budget."""
    bytes_limit: int


class NetworkEnvironment:
    """What a TaskSlot has of the network (Flink's NettyShuffleEnvironment).

    Any thread calls `on_message`, the endpoint's `on_delivery_failed` and `on_endpoint_died`, which only hand over to
    the network loop. Tasks' threads create, use and release partitions and gates.

    Args:
        configuration: the slot's. A job's own settings come with `create_partition` and `create_gate`.
    """

    def __init__(self, context: EndpointContext, configuration: Configuration) -> None:
        self._context = context
        self._configuration = configuration
        self._registry = PartitionRegistry(context.timers)
        self._budget = ByteBudget(configuration.get(BYTES_IN_FLIGHT), configuration.get(BATCH_BYTES))
        self._result_memory = ResultMemory(configuration.get(RESULT_MEMORY))
        self._loop = NetworkLoop((self._send_data, self._send_control), context.fatal, context.shares_process)
        self._receiver = PartitionReceiver(context, self._loop.post, self._watch)
        self._sender = PartitionSender(
            context,
            self._registry,
            self._loop.post,
            self._watch,
            inline_bytes=configuration.get(INLINE_BYTES),
            frame_bytes=configuration.get(FRAME_BYTES),
        )
        self._watched: set[Address] = set()
        self._lock = threading.Lock()
        self._gates: dict[SingleInputGate, None] = {}
        self._stall_timeout_ms = configuration.get(STALL_TIMEOUT)
        self._stalls = StallDetector(self._stall_timeout_ms)
        self._stall_timer: Cancellable | None = None
        self._is_shut_down = False

    @property
    def loop(self) -> NetworkLoop:
        """The loop that sends and receives everything between slots; its host steps it until it is done."""
        return self._loop

    def start(self) -> None:
        """Gives the network loop its thread. To be called once, before the first task."""
        self._context.start_loop("network", self._loop)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def create_partition(
        self, descriptor: PartitionDescriptor, configuration: Configuration | None = None
    ) -> ResultPartition:
        """A partition for a task to write to, registered: its consumers find it from now on."""
        settings = configuration if configuration is not None else self._configuration
        if not descriptor.result_type.is_pipelined:
            return self._create_blocking_partition(descriptor, settings)
        target_bytes = settings.get(BATCH_BYTES)
        buffers = descriptor.subpartitions * settings.get(EXCLUSIVE_BUFFERS) + settings.get(FLOATING_BUFFERS)
        partition = PipelinedResultPartition(
            descriptor,
            max_buffers=buffers,
            max_bytes=min(buffers * target_bytes, self._configuration.get(BYTES_IN_FLIGHT)),
            target_rows=first_buffer_rows(settings),
            target_bytes=target_bytes,
            on_released=self._registry.remove,
        )
        self._registry.register(partition)
        self._look_for_stalls_later()
        return partition

    def _create_blocking_partition(self, descriptor: PartitionDescriptor, settings: Configuration) -> ResultPartition:
        partition = BlockingResultPartition(
            descriptor,
            memory=self._result_memory,
            directory=self._configuration.get(TEMPORARY_DIRECTORY),
            target_rows=settings.get(BATCH_ROWS),
            target_bytes=settings.get(BATCH_BYTES),
            on_released=self._registry.remove,
        )
        self._registry.register(partition)
        return partition

    def create_gate(
        self, descriptor: GateDescriptor, attempt_id: AttemptId, configuration: Configuration | None = None
    ) -> SingleInputGate:
        """A gate for a task to read from; `request_partitions` connects it."""
        settings = configuration if configuration is not None else self._configuration
        exclusive = settings.get(EXCLUSIVE_BUFFERS)
        floating = FloatingBuffers(settings.get(FLOATING_BUFFERS))

        def create_channel(index: int, channel: ChannelDescriptor, queue: QueueChannel) -> InputChannel:
            channel_id = ChannelId(f"{attempt_id}/{descriptor.gate_index}.{index}")
            if channel.producer == self._context.address:
                return LocalInputChannel(channel_id, index, channel, queue, self._registry)
            return RemoteInputChannel(
                channel_id,
                index,
                channel,
                queue,
                self._receiver,
                exclusive_buffers=exclusive,
                floating=floating,
                budget=self._budget,
            )

        gate = SingleInputGate(descriptor, create_channel)
        with self._lock:
            self._gates[gate] = None
        self._look_for_stalls_later()
        return gate

    def release_partition(self, partition_id: PartitionId, cause: BaseException | str | None = None) -> None:
        """Drops a partition. With a cause, its consumers fail with it; without one they hear nothing.

        A finished pipelined partition is not to be released: it goes by itself when everything has been consumed. A
        blocking one stays until it is released here.
        """
        partition = self._registry.find(partition_id)
        if partition is not None:
            partition.release(cause)

    def release_gate(self, gate: SingleInputGate) -> None:
        """Ends a gate, whatever still comes."""
        with self._lock:
            self._gates.pop(gate, None)
        gate.release()

    def unconsumed_partitions(self) -> tuple[PartitionId, ...]:
        """Partitions that a consumer has not read to the end: a slot that ends now could lose something of them."""
        return tuple(partition.partition_id for partition in self._registry.all())

    def shutdown(self) -> None:
        """Drops everything and ends the loop."""
        with self._lock:
            self._is_shut_down = True
            gates = list(self._gates)
            if self._stall_timer is not None:
                self._stall_timer.cancel()
        for gate in gates:
            self.release_gate(gate)
        for partition in self._registry.all():
            partition.release()
        self._loop.stop()

    # -- the endpoint ----------------------------------------------------------------------------------------------

    def on_message(self, message: DataMessage, payloads: Payloads) -> None:
        """A message from another slot. Where others share the process, `after_message` is to follow."""
        self._loop.add(partial(self._dispatch, message, payloads))

    def after_message(self) -> None:
        """Does what `on_message` has queued, on this thread, where others share the process; it must hold no lock."""
        self._loop.help()

    def on_delivery_failed(self, failure: DeliveryFailed) -> None:
        """A message of this environment did not arrive: the channels that it was about fail; nothing is sent again."""
        self._loop.post(partial(self._dispatch_failure, failure))

    def on_endpoint_died(self, address: Address, cause: str) -> None:
        """Another slot is gone: so are the channels from it, and the partitions that it was reading."""

        def fail() -> None:
            self._receiver.fail_producer(address, cause)
            self._sender.fail_consumer(address, cause)
            self._watched.discard(address)

        self._loop.post(fail)

    # -- the loop --------------------------------------------------------------------------------------------------

    def _send_data(self) -> bool:
        return self._sender.send_round()

    def _send_control(self) -> bool:
        return self._receiver.send_round()

    def _watch(self, address: Address) -> None:
        if address not in self._watched:
            self._watched.add(address)
            self._context.watch(address)

    def _dispatch(self, message: DataMessage, payloads: Payloads) -> None:
        match message:
            case Buffers():
                self._receiver.on_buffers(message, payloads)
            case AddCredit():
                self._sender.on_add_credit(message)
            case NewBufferSize():
                self._sender.on_new_buffer_size(message)
            case AnnounceBacklog():
                self._receiver.on_backlog(message)
            case RequestSubpartition():
                self._sender.on_request(message)
            case ResumeConsumption():
                self._sender.on_resume(message)
            case CancelSubpartition():
                self._sender.on_cancel(message)
            case SubpartitionError():
                self._receiver.on_error(message)
            case SendTaskEvent():
                self._sender.on_task_event(message)

    def _dispatch_failure(self, failure: DeliveryFailed) -> None:
        match failure.message:
            case Buffers(entries):
                self._sender.fail_channels([entry.channel_id for entry in entries], failure.cause)
            case RequestSubpartition(channel_id):
                self._receiver.fail_channels((channel_id,), failure.cause)
            case AddCredit(entries) | NewBufferSize(entries):
                self._receiver.fail_channels(tuple(channel_id for channel_id, _ in entries), failure.cause)
            case ResumeConsumption(channel_ids):
                self._receiver.fail_channels(channel_ids, failure.cause)
            case other:
                # Errors, cancellations, backlogs and task events: a receiver that misses them is gone, and needs none.
                _LOG.debug("not delivered to %s: %s (%s)", failure.address, other, failure.cause)

    # -- watching it ------------------------------------------------------------------------------------------

    def _look_for_stalls_later(self) -> None:
        """Keeps one timer running as long as there is a gate or a partition that could stall."""
        with self._lock:
            if self._stall_timer is None and not self._is_shut_down:
                # Half the timeout: a stall is seen at most that much too late.
                look = partial(self._loop.post, self._look_for_stalls)
                self._stall_timer = self._context.timers.call_later(self._stall_timeout_ms / 2, look)

    def _look_for_stalls(self) -> None:
        for stalled in self._stalls.observe(self._progress(), self._context.clock.monotonic_ms()):
            _LOG.warning(
                "%s has had data for %d ms and has not moved: %s",
                stalled.name,
                self._stall_timeout_ms,
                stalled.statistics,
            )
        with self._lock:
            self._stall_timer = None
            is_used = bool(self._gates)
        if is_used or self._registry.all():
            self._look_for_stalls_later()

    def _progress(self) -> Iterator[ChannelProgress]:
        for reader in self._sender.statistics():
            name = f"the sending end of channel {reader.channel_id}"
            waits = reader.queued_buffers > 0 and not reader.is_lingering
            yield ChannelProgress(name, waits, reader.sent_buffers, reader)
        for channel in self._channels():
            statistics = channel.statistics()
            yield ChannelProgress(str(channel), statistics.queued_buffers > 0, statistics.taken_buffers, statistics)

    def _channels(self) -> list[InputChannel]:
        with self._lock:
            gates = list(self._gates)
        return [channel for gate in gates for channel in gate.channels]

    def statistics(self) -> NetworkStatistics:
        """Any thread may call it; each part is consistent in itself."""
        return NetworkStatistics(
            partitions=tuple(partition.statistics() for partition in self._registry.all()),
            readers=self._sender.statistics(),
            channels=tuple(channel.statistics() for channel in self._channels()),
            bytes_reserved=self._budget.reserved,
            bytes_limit=self._budget.limit,
        )

    def check(self) -> None:
        """All ledgers agree with what they count. Only while the loop stands still."""
        for partition in self._registry.all():
            partition.check()
        self._sender.check()
        self._receiver.check()
        reserved = 0
        for channel in self._channels():
            if isinstance(channel, RemoteInputChannel):
                credit = channel.credit.statistics()
                granted = credit.outstanding + credit.announceable
                reserved += credit.buffered_bytes + granted * self._budget.bytes_per_credit
        assert self._budget.reserved >= reserved, (self._budget.reserved, reserved)
