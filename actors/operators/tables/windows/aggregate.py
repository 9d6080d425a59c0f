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
from actors.operators.tables.windows.window_rows import WindowRowsOperator, numbered_keys
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_window_factories import WindowAggregateFactory


class WindowAggregateOperator(WindowRowsOperator[WindowAggregateFactory]):
    """Both bounds of the window are among the columns of the key, so that all windows that have ended are aggregated in
    one go."""

    def __init__(self, factory: WindowAggregateFactory) -> None:
        super().__init__(factory)
        self._functions = OpenFunctions(factory.functions)

    def open(self) -> None:
        super().open()
        self._functions.open(self.context)

    def close(self) -> None:
        self._functions.close()
        super().close()

    def ended(self, rows: Sequence[pa.RecordBatch]) -> None:
        (data,) = rows
        keys = numbered_keys(data, self.factory.keys)
        # Keys are numbered as they come.
        firsts = np.flatnonzero(differs_from_previous(np.maximum.accumulate(keys)))
        groups = np.arange(len(firsts))
        aggregates = Aggregates(self.factory.calls, is_insert_only=True, functions=self.factory.functions)
        aggregates.grow(len(groups))
        aggregates.add(data, GroupedRows(groups, keys, None))
        found = take(data.select(list(self.factory.keys)), from_numpy(firsts)).columns
        self.emit([*found, *aggregates.results(groups)], self.ends_of(data, 0)[firsts])
