"""What a remote channel asks of its connector, it asks holding no lock: the thread may have to do what waits for it."""

from __future__ import annotations

from typing import Any

from actors.network.consumer.remote_channel import RemoteInputChannel
from actors.network.flow.credit import ByteBudget, FloatingBuffers
from actors.protocol.data_messages import BufferEntry, ChannelId
from actors.protocol.elements import CheckpointBarrier, CheckpointOptions, Element
from actors.protocol.ports import Address
from actors.protocol.task_messages import ChannelDescriptor
from graphs.execution_graph import PartitionId
from tests.support.network import numbers


class Asked:
    """A connector that notes what is asked for, and with which of the channel's locks held."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda channel, *_: self.seen.append((name, channel._lock.locked()))


def channel_and_connector() -> tuple[RemoteInputChannel, Asked]:
    connector: Any = Asked()
    channel = RemoteInputChannel(
        ChannelId("c"),
        0,
        ChannelDescriptor(PartitionId("p"), 0, Address("a")),
        lambda _: None,
        connector,
        exclusive_buffers=2,
        floating=FloatingBuffers(0),
        budget=ByteBudget(1 << 20, 1 << 10),
    )
    channel.credit.initial_credit()
    return channel, connector


def receive(channel: RemoteInputChannel, *elements: Element) -> None:
    for sequence, element in enumerate(elements):
        channel.receive(BufferEntry(channel.channel_id, sequence, 0, element, nbytes=8), element)


def test_a_barrier_that_the_task_has_overtake_lets_the_producer_go_on() -> None:
    channel, connector = channel_and_connector()
    receive(channel, numbers(1), CheckpointBarrier(1, 0))
    channel.let_overtake(1)
    assert ("resume", False) in connector.seen
    assert ("resume", True) not in connector.seen


def test_a_barrier_that_overtakes_as_it_comes_lets_the_producer_go_on() -> None:
    channel, connector = channel_and_connector()
    channel.begin_capture(1)
    receive(channel, numbers(1), CheckpointBarrier(1, 0))
    assert ("resume", False) in connector.seen
    assert ("resume", True) not in connector.seen


def test_an_unaligned_barrier_did_not_stop_the_producer() -> None:
    channel, connector = channel_and_connector()
    receive(channel, numbers(1), CheckpointBarrier(1, 0, CheckpointOptions(is_unaligned=True)))
    assert "resume" not in [name for name, _ in connector.seen]
