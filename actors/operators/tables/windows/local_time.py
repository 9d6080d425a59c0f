"""Event time as clocks in a time zone show it, by which windows of instants begin and end (Flink's TimeWindowUtil)."""

from __future__ import annotations

import pyarrow as pa

from actors.operators.contract.operator import Operator
from flinkray.batches.batch import Batch
from flinkray.time.zones import to_instant, to_instant_millis, to_local, to_local_millis
from flinkray.transformations.table_window_factories import LocalTimeFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp


class LocalTimeOperator(Operator):
    """Passes rows and watermarks on with their times moved. Where clocks go back, local event time waits until they
    show nothing for the second time, so that windows get the rows of both times."""

    def __init__(self, factory: LocalTimeFactory) -> None:
        self._factory = factory

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        times = batch.timestamps
        if times is not None:
            batch = batch.with_times(self._moved(times))
        self.output.emit(batch)

    def _moved(self, times: pa.Array) -> pa.Array:
        zone = self._factory.time_zone
        if self._factory.is_back:
            return to_instant(times.cast(pa.timestamp("ms")), zone).cast(pa.int64())
        return to_local(times.cast(pa.timestamp("ms", "UTC")), zone).cast(pa.int64())

    def on_watermark(self, timestamp: Timestamp) -> None:
        if timestamp < MAX_TIMESTAMP:
            move = to_instant_millis if self._factory.is_back else to_local_millis
            timestamp = Timestamp(move(timestamp, self._factory.time_zone))
        self.output.emit_watermark(timestamp)
