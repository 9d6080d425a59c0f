"""A consumer of the server's that gives the messages of a split in order, and forgets nothing of them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from flinkray.connectors.nats.clients import ask
from flinkray.connectors.nats.enumerator import NatsSplit

_MESSAGES = 5_000
"""How many messages are asked for at a time."""
_BYTES = 65 << 20
"""And how many bytes of them at most: a server has no larger message than 64 MiB."""
_WAIT_S = 5.0
"""How long the server keeps a request for messages that are not there yet."""
_LATE_S = 15.0
"""How long after that the server may stay silent."""
_FORGOTTEN_S = 60
"""How long the server keeps a consumer that asks for nothing."""

Message = tuple[int, int, str, bytes, Any]
"""Sequence, time in nanoseconds, subject, payload and headers."""


class ConsumerLost(Exception):
    """Messages may have been lost on their way, or the server has no such consumer any more: make another one."""


class PullConsumer:
    """Asks for messages and keeps them until they are taken. Nothing is acknowledged, so after a lost connection, or a
    message that did not come, a new consumer begins behind the last message that was taken. All methods are called on
    the event loop of its client."""

    def __init__(self, client: Any, split: NatsSplit, came: asyncio.Event) -> None:
        self._client = client
        self._split = split
        self._came = came
        """Set when there is something to take."""
        self._subject = ""
        self._inbox = client.new_inbox()
        self._subscription: Any = None
        self._pull = 0
        self._wanted = 0
        """How many messages of the last request have not come."""
        self._asked_at = 0.0
        self._messages: list[Message] = []
        self._received = 0
        self._is_lost: str | None = None
        self.pending = 0
        """How many messages the server had behind the last one that came, or at the start."""

    async def open(self) -> None:
        split = self._split
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": split.last + 1,
            "ack_policy": "none",
            "inactive_threshold": _FORGOTTEN_S * 10**9,
            "mem_storage": True,
            "num_replicas": 1,
            "filter_subject": split.subject,
        }
        if split.start_time is not None:
            del config["opt_start_seq"]
            config |= {"deliver_policy": "by_start_time", "opt_start_time": split.start_time}
        self._subscription = await self._client.subscribe(f"{self._inbox}.*", cb=self._receive)
        info = await ask(self._client, f"CONSUMER.CREATE.{split.stream}", stream_name=split.stream, config=config)
        self._subject, self.pending = f"{split.stream}.{info['name']}", info["num_pending"]

    async def close(self) -> None:
        await self._subscription.unsubscribe()
        await ask(self._client, f"CONSUMER.DELETE.{self._subject}")

    async def ask_for_more(self) -> None:
        """Sends a request if none waits.

        Raises:
            ConsumerLost: the server does not answer the last one.
        """
        now = time.monotonic()
        if self._wanted:
            if now > self._asked_at + _WAIT_S + _LATE_S:
                raise ConsumerLost("the server does not answer")
            return
        self._pull += 1
        self._wanted, self._asked_at = _MESSAGES, now
        request = {"batch": _MESSAGES, "max_bytes": _BYTES, "expires": int(_WAIT_S * 10**9)}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._subject}"
        await self._client.publish(subject, json.dumps(request).encode(), reply=f"{self._inbox}.{self._pull}")

    def take(self) -> list[Message]:
        """The messages that have come, in order.

        Raises:
            ConsumerLost: one of them is missing, or no more will come.
        """
        taken, self._messages = self._messages, []
        if not taken and self._is_lost is not None:
            raise ConsumerLost(self._is_lost)
        return taken

    async def is_at_end(self) -> bool:
        """Whether the server has no message that has not been taken."""
        info = await ask(self._client, f"CONSUMER.INFO.{self._subject}")
        is_all_here: bool = info["num_pending"] == 0 and info["delivered"]["consumer_seq"] == self._received
        return is_all_here and not self._messages

    async def _receive(self, message: Any) -> None:
        reply = message.reply
        if not reply:
            self._receive_status(message)
            return
        tokens = reply.split(".")
        # $JS.ACK.stream.consumer.deliveries.sequence.number.time.pending, or with a domain and an account in front.
        _, sequence, number, nanos, pending = tokens[4:9] if len(tokens) == 9 else tokens[6:11]
        if self._is_lost is not None:
            return
        if int(number) != self._received + 1:
            self._is_lost = "messages were lost on their way"
            return
        self._received += 1
        self._wanted = max(0, self._wanted - 1)
        self.pending = int(pending)
        self._messages.append((int(sequence), int(nanos), message.subject, message.data, message.headers))
        self._came.set()

    def _receive_status(self, message: Any) -> None:
        headers = message.headers or {}
        status, description = headers.get("Status", ""), headers.get("Description", "")
        if status in ("404", "408") or description == "Batch Completed":
            if message.subject == f"{self._inbox}.{self._pull}":
                self._wanted = 0
        elif status != "100" and self._is_lost is None:
            self._is_lost = f"the server says {status} {description}".rstrip()
            self._came.set()
