"""Rows that wait until event time has reached them, as an order by time asks for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.tables.changes import Kinds
from actors.operators.tables.operator import Factory, TableOperator
from actors.operators.tables.rows.row_store import Numbers, RowStore
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import ListMode, OperatorSnapshot, RestoredState
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

_WAITING = "waiting"
TIME = "time"
_WATERMARK = "watermark"
_UNITS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def times_of(column: pa.Array) -> npt.NDArray[np.int64]:
    """A column of timestamps in epoch milliseconds, rounded down; NULL is before all times."""
    values = as_numpy(column.cast(pa.int64()).fill_null(np.iinfo(np.int64).min))
    if column.type.unit == "s":
        return np.where(as_numpy(column.is_null()), values, values * 1000)
    return values // _UNITS_PER_MS[column.type.unit]


class WaitingOperator(TableOperator[Factory]):
    """Keeps rows until the watermark has reached what they wait for; in batch mode, until all rows of their keys have
    come."""

    def __init__(self, factory: Factory) -> None:
        super().__init__(factory)
        self._waiting = RowStore(self.input_schemas[0], {TIME: Numbers(np.int64)})
        self._watermark = int(MIN_TIMESTAMP)
        self._earliest = int(MAX_TIMESTAMP)
        """The earliest time at which something is due."""

    @abstractmethod
    def process_until(self, time: int) -> None:
        """Processes what is due at this time, and takes it out of what waits."""

    def on_watermark(self, timestamp: Timestamp) -> None:
        self._watermark = max(self._watermark, timestamp)
        if self.context.is_batch:
            if timestamp == MAX_TIMESTAMP:
                self.end_keys()
        else:
            if self._earliest <= timestamp:
                self.process_until(timestamp)
            self.advance(timestamp)
        super().on_watermark(timestamp)

    def advance(self, time: int) -> None:
        """All rows up to this time have been processed."""

    def end_keys(self) -> None:
        if self.context.is_batch:
            self.process_until(int(MAX_TIMESTAMP))
            self.advance(int(MAX_TIMESTAMP))

    @property
    def stores(self) -> Mapping[str, RowStore]:
        """All rows that are kept by key, by their name in snapshots."""
        return {_WAITING: self._waiting}

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = super().snapshot_state(checkpoint_id, options)
        if self._watermark > MIN_TIMESTAMP:
            snapshot = snapshot or OperatorSnapshot()
            snapshot.add_list(_WATERMARK, [self._watermark], ListMode.GATHERED)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        if restored is not None:
            # What was late stays late; subtasks had the watermarks of their inputs, of which the lowest holds for all.
            self._watermark = min(restored.items(_WATERMARK), default=int(MIN_TIMESTAMP))
        times = self._waiting.numbers(TIME)[: len(self._waiting)]
        self._earliest = int(times.min(initial=int(MAX_TIMESTAMP)))


class DueRowsOperator(WaitingOperator[Factory]):
    """Takes inserts, and has them processed when the watermark has reached their time: those of one time at once. Rows
    whose time it had reached before they came are dropped, and counted.

    Without a column of times rows are processed as they come; in batch mode, when all rows of their keys have come.

    Args:
        time: the column of times.
    """

    def __init__(self, factory: Factory, time: int | None) -> None:
        super().__init__(factory)
        self._time = time

    @abstractmethod
    def process_due(self, keys: Ids, rows: pa.RecordBatch) -> None:
        """Rows that are due, in the order of their arrival, with the number of each one's key."""

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        if self.context.is_batch:
            self._waiting.add(keys, rows)
        elif self._time is None:
            self.process_due(keys, rows)
        else:
            self._wait(keys, rows, times_of(rows.column(self._time)))

    def _wait(self, keys: Ids, rows: pa.RecordBatch, times: Ids) -> None:
        on_time = np.flatnonzero(times > self._watermark)
        if len(on_time) < len(times):
            self.context.metrics.count(LATE_RECORDS_DROPPED, len(times) - len(on_time))
            keys, rows, times = keys[on_time], take(rows, from_numpy(on_time)), times[on_time]
        if len(times):
            self._waiting.add(keys, rows, time=times)
            self._earliest = min(self._earliest, int(times.min()))

    def process_until(self, time: int) -> None:
        slots = self._waiting.live_slots()
        times = self._waiting.numbers(TIME)[slots]
        is_due = times <= time
        self._earliest = int(times[~is_due].min(initial=int(MAX_TIMESTAMP)))
        due = slots[is_due]
        if len(due):
            self._waiting.remove(due)
            self.process_due(self._waiting.keys_of(due), self._waiting.take(due))
            self.forget_unused()
