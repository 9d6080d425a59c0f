"""Messages on their way between two processes."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
from msgspec import Struct

from actors.hosts.simulation.process import Process, ProcessState
from actors.hosts.simulation.schedule import Action, Schedule
from actors.protocol.ports import Address, BatchesRef


class Envelope(Struct):
    """A message as it left its sender."""

    kind: str
    """Name of the message's class."""
    content: Any
    """The message, or its pickle where it goes to another process."""
    is_packed: bool
    payloads: Sequence[BatchesRef]
    target: Process | None
    """To which life of the receiver it goes; None: there was none when it was sent."""
    ready_ms: float
    is_lost: bool = False
    """It fails, whoever is there when it arrives."""

    def open(self) -> Any:
        return pickle.loads(self.content) if self.is_packed else self.content


def pack(message: Any) -> bytes:
    """What another process gets; nothing that the sender changes later is seen there."""
    try:
        return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        packed: bytes = cloudpickle.dumps(message)
        return packed


class Channel(Action):
    """What one sender sends to one receiver arrives in the order in which it was sent.

    Args:
        sender: the process, or a name for what is no process.
        deliver: gets the head when it arrives.
    """

    def __init__(
        self,
        schedule: Schedule,
        sender: Process | str,
        receiver: Address,
        deliver: Callable[[Channel, Envelope], None],
    ) -> None:
        self.owner = receiver
        self.sender = sender
        self.receiver = receiver
        self._schedule = schedule
        self._deliver = deliver
        self._queue: deque[Envelope] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def head(self) -> Envelope | None:
        return self._queue[0] if self._queue else None

    def put(self, envelope: Envelope) -> None:
        self._queue.append(envelope)
        if len(self._queue) == 1:
            self._schedule.at(envelope.ready_ms, self.look)

    def look(self) -> None:
        """Offers the head if it can arrive now, and withdraws it otherwise."""
        head = self.head
        if head is not None and head.ready_ms <= self._schedule.now and _can_arrive(head):
            self._schedule.offer(self)
        else:
            self._schedule.withdraw(self)

    def lose(self, count: int) -> int:
        """Drops the newest messages; how many there were to drop."""
        lost = min(count, len(self._queue))
        for _ in range(lost):
            self._queue.pop()
        self.look()
        return lost

    def run(self) -> None:
        envelope = self._queue.popleft()
        if self._queue:
            self._schedule.at(max(self._schedule.now, self._queue[0].ready_ms), self.look)
        self._deliver(self, envelope)

    def describe(self) -> str:
        return f"{self.sender} -> {self.receiver}: {self._queue[0].kind}"


def _can_arrive(envelope: Envelope) -> bool:
    """At a process that runs; what goes to one that has ended arrives as a failure, and that at once."""
    return envelope.is_lost or envelope.target is None or envelope.target.state is not ProcessState.STARTING
