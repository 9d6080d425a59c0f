"""What one task produces for a later stage: all of it is stored, and read once it is complete, as often as wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NoReturn

from msgspec import Struct

from actors.columns.spilling import Spilled, SpillFile
from actors.network.flow.buffers import Buffer, Coalescer
from actors.network.producer.result_partition import PartitionStatistics, ResultPartition, SubpartitionView
from actors.network.producer.subpartition import BufferAndBacklog, NextKind, SubpartitionStatistics
from actors.protocol.elements import CheckpointBarrier, Event
from actors.protocol.task_messages import PartitionDescriptor
from flinkray.batches.batch import Batch
from flinkray.errors import FlinkrayError, PartitionError


class ResultMemory:
    """The memory that all blocking results of a slot share. Any thread may call it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._used = 0

    @property
    def used(self) -> int:
        return self._used

    def take(self, nbytes: int) -> bool:
        """Takes so many bytes; False: there are not so many left."""
        with self._lock:
            if self._used + nbytes > self.limit:
                return False
            self._used += nbytes
            return True

    def give_back(self, nbytes: int) -> None:
        with self._lock:
            self._used -= nbytes


class _StoredBuffer(Struct, eq=False):
    """A buffer that is stored, in memory or in the file. A broadcast is stored once."""

    buffer: Buffer | None
    spilled: Spilled | None = None

    @property
    def is_event(self) -> bool:
        return self.buffer is not None and self.buffer.is_event

    @property
    def nbytes(self) -> int:
        if self.spilled is not None:
            return self.spilled.nbytes
        assert self.buffer is not None
        return self.buffer.nbytes


