"""Slots that exchange data in one thread: loops are stepped and messages delivered in whatever order a test likes."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors.network.connections.environment import NetworkEnvironment
from actors.network.consumer.input_gate import SingleInputGate
from actors.network.consumer.remote_channel import RemoteInputChannel
from actors.network.producer.pipelined_partition import PipelinedResultPartition
from actors.network.producer.result_partition import ResultPartition
from actors.protocol.data_messages import AddCredit, BufferEntry, Buffers, RequestSubpartition
from actors.protocol.elements import Element, EndOfPartition
from actors.protocol.ports import Address, DeliveryFailed
from actors.protocol.task_messages import ChannelDescriptor, GateDescriptor, PartitionDescriptor
from flinkray.batches.batch import Batch
from flinkray.config.configuration import Configuration
from flinkray.types.records import Kind
from graphs.execution_graph import AttemptId, PartitionId
from graphs.job_graph import ResultPartitionType

END = EndOfPartition()


def numbers(*values: int) -> Batch:
    """A batch of one column of numbers."""
    return Batch(pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["value"]), Kind.SCALAR)


def values_of(element: Element) -> list[Any]:
    """The numbers of a batch, or the event itself."""
    return element.data.column(0).to_pylist() if isinstance(element, Batch) else [element]


def partition_descriptor(subpartitions: int = 1, name: str = "p", is_broadcast: bool = False) -> PartitionDescriptor:
    return PartitionDescriptor(PartitionId(name), ResultPartitionType.PIPELINED_BOUNDED, subpartitions, is_broadcast)


def gate_descriptor(*channels: tuple[str, int, str], gate_index: int = 0) -> GateDescriptor:
    """Channels as (partition, subpartition, address of the producer's slot)."""
    return GateDescriptor(
        gate_index,
        0,
        tuple(ChannelDescriptor(PartitionId(name), index, Address(address)) for name, index, address in channels),
    )


def partition(subpartitions: int = 1, **settings: Any) -> ResultPartition:
    """A partition outside any slot."""
    defaults: dict[str, Any] = {
        "max_buffers": 10,
        "max_bytes": 1 << 30,
        "target_rows": 4,
        "target_bytes": 1 << 20,
        "on_released": lambda _: None,
    }
    return PipelinedResultPartition(partition_descriptor(subpartitions), **(defaults | settings))


@dataclass
class ManualTime:
    """A clock and timers that move when they are told to."""

    now: float = 0.0
    waiting: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: Any = field(default_factory=itertools.count)

    def now_ms(self) -> int:
        return int(self.now)

    def monotonic_ms(self) -> float:
        return self.now

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> ManualTimer:
        entry = (self.now + delay_ms, next(self.numbers), callback)
        heapq.heappush(self.waiting, entry)
        return ManualTimer(self, entry)

    def advance(self, delay_ms: float) -> None:
        """Fires in order what is due until then."""
        end = self.now + delay_ms
        while self.waiting and self.waiting[0][0] <= end:
            self.now, _, callback = heapq.heappop(self.waiting)
            callback()
        self.now = end


@dataclass
class ManualTimer:
    time: ManualTime
    entry: tuple[float, int, Callable[[], None]]

    def cancel(self) -> None:
        if self.entry in self.time.waiting:
            self.time.waiting.remove(self.entry)
            heapq.heapify(self.time.waiting)


class FakeRef:
    """A batch in the fake object store, which counts the references that are alive."""

    def __init__(self, store: FakeStore, batches: Sequence[Batch]) -> None:
        self.batches = batches
        self._store = store
        store.alive += 1
        store.puts += 1

    def __del__(self) -> None:
        self._store.alive -= 1


class FakeStore:
    def __init__(self) -> None:
        self.alive = 0
        self.puts = 0
        self.error: Exception | None = None

    def put(self, batches: Sequence[Batch]) -> FakeRef:
        if self.error is not None:
            raise self.error
        return FakeRef(self, batches)


class FakeContext:
    """What one slot's environment uses of an EndpointContext."""

    def __init__(self, world: NetworkWorld, address: Address) -> None:
        self.address = address
        self.world = world
        self.clock = world.time
        self.timers = world.time
        self.objects = FakeStore()
        self.watched: list[Address] = []

    @property
    def shares_process(self) -> bool:
        return self.world.shares_process

    def random(self, name: str) -> random.Random:
        return random.Random(name)

    def tell(self, address: Address, message: Any, payloads: Sequence[FakeRef] = ()) -> None:
        self.world.send(self.address, address, message, [ref.batches for ref in payloads])

    def watch(self, address: Address) -> None:
        self.watched.append(address)

    def fatal(self, error: BaseException) -> None:
        raise AssertionError("a command of the network loop raised") from error


class NetworkWorld:
    """Some slots, and the messages on their way between them: in order per pair of slots, as hosts promise."""

    shares_process = False

    def __init__(self, *addresses: str, configuration: Configuration | None = None) -> None:
        self.time = ManualTime()
        self.contexts: dict[Address, FakeContext] = {}
        self.slots: dict[Address, NetworkEnvironment] = {}
        self.links: dict[tuple[Address, Address], deque[tuple[Any, list[Sequence[Batch]]]]] = {}
        self.sent: list[Any] = []
        self.is_credit_checked = True
        """False: the test sends messages that no sender would."""
        for name in addresses:
            address = Address(name)
            self.contexts[address] = FakeContext(self, address)
            context: Any = self.contexts[address]
            self.slots[address] = NetworkEnvironment(context, configuration or Configuration())

    def __getitem__(self, address: str) -> NetworkEnvironment:
        return self.slots[Address(address)]

    def gate(self, address: str, *channels: tuple[str, int, str], attempt: str = "consumer") -> SingleInputGate:
        """A gate at that slot, with its partitions requested."""
        gate = self[address].create_gate(gate_descriptor(*channels), AttemptId(attempt))
        gate.request_partitions()
        return gate

    def send(self, sender: Address, receiver: Address, message: Any, payloads: list[Batch]) -> None:
        self.sent.append(message)
        if receiver in self.slots:
            self.links.setdefault((sender, receiver), deque()).append((message, payloads))
        elif sender in self.slots:
            self.slots[sender].on_delivery_failed(DeliveryFailed(receiver, message, "no such slot"))

    def kill(self, address: str) -> None:
        """The slot is gone, with the messages to and from it; the others hear of it."""
        gone = Address(address)
        del self.slots[gone]
        self.links = {link: queue for link, queue in self.links.items() if gone not in link}
        for environment in self.slots.values():
            environment.on_endpoint_died(gone, "killed")

    def actions(self) -> list[Callable[[], Any]]:
        """All that could happen next: a loop's step, or the arrival of a message."""
        links = [link for link, queue in self.links.items() if queue]
        deliveries: list[Callable[[], Any]] = [lambda link=link: self._deliver(*link) for link in links]
        return deliveries + [environment.loop.step for environment in self.slots.values()]

    def _deliver(self, sender: Address, receiver: Address) -> None:
        message, payloads = self.links[sender, receiver].popleft()
        self.slots[receiver].on_message(message, payloads)

    def settle(self) -> None:
        """Steps and delivers until nothing happens by itself any more; checks all ledgers after each step."""
        for _ in range(100_000):
            busy = [environment.loop.step() for environment in list(self.slots.values())]
            links = [link for link, queue in self.links.items() if queue]
            for link in links:
                if link in self.links:
                    self._deliver(*link)
            self.check()
            if not any(busy) and not links:
                return
        raise AssertionError("the network does not come to rest")

    def check(self) -> None:
        for environment in self.slots.values():
            environment.check()
        if self.is_credit_checked:
            self._check_credit()

    def _check_credit(self) -> None:
        """Across both ends: what a receiver granted is on its way there, spendable, or on its way back as data."""
        for environment in self.slots.values():
            for channel in environment._channels():
                if not isinstance(channel, RemoteInputChannel) or channel.is_released or channel.has_ended:
                    continue
                producer = self.slots.get(channel.descriptor.producer)
                reader = producer._sender._readers.get(channel.channel_id) if producer is not None else None
                if reader is None:
                    continue
                spendable = reader.credit.available
                there = sum(self._granted(message, channel) for message in self._on_the_way(to_producer=channel))
                back = sum(self._carried(message, channel) for message in self._on_the_way(to_consumer=channel))
                outstanding = channel.credit.outstanding
                assert outstanding == spendable + there + back, (channel, outstanding, spendable, there, back)

    def _on_the_way(
        self, to_producer: RemoteInputChannel | None = None, to_consumer: RemoteInputChannel | None = None
    ) -> list[Any]:
        """Messages sent and not yet handled, those that a loop has not taken out of its inbox included."""
        target = to_producer or to_consumer
        assert target is not None
        producer = target.descriptor.producer
        found = [
            message
            for (sender, receiver), queue in self.links.items()
            if (receiver if to_producer is not None else sender) == producer
            for message, _ in queue
        ]
        for environment in self.slots.values():
            for command in environment.loop._commands:
                arguments = getattr(command, "args", ())
                if arguments and getattr(command, "func", None) == environment._dispatch:
                    found.append(arguments[0])
        return found

    @staticmethod
    def _granted(message: Any, channel: RemoteInputChannel) -> int:
        if isinstance(message, AddCredit):
            return sum(count for channel_id, count in message.credits if channel_id == channel.channel_id)
        if isinstance(message, RequestSubpartition):
            return message.credit if message.channel_id == channel.channel_id else 0
        return 0

    @staticmethod
    def _carried(message: Any, channel: RemoteInputChannel) -> int:
        if not isinstance(message, Buffers):
            return 0
        return sum(_is_data(entry) for entry in message.entries if entry.channel_id == channel.channel_id)


def _is_data(entry: BufferEntry) -> bool:
    return entry.element is None or isinstance(entry.element, Batch)


def drain(world: NetworkWorld, gate: Any) -> list[tuple[int, Any]]:
    """Polls until nothing comes any more: (channel, value or event)."""
    seen: list[tuple[int, Any]] = []
    world.settle()
    while (polled := gate.poll()) is not None:
        channel, element = polled
        seen += [(channel, value) for value in values_of(element)]
        gate.recycle()
        world.settle()
    return seen
