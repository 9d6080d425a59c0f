"""Aggregates of the rows of a window, once it has ended: those that the window operators of streams do not have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous
from actors.columns.take import take
from actors.operators.tables.aggregates.aggregates import Aggregates
from actors.operators.tables.aggregates.states.grouped_rows import GroupedRows
from actors.operators.tables.aggregates.user_aggregates import OpenFunctions
from actors.operators.tables.changes import weights_of
from actors.operators.tables.windows.window_rows import WindowRowsOperator, numbered_keys
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.transformations.table_window_factories import WindowAggregateFactory

_WEIGHT = "$weight"


class WindowAggregateOperator(WindowRowsOperator[WindowAggregateFactory]):
    """Both bounds of the window are among the columns of the key, so that all windows that have ended are aggregated in
    one go. Of a changelog all changes are kept until then; a group whose rows are all gone has no result."""

    def __init__(self, factory: WindowAggregateFactory) -> None:
        super().__init__(factory)
        self._functions = OpenFunctions(factory.functions)
        self._is_insert_only = factory.takes[0].is_insert_only
        if not self._is_insert_only:
            self.input_schemas = (self.input_schemas[0].append(pa.field(_WEIGHT, pa.int8())),)

    def open(self) -> None:
        super().open()
        self._functions.open(self.context)

    def close(self) -> None:
        self._functions.close()
        super().close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if not self._is_insert_only:
            kinds = None if batch.kinds is None else as_numpy(batch.kinds)
            columns = [*batch.data.columns, from_numpy(weights_of(kinds, batch.num_rows))]
            batch = batch.with_data(pa.RecordBatch.from_arrays(columns, schema=self.input_schemas[0]))
        super().process_batch(batch, input_index)

    def ended(self, rows: Sequence[pa.RecordBatch]) -> None:
        (data,) = rows
        keys = numbered_keys(data, self.factory.keys)
        # Keys are numbered as they come.
        firsts = np.flatnonzero(differs_from_previous(np.maximum.accumulate(keys)))
        groups = np.arange(len(firsts))
        weights = None if self._is_insert_only else as_numpy(data.columns[-1])
        aggregates = Aggregates(self.factory.calls, self._is_insert_only, self.factory.functions)
        aggregates.grow(len(groups))
        aggregates.add(data, GroupedRows(groups, keys, weights))
        groups = np.flatnonzero(aggregates.rows.of(groups) > 0)
        firsts = firsts[groups]
        found = take(data.select(list(self.factory.keys)), from_numpy(firsts)).columns
        self.emit([*found, *aggregates.results(groups)], self.ends_of(data, 0)[firsts])