class BlockingResultPartition(ResultPartition):
    """A result of type BLOCKING (Flink's BoundedBlockingResultPartition).

    The writer always has room: rows go to memory as far as the slot's budget reaches, and to a file of this process
    after that. Nothing can be read before `finish`. Then every subpartition can be read from its beginning, several
    times, also at once, until `release`, which alone frees it.

    Args:
        memory: what it takes its memory from.
        directory: where its file is; empty: the system's temporary directory.
        on_released: called once.
    """

    def __init__(
        self,
        descriptor: PartitionDescriptor,
        *,
        memory: ResultMemory,
        directory: str,
        target_rows: int,
        target_bytes: int,
        on_released: Callable[[ResultPartition], None],
    ) -> None:
        super().__init__(descriptor, target_rows, on_released)
        self._memory = memory
        self._memory_used = 0
        self._file = SpillFile(directory, f"result {descriptor.partition_id}")
        self._stored: list[list[_StoredBuffer]] = [[] for _ in range(descriptor.subpartitions)]
        self._tails = [Coalescer(target_rows, target_bytes) for _ in range(descriptor.subpartitions)]
        self._broadcast_tail = Coalescer(target_rows, target_bytes)
        self._views: dict[BlockingView, Callable[[], None]] = {}

    @property
    def spilled_bytes(self) -> int:
        """Bytes in its file."""
        return self._file.size

    # -- the producing task ---------------------------------------------------------------------------------------

    def emit(self, index: int, batch: Batch) -> None:
        with self._lock:
            if self._is_open():
                self._count(batch, 1)
                self._end_broadcast()
                self._append(index, self._tails[index].add(batch))

    def broadcast(self, batch: Batch) -> None:
        with self._lock:
            if self._is_open():
                self._count(batch, self.number_of_subpartitions)
                self._end_tails()
                self._append_to_all(self._broadcast_tail.add(batch))

    def emit_event(self, index: int, event: Event) -> None:
        with self._lock:
            if self._is_open():
                self._end_broadcast()
                self._append(index, [*self._tails[index].finish(), Buffer.of_event(event)])

    def broadcast_event(self, event: Event) -> None:
        with self._lock:
            if self._is_open():
                self._end_broadcast()
                self._end_tails()
                self._append_to_all([Buffer.of_event(event)])

    def broadcast_barrier(self, barrier: CheckpointBarrier) -> NoReturn:
        raise AssertionError(f"{self.partition_id}: no checkpoint covers a result that is read when it is complete")

    def has_aligned_barrier(self, checkpoint_id: int) -> bool:
        return False

    def overtake(self, checkpoint_id: int) -> None:
        """No barrier waits here."""

    def flush_all(self) -> None:
        """Without effect: nothing is read before the end."""

    @property
    def has_tail(self) -> bool:
        return False

    def finish(self) -> None:
        """All consumers may read from now on."""
        super().finish()
        with self._lock:
            listeners = list(self._views.values())
        for listener in listeners:
            listener()

    def _drop(self) -> list[Callable[[], None]]:
        for tail in (*self._tails, self._broadcast_tail):
            tail.finish()
        for stored in self._stored:
            stored.clear()
        self._file.close()
        self._memory.give_back(self._memory_used)
        self._memory_used = 0
        return list(self._views.values())

    def _is_open(self) -> bool:
        """Raises where the writer is to hear of the release; says False where what it writes is dropped."""
        if self._is_released and self._cause is not None:
            raise self._error()
        assert not self._is_finished or self._is_released, f"partition {self.partition_id} is finished"
        return not self._is_released

    def _end_broadcast(self) -> None:
        self._append_to_all(self._broadcast_tail.finish())

    def _end_tails(self) -> None:
        for index, tail in enumerate(self._tails):
            self._append(index, tail.finish())

    def _append(self, index: int, buffers: list[Buffer]) -> None:
        self._stored[index].extend(map(self._store, buffers))

    def _append_to_all(self, buffers: list[Buffer]) -> None:
        for each in map(self._store, buffers):
            for stored in self._stored:
                stored.append(each)

    def _store(self, buffer: Buffer) -> _StoredBuffer:
        if not buffer.is_event and not self._memory.take(buffer.nbytes):
            return _StoredBuffer(None, self._file.write(buffer.batch))
        if not buffer.is_event:
            self._memory_used += buffer.nbytes
        return _StoredBuffer(buffer)

    # -- the consumers --------------------------------------------------------------------------------------------

    def create_view(self, index: int, listener: Callable[[], None], frame_bytes: int = 0) -> SubpartitionView:
        """A reader of a subpartition from its beginning; raises where there is no such one, or it is released.

        Nothing waits for `frame_bytes`: everything is there before anybody reads.
        """
        with self._lock:
            self._check_index(index)
            if self._is_released:
                raise self._error()
            view = BlockingView(self, index)
            self._views[view] = listener
        return view

    def next_at(self, index: int, position: int) -> NextKind:
        """For views: what is at that position; raises where the partition was released."""
        with self._lock:
            if self._is_released:
                raise self._error()
            return self._kind_at(index, position)

    def _kind_at(self, index: int, position: int) -> NextKind:
        if not self._is_finished or position >= len(self._stored[index]):
            return NextKind.NOTHING
        return NextKind.EVENT if self._stored[index][position].is_event else NextKind.DATA

    def read_at(self, index: int, position: int, backlog: int) -> BufferAndBacklog | None:
        """For views: what is at that position, of which `backlog` data buffers stand before; raises as `next_at`."""
        with self._lock:
            if self._is_released:
                raise self._error()
            if self._kind_at(index, position) is NextKind.NOTHING:
                return None
            stored = self._stored[index][position]
            if stored.spilled is not None:
                buffer = Buffer.of_batch(self._read(stored.spilled))
            else:
                assert stored.buffer is not None
                # A buffer of its own: one that is put into the object store for a reader is there as long as it lives.
                buffer = stored.buffer if stored.is_event else Buffer.of_batch(stored.buffer.batch)
            self._bytes_out += buffer.nbytes
            left = max(0, backlog - (not stored.is_event))
            return BufferAndBacklog(buffer, position, left, self._kind_at(index, position + 1))

    def _read(self, spilled: Spilled) -> Batch:
        try:
            return self._file.read(spilled)
        except FlinkrayError as error:
            # The task that made it runs again then, and writes a new one.
            raise PartitionError(f"partition {self.partition_id} is lost: {error}") from error

    def data_buffers(self, index: int) -> int:
        """For views: how many data buffers the subpartition has in all; 0 before the partition is finished."""
        with self._lock:
            return sum(not stored.is_event for stored in self._stored[index]) if self._is_finished else 0

    def end_view(self, view: BlockingView) -> None:
        with self._lock:
            self._views.pop(view, None)

    # -- looking at it --------------------------------------------------------------------------------------------

    def statistics(self) -> PartitionStatistics:
        with self._lock:
            subpartitions = tuple(self._statistics_from(index, 0) for index in range(len(self._stored)))
            return PartitionStatistics(
                partition_id=self.partition_id,
                is_available=True,
                is_finished=self._is_finished,
                queued_buffers=sum(each.backlog for each in subpartitions),
                max_buffers=0,
                queued_bytes=self._memory_used,
                max_bytes=self._memory.limit,
                batches_out=self._batches_out,
                rows_out=self._rows_out,
                bytes_out=self._bytes_out,
                subpartitions=subpartitions,
            )

    def statistics_at(self, index: int, position: int) -> SubpartitionStatistics:
        """For views: what is still to be read."""
        with self._lock:
            return self._statistics_from(index, position)

    def _statistics_from(self, index: int, position: int) -> SubpartitionStatistics:
        rest = self._stored[index][position:]
        data = [stored for stored in rest if not stored.is_event]
        return SubpartitionStatistics(
            subpartition=index,
            queued_buffers=len(rest) if self._is_finished else 0,
            backlog=len(data),
            queued_bytes=sum(stored.nbytes for stored in data),
            coalescing_bytes=self._tails[index].nbytes,
            taken_buffers=position,
            is_blocked=False,
            is_lingering=False,
            is_released=self._is_released,
        )

    def check(self) -> None:
        """What it takes of the slot's memory is what it keeps there."""
        with self._lock:
            stored = {id(each): each for of_one in self._stored for each in of_one if each.spilled is None}
            in_memory = sum(each.nbytes for each in stored.values())
            assert self._memory_used == in_memory, f"{self._memory_used} bytes taken, {in_memory} kept"


