"""What one task produces for one data set: the contract of the producer's end of an exchange, and of its readers.

`pipelined_partition.py` is the kind that is read while it is made, `blocking_partition.py` the kind that is complete
before anybody reads it. What both share is here: the life of a partition from its first row to its release.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from actors.network.flow.availability import Availability
from actors.network.producer.subpartition import BufferAndBacklog, NextKind, SubpartitionStatistics
from actors.protocol.elements import CancelCheckpointMarker, CheckpointBarrier, EndOfPartition, Event
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
    """Batches that the writer has emitted, a broadcast counted once per consumer."""
    rows_out: int
    bytes_out: int
    """Bytes of the buffers that consumers have polled."""
    subpartitions: tuple[SubpartitionStatistics, ...]


class ResultPartition(ABC):
    """The producer's end of an exchange (Flink's ResultPartition).

    The task's thread emits, any thread may flush, each consumer polls its own view: one lock covers them, and no
    listener is called under it.

    Args:
        buffer_rows: how many rows its buffers aim at while no consumer has asked for another number.
        on_released: called once, when nothing of the partition is left to be read.
    """

    def __init__(
        self, descriptor: PartitionDescriptor, buffer_rows: int, on_released: Callable[[ResultPartition], None]
    ) -> None:
        self.partition_id = descriptor.partition_id
        self.number_of_subpartitions = descriptor.subpartitions
        self.availability = Availability(is_available=True)
        self.on_task_event: Callable[[Any], None] | None = None
        """Set by the producing task: gets what consumers send upstream, on a thread that is not the task's."""
        self.buffer_rows = buffer_rows
        """Rows of the largest buffers that any consumer wants."""
        self._lock = threading.Lock()
        self._on_released = on_released
        self._is_finished = False
        self._is_released = False
        self._cause: str | None = None
        """Why the partition was released; None: it was not, or nobody is to hear of it."""
        self._batches_out = self._rows_out = self._bytes_out = 0

    @property
    def is_available(self) -> bool:
        """Whether there is room. A released partition counts as available, so that its writer runs into the error."""
        return self.availability.is_available

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    # -- the producing task ---------------------------------------------------------------------------------------

    @abstractmethod
    def emit(self, index: int, batch: Batch) -> None:
        """Rows for one consumer. Never blocks: the caller looks at `is_available` before it makes more.

        Raises:
            PartitionError: the partition was released with a cause. Released without one, it drops the rows.
        """

    @abstractmethod
    def broadcast(self, batch: Batch) -> None:
        """Rows for every consumer: they share one buffer. Raises as `emit` does."""

    @abstractmethod
    def emit_event(self, index: int, event: Event) -> None:
        """An event for one consumer, behind all rows so far. Raises as `emit` does."""

    @abstractmethod
    def broadcast_event(self, event: Event) -> None:
        """An event for every consumer, behind all rows so far. Raises as `emit` does."""

    @abstractmethod
    def broadcast_barrier(self, barrier: CheckpointBarrier) -> list[list[Batch]]:
        """A barrier for every consumer: an unaligned one before everything that waits, another one behind it; behind it
        also where no barrier may overtake rows on this exchange.

        It can be read at once, whatever credit there is. Raises as `emit` does.

        Returns:
            Per subpartition the rows that it overtook, oldest first: the part of the checkpoint that is on its way.
            They stay in their queue, as do overtaken events, which are no part of it. Empty for an aligned barrier.
        """

    @abstractmethod
    def has_aligned_barrier(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint's aligned barrier waits for any consumer, so that `overtake` would do something."""

    @abstractmethod
    def overtake(self, checkpoint_id: int) -> list[list[Batch]] | None:
        """Makes the checkpoint's aligned barrier an unaligned one wherever it still waits. Only the task's thread.

        Returns:
            Per subpartition the rows that it overtook, oldest first; None if it waits nowhere any more.
        """

    def cancel_checkpoint(self, checkpoint_id: int) -> None:
        """Tells every consumer that the checkpoint will not be completed: in place of its aligned barrier, where that
        still waits, so that it blocks nothing; else behind all rows so far. Raises as `emit` does.
        """
        self.broadcast_event(CancelCheckpointMarker(checkpoint_id))

    @abstractmethod
    def flush_all(self) -> None:
        """Makes what is still coalescing readable. Any thread may call it; raises nothing."""

    @property
    @abstractmethod
    def has_tail(self) -> bool:
        """Whether a flush would make something readable."""

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
            listeners = self._drop()
        self._on_released(self)
        for listener in listeners:
            listener()

    @abstractmethod
    def _drop(self) -> list[Callable[[], None]]:
        """Drops everything, under the lock; gives the listeners that are to hear of it."""

    # -- the consumers --------------------------------------------------------------------------------------------

    @abstractmethod
    def create_view(self, index: int, listener: Callable[[], None], frame_bytes: int = 0) -> SubpartitionView:
        """A reader of a subpartition. `listener` is called whenever it turns readable, on any thread.

        Args:
            frame_bytes: rows can be read when there are so many bytes of them, or nothing more may wait: after a
                flush, before an event, without room.
        Raises:
            PartitionError: there is no such subpartition, it cannot be read again, or the partition was released.
        """

    def publish_task_event(self, event: Any) -> None:
        """Hands an event from a consumer to the producing task, if that listens."""
        if self.on_task_event is not None:
            self.on_task_event(event)

    @property
    def waiting(self) -> tuple[int, int]:
        """(buffers that wait for their consumers, how many may wait before the writer has to); (0, 0) where that never
        holds it up. Any thread."""
        return 0, 0

    @abstractmethod
    def statistics(self) -> PartitionStatistics: ...

    @abstractmethod
    def check(self) -> None:
        """Raises AssertionError where the counters do not say what the partition holds."""

    # -- for the kinds of partitions ------------------------------------------------------------------------------

    def _count(self, batch: Batch, copies: int) -> None:
        self._batches_out += copies
        self._rows_out += copies * batch.num_rows

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.number_of_subpartitions:
            raise PartitionError(f"partition {self.partition_id} has no subpartition {index}")

    def _error(self) -> PartitionError:
        return PartitionError(f"partition {self.partition_id} was released: {self._cause or 'nobody was to need it'}")


class SubpartitionView(ABC):
    """How one consumer reads its subpartition. One thread at a time."""

    def __init__(self, partition: ResultPartition) -> None:
        self._partition = partition

    @abstractmethod
    def poll(self, only_priority: bool = False) -> BufferAndBacklog | None:
        """The next buffer, if one is readable.

        Raises:
            PartitionError: the partition was released with a cause.
        """

    @property
    @abstractmethod
    def has_priority(self) -> bool:
        """Whether the next buffer is an event that overtook the others. Takes no lock."""

    @abstractmethod
    def overtake(self, checkpoint_id: int) -> list[Batch] | None:
        """As `ResultPartition.overtake`, for a reader that takes the overtaken rows into its own checkpoint.

        The listener is not called for it.
        """

    @property
    @abstractmethod
    def next_kind(self) -> NextKind:
        """What `poll` would give; raises as that does."""

    @property
    @abstractmethod
    def backlog(self) -> int:
        """Data buffers that wait to be read."""

    @abstractmethod
    def resume(self) -> NextKind:
        """Unblocks after an aligned barrier; says what can be read now, since the listener is not called for it."""

    @abstractmethod
    def set_buffer_rows(self, rows: int) -> None:
        """How many rows this consumer's buffers aim at from now on."""

    @abstractmethod
    def release(self) -> None:
        """The consumer wants nothing more of this reading."""

    @abstractmethod
    def fail_partition(self, cause: str) -> None:
        """This consumer is lost."""

    def publish_task_event(self, event: Any) -> None:
        self._partition.publish_task_event(event)

    @abstractmethod
    def statistics(self) -> SubpartitionStatistics: ...
