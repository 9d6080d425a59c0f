"""The output of an operator that is measured on its own."""

from __future__ import annotations

from actors.protocol.elements import LatencyMarker
from flinkray.batches.batch import Batch
from flinkray.types.records import OutputTag, Timestamp


class RowCountingOutput:
    """An Output that counts rows and keeps none."""

    def __init__(self) -> None:
        self.rows = 0

    def emit(self, batch: Batch) -> None:
        self.rows += batch.num_rows

    def emit_side(self, tag: OutputTag, batch: Batch) -> None: ...

    def emit_watermark(self, timestamp: Timestamp) -> None: ...

    def emit_status(self, is_idle: bool) -> None: ...

    def emit_latency_marker(self, marker: LatencyMarker) -> None: ...
