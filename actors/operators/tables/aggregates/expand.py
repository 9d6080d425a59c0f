"""Each row once for each grouping set (Flink's Expand)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.operators.contract.operator import Operator
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.tables.types.arrow import stored_schema
from flinkray.transformations.table_factories import ExpandFactory


class ExpandOperator(Operator):
    """Gives a batch for each set, in which rows keep their order and kinds."""

    def __init__(self, factory: ExpandFactory) -> None:
        self._factory = factory
        self._schema = stored_schema(factory.rows)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns, rows = batch.data.columns[: len(self._factory.input_rows[0].fields)], batch.num_rows
        for number, places in enumerate(self._factory.sets):
            keys = [
                columns[key] if place in places else pa.nulls(rows, columns[key].type)
                for place, key in enumerate(self._factory.keys)
            ]
            numbers = from_numpy(np.full(rows, number, np.int32))
            data = pa.RecordBatch.from_arrays([*columns, *keys, numbers], schema=self._schema)
            self.output.emit(batch.without_keys().with_data(data))
