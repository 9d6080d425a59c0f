"""TUMBLE, HOP and CUMULATE: rows with the bounds of their windows (Flink's WindowTableFunctionOperator)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.columns.ranges import indices_of_ranges
from actors.columns.take import slices, take_rows
from actors.operators.contract.operator import Operator, subtask_label
from actors.operators.time.timestamps import assign_timestamps
from actors.operators.windows.base.times import Times
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.time.zones import to_instant, to_local
from flinkray.transformations.table_window_factories import Windows, WindowTableFunctionFactory

_BOUND = pa.timestamp("ms")
_INSTANT = pa.timestamp("ms", "UTC")


class WindowTableFunctionOperator(Operator):
    """Results have the times of their windows as event times. A row in no window, between those that hop further than
    they are long, is left out."""

    def __init__(self, factory: WindowTableFunctionFactory) -> None:
        self._factory = factory
        self._time_type = _INSTANT if factory.is_instant else _BOUND
        self._is_local = factory.is_instant and factory.time_zone != "UTC"

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        windows = self._factory.windows
        # Many windows to a row would make batches that are as many times as large.
        piece = max(1, 4 * self.context.batch_rows * windows.step // windows.size)
        for part in slices(batch, piece):
            self._process(part)

    def _process(self, batch: Batch) -> None:
        rows, starts, ends = windows_of(self._local(self._times(batch)), self._factory.windows)
        if rows is not None:
            batch = take_rows(batch, rows)
        if not batch.num_rows:
            return
        times = self._instants(from_numpy(ends - 1))
        columns = [
            *batch.data.columns,
            from_numpy(starts).cast(_BOUND),
            from_numpy(ends).cast(_BOUND),
            self._window_times(times),
        ]
        names = [*batch.data.schema.names, *self._factory.names]
        self.output.emit(batch.with_data(pa.RecordBatch.from_arrays(columns, names=names)).with_times(times))

    def _times(self, batch: Batch) -> Times:
        if self._factory.time is None:
            return np.full(batch.num_rows, self.context.clock.now_ms(), np.int64)
        return as_numpy(assign_timestamps(batch, self._factory.time, subtask_label(self.context)))

    def _local(self, times: Times) -> Times:
        """The times as clocks show them."""
        if not self._is_local:
            return times
        return as_numpy(to_local(from_numpy(times).cast(_INSTANT), self._factory.time_zone).cast(pa.int64()))

    def _instants(self, times: pa.Array) -> pa.Array:
        return to_instant(times.cast(_BOUND), self._factory.time_zone).cast(pa.int64()) if self._is_local else times

    def _window_times(self, times: pa.Array) -> pa.Array:
        if self._factory.time is None:  # the window's time is the time at which it is asked for
            times = from_numpy(np.full(len(times), self.context.clock.now_ms(), np.int64))
        return times.cast(self._time_type)


def windows_of(times: Times, windows: Windows) -> tuple[Times | None, Times, Times]:
    """The windows of rows at these times: the row of each, or None where each row has one; their starts and ends."""
    size, step = windows.size, windows.step
    from_offset = times - windows.offset
    if windows.kind == "TUMBLE":
        starts = times - from_offset % size
        return None, starts, starts + size
    if windows.kind == "CUMULATE":
        starts = times - from_offset % size
        first = (from_offset % size) // step
        counts = size // step - first
        rows = np.repeat(np.arange(len(times)), counts)
        starts = starts[rows]
        return rows, starts, starts + (indices_of_ranges(first, counts) + 1) * step
    last = times - from_offset % step
    counts = -((times - size - last) // step)  # windows start after time - size
    rows = np.repeat(np.arange(len(times)), counts)
    starts = last[rows] - indices_of_ranges(np.zeros(len(times), np.int64), counts) * step
    return rows, starts, starts + size
