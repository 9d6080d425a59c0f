"""What one task produces for one data set: a queue per consumer, and the flag that says whether there is room."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from actors.network.flow.availability import Availability
from actors.network.flow.buffers import Buffer, Coalescer
from actors.network.producer.subpartition import (
    BufferAndBacklog,
    NextKind,
    PipelinedSubpartition,
    QueueLimit,
    SubpartitionStatistics,
)
from actors.protocol.elements import CheckpointBarrier, EndOfPartition, Event
from actors.protocol.task_messages import PartitionDescriptor
from flinkray.batches.batch import Batch
from flinkray.errors import PartitionError
from graphs.execution_graph import PartitionId


class PartitionStatistics(Struct, frozen=True):
    """A snapshot of one result partition."""

    partition_id: PartitionId
    is_available: bool
    is_finished: bool
    queued_buffers: int
    """Data buffers; `max_buffers` and `max_bytes` make the writer unavailable."""
    max_buffers: int
    queued_bytes: int
    max_bytes: int
    batches_out: int
    """Batches that the writer handed over, a broadcast counted once per consumer."""
    rows_out: int
    bytes_out: int
    """Of buffers that consumers have taken."""
    subpartitions: tuple[SubpartitionStatistics, ...]


class ResultPartition:
    """The producer's end of an exchange.

    The task's thread emits, any thread may flush, each consumer polls its own view: one lock covers them, and no
    listener is called under it.

    Args:
        max_buffers: data buffers, and `max_bytes` bytes, that may wait before the partition is unavailable.
        target_rows: rows, and `target_bytes` bytes, that small batches are collected up to, until a consumer says how
            many rows its buffers should have.
        on_consumed: called once, when every consumer has taken everything or the partition was released.
    """

    def __init__(
        self,
        descriptor: PartitionDescriptor,
        *,
        max_buffers: int,
        max_bytes: int,
        target_rows: int,
        target_bytes: int,
        on_consumed: Callable[[ResultPartition], None],
    ) -> None:
        self.partition_id = descriptor.partition_id
        self._may_overtake = descriptor.barriers_overtake
        self.availability = Availability(is_available=True)
        self.on_task_event: Callable[[Any], None] | None = None
        """Set by the producing task: gets what consumers send upstream, on a thread that is not the task's."""
        self._lock = threading.Lock()
        self._limit = QueueLimit(max_buffers, max_bytes)
        self.buffer_rows = target_rows
        """Rows of the largest buffers that any consumer wants."""
        self._wanted_rows = Counter({target_rows: descriptor.subpartitions})
        """Rows of a buffer -> how many consumers want so many. Few numbers, however many consumers there are."""
        self._broadcast_tail = Coalescer(target_rows, target_bytes)
        self._subpartitions = [
            PipelinedSubpartition(index, self._limit, target_rows, target_bytes)
            for index in range(descriptor.subpartitions)
        ]
        self._unreleased = descriptor.subpartitions
        self._listeners: list[Callable[[], None] | None] = [None] * descriptor.subpartitions
        self._on_consumed = on_consumed
        self._is_finished = False
        self._is_released = False
        self._cause: str | None = None
        self._batches_out = self._rows_out = self._bytes_out = 0

    @property
    def number_of_subpartitions(self) -> int:
        return len(self._subpartitions)

    @property
    def is_available(self) -> bool:
        """Whether there is room. A released partition counts as available, so that its writer runs into the error."""
        return self.availability.is_available

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    # -- the producing task ---------------------------------------------------------------------------------------

    def emit(self, index: int, batch: Batch) -> None:
        """Rows for one consumer. Never blocks: the caller looks at `is_available` before it makes more.

        Raises:
            PartitionError: the partition was released with a cause. Released without one, it drops the rows.
        """

        def add() -> None:
            self._count(batch, 1)
            self._finish_broadcast_tail()
            self._subpartitions[index].add_batch(batch)

        self._change((index,), add)

    def broadcast(self, batch: Batch) -> None:
        """Rows for every consumer: they share one buffer. Raises as `emit` does."""

        def add() -> None:
            self._count(batch, len(self._subpartitions))
            for subpartition in self._subpartitions:
                subpartition.flush()
            for buffer in self._broadcast_tail.add(batch):
                self._share(buffer)

        self._change(range(len(self._subpartitions)), add)

    def emit_event(self, index: int, event: Event) -> None:
        """An event for one consumer, behind all rows so far. Raises as `emit` does."""

        def add() -> None:
            self._finish_broadcast_tail()
            self._subpartitions[index].add_buffer(Buffer.of_event(event))

        self._change((index,), add)

    def broadcast_event(self, event: Event) -> None:
        """An event for every consumer, behind all rows so far. Raises as `emit` does."""
        assert not (isinstance(event, CheckpointBarrier) and event.overtakes), "use broadcast_barrier"

        def add() -> None:
            self._finish_broadcast_tail()
            self._share(Buffer.of_event(event))

        self._change(range(len(self._subpartitions)), add)

    def broadcast_barrier(self, barrier: CheckpointBarrier) -> list[list[Batch]]:
        """A barrier for every consumer: an unaligned one before everything that waits, another one behind it; behind it
        also where no barrier may overtake rows on this exchange.

        It can be read at once, whatever credit there is. Raises as `emit` does.

        Returns:
            Per subpartition the rows that it overtook, oldest first: the part of the checkpoint that is on its way.
            They stay in their queue, as do overtaken events, which are no part of it. Empty for an aligned barrier.
        """
        overtaken: list[list[Batch]] = [[] for _ in self._subpartitions]
        barrier = replace(barrier, may_overtake=self._may_overtake)
        if not barrier.overtakes:
            self.broadcast_event(barrier)
            return overtaken

        def insert() -> None:
            self._finish_broadcast_tail()
            buffer = Buffer.of_event(barrier)
            for subpartition in self._subpartitions:
                overtaken[subpartition.index] = subpartition.insert_priority(buffer)

        self._change(range(len(self._subpartitions)), insert, is_urgent=True)
        return overtaken

    def has_aligned_barrier(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint's aligned barrier waits for any consumer, so that `overtake` would do something."""
        with self._lock:
            return any(subpartition.has_aligned_barrier(checkpoint_id) for subpartition in self._subpartitions)

    def overtake(self, checkpoint_id: int) -> list[list[Batch]] | None:
        """Makes the checkpoint's aligned barrier an unaligned one wherever it still waits. Only the task's thread.

        Returns:
            Per subpartition the rows that it overtook, oldest first; None if it waits nowhere any more.
        """
        overtaken: list[list[Batch] | None] = []

        def convert() -> None:
            overtaken.extend(subpartition.overtake(checkpoint_id) for subpartition in self._subpartitions)

        self._change(range(len(self._subpartitions)), convert, is_producing=False, is_urgent=True)
        if all(rows is None for rows in overtaken):
            return None
        return [rows if rows is not None else [] for rows in overtaken]

    def flush_all(self) -> None:
        """Makes what is still coalescing readable. Any thread may call it; raises nothing."""

        def flush() -> None:
            self._finish_broadcast_tail()
            for subpartition in self._subpartitions:
                subpartition.flush()

        self._change(range(len(self._subpartitions)), flush, is_producing=False)

    @property
    def has_tail(self) -> bool:
        """Whether a flush would make something readable."""
        with self._lock:
            return not self._broadcast_tail.is_empty or any(
                each.has_tail or each.is_lingering for each in self._subpartitions
            )

    def finish(self) -> None:
        """Ends the partition: every consumer gets EndOfPartition behind its last rows. Emits nothing afterwards."""
        self.broadcast_event(EndOfPartition())
        self._is_finished = True

    def release(self, cause: BaseException | str | None = None) -> None:
        """Drops everything. With a cause, writer and consumers get it as PartitionError; without, they get nothing.

        Only the first call counts.
        """
        with self._lock:
            if self._is_released:
                return
            self._is_released = True
            if cause is not None:
                self._cause = str(cause) if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
            self._broadcast_tail.finish()
            for subpartition in self._subpartitions:
                subpartition.release()
            listeners = [listener for listener in self._listeners if listener is not None]
            listeners += self.availability.mark_available()
        self._on_consumed(self)
        for listener in listeners:
            listener()

    def _finish_broadcast_tail(self) -> None:
        for buffer in self._broadcast_tail.finish():
            self._share(buffer)

    def _share(self, buffer: Buffer) -> None:
        buffer.is_shared = len(self._subpartitions) > 1
        for subpartition in self._subpartitions:
            subpartition.add_buffer(buffer)

    def _count(self, batch: Batch, copies: int) -> None:
        self._batches_out += copies
        self._rows_out += copies * batch.num_rows

    def _change(
        self,
        touched: Collection[int],
        change: Callable[[], None],
        is_producing: bool = True,
        is_urgent: bool = False,
    ) -> None:
        """Runs `change` under the lock, then tells the views that turned readable; if urgent, all that are."""
        with self._lock:
            if self._is_released:
                if is_producing and self._cause is not None:
                    raise self._error()
                return
            assert not (is_producing and self._is_finished), f"partition {self.partition_id} is finished"
            if not self._broadcast_tail.is_empty:
                touched = range(len(self._subpartitions))
            silent = {
                index for index in touched if is_urgent or self._subpartitions[index].next_kind is NextKind.NOTHING
            }
            change()
            if not self._limit.has_room:
                has_run_out = self.availability.is_available
                silent |= self._hurry(range(len(self._subpartitions)) if has_run_out else touched)
                self.availability.set_unavailable()
            woken = [
                self._listeners[index]
                for index in silent
                if self._subpartitions[index].next_kind is not NextKind.NOTHING
            ]
        for listener in woken:
            if listener is not None:
                listener()

    def _hurry(self, changed: Collection[int]) -> set[int]:
        """Without room rows linger only while others can be read, which then give room. Those that linger no more."""
        lingering = {index for index in changed if self._subpartitions[index].is_lingering}
        if not lingering or any(each.next_kind is NextKind.DATA for each in self._subpartitions):
            return set()
        for index in lingering:
            self._subpartitions[index].hurry()
        return lingering

    def _error(self) -> PartitionError:
        return PartitionError(f"partition {self.partition_id} was released: {self._cause}")

    # -- the consumers --------------------------------------------------------------------------------------------

    def create_view(self, index: int, listener: Callable[[], None], frame_bytes: int = 0) -> SubpartitionView:
        """The only reader of a subpartition. `listener` is called whenever it turns readable, on any thread.

        Args:
            frame_bytes: rows can be read when there are so many bytes of them, or nothing more may wait: after a
                flush, before an event, without room.
        Raises:
            PartitionError: there is no such subpartition, it has a reader already, or the partition was released.
        """
        with self._lock:
            if not 0 <= index < len(self._subpartitions):
                raise PartitionError(f"partition {self.partition_id} has no subpartition {index}")
            if self._cause is not None:
                raise self._error()
            if self._is_released or self._subpartitions[index].is_released or self._listeners[index] is not None:
                raise PartitionError(
                    f"subpartition {index} of {self.partition_id} was consumed already, and can be only once"
                )
            self._listeners[index] = listener
            self._subpartitions[index].frame_bytes = frame_bytes
            # No flush is due for rows that came before anyone could have read them.
            self._subpartitions[index].hurry()
        return SubpartitionView(self, index)

    def _poll(self, index: int, only_priority: bool) -> BufferAndBacklog | None:
        with self._lock:
            if self._cause is not None:
                raise self._error()
            polled = self._subpartitions[index].poll(only_priority)
            if polled is not None:
                self._bytes_out += polled.buffer.nbytes
            listeners = self._listeners_after_taking()
        for listener in listeners:
            listener()
        return polled

    def _listeners_after_taking(self) -> list[Callable[[], None]]:
        """Of the writer, if it has room again; without, of those whose rows no longer linger."""
        if self.availability.is_available:
            return []
        if self._limit.has_room:
            return list(self.availability.mark_available())
        listeners = [self._listeners[index] for index in self._hurry(range(len(self._subpartitions)))]
        return [listener for listener in listeners if listener is not None]

    def _next_kind(self, index: int) -> NextKind:
        with self._lock:
            if self._cause is not None:
                raise self._error()
            return self._subpartitions[index].next_kind

    def _set_buffer_rows(self, index: int, rows: int) -> None:
        with self._lock:
            subpartition = self._subpartitions[index]
            self._wanted_rows[rows] += 1
            self._wanted_rows[subpartition.target_rows] -= 1
            self._wanted_rows = +self._wanted_rows  # without those that nobody wants any more
            subpartition.set_target_rows(rows)
            self.buffer_rows = self._broadcast_tail.target_rows = max(self._wanted_rows)

    def _resume(self, index: int) -> NextKind:
        with self._lock:
            self._subpartitions[index].resume()
            return self._subpartitions[index].next_kind

    def _overtake_for_reader(self, index: int, checkpoint_id: int) -> list[Batch] | None:
        with self._lock:
            return self._subpartitions[index].overtake(checkpoint_id)

    def _release_view(self, index: int) -> None:
        with self._lock:
            self._listeners[index] = None
            self._unreleased -= not self._subpartitions[index].is_released
            self._subpartitions[index].release()
            listeners = self._listeners_after_taking()
            is_consumed = not self._is_released and not self._unreleased
            self._is_released |= is_consumed
        for listener in listeners:
            listener()
        if is_consumed:
            self._on_consumed(self)

    def publish_task_event(self, event: Any) -> None:
        """Hands an event from a consumer to the producing task, if that listens."""
        if self.on_task_event is not None:
            self.on_task_event(event)

    def statistics(self) -> PartitionStatistics:
        with self._lock:
            return PartitionStatistics(
                partition_id=self.partition_id,
                is_available=self.availability.is_available,
                is_finished=self._is_finished,
                queued_buffers=self._limit.buffers,
                max_buffers=self._limit.max_buffers,
                queued_bytes=self._limit.nbytes,
                max_bytes=self._limit.max_bytes,
                batches_out=self._batches_out,
                rows_out=self._rows_out,
                bytes_out=self._bytes_out,
                subpartitions=tuple(subpartition.statistics() for subpartition in self._subpartitions),
            )

    def _statistics_of(self, index: int) -> SubpartitionStatistics:
        with self._lock:
            return self._subpartitions[index].statistics()

    def check(self) -> None:
        """Room and queues agree, and the flag follows the room."""
        with self._lock:
            for subpartition in self._subpartitions:
                subpartition.check()
            assert self._limit.buffers == sum(subpartition.room for subpartition in self._subpartitions)
            if not self._is_released:
                assert self.availability.is_available == self._limit.has_room


class SubpartitionView:
    """How one consumer reads its subpartition. One thread at a time."""

    def __init__(self, partition: ResultPartition, index: int) -> None:
        self._partition = partition
        self._index = index

    def poll(self, only_priority: bool = False) -> BufferAndBacklog | None:
        """The next buffer, if one is readable.

        Raises:
            PartitionError: the partition was released with a cause.
        """
        return self._partition._poll(self._index, only_priority)

    @property
    def has_priority(self) -> bool:
        """Whether the next buffer is an event that overtook the others. Takes no lock."""
        return self._partition._subpartitions[self._index].has_priority

    def overtake(self, checkpoint_id: int) -> list[Batch] | None:
        """As `ResultPartition.overtake`, for a reader that takes the overtaken rows into its own checkpoint.

        The listener is not called for it.
        """
        return self._partition._overtake_for_reader(self._index, checkpoint_id)

    @property
    def next_kind(self) -> NextKind:
        """What `poll` would give; raises as that does."""
        return self._partition._next_kind(self._index)

    @property
    def backlog(self) -> int:
        return self._partition._subpartitions[self._index].backlog

    @property
    def partition_id(self) -> PartitionId:
        return self._partition.partition_id

    def resume(self) -> NextKind:
        """Unblocks after an aligned barrier; says what can be read now, since the listener is not called for it."""
        return self._partition._resume(self._index)

    def set_buffer_rows(self, rows: int) -> None:
        """How many rows this consumer's buffers aim at from now on."""
        self._partition._set_buffer_rows(self._index, rows)

    def release(self) -> None:
        """Nothing more is wanted: what waits is dropped, and so is what the producer still adds."""
        self._partition._release_view(self._index)

    def fail_partition(self, cause: str) -> None:
        """This consumer is lost and takes the partition with it: its rows would be missing downstream."""
        self._partition.release(cause)

    def publish_task_event(self, event: Any) -> None:
        self._partition.publish_task_event(event)

    def statistics(self) -> SubpartitionStatistics:
        return self._partition._statistics_of(self._index)
