"""Buffers, which wait in queues and go over the wire: one event each, or small batches that were coalesced into one."""

from __future__ import annotations

from msgspec.structs import replace

from actors.protocol.elements import CheckpointBarrier, Element, Event
from actors.protocol.ports import BatchesRef, ObjectStore
from flinkray.batches.batch import Batch, concat, is_at_one_time, is_same_layout


class Buffer:
    """An event or a batch; a broadcast puts one buffer into the queues of all its consumers.

    Attributes:
        is_shared: several consumers get it.
        nbytes: bytes of the batch's rows; 0 for an event.
        rows: 0 for an event.
        room: how many buffers it counts as in its producer's queue.
    """

    __slots__ = ("_batches", "_ref", "event", "is_shared", "nbytes", "room", "rows")

    def __init__(self, batches: list[Batch], event: Event | None, rows: int, nbytes: int) -> None:
        self._batches = batches
        self._ref: BatchesRef | None = None
        self.is_shared = False
        self.event = event
        self.rows = rows
        self.nbytes = nbytes
        self.room = 1

    @staticmethod
    def of_event(event: Event) -> Buffer:
        return Buffer([], event, 0, 0)

    @staticmethod
    def of_batch(batch: Batch) -> Buffer:
        return Buffer([batch], None, batch.num_rows, batch.nbytes)

    @property
    def is_event(self) -> bool:
        return self.event is not None

    @property
    def blocks_upstream(self) -> bool:
        """An aligned barrier: nothing behind it may be read until the consumer has handled it."""
        event = self.event
        return isinstance(event, CheckpointBarrier) and event.blocks_channel

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The rows in as many batches as they are in now, oldest first; none for an event."""
        return tuple(self._batches)

    @property
    def batch(self) -> Batch:
        """The rows as one batch. The first reader concatenates them, off the producer's thread.

        Two readers of a broadcast may do so at once; either result serves.
        """
        if len(self._batches) > 1:
            batch = concat(self._batches)
            batch.set_nbytes(self.nbytes)
            self._batches = [batch]
        return self._batches[0]

    @property
    def element(self) -> Element:
        return self.event if self.event is not None else self.batch

    def reference(self, objects: ObjectStore) -> BatchesRef:
        """The batch in the object store: put once, however many consumers get it. Only the network loop calls this.

        The buffer keeps the reference as long as a queue holds the buffer, and no longer.
        """
        if self._ref is None:
            self._ref = objects.put((self.batch,))
        return self._ref


def unaligned(barrier: CheckpointBarrier) -> CheckpointBarrier:
    """The same barrier as an unaligned one, which has overtaken rows."""
    return replace(barrier, options=replace(barrier.options, is_unaligned=True))


class Coalescer:
    """Makes few buffers of many small batches; rows keep their order. Not for two threads at once.

    A batch of at least half the target becomes a buffer of its own, without a copy. Smaller ones wait for each other
    until together they reach the target, one of another layout comes, or `finish` is called.

    Attributes:
        target_rows: rows that a buffer aims at from now on.
    """

    def __init__(self, target_rows: int, target_bytes: int) -> None:
        self.target_rows = target_rows
        self._target_bytes = target_bytes
        self._batches: list[Batch] = []
        self._rows = 0
        self._nbytes = 0

    def __len__(self) -> int:
        """Batches that wait for more."""
        return len(self._batches)

    @property
    def is_empty(self) -> bool:
        return not self._batches

    @property
    def nbytes(self) -> int:
        """Bytes that wait for more."""
        return self._nbytes

    def add(self, batch: Batch) -> list[Buffer]:
        """The buffers that this batch completed, in order."""
        rows, nbytes = batch.num_rows, batch.nbytes
        if 2 * rows >= self.target_rows or 2 * nbytes >= self._target_bytes:
            return [*self.finish(), Buffer([batch], None, rows, nbytes)]
        finished = self.finish() if self._batches and not is_same_layout(self._batches[0], batch) else []
        self._batches.append(batch)
        self._rows += rows
        self._nbytes += nbytes
        if isinstance(batch.times, int) or isinstance(self._batches[0].times, int):
            self._spread_times()
        if batch.kinds is not None or self._batches[0].kinds is not None:
            self._spread_kinds()
        if self._rows >= self.target_rows or self._nbytes >= self._target_bytes:
            finished += self.finish()
        return finished

    def _spread_times(self) -> None:
        """Where not all rows have one time, each row gets its own, which is counted into the bytes now."""
        if is_at_one_time((self._batches[0], self._batches[-1])):
            return
        first = 0 if isinstance(self._batches[0].times, int) else len(self._batches) - 1
        for index in range(first, len(self._batches)):
            batch = self._batches[index]
            self._batches[index] = batch.with_times(batch.timestamps)
            self._nbytes += self._batches[index].nbytes - batch.nbytes

    def _spread_kinds(self) -> None:
        """Where some batches are of inserts only and others are not, inserts get a column of kinds too, which is
        counted into the bytes now."""
        first = 0 if self._batches[0].kinds is None else len(self._batches) - 1
        for index in range(first, len(self._batches)):
            batch = self._batches[index]
            if batch.kinds is None:
                self._batches[index] = batch.with_kinds(batch.row_kinds)
                self._nbytes += batch.num_rows

    def finish(self) -> list[Buffer]:
        """The batches that wait, as one buffer; none if nothing waits."""
        if not self._batches:
            return []
        buffer = Buffer(self._batches, None, self._rows, self._nbytes)
        self._batches, self._rows, self._nbytes = [], 0, 0
        return [buffer]
