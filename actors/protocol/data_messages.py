"""What slots say to each other about the data of their tasks: credit-based flow control per channel (as in Flink).

    producer's TaskSlot <-> consumer's TaskSlot

A buffer is named by its channel, which is new with each attempt of the consumer, and by its sequence number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NewType

from msgspec import Struct

from actors.protocol.elements import Event
from actors.protocol.ports import Address

if TYPE_CHECKING:  # with them, masters and workers would load Arrow and all of the API
    from flinkray.batches.batch import Batch
    from graphs.execution_graph import PartitionId

ChannelId = NewType("ChannelId", str)
"""One remote input channel: unique per consumer attempt and channel."""


class RequestSubpartition(Struct, frozen=True):
    """Consumer -> producer: send me this subpartition, `credit` buffers to begin with."""

    channel_id: ChannelId
    partition_id: PartitionId
    subpartition: int
    credit: int
    consumer: Address
    buffer_rows: int | None = None
    """Rows per buffer, as in `NewBufferSize`; None: as many as the producer likes to begin with."""


class BufferEntry(Struct, frozen=True):
    """One buffer of a `Buffers` message."""

    channel_id: ChannelId
    sequence: int
    """Counts the buffers of the channel from 0, events included; a gap fails the channel."""
    backlog: int
    """Data buffers that wait behind this one at the sender."""
    element: Batch | Event | None
    """An event or a small batch; None: the batch is number `position` in payload `payload_index` of the message."""
    payload_index: int = -1
    position: int = 0
    nbytes: int = 0


class Buffers(Struct, frozen=True):
    """Producer -> consumer: what can be sent for all channels between the two slots; refs are its payloads."""

    entries: tuple[BufferEntry, ...]


class AnnounceBacklog(Struct, frozen=True):
    """Producer -> consumer: data waits, and there is no credit."""

    backlogs: tuple[tuple[ChannelId, int], ...]


class AddCredit(Struct, frozen=True):
    """Consumer -> producer: that many more buffers may be sent."""

    credits: tuple[tuple[ChannelId, int], ...]


class NewBufferSize(Struct, frozen=True):
    """Consumer -> producer: how many rows the buffers of these channels should have from now on."""

    sizes: tuple[tuple[ChannelId, int], ...]


class ResumeConsumption(Struct, frozen=True):
    """Consumer -> producer: the barrier has been handled; what waits behind it may come."""

    channel_ids: tuple[ChannelId, ...]


class CancelSubpartition(Struct, frozen=True):
    """Consumer -> producer: nothing more is wanted on these channels."""

    channel_ids: tuple[ChannelId, ...]


class SendTaskEvent(Struct, frozen=True):
    """Consumer -> producer: for the task that makes this partition."""

    partition_id: PartitionId
    event: Any


class SubpartitionError(Struct, frozen=True):
    """Producer -> consumer: this channel is broken."""

    channel_id: ChannelId
    cause: str
    is_partition_missing: bool = False
    """The partition is not registered (yet): the consumer asks again, with back-off."""


DataMessage = (
    RequestSubpartition
    | Buffers
    | AnnounceBacklog
    | AddCredit
    | NewBufferSize
    | ResumeConsumption
    | CancelSubpartition
    | SendTaskEvent
    | SubpartitionError
)
