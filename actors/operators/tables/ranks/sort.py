"""All rows in an order: as event time goes on, or in batch mode at the end (Flink's TemporalSort and Sort)."""

from __future__ import annotations

import pyarrow as pa

from actors.columns.ordering import order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.tables.ranks.sort_codes import sort_codes
from actors.operators.tables.ranks.waiting import DueRowsOperator
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_factories import SortFactory


class SortOperator(DueRowsOperator[SortFactory]):
    """Gives the rows that are due in their order; of rows that come as they are due, only those of a batch have one."""

    def __init__(self, factory: SortFactory) -> None:
        super().__init__(factory, factory.time)

    def process_due(self, keys: Ids, rows: pa.RecordBatch) -> None:
        order = self.factory.order
        codes = sort_codes([rows.column(key.index) for key in order], order)
        ordered = order_by(*codes) if codes else None
        for first in range(0, rows.num_rows, self.context.batch_rows):
            if ordered is None:
                self.emit(rows.slice(first, self.context.batch_rows))
            else:
                self.emit(take(rows, from_numpy(ordered[first : first + self.context.batch_rows])))
