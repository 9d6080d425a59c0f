"""What becomes of a message that did not reach a peer that lives: it is said again a moment later.

A host tells the sender of an undeliverable message so, with DeliveryFailed. A receiver that is dead is reported with
EndpointDied as well, and whoever takes its place is told all anew. One that lives waits for the message, perhaps for
ever; so each endpoint has a table of the messages that it repeats. What is said then is what is true by then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from actors.protocol.main_thread import MainThread
from actors.protocol.ports import Address, DeliveryFailed, EndpointContext

log = logging.getLogger(__name__)

# How long after a message was lost it is said again.
RESEND_MS = 1_000.0

Repeat = Callable[[Address, Any], None]
"""Gets the receiver of the message that was lost, and that message."""


class LostMessages:
    """Repeats the messages of one endpoint. For the endpoint's thread."""

    def __init__(self, main_thread: MainThread, repeats: Mapping[type, Repeat]) -> None:
        """
        Args:
            repeats: type of message -> what is done about one that was lost, a moment later.
        """
        self._main_thread = main_thread
        self._repeats = repeats

    def on_delivery_failed(self, failure: DeliveryFailed) -> None:
        """The message is repeated later if it is of a type in the table; otherwise nothing happens."""
        log.debug("%s did not get %r: %s", failure.address, failure.message, failure.cause)
        repeat = self._repeats.get(type(failure.message))
        if repeat is not None:
            self._main_thread.run_later(RESEND_MS, partial(repeat, failure.address, failure.message))


class UnheardMessages:
    """Lost messages by receiver, all of which each receiver gets together: before anything that relies on them.

    For messages that count once however often they come, and whatever comes before them. For the endpoint's thread.
    """

    def __init__(self, context: EndpointContext, main_thread: MainThread) -> None:
        self._context = context
        self._main_thread = main_thread
        self._by_receiver: dict[Address, list[Any]] = {}

    @property
    def receivers(self) -> frozenset[Address]:
        """Those who are to be told something again."""
        return frozenset(self._by_receiver)

    def add(self, receiver: Address, lost: Any) -> None:
        """The message is told again a moment later, unless the receiver turns out to be dead."""
        if receiver not in self._by_receiver:
            self._context.watch(receiver)  # the death of an endpoint that is dead already is reported once more
            self._main_thread.run_later(RESEND_MS, partial(self.tell, receiver))
        self._by_receiver.setdefault(receiver, []).append(lost)

    def tell(self, receiver: Address) -> None:
        """Tells the receiver now what it has not heard."""
        for lost in self._by_receiver.pop(receiver, ()):
            self._context.tell(receiver, lost)

    def forget(self, receiver: Address) -> None:
        """The receiver is dead."""
        self._by_receiver.pop(receiver, None)
