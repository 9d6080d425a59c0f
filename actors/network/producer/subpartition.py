"""The queue of one consumer, at the producer. Pure: `ResultPartition` holds the lock and calls the listeners."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from actors.network.flow.buffers import Buffer, Coalescer, unaligned
from actors.protocol.elements import CancelCheckpointMarker, CheckpointBarrier
from flinkray.batches.batch import Batch


class NextKind(enum.Enum):
    """What kind of buffer a poll would give."""

    NOTHING = "nothing"
    DATA = "data"
    EVENT = "event"
    PRIORITY = "priority"
    """An event that overtook what waits: it goes before anything else of its consumer's."""


class BufferAndBacklog(Struct, frozen=True):
    """One buffer that was polled from a subpartition (Flink's BufferAndBacklog)."""

    buffer: Buffer
    sequence: int
    """The number of this buffer: polled buffers are counted from 0, events included."""
    backlog: int
    """Data buffers that wait behind it."""
    next_kind: NextKind
    """What the next poll would give."""


class SubpartitionStatistics(Struct, frozen=True):
    """A snapshot of one subpartition."""

    subpartition: int
    queued_buffers: int
    """Buffers that wait, events included, and the tail once it is flushed."""
    backlog: int
    queued_bytes: int
    """Bytes of finished data buffers, without what is still coalescing."""
    coalescing_bytes: int
    taken_buffers: int
    is_blocked: bool
    is_lingering: bool
    is_released: bool