class BlockingView(SubpartitionView):
    """One reading of a subpartition, from its beginning. One thread at a time."""

    def __init__(self, partition: BlockingResultPartition, index: int) -> None:
        super().__init__(partition)
        self._result = partition
        self._index = index
        self._position = 0
        self._left: int | None = None
        """How many data buffers are still to be read; None: nothing has been read yet."""

    def poll(self, only_priority: bool = False) -> BufferAndBacklog | None:
        if only_priority:
            return None
        polled = self._result.read_at(self._index, self._position, self.backlog)
        if polled is not None:
            self._position += 1
            self._left = polled.backlog
        return polled

    @property
    def has_priority(self) -> bool:
        return False

    def overtake(self, checkpoint_id: int) -> None:
        """No barrier waits here."""

    @property
    def next_kind(self) -> NextKind:
        return self._result.next_at(self._index, self._position)

    @property
    def backlog(self) -> int:
        return self._result.data_buffers(self._index) if self._left is None else self._left

    def resume(self) -> NextKind:
        return self.next_kind

    def set_buffer_rows(self, rows: int) -> None:
        """Without effect: no barrier waits behind the rows."""

    def release(self) -> None:
        """This reading is over; the partition stays."""
        self._result.end_view(self)

    def fail_partition(self, cause: str) -> None:
        """This consumer is lost; another attempt of it reads the partition again."""
        self._result.end_view(self)

    def statistics(self) -> SubpartitionStatistics:
        return self._result.statistics_at(self._index, self._position)
