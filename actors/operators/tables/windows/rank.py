"""The first rows of each key in a window, once it has ended (Flink's WindowRank and WindowDeduplicate)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.tables.ranks.sort_codes import sort_codes, starts_of_ties
from actors.operators.tables.rows.stored_columns import StoredColumns
from actors.operators.tables.windows.window_rows import WindowRowsOperator, numbered_keys
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_window_factories import WindowRankFactory

_FEWEST_LOOKED_THROUGH = 1 << 16
"""Windows with so many rows are looked through for those whose rank can only become larger than the last one wanted."""
_LARGEST_GROWTH = 4
"""They are looked through again when there are so many times as many as were left."""


class WindowRankOperator(WindowRowsOperator[WindowRankFactory]):
    """Sorts the rows of windows that have ended by key and order, all in one go. Of a large window only the rows that
    are among the first so far are kept, so that it takes the room of its keys."""

    def kept(self, rows: StoredColumns, input_index: int) -> None:
        if len(rows) < _FEWEST_LOOKED_THROUGH or len(rows) < _LARGEST_GROWTH * rows.retained:
            return
        all_rows = pa.concat_batches(rows.chunks)
        ordered, ranks = self._ranks(all_rows)
        rows.retain(np.sort(ordered[ranks <= self.factory.last]))

    def ended(self, rows: Sequence[pa.RecordBatch]) -> None:
        ordered, ranks = self._ranks(rows[0])
        is_wanted = (ranks >= self.factory.first) & (ranks <= self.factory.last)
        found = take(rows[0], from_numpy(ordered[is_wanted]))
        ends = self.ends_of(found, 0)
        order = order_by(ends)  # keys are numbered as they come, in whichever window
        columns = list(found.columns)
        if self.factory.has_number:
            columns.append(from_numpy(ranks[is_wanted]))
        self.emit([take(column, from_numpy(order)) for column in columns], ends[order])

    def _ranks(self, rows: pa.RecordBatch) -> tuple[Ids, Ids]:
        """The rows in the order of their keys and their order, and the rank of each."""
        factory = self.factory
        keys = numbered_keys(rows, factory.keys)
        codes = [keys, *sort_codes([rows.column(each.index) for each in factory.order], factory.order)]
        if factory.is_latest_first:
            ordered = rows.num_rows - 1 - order_by(*(each[::-1] for each in codes))
        else:
            ordered = order_by(*codes)
        places = np.arange(len(ordered))
        start_of_key = np.maximum.accumulate(np.where(differs_from_previous(keys[ordered]), places, 0))
        if factory.kind == "ROW_NUMBER":
            return ordered, places - start_of_key + 1
        is_other = starts_of_ties(codes, ordered)
        if factory.kind == "RANK":
            return ordered, np.maximum.accumulate(np.where(is_other, places, 0)) - start_of_key + 1
        numbers: Ids = np.cumsum(is_other)
        return ordered, numbers - numbers[start_of_key] + 1