class QueueLimit:
    """How many data buffers and bytes all queues of one partition may hold together. Rows that were flushed one after
    another count as so many buffers, also where they are read as one.

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

    def add(self, nbytes: int, buffers: int = 1) -> None:
        self.buffers += buffers
        self.nbytes += nbytes

    def remove(self, nbytes: int, buffers: int = 1) -> None:
        self.buffers -= buffers
        self.nbytes -= nbytes


class PipelinedSubpartition:
    """The queue of a consumer that reads while rows are made, in memory; after Flink's class of that name.

    The coalescing tail is not in the backlog and cannot be polled until it is full or flushed. One that is flushed goes
    on coalescing until it is polled: rows that come while the reader cannot take them (no credit, a busy thread) make
    its next buffer larger, and not more of them. An aligned barrier blocks: nothing more is given after it until
    `resume`, except barriers that overtake everything.
    """

    def __init__(self, index: int, limit: QueueLimit, target_rows: int, target_bytes: int) -> None:
        self.index = index
        self._limit = limit
        self._tail = Coalescer(target_rows, target_bytes)
        self._flushes = 0
        """How often the present tail was flushed; it is readable after the first time."""
        self._flushed_batches = 0
        self._flushed_bytes = 0
        self._queue: deque[Buffer] = deque()
        self._priority: deque[Buffer] = deque()
        self._backlog = 0
        self._queued_bytes = 0
        self._taken = 0
        self._is_blocked = False
        self._is_flowing = False
        self.frame_bytes = 0
        """Finished rows linger until there are so many bytes of them, or `hurry` is called; then all of them go."""
        self.is_released = False

    @property
    def backlog(self) -> int:
        """Data buffers that wait: finished ones, and the tail once it is flushed."""
        return self._backlog + (self._flushes > 0)

    @property
    def has_tail(self) -> bool:
        """Whether rows came that wait for more rows, or for a flush."""
        return len(self._tail) > self._flushed_batches

    @property
    def has_priority(self) -> bool:
        return bool(self._priority)

    @property
    def room(self) -> int:
        """How many data buffers of the limit it takes up."""
        return self._flushes + sum(buffer.room for buffer in self._queue if not buffer.is_event)

    @property
    def is_lingering(self) -> bool:
        """Whether finished rows wait for more, so that they go in one message."""
        return self._backlog > 0 and not self._is_flowing and self._queued_bytes < self.frame_bytes

    def hurry(self) -> None:
        """No rows that are here now linger any longer."""
        self._is_flowing = self._backlog > 0

    @property
    def next_kind(self) -> NextKind:
        if self._priority:
            return NextKind.PRIORITY
        if self._is_blocked:
            return NextKind.NOTHING
        if not self._queue:
            return NextKind.DATA if self._flushes else NextKind.NOTHING
        if self._queue[0].is_event:
            return NextKind.EVENT
        return NextKind.NOTHING if self.is_lingering else NextKind.DATA

    @property
    def target_rows(self) -> int:
        """Rows that a buffer aims at."""
        return self._tail.target_rows

    def set_target_rows(self, rows: int) -> None:
        """For the rows that come from now on."""
        self._tail.target_rows = rows

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
        if self.has_tail:
            self._limit.add(self._tail.nbytes - self._flushed_bytes)
            self._flushes += 1
            self._flushed_batches, self._flushed_bytes = len(self._tail), self._tail.nbytes
        self.hurry()

    def _forget_flushes(self) -> int:
        """Frees the room that the flushed tail takes; gives how often it was flushed."""
        flushes, self._flushes = self._flushes, 0
        self._limit.remove(self._flushed_bytes, flushes)
        self._flushed_batches = self._flushed_bytes = 0
        return flushes

    def _append(self, buffers: list[Buffer]) -> None:
        """Queues finished buffers; where a tail had been flushed, the first of them is that tail."""
        if buffers and self._flushes:
            # The tail takes as much room as before: the writer must not run further ahead because it is read as one.
            has_more = len(buffers[0].batches) > self._flushed_batches
            buffers[0].room = self._forget_flushes() + has_more
            self._queue_all(buffers)
            self.hurry()
        else:
            self._queue_all(buffers)

    def _queue_all(self, buffers: list[Buffer]) -> None:
        for buffer in buffers:
            self._queue.append(buffer)
            if not buffer.is_event:
                self._backlog += 1
                self._queued_bytes += buffer.nbytes
                self._limit.add(buffer.nbytes, buffer.room)

    def insert_priority(self, barrier: Buffer) -> list[Batch]:
        """Puts an unaligned barrier before everything but earlier ones of its kind.

        Returns:
            The rows that it overtook, oldest first. They stay in the queue, as do the events between them.
        """
        if self.is_released:
            return []
        self._append(self._tail.finish())
        self.hurry()
        self._priority.append(barrier)
        return _rows(self._queue)

    def has_aligned_barrier(self, checkpoint_id: int) -> bool:
        """Whether that barrier waits here, and would overtake the rows before it."""
        return self._barrier_to_overtake(checkpoint_id) is not None

    def overtake(self, checkpoint_id: int) -> list[Batch] | None:
        """Makes an aligned barrier that still waits here an unaligned one, with priority.

        Returns:
            The rows that it overtook, oldest first; None if no such barrier waits.
        """
        found = self._barrier_to_overtake(checkpoint_id)
        if found is None:
            return None
        position, barrier = found
        overtaken = _rows(islice(self._queue, position))
        del self._queue[position]
        self._priority.append(Buffer.of_event(unaligned(barrier)))
        return overtaken

    def cancel_barrier(self, checkpoint_id: int) -> bool:
        """Puts a marker in the place of the checkpoint's barrier, which then blocks nothing.

        Returns:
            Whether that barrier still waited behind rows here.
        """
        found = self._barrier(checkpoint_id)
        if found is not None:
            self._queue[found[0]] = Buffer.of_event(CancelCheckpointMarker(checkpoint_id))
        return found is not None

    def _barrier(self, checkpoint_id: int) -> tuple[int, CheckpointBarrier] | None:
        """The barrier that waits among the rows, with its position."""
        for position, buffer in enumerate(self._queue):
            event = buffer.event
            if isinstance(event, CheckpointBarrier) and event.checkpoint_id == checkpoint_id:
                return position, event
        return None

    def _barrier_to_overtake(self, checkpoint_id: int) -> tuple[int, CheckpointBarrier] | None:
        found = self._barrier(checkpoint_id)
        return found if found is not None and found[1].may_turn_unaligned else None

    def poll(self, only_priority: bool = False) -> BufferAndBacklog | None:
        """The next buffer, or None where there is none or a barrier blocks."""
        if self._priority:
            buffer = self._priority.popleft()
        elif only_priority or self.next_kind is NextKind.NOTHING:
            return None
        else:
            if not self._queue:
                self._append(self._tail.finish())
            buffer = self._queue.popleft()
            self._is_blocked = buffer.blocks_upstream
            if not buffer.is_event:
                self._leave_queue(buffer)
        sequence, self._taken = self._taken, self._taken + 1
        return BufferAndBacklog(buffer, sequence, self.backlog, self.next_kind)

    def _leave_queue(self, buffer: Buffer) -> None:
        self._backlog -= 1
        self._queued_bytes -= buffer.nbytes
        self._limit.remove(buffer.nbytes, buffer.room)
        self.hurry()  # once some rows have gone, the others follow

    def resume(self) -> None:
        """The barrier has been handled: what waits behind it may be read."""
        self._is_blocked = False

    def release(self) -> None:
        """Drops everything, now and from now on."""
        self.is_released = True
        self._tail.finish()
        self._forget_flushes()
        for buffer in self._queue:
            if not buffer.is_event:
                self._leave_queue(buffer)
        self._queue.clear()
        self._priority.clear()

    def statistics(self) -> SubpartitionStatistics:
        return SubpartitionStatistics(
            subpartition=self.index,
            queued_buffers=len(self._priority) + len(self._queue) + (self._flushes > 0),
            backlog=self.backlog,
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
        assert self._flushed_batches <= len(self._tail)
        assert self._flushed_bytes <= self._tail.nbytes
        assert (self._flushes > 0) == (self._flushed_batches > 0)
        assert self._backlog == len(data), f"backlog {self._backlog}, but {len(data)} data buffers wait"
        assert self._queued_bytes == sum(buffer.nbytes for buffer in data)
        assert all(buffer.is_event and not buffer.blocks_upstream for buffer in self._priority)


def _rows(buffers: Iterable[Buffer]) -> list[Batch]:
    return [batch for buffer in buffers for batch in buffer.batches]
