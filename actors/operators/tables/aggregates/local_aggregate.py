"""Aggregates within each batch, before the exchange (Flink's LocalGroupAggregate)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.columns.take import take
from actors.keys.index import KeyIndex
from actors.operators.contract.operator import Operator
from actors.operators.tables.aggregates.aggregates import Aggregates
from actors.operators.tables.aggregates.calls import SPREADS
from actors.operators.tables.aggregates.states.grouped_rows import Grouper
from actors.operators.tables.changes import weights_of
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.transformations.table_factories import LocalAggregateFactory
from flinkray.types.records import Kind


class LocalAggregateOperator(Operator):
    """Gives for each batch a row of each group, inserts only: its keys, and what the aggregates keep of it.

    Where there are variances, a group has a row of what is added and another one of what is taken back: of as many
    numbers of either there is no mean.
    """

    def __init__(self, factory: LocalAggregateFactory) -> None:
        self._factory = factory
        self._keeps_apart = any(call.function in SPREADS for call in factory.calls)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        keys = [batch.data.column(each) for each in self._factory.keys]
        groups = np.zeros(batch.num_rows, np.int64)
        if keys:
            groups = KeyIndex().ids(pa.RecordBatch.from_arrays(keys, names=[str(each) for each in range(len(keys))]))
        weights = None
        if batch.kinds is not None:
            weights = weights_of(as_numpy(batch.kinds), batch.num_rows)
            if self._keeps_apart:
                groups = np.unique(2 * groups + (weights < 0), return_inverse=True)[1]
        size = int(groups.max(initial=-1)) + 1
        rows, last = Grouper().group(groups, weights, size)
        aggregates = Aggregates(self._factory.calls, self._factory.takes[0].is_insert_only)
        aggregates.grow(size)
        aggregates.add(batch.data, rows)
        # In the order of the groups, as they were numbered.
        order = np.argsort(rows.groups)
        columns = [take(each, from_numpy(last[order])) for each in keys]
        partial = aggregates.partial(size)
        names = [*(field.name for field in self._factory.rows.fields), *partial]
        self.output.emit(Batch(pa.RecordBatch.from_arrays([*columns, *partial.values()], names=names), Kind.ROW))
