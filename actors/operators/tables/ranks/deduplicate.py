"""The first or the last row of each key, by a column of times or by arrival (Flink's Deduplicate)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from actors.columns.ordering import distinct, order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.tables.changes import Flags, Kinds, changed_rows, differ
from actors.operators.tables.gathering import GatheringOperator
from actors.operators.tables.operator import WRITTEN
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.transformations.table_factories import DeduplicateFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp

_STATE = "rows"
_NEVER = np.iinfo(np.int64).min


class DeduplicateOperator(GatheringOperator[DeduplicateFactory]):
    """Takes inserts. Of rows with the same time the first one to arrive is the first, and the last one the last."""

    def __init__(self, factory: DeduplicateFactory) -> None:
        super().__init__(factory)
        self._store = RowStore(self.schema, {WRITTEN: Numbers(np.int64)})

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        self.expire()
        chosen = self._best(keys, self._times(rows))
        keys, after = keys[chosen], take(rows, from_numpy(chosen))
        places, slots = self._store.of_keys(keys)
        had = np.zeros(len(keys), np.bool_)
        had[places] = True
        before = self._store.take(slots)
        wins = ~had
        wins[places] = self._wins(before, take(after, from_numpy(places)))
        self._store.remove(slots[wins[places]])
        won = np.flatnonzero(wins)
        new = take(after, from_numpy(won))
        self._store.add(keys[won], new, written=self.now())
        replaced = np.zeros(len(keys), np.int64)
        replaced[places] = np.arange(len(places))
        if self.context.is_batch:
            return
        # Where there was no row before, any one stands for it.
        old = take(before, from_numpy(replaced[won])) if before.num_rows else new
        self.emit(*changed_rows(old, new, had[won], np.ones(len(won), np.bool_), with_before=self.factory.gives.before))

    def _times(self, rows: pa.RecordBatch) -> Ids | None:
        if self.factory.time is None:
            return None
        times = rows.column(self.factory.time)
        return as_numpy(times.cast(pa.int64()).fill_null(_NEVER))

    def _best(self, keys: Ids, times: Ids | None) -> Ids:
        """The places of the rows that win among those of their key, by ascending key."""
        order = order_by(keys) if times is None else order_by(keys, times)
        ordered = keys[order]
        is_other = ordered[1:] != ordered[:-1]
        is_chosen = np.append(is_other, True) if self.factory.keeps_last else np.insert(is_other, 0, True)
        chosen: Ids = order[is_chosen]
        return chosen

    def _wins(self, before: pa.RecordBatch, after: pa.RecordBatch) -> Flags:
        """Whether the later of two rows of a key wins over the one that is kept."""
        old, new = self._times(before), self._times(after)
        if old is None or new is None:
            return np.full(before.num_rows, self.factory.keeps_last)
        return (new >= old) & differ(before, after) if self.factory.keeps_last else new < old

    def end_keys(self) -> None:
        """In batch mode: gives the row of each key."""
        _, slots = self._store.of_keys(distinct(self._store.live_keys()))
        for first in range(0, len(slots), self.context.batch_rows):
            self.emit(self._store.take(slots[first : first + self.context.batch_rows]))
        self._store.remove(slots)

    def on_watermark(self, timestamp: Timestamp) -> None:
        if self.context.is_batch and timestamp == MAX_TIMESTAMP:
            self.end_keys()
        super().on_watermark(timestamp)

    @property
    def stores(self) -> Mapping[str, RowStore]:
        return {_STATE: self._store}
