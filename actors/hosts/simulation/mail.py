"""Messages on their way between processes of the simulation: in channels that keep their order, or lost."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

import cloudpickle
from msgspec import Struct

from actors.hosts.in_process import InProcessPayloads
from actors.hosts.simulation.faults import FaultPlan
from actors.hosts.simulation.process import ProcessState, SimulatedProcess
from actors.hosts.simulation.schedule import Action, Schedule
from actors.protocol.ports import Address, BatchesRef, DeliveryFailed, EndpointDied, Payloads


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


class MessagesUnderWay:
    """All messages under way in a simulated cluster, and what becomes of each when it arrives.

    Args:
        life_at: the present life of the endpoint at an address; None: there is none.
        deliver: hands a message to a process that runs.
    """

    def __init__(
        self,
        schedule: Schedule,
        plan: FaultPlan,
        life_at: Callable[[Address], SimulatedProcess | None],
        deliver: Callable[[SimulatedProcess, Any, Payloads], None],
    ) -> None:
        self.delivered: Counter[str] = Counter()
        """How many messages have arrived, by the name of their class."""
        self._schedule = schedule
        self._plan = plan
        self._life_at = life_at
        self._deliver = deliver
        self._channels: dict[tuple[SimulatedProcess | str, Address], MessageChannel] = {}
        self._by_receiver: dict[Address, dict[MessageChannel, None]] = defaultdict(dict)

    @property
    def channels(self) -> Collection[MessageChannel]:
        return self._channels.values()

    def send(
        self, sender: SimulatedProcess | str, address: Address, message: Any, payloads: Sequence[BatchesRef] = ()
    ) -> None:
        """Sends a message to another process; returns at once."""
        target = self._life_at(address)
        # A message to a process that is being started again either fails or waits until it runs.
        is_lost = (
            target is not None
            and target.life > 0
            and target.state is ProcessState.STARTING
            and self._schedule.random.random() < 0.5
        )
        ready_ms = self._schedule.now + self._delay_ms()
        kind = type(message).__name__
        envelope = Envelope(kind, pack(message), True, tuple(payloads), target, ready_ms, is_lost)
        self._channel(sender, address).put(envelope)

    def send_self(self, process: SimulatedProcess, message: Any, delay_ms: float) -> None:
        """Sends a message of a process to itself, which is not pickled."""
        channel = self._channel(process, process.address)
        ready_ms = self._schedule.now + delay_ms + self._delay_ms()
        channel.put(Envelope(type(message).__name__, message, False, (), process, ready_ms))

    def notify(
        self, dead: SimulatedProcess | str, watcher: SimulatedProcess, death: EndpointDied, after: float
    ) -> None:
        """Sends the notice of a death, behind what the dead process has sent: nothing of it comes after the notice.

        Args:
            after: virtual time until the notice can arrive.
        """
        envelope = Envelope("EndpointDied", death, False, (), watcher, self._schedule.now + after)
        self._channel(dead, watcher.address).put(envelope)

    def look(self, receiver: Address) -> None:
        """Looks which messages to an endpoint can arrive now, as its process has started or ended."""
        for channel in list(self._by_receiver[receiver]):
            channel.look()

    def lose_some(self, sender: SimulatedProcess) -> None:
        """Loses the newest messages of each channel, which may not have left the process when it died."""
        for channel in [each for each in self._channels.values() if each.sender is sender]:
            channel.lose(int(self._schedule.random.random() * (len(channel) + 1)))
            if not channel:
                self._drop_channel(channel)

    def lose_all(self) -> None:
        for channel in list(self._channels.values()):
            channel.lose(len(channel))
        self._channels.clear()
        self._by_receiver.clear()

    def _channel(self, sender: SimulatedProcess | str, receiver: Address) -> MessageChannel:
        channel = self._channels.get((sender, receiver))
        if channel is None:
            channel = MessageChannel(self._schedule, sender, receiver, self._arrive)
            self._channels[sender, receiver] = channel
            self._by_receiver[receiver][channel] = None
        return channel

    def _drop_channel(self, channel: MessageChannel) -> None:
        self._channels.pop((channel.sender, channel.receiver), None)
        self._by_receiver[channel.receiver].pop(channel, None)

    def _delay_ms(self) -> float:
        """How long a message is under way: mostly no time at all, sometimes a few milliseconds, rarely many."""
        number = self._schedule.random.random()
        if number < 0.8:
            return 0.0
        return self._schedule.random.random() * (5.0 if number < 0.997 else 500.0)

    def _arrive(self, channel: MessageChannel, envelope: Envelope) -> None:
        if not channel and isinstance(channel.sender, SimulatedProcess) and not channel.sender.is_alive:
            self._drop_channel(channel)
        process = envelope.target
        if process is None or process.state is not ProcessState.RUNNING or envelope.is_lost:
            self._return_to_sender(channel, envelope, "the endpoint does not exist")
            return
        if envelope.payloads and self._plan.loses_payload(self._schedule.steps):
            self._plan.note(f"a payload of {envelope.kind} from {channel.sender} to {process} is lost")
            self._return_to_sender(channel, envelope, "a payload was lost")
            return
        self.delivered[envelope.kind] += 1
        self._deliver(process, envelope.open(), InProcessPayloads(envelope.payloads))

    def _return_to_sender(self, channel: MessageChannel, envelope: Envelope, cause: str) -> None:
        sender = channel.sender
        if (
            isinstance(sender, SimulatedProcess)
            and sender.is_alive
            and envelope.kind not in ("DeliveryFailed", "EndpointDied")
        ):
            failure = DeliveryFailed(channel.receiver, envelope.open(), cause)
            self.send(f"failures at {channel.receiver}", sender.address, failure)
