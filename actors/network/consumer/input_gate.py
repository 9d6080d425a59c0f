"""Where a task reads: all channels of one job edge, or of several edges that act as one."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from actors.network.consumer.input_channel import InputChannel, InputChannelStatistics, QueueChannel
from actors.network.flow.availability import Availability, Listener
from actors.protocol.elements import Element, EndOfPartition
from actors.protocol.task_messages import ChannelDescriptor, GateDescriptor
from flinkray.batches.batch import Batch

ChannelFactory = Callable[[int, ChannelDescriptor, QueueChannel], InputChannel]


class InputGate(ABC):
    """Gives the elements of several channels, fairly, each channel's in order. Belongs to one task's thread."""

    availability: Availability
    """Available while `poll` may give something; also when the gate is finished, so that nobody waits for it."""
    priority: Availability
    """Available while `poll_priority` may give something: to listen to while the task has no room for rows."""

    @property
    @abstractmethod
    def number_of_channels(self) -> int: ...

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether EndOfPartition has been polled from every channel."""

    @abstractmethod
    def request_partitions(self) -> None:
        """Connects all channels to their producers. Returns at once."""

    @abstractmethod
    def poll(self) -> tuple[int, Element] | None:
        """The next element with the index of its channel, or None when there is none now. Never blocks.

        Barriers that overtake rows come before the rows of any channel. The element that the previous poll gave counts
        as consumed from here on.

        Raises:
            PartitionError: a channel is broken; its cause is in the message.
        """

    @abstractmethod
    def poll_priority(self) -> tuple[int, Element] | None:
        """The next barrier that goes before all rows, or None. As `poll`, but recycles nothing."""

    @abstractmethod
    def recycle(self) -> None:
        """The element that the last poll gave has been consumed, and its producer may send another for it."""

    @abstractmethod
    def put_back(self, channel: int, rest: Batch) -> None:
        """Puts back the rows that are left of the batch which the last poll gave on this channel: the next poll gives
        them, before all other rows."""

    @abstractmethod
    def resume_consumption(self, channel: int) -> None:
        """The aligned barrier that came on this channel has been handled: what waits behind it may come.

        Every barrier that blocks its channel needs this once after it was polled, also one of a checkpoint that is
        no more. Without effect on a channel that is not blocked or has ended.
        """

    @abstractmethod
    def set_buffer_rows(self, rows: int) -> None:
        """How many rows the producers' buffers should have from now on."""

    @abstractmethod
    def begin_capture(self, checkpoint_id: int) -> None:
        """Begins to collect what is on its way to this task: rows not polled yet that precede their channel's barrier.

        To be called when the task takes its snapshot, between two polls. Rows stay where they are and come out of
        `poll` as always. Of a channel whose barrier has left the producer's queue it takes what came before, now; of
        the others also what still comes until then. What waits in the producer's queue when the barrier overtakes it
        is in the producer's part (`ResultPartition.broadcast_barrier`, `overtake`). An aligned barrier of this
        checkpoint, here or still to come, becomes an unaligned one where it has rows to overtake.
        """

    @abstractmethod
    def is_captured(self, checkpoint_id: int) -> bool:
        """Whether nothing can be added any more: on every channel the barrier or the end has come.

        It turns so no later than when the last of these is polled.
        """

    @abstractmethod
    def end_capture(self, checkpoint_id: int) -> dict[int, list[Batch]]:
        """The collected rows of each channel that has some, oldest first; stops collecting, captured or not."""

    @abstractmethod
    def unfinished_channels(self) -> tuple[int, ...]:
        """The channels from which EndOfPartition has not been polled."""

    @abstractmethod
    def send_task_event(self, event: Any) -> None:
        """Sends an event to the producing task of every channel."""

    @abstractmethod
    def statistics(self) -> tuple[InputChannelStatistics, ...]:
        """A snapshot per channel."""


