"""Event times and a column of rows become the same."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.contract.operator import Operator, subtask_label
from actors.operators.time.timestamps import assign_timestamps
from flinkray.batches.batch import Batch
from flinkray.transformations.operator_factories import RowtimeFactory


class RowtimeOperator(Operator):
    """Passes rows and watermarks on; the rows with event times from a column, or with a column of their event times."""

    def __init__(self, factory: RowtimeFactory) -> None:
        self._factory = factory

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        factory = self._factory
        if factory.is_added:
            times = assign_timestamps(batch, None, subtask_label(self.context))
            data = batch.data.append_column(factory.column, times.cast(pa.timestamp("ms", factory.zone)))
            self.output.emit(batch.with_data(data))
            return
        where = subtask_label(self.context)
        times = assign_timestamps(batch, factory.column, where, may_be_null=factory.may_be_null)
        if factory.drops:
            kept = [place for place, name in enumerate(batch.data.schema.names) if name != factory.column]
            batch = batch.select(kept)
        self.output.emit(batch.with_times(pc.add(times, factory.shift_ms) if factory.shift_ms else times))
