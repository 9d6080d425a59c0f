"""A result that is read while it is made: a queue per consumer, and the flag that says whether there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from msgspec.structs import replace

from actors.network.flow.buffers import Buffer, Coalescer
from actors.network.producer.result_partition import PartitionStatistics, ResultPartition, SubpartitionView
from actors.network.producer.subpartition import (
    BufferAndBacklog,
    NextKind,
    PipelinedSubpartition,
    QueueLimit,
    SubpartitionStatistics,
)
from actors.protocol.elements import CancelCheckpointMarker, CheckpointBarrier, Event
from actors.protocol.task_messages import PartitionDescriptor
from flinkray.batches.batch import Batch
from flinkray.errors import PartitionError


class PipelinedResultPartition(ResultPartition):
    """A result of a pipelined type (Flink's PipelinedResultPartition): each row is read once, by one consumer.

    Args:
        max_buffers: data buffers, and `max_bytes` bytes, that may wait before the partition is unavailable.
        target_rows: rows, and `target_bytes` bytes, that small batches are collected up to, until a consumer says how
            many rows its buffers should have.
        on_released: called once, when every consumer has taken everything or the partition was released.
    """

    def __init__(
        self,
        descriptor: PartitionDescriptor,
        *,
        max_buffers: int,
        max_bytes: int,
        target_rows: int,
        target_bytes: int,
        on_released: Callable[[ResultPartition], None],
    ) -> None:
        super().__init__(descriptor, target_rows, on_released)
        self._may_overtake = descriptor.barriers_overtake
        self._limit = QueueLimit(max_buffers, max_bytes)
        self._wanted_rows = Counter({target_rows: descriptor.subpartitions})
        """Rows of a buffer -> how many consumers want so many. Few numbers, however many consumers there are."""
        self._broadcast_tail = Coalescer(target_rows, target_bytes)
        self._subpartitions = [
            PipelinedSubpartition(index, self._limit, target_rows, target_bytes)
            for index in range(descriptor.subpartitions)
        ]
        self._unreleased = descriptor.subpartitions
        self._listeners: list[Callable[[], None] | None] = [None] * descriptor.subpartitions

    # -- the producing task ---------------------------------------------------------------------------------------

    def emit(self, index: int, batch: Batch) -> None:
        def add() -> None:
            self._count(batch, 1)
            self._finish_broadcast_tail()
            self._subpartitions[index].add_batch(batch)

        self._change((index,), add)

    def broadcast(self, batch: Batch) -> None:
        def add() -> None:
            self._count(batch, len(self._subpartitions))
            for subpartition in self._subpartitions:
                subpartition.flush()
            for buffer in self._broadcast_tail.add(batch):
                self._share(buffer)

        self._change(range(len(self._subpartitions)), add)

    def emit_event(self, index: int, event: Event) -> None:
        def add() -> None:
            self._finish_broadcast_tail()
            self._subpartitions[index].add_buffer(Buffer.of_event(event))

        self._change((index,), add)

    def broadcast_event(self, event: Event) -> None:
        assert not (isinstance(event, CheckpointBarrier) and event.overtakes), "use broadcast_barrier"

        def add() -> None:
            self._finish_broadcast_tail()
            self._share(Buffer.of_event(event))

        self._change(range(len(self._subpartitions)), add)

    def broadcast_barrier(self, barrier: CheckpointBarrier) -> list[list[Batch]]:
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
        with self._lock:
            return any(subpartition.has_aligned_barrier(checkpoint_id) for subpartition in self._subpartitions)

    def overtake(self, checkpoint_id: int) -> list[list[Batch]] | None:
        overtaken: list[list[Batch] | None] = []

        def convert() -> None:
            overtaken.extend(subpartition.overtake(checkpoint_id) for subpartition in self._subpartitions)

        self._change(range(len(self._subpartitions)), convert, is_producing=False, is_urgent=True)
        if all(rows is None for rows in overtaken):
            return None
        return [rows if rows is not None else [] for rows in overtaken]

    def cancel_checkpoint(self, checkpoint_id: int) -> None:
        buffer = Buffer.of_event(CancelCheckpointMarker(checkpoint_id))

        def cancel() -> None:
            self._finish_broadcast_tail()
            for subpartition in self._subpartitions:
                if not subpartition.cancel_barrier(checkpoint_id):
                    subpartition.add_buffer(buffer)

        self._change(range(len(self._subpartitions)), cancel)

    def flush_all(self) -> None:
        def flush() -> None:
            self._finish_broadcast_tail()
            for subpartition in self._subpartitions:
                subpartition.flush()

        self._change(range(len(self._subpartitions)), flush, is_producing=False)

    @property
    def has_tail(self) -> bool:
        with self._lock:
            return not self._broadcast_tail.is_empty or any(
                each.has_tail or each.is_lingering for each in self._subpartitions
            )

    def _drop(self) -> list[Callable[[], None]]:
        self._broadcast_tail.finish()
        for subpartition in self._subpartitions:
            subpartition.release()
        listeners = [listener for listener in self._listeners if listener is not None]
        return [*listeners, *self.availability.mark_available()]

    def _finish_broadcast_tail(self) -> None:
        for buffer in self._broadcast_tail.finish():
            self._share(buffer)

    def _share(self, buffer: Buffer) -> None:
        buffer.is_shared = len(self._subpartitions) > 1
        for subpartition in self._subpartitions:
            subpartition.add_buffer(buffer)

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
        """Where there is no room, rows linger only while others can be read, which gives room. Gives the subpartitions
        whose rows linger no more."""
        lingering = {index for index in changed if self._subpartitions[index].is_lingering}
        if not lingering or any(each.next_kind is NextKind.DATA for each in self._subpartitions):
            return set()
        for index in lingering:
            self._subpartitions[index].hurry()
        return lingering

    # -- the consumers --------------------------------------------------------------------------------------------

    def create_view(self, index: int, listener: Callable[[], None], frame_bytes: int = 0) -> SubpartitionView:
        """As of every partition; the only reader of its subpartition, which can be read only once."""
        with self._lock:
            self._check_index(index)
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
        return PipelinedView(self, index)

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
        """Whom to tell after a buffer has gone: the writer, if it has room again; else readers of rows that linger no
        more."""
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
            self._on_released(self)

    @property
    def waiting(self) -> tuple[int, int]:
        return self._limit.buffers, self._limit.max_buffers

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


class PipelinedView(SubpartitionView):
    """The one reading of a subpartition's queue."""

    def __init__(self, partition: PipelinedResultPartition, index: int) -> None:
        super().__init__(partition)
        self._pipelined = partition
        self._index = index

    def poll(self, only_priority: bool = False) -> BufferAndBacklog | None:
        return self._pipelined._poll(self._index, only_priority)

    @property
    def has_priority(self) -> bool:
        return self._pipelined._subpartitions[self._index].has_priority

    def overtake(self, checkpoint_id: int) -> list[Batch] | None:
        return self._pipelined._overtake_for_reader(self._index, checkpoint_id)

    @property
    def next_kind(self) -> NextKind:
        return self._pipelined._next_kind(self._index)

    @property
    def backlog(self) -> int:
        return self._pipelined._subpartitions[self._index].backlog

    def resume(self) -> NextKind:
        return self._pipelined._resume(self._index)

    def set_buffer_rows(self, rows: int) -> None:
        self._pipelined._set_buffer_rows(self._index, rows)

    def release(self) -> None:
        """What waits is dropped, and so is what the producer still adds."""
        self._pipelined._release_view(self._index)

    def fail_partition(self, cause: str) -> None:
        """The consumer takes the partition with it: its rows would be missing downstream."""
        self._pipelined.release(cause)

    def statistics(self) -> SubpartitionStatistics:
        return self._pipelined._statistics_of(self._index)
