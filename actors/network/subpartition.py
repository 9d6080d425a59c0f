"""The queue of one consumer, at the producer. Pure: `ResultPartition` holds the lock and calls the listeners."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from actors.elements import CheckpointBarrier
from actors.network.buffers import Buffer, Coalescer, unaligned
from flinkray.batch import Batch


class NextKind(enum.Enum):
    """What a poll would give."""

    NOTHING = "nothing"
    DATA = "data"
    EVENT = "event"
    PRIORITY = "priority"
    """An event that overtook what waits: it goes before anything else of its consumer's."""


@dataclass(frozen=True, slots=True)
class Polled:
    """One buffer taken from a subpartition."""

    buffer: Buffer
    sequence: int
    """Counts the buffers taken from 0, events included."""
    backlog: int
    """Data buffers that wait behind it."""
    next_kind: NextKind


@dataclass(frozen=True, slots=True)
class SubpartitionStatistics:
    """A snapshot of one subpartition."""

    subpartition: int
    queued_buffers: int
    """Events included."""
    backlog: int
    queued_bytes: int
    """Of finished data buffers; what is still coalescing is not in it."""
    coalescing_bytes: int
    taken_buffers: int
    is_blocked: bool
    is_lingering: bool
    is_released: bool


class QueueLimit:
    """How many data buffers and bytes all queues of one partition may hold together.

    The limit is soft: rows that an operator has made must go somewhere, so adding never fails; but the writer is
    unavailable from then on, and the task makes no more before there is room.
    """

    def __init__(self, max_buffers: int, max_bytes: int) -> None:
        self.max_buffers = max_buffers
        self.max_bytes = max_bytes
        self.buffers = 0
        self.nbytes = 0

    @property
    def has_room(self) -> bool:
        return self.buffers < self.max_buffers and self.nbytes < self.max_bytes

    def add(self, nbytes: int) -> None:
        self.buffers += 1
        self.nbytes += nbytes

    def remove(self, nbytes: int) -> None:
        self.buffers -= 1
        self.nbytes -= nbytes


