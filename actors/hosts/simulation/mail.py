"""Messages on their way between two processes of the simulation."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
from msgspec import Struct

from actors.hosts.simulation.process import ProcessState, SimulatedProcess
from actors.hosts.simulation.schedule import Action, Schedule
from actors.protocol.ports import Address, BatchesRef


class Envelope(Struct):
    """A message as it left its sender."""

    kind: str
    """The name of the message's class."""
    content: Any
    """The message, or its pickle if it goes to another process."""
    is_packed: bool
    """Whether `content` is a pickle."""
    payloads: Sequence[BatchesRef]
    target: SimulatedProcess | None
    """The life of the receiver that the message goes to; None: the receiver did not exist when it was sent."""
    ready_ms: float
    """When the message can arrive, in virtual time."""
    is_lost: bool = False
    """Whether its delivery fails, even if the receiver exists when it arrives."""

    def open(self) -> Any:
        return pickle.loads(self.content) if self.is_packed else self.content


def pack(message: Any) -> bytes:
    """Pickles a message for another process, so that the receiver does not see what the sender changes later."""
    try:
        return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        packed: bytes = cloudpickle.dumps(message)
        return packed


class MessageChannel(Action):
    """The messages of one sender to one receiver, which arrive in the order in which they were sent.

    Args:
        sender: a process, or a name for a sender that is none.
        deliver: called with the first message when it arrives.
    """

    def __init__(
        self,
        schedule: Schedule,
        sender: SimulatedProcess | str,
        receiver: Address,
        deliver: Callable[[MessageChannel, Envelope], None],
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
        """Offers the first message to the schedule if it can arrive now, and withdraws it otherwise."""
        head = self.head
        if head is not None and head.ready_ms <= self._schedule.now and _can_arrive(head):
            self._schedule.offer(self)
        else:
            self._schedule.withdraw(self)

    def lose(self, count: int) -> int:
        """Drops the newest messages; returns how many were dropped."""
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
    """Whether a message can arrive: its receiver runs, or its delivery will fail, which needs no receiver."""
    return envelope.is_lost or envelope.target is None or envelope.target.state is not ProcessState.STARTING