class SingleInputGate(InputGate):
    """The channels of one job edge.

    Channels announce themselves when they turn readable, and are queued once; a channel that has more after a read is
    queued again behind the others.
    """

    def __init__(self, descriptor: GateDescriptor, create_channel: ChannelFactory) -> None:
        self.gate_index = descriptor.gate_index
        self.input_index = descriptor.input_index
        self.availability = Availability(is_available=not descriptor.channels)
        self._lock = threading.Lock()
        self.priority = Availability(is_available=False)
        self._readable: deque[int] = deque()
        self._is_queued = [False] * len(descriptor.channels)
        self._urgent: deque[int] = deque()
        """Indices of channels that have a barrier which goes before all rows."""
        self._has_ended = [False] * len(descriptor.channels)
        self._open_channels = len(descriptor.channels)
        self._unreturned: InputChannel | None = None
        self._rest: tuple[int, Batch] | None = None
        """The rows that were put back, with the index of their channel."""
        self._last_barrier = -1
        """The newest barrier that had been read on the last batch's channel when the batch came: rows of the batch that
        are put back are behind it."""
        self._captured_rests: dict[int, tuple[int, Batch]] = {}
        """Checkpoint id -> the rows that had been put back when its capture began, with the index of their channel."""
        self.channels: tuple[InputChannel, ...] = tuple(
            create_channel(index, channel, self._queue_channel) for index, channel in enumerate(descriptor.channels)
        )
        self.is_released = False

    @property
    def number_of_channels(self) -> int:
        return len(self.channels)

    @property
    def is_finished(self) -> bool:
        return self._open_channels == 0

    def request_partitions(self) -> None:
        for channel in self.channels:
            channel.request()

    def poll(self) -> tuple[int, Element] | None:
        self.recycle()
        if self._urgent and (urgent := self.poll_priority()) is not None:
            return urgent
        if self._rest is not None:
            rest, self._rest = self._rest, None
            self._unreturned = self.channels[rest[0]]
            return rest
        while (index := self._next_channel()) is not None:
            channel = self.channels[index]
            polled = channel.poll()
            if polled is None:
                continue  # it was queued, and read before its turn came
            if polled.has_more:
                self._queue_channel(index)
            if isinstance(polled.element, EndOfPartition):
                self._end_channel(channel)
            elif isinstance(polled.element, Batch):
                self._unreturned, self._last_barrier = channel, channel.last_barrier
            return index, polled.element
        return None

    def poll_priority(self) -> tuple[int, Element] | None:
        while (index := self._next_urgent()) is not None:
            polled = self.channels[index].poll_priority()
            if polled is not None:
                if polled.has_more:
                    self._queue_channel(index)
                return index, polled.element
        return None

    def recycle(self) -> None:
        channel, self._unreturned = self._unreturned, None
        if channel is not None:
            channel.recycle()

    def put_back(self, channel: int, rest: Batch) -> None:
        self._rest, self._unreturned = (channel, rest), None

    def resume_consumption(self, channel: int) -> None:
        self.channels[channel].resume()

    def set_buffer_rows(self, rows: int) -> None:
        for channel in self.channels:
            channel.set_buffer_rows(rows)

    def begin_capture(self, checkpoint_id: int) -> None:
        if self._rest is not None and checkpoint_id > self._last_barrier:
            self._captured_rests[checkpoint_id] = self._rest
        for channel in self.channels:
            channel.begin_capture(checkpoint_id)

    def is_captured(self, checkpoint_id: int) -> bool:
        return all(channel.is_captured(checkpoint_id) for channel in self.channels)

    def end_capture(self, checkpoint_id: int) -> dict[int, list[Batch]]:
        collected = {channel.index: channel.end_capture(checkpoint_id) for channel in self.channels}
        if (rest := self._captured_rests.pop(checkpoint_id, None)) is not None:
            collected[rest[0]].insert(0, rest[1])
        return {index: rows for index, rows in collected.items() if rows}

    def unfinished_channels(self) -> tuple[int, ...]:
        return tuple(index for index, has_ended in enumerate(self._has_ended) if not has_ended)

    def send_task_event(self, event: Any) -> None:
        for channel in self.channels:
            channel.send_task_event(event)

    def release(self) -> None:
        """Ends all channels, whatever waits in them; `poll` gives nothing any more. Any thread may call it."""
        with self._lock:
            if self.is_released:
                return
            self.is_released = True
            self._readable.clear()
            self._urgent.clear()
            self.priority.set_unavailable()
            self._unreturned = self._rest = None
            self._captured_rests.clear()
        for channel in self.channels:
            channel.release()
        self.availability.set_available()

    def statistics(self) -> tuple[InputChannelStatistics, ...]:
        return tuple(channel.statistics() for channel in self.channels)

    def _next_channel(self) -> int | None:
        with self._lock:
            if self._readable:
                index = self._readable.popleft()
                self._is_queued[index] = False
                return index
            if not self.is_released and not self.is_finished:
                self.availability.set_unavailable()
            return None

    def _next_urgent(self) -> int | None:
        with self._lock:
            index = self._urgent.popleft() if self._urgent else None
            if not self._urgent:
                self.priority.set_unavailable()
            return index

    def _queue_channel(self, index: int) -> None:
        has_priority = self.channels[index].has_priority
        listeners: tuple[Listener, ...] = ()
        with self._lock:
            if self._has_ended[index] or self.is_released:
                return
            if has_priority and index not in self._urgent:
                self._urgent.append(index)
                listeners = self.priority.mark_available()
            if not self._is_queued[index]:
                self._is_queued[index] = True
                self._readable.append(index)
                listeners += self.availability.mark_available()
        for listener in listeners:
            listener()

    def _end_channel(self, channel: InputChannel) -> None:
        with self._lock:
            self._has_ended[channel.index] = True
            self._open_channels -= 1
            listeners = self.availability.mark_available() if self.is_finished else ()
        channel.release()
        for listener in listeners:
            listener()