class PipelinedSubpartition:
    """In memory, consumed once, in order. After Flink's class of that name.

    The coalescing tail is not in the backlog and cannot be polled until it is full or flushed. An aligned barrier
    blocks: nothing more is given after it until `resume`, except barriers that overtake everything.
    """

    def __init__(self, index: int, limit: QueueLimit, target_rows: int, target_bytes: int) -> None:
        self.index = index
        self._limit = limit
        self._tail = Coalescer(target_rows, target_bytes)
        self._queue: deque[Buffer] = deque()
        self._priority: deque[Buffer] = deque()
        self._backlog = 0
        self._queued_bytes = 0
        self._taken = 0
        self._is_blocked = False
        self._is_flowing = False
        self.frame_bytes = 0
        """Rows linger until there are so many bytes of them, or something hurries them; then all of them go."""
        self.is_released = False

    @property
    def backlog(self) -> int:
        """Finished data buffers that wait."""
        return self._backlog

    @property
    def has_tail(self) -> bool:
        """Whether rows wait for more rows, or for a flush."""
        return not self._tail.is_empty

    @property
    def has_priority(self) -> bool:
        return bool(self._priority)

    @property
    def is_lingering(self) -> bool:
        """Whether finished rows wait for more, so that they go in one message."""
        return self._backlog > 0 and not self._is_flowing and self._queued_bytes < self.frame_bytes

    def hurry(self) -> None:
        """Nothing that is here now waits for more."""
        self._is_flowing = self._backlog > 0

    @property
    def next_kind(self) -> NextKind:
        if self._priority:
            return NextKind.PRIORITY
        if self._is_blocked or not self._queue:
            return NextKind.NOTHING
        if self._queue[0].is_event:
            return NextKind.EVENT
        return NextKind.NOTHING if self.is_lingering else NextKind.DATA

    def add_batch(self, batch: Batch) -> None:
        """Rows, which may wait in the tail for more."""
        if not self.is_released:
            self._append(self._tail.add(batch))

    def add_buffer(self, buffer: Buffer) -> None:
        """A finished buffer: an event, or one that is shared with other subpartitions. It overtakes nothing."""
        if not self.is_released:
            self._append([*self._tail.finish(), buffer])
            if buffer.is_event:
                self.hurry()

    def flush(self) -> None:
        """Makes everything readable."""
        self._append(self._tail.finish())
        self.hurry()

    def _append(self, buffers: list[Buffer]) -> None:
        for buffer in buffers:
            self._queue.append(buffer)
            if not buffer.is_event:
                self._backlog += 1
                self._queued_bytes += buffer.nbytes
                self._limit.add(buffer.nbytes)

    def insert_priority(self, barrier: Buffer) -> list[Batch]:
        """Puts an unaligned barrier before everything but earlier ones of its kind.

        Returns:
            The rows that it overtook, oldest first. They stay in the queue, as do the events between them.
        """
        if self.is_released:
            return []
        self.flush()
        self._priority.append(barrier)
        return _rows(self._queue)

    def has_aligned_barrier(self, checkpoint_id: int) -> bool:
        """Whether that barrier waits here, and would overtake the rows before it."""
        events = (buffer.event for buffer in self._queue)
        return any(
            isinstance(event, CheckpointBarrier) and event.checkpoint_id == checkpoint_id and event.blocks_channel
            for event in events
        )

    def overtake(self, checkpoint_id: int) -> list[Batch] | None:
        """Makes an aligned barrier that still waits here an unaligned one, with priority.

        Returns:
            The rows that it overtook, oldest first; None if no such barrier waits.
        """
        for position, buffer in enumerate(self._queue):
            barrier = buffer.event
            if isinstance(barrier, CheckpointBarrier) and barrier.checkpoint_id == checkpoint_id:
                if not barrier.blocks_channel:
                    return None
                overtaken = _rows(islice(self._queue, position))
                del self._queue[position]
                self._priority.append(Buffer.of_event(unaligned(barrier)))
                return overtaken
        return None

    def poll(self, only_priority: bool = False) -> Polled | None:
        """The first buffer, or None where there is none or a barrier blocks."""
        if self._priority:
            buffer = self._priority.popleft()
        elif only_priority or self.next_kind is NextKind.NOTHING:
            return None
        else:
            buffer = self._queue.popleft()
            self._is_blocked = buffer.blocks_upstream
            if not buffer.is_event:
                self._leave_queue(buffer)
        sequence, self._taken = self._taken, self._taken + 1
        return Polled(buffer, sequence, self._backlog, self.next_kind)

    def _leave_queue(self, buffer: Buffer) -> None:
        self._backlog -= 1
        self._queued_bytes -= buffer.nbytes
        self._limit.remove(buffer.nbytes)
        self.hurry()  # where some have gone, the others follow

    def resume(self) -> None:
        """The barrier has been handled: what waits behind it may be read."""
        self._is_blocked = False

    def release(self) -> None:
        """Drops everything, now and from now on."""
        self.is_released = True
        self._tail.finish()
        for buffer in self._queue:
            if not buffer.is_event:
                self._leave_queue(buffer)
        self._queue.clear()
        self._priority.clear()

    def statistics(self) -> SubpartitionStatistics:
        return SubpartitionStatistics(
            subpartition=self.index,
            queued_buffers=len(self._priority) + len(self._queue),
            backlog=self._backlog,
            queued_bytes=self._queued_bytes,
            coalescing_bytes=self._tail.nbytes,
            taken_buffers=self._taken,
            is_blocked=self._is_blocked,
            is_lingering=self.is_lingering,
            is_released=self.is_released,
        )

    def check(self) -> None:
        """The counters say what the queue holds."""
        data = [buffer for buffer in self._queue if not buffer.is_event]
        assert self._backlog == len(data), f"backlog {self._backlog}, but {len(data)} data buffers wait"
        assert self._queued_bytes == sum(buffer.nbytes for buffer in data)
        assert all(buffer.is_event and not buffer.blocks_upstream for buffer in self._priority)


def _rows(buffers: Iterable[Buffer]) -> list[Batch]:
    return [batch for buffer in buffers for batch in buffer.batches]
