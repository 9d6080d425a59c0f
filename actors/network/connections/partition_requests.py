"""How a channel asks another slot for its partition, and asks again while the partition is not registered there.

Tasks that exchange data are deployed at the same time, so a request may come before the partition that it is for. The
producer's slot answers that the partition is missing (`SubpartitionError.is_partition_missing`), and the request is
sent again after a delay that doubles each time, for at most PARTITION_PATIENCE_MS. No other message between slots is
ever sent again (see `actors.network.connections`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from actors.network.consumer.input_channel import InputChannel
from actors.network.consumer.remote_channel import RemoteInputChannel
from actors.protocol.data_messages import RequestSubpartition
from actors.protocol.ports import EndpointContext
from flinkray.errors import PartitionError

PARTITION_PATIENCE_MS = 10_000
"""How long a consumer waits for its producer to register the partition. Tasks that exchange data are deployed
together, so a partition that is not there after this long never comes."""

FIRST_RETRY_MS = 10.0
"""How long after the first answer that the partition is missing it is asked for again."""
LAST_RETRY_MS = 1_000.0
"""The longest delay between two requests."""


def not_registered(channel: InputChannel) -> PartitionError:
    """The error of a channel whose partition did not come within PARTITION_PATIENCE_MS."""
    return PartitionError(f"{channel}: its producer did not register the partition within {PARTITION_PATIENCE_MS} ms")


class _Backoff(Struct):
    """Since when a channel's partition is known to be missing, and how long its next request waits."""

    since_ms: float
    delay_ms: float


class PartitionRequests:
    """The requests of one slot's remote channels. Only the network loop calls it.

    Args:
        post: has the network loop run a command.
    """

    def __init__(self, context: EndpointContext, post: Callable[[Callable[[], None]], None]) -> None:
        self._context = context
        self._post = post
        self._backoffs: dict[RemoteInputChannel, _Backoff] = {}

    def send(self, channel: RemoteInputChannel, credit: int) -> None:
        """Asks the producer's slot for the subpartition, and grants it so many credits."""
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

    def send_again_later(self, channel: RemoteInputChannel) -> bool:
        """The producer's slot has no such partition yet. False: it has had none for too long, so nothing is sent."""
        now = self._context.clock.monotonic_ms()
        backoff = self._backoffs.setdefault(channel, _Backoff(since_ms=now, delay_ms=FIRST_RETRY_MS))
        if now - backoff.since_ms >= PARTITION_PATIENCE_MS:
            return False
        send_again = partial(self._post, partial(self._send_again, channel))
        self._context.timers.call_later(backoff.delay_ms, send_again)
        backoff.delay_ms = min(2 * backoff.delay_ms, LAST_RETRY_MS)
        return True

    def forget(self, channel: RemoteInputChannel) -> None:
        """The channel is released: nothing is sent for it any more."""
        self._backoffs.pop(channel, None)

    def _send_again(self, channel: RemoteInputChannel) -> None:
        # The producer has forgotten the credits that it got in between, so the request repeats all of them.
        if channel in self._backoffs:
            self.send(channel, channel.credit.outstanding)
