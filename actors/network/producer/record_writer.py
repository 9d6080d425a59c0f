"""Where an operator's rows enter the network: split over channels, collected into buffers, flushed in time."""

from __future__ import annotations

import math
import random

from actors.columns.take import slices
from actors.network.flow.availability import Availability
from actors.network.producer.partitioners import EveryChannel, FirstChannel, create_selector
from actors.network.producer.result_partition import ResultPartition
from actors.protocol.elements import Event, LatencyMarker
from actors.protocol.ports import Cancellable, Timers
from flinkray.batches.batch import LARGEST_OVER_TARGET, Batch
from flinkray.transformations.partitioning import Partitioner


class RecordWriter:
    """Writes to one result partition. The task's thread calls everything; only the flush timer has another one.

    Args:
        partitioner: how rows are spread over the partition's subpartitions.
        buffer_timeout_ms: how long rows may wait for more before they can be read; 0: not at all, negative: for ever
            (only full buffers, to other slots full frames of them, and events go).
        target_rows: rows, and `target_bytes` bytes, that a buffer aims at.
        generator: chooses where a choice is random.
        where: names the task in errors, for example "map (1/2)".
    """

    def __init__(
        self,
        partition: ResultPartition,
        partitioner: Partitioner,
        *,
        buffer_timeout_ms: int,
        timers: Timers,
        target_rows: int,
        target_bytes: int,
        generator: random.Random,
        where: str,
    ) -> None:
        self.partition = partition
        self._selector = create_selector(partitioner, partition.number_of_subpartitions, generator, where)
        self._is_broadcast = isinstance(self._selector, EveryChannel)
        self._buffer_timeout_ms = buffer_timeout_ms
        self._timers = timers
        self._target_rows = target_rows
        self._target_bytes = target_bytes
        self._generator = generator
        self._flush_timer: Cancellable | None = None
        self._is_flush_due = False
        self.rows_written = 0
        """How many rows have been written so far; a broadcast counts once."""

    @property
    def is_available(self) -> bool:
        """Whether there is room for more rows. Emitting is possible without, and never blocks."""
        return self.partition.is_available

    @property
    def availability(self) -> Availability:
        return self.partition.availability

    @property
    def rows_wanted(self) -> float:
        """How many rows fill a buffer of each consumer, where buffers are to be small; else infinity."""
        rows = self.partition.buffer_rows
        if rows >= self._target_rows:
            return math.inf
        is_spread = not isinstance(self._selector, FirstChannel | EveryChannel)
        return rows * self.partition.number_of_subpartitions if is_spread else rows

    def emit(self, batch: Batch) -> None:
        """Spreads the rows over the channels.

        Raises:
            PartitionError: the partition was released with a cause.
        """
        if not batch.num_rows:
            return
        self.rows_written += batch.num_rows
        if self._is_broadcast:
            for part in self._cut(batch):
                self.partition.broadcast(part.without_keys())
        else:
            for channel, rows in self._selector.split(batch):
                for part in self._cut(rows):
                    self.partition.emit(channel, part)
        if self._buffer_timeout_ms == 0:
            self.partition.flush_all()
        elif self._buffer_timeout_ms > 0 and not self._is_flush_due and self.partition.has_tail:
            self._is_flush_due = True
            self._flush_timer = self._timers.call_later(self._buffer_timeout_ms, self._flush)

    def broadcast_event(self, event: Event) -> None:
        """Sends an event to every channel, behind the rows that were emitted before; it can be read at once."""
        self.partition.broadcast_event(event)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        """Sends a latency marker to one channel at random, behind its rows."""
        self.partition.emit_event(self._generator.randrange(self.partition.number_of_subpartitions), marker)

    def flush_all(self) -> None:
        """Makes everything emitted so far readable."""
        self.partition.flush_all()

    def close(self) -> None:
        """Stops the flush timer. The partition stays as it is."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()

    def _flush(self) -> None:
        # On the timer's thread. The mark goes first: rows emitted from here on set a timer of their own.
        self._is_flush_due = False
        self.partition.flush_all()

    def _cut(self, batch: Batch) -> list[Batch]:
        """The batch in equal parts, none of which is much larger than a buffer aims at."""
        rows = batch.num_rows
        over = max(rows / self._target_rows, batch.nbytes / self._target_bytes) / LARGEST_OVER_TARGET
        if over <= 1:
            return [batch]
        step = max(1, -(-rows // math.ceil(over)))
        return list(slices(batch, step))