class UnionInputGate(InputGate):
    """Several gates as one. Channels are counted through: the second gate's begin behind the first's.

    As channels are within a gate, gates are queued when they turn readable, and again behind the others while they are:
    the many that have nothing cost nothing.
    """

    def __init__(self, gates: Sequence[SingleInputGate]) -> None:
        self.gates = tuple(gates)
        self.availability = Availability(is_available=True)
        self.priority = Availability(is_available=False)
        self._offsets: list[int] = []
        self._channels = 0
        for gate in self.gates:
            self._offsets.append(self._channels)
            self._channels += gate.number_of_channels
        self._lock = threading.Lock()
        open_gates = [number for number, gate in enumerate(self.gates) if not gate.is_finished]
        self._open_gates = len(open_gates)
        self._readable = deque(open_gates)
        self._is_queued = [not gate.is_finished for gate in self.gates]
        self._queue_again = [partial(self._queue_gate, number) for number in range(len(self.gates))]
        self._unreturned: SingleInputGate | None = None
        self._wait_for_priority()

    @property
    def number_of_channels(self) -> int:
        return self._channels

    @property
    def is_finished(self) -> bool:
        return self._open_gates == 0

    def request_partitions(self) -> None:
        for gate in self.gates:
            gate.request_partitions()

    def poll(self) -> tuple[int, Element] | None:
        self.recycle()
        if (urgent := self.poll_priority()) is not None:
            return urgent
        for _ in range(len(self._readable)):
            number = self._next_gate()
            gate = self.gates[number]
            polled = gate.poll()
            if polled is None:
                gate.availability.on_available(self._queue_again[number])
                continue
            if gate.is_finished:
                self._open_gates -= 1
            else:
                self._queue_gate(number)
            self._unreturned = gate
            return self._offsets[number] + polled[0], polled[1]
        with self._lock:
            if not self._readable and not self.is_finished:
                self.availability.set_unavailable()
        return None

    def _next_gate(self) -> int:
        with self._lock:
            number = self._readable.popleft()
            self._is_queued[number] = False
            return number

    def _queue_gate(self, number: int) -> None:
        with self._lock:
            if self._is_queued[number]:
                return
            self._is_queued[number] = True
            self._readable.append(number)
            listeners = self.availability.mark_available()
        for listener in listeners:
            listener()

    def poll_priority(self) -> tuple[int, Element] | None:
        if not self.priority.is_available:
            return None
        for gate, offset in zip(self.gates, self._offsets, strict=True):
            if (polled := gate.poll_priority()) is not None:
                return offset + polled[0], polled[1]
        self._wait_for_priority()
        return None

    def _wait_for_priority(self) -> None:
        self.priority.set_unavailable()
        for gate in self.gates:
            gate.priority.on_available(self.priority.set_available)

    def recycle(self) -> None:
        gate, self._unreturned = self._unreturned, None
        if gate is not None:
            gate.recycle()

    def put_back(self, channel: int, rest: Batch) -> None:
        number = self._gate_of(channel)
        self.gates[number].put_back(channel - self._offsets[number], rest)
        self._unreturned = None

    def resume_consumption(self, channel: int) -> None:
        number = self._gate_of(channel)
        self.gates[number].resume_consumption(channel - self._offsets[number])

    def _gate_of(self, channel: int) -> int:
        return bisect_right(self._offsets, channel) - 1

    def set_buffer_rows(self, rows: int) -> None:
        for gate in self.gates:
            gate.set_buffer_rows(rows)

    def begin_capture(self, checkpoint_id: int) -> None:
        for gate in self.gates:
            gate.begin_capture(checkpoint_id)

    def is_captured(self, checkpoint_id: int) -> bool:
        return all(gate.is_captured(checkpoint_id) for gate in self.gates)

    def end_capture(self, checkpoint_id: int) -> dict[int, list[Batch]]:
        return {
            offset + channel: rows
            for gate, offset in zip(self.gates, self._offsets, strict=True)
            for channel, rows in gate.end_capture(checkpoint_id).items()
        }

    def unfinished_channels(self) -> tuple[int, ...]:
        return tuple(
            offset + channel
            for gate, offset in zip(self.gates, self._offsets, strict=True)
            for channel in gate.unfinished_channels()
        )

    def send_task_event(self, event: Any) -> None:
        for gate in self.gates:
            gate.send_task_event(event)

    def statistics(self) -> tuple[InputChannelStatistics, ...]:
        return tuple(statistics for gate in self.gates for statistics in gate.statistics())
