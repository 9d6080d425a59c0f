"""INTERSECT and EXCEPT of changelogs, by how often each row is in both."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.tables.changes import Kinds, weights_of
from actors.operators.tables.operator import TableOperator
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_join_factories import SetOperationFactory
from flinkray.types.records import MAX_TIMESTAMP, Timestamp
from flinkray.types.rows import RowKind

_STATE = "counts"
_COUNTS = ("left", "right")
_WRITTEN = "written"
_BATCH_AT_ONCE = 8192


class SetOperationOperator(TableOperator[SetOperationFactory]):
    """Its inputs are keyed by all of their columns. NULL equals NULL here."""

    def __init__(self, factory: SetOperationFactory) -> None:
        super().__init__(factory)
        numbers = {name: Numbers(np.int64) for name in (*_COUNTS, _WRITTEN)}
        self._store = RowStore(pa.schema([]), numbers)
        """A row without columns for each key: its values are the key."""

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        before = self.expires_before
        if before is not None:
            self._store.remove(self._store.sweep(_WRITTEN, before))
        order = order_by(keys)
        starts = np.flatnonzero(differs_from_previous(keys[order]))
        changes = np.add.reduceat(weights_of(kinds, len(keys))[order].astype(np.int64), starts) if len(keys) else starts
        slots = self._slots(keys[order[starts]], rows)
        self._store.numbers(_WRITTEN)[slots] = self.now()
        was = self._results(slots)
        self._store.numbers(_COUNTS[input_index])[slots] += changes
        if not self.context.is_batch:
            self._give(take(rows, from_numpy(order[starts])), self._results(slots) - was)
        left, right = (self._store.numbers(each)[slots] for each in _COUNTS)
        self._store.remove(slots[(left == 0) & (right == 0)])

    def _slots(self, keys: Ids, rows: pa.RecordBatch) -> Ids:
        """The slot of each of these distinct keys, of which some are new."""
        places, found = self._store.of_keys(keys)
        slots = np.full(len(keys), -1, np.int64)
        slots[places] = found
        new = np.flatnonzero(slots < 0)
        slots[new] = self._store.add(keys[new], rows.select([]).slice(0, len(new)))
        return slots

    def _results(self, slots: Ids) -> Ids:
        """How often each row is in the result."""
        left, right = (np.maximum(self._store.numbers(each)[slots], 0) for each in _COUNTS)
        if self.factory.kind == "INTERSECT":
            found = np.minimum(left, right)
        elif self.factory.all:
            found = np.maximum(left - right, 0)
        else:
            found = np.where(right > 0, 0, left)
        counts: Ids = found if self.factory.all else np.minimum(found, 1)
        return counts

    def _give(self, rows: pa.RecordBatch, changes: Ids) -> None:
        """Gives each row as often as it has come, or takes it back as often as it has gone."""
        numbers = np.repeat(np.arange(len(changes)), np.abs(changes))
        kinds = np.where(changes < 0, RowKind.DELETE.value, RowKind.INSERT.value).astype(np.int8)
        self.emit(take(rows, from_numpy(numbers)), kinds[numbers])

    def on_watermark(self, timestamp: Timestamp) -> None:
        if self.context.is_batch and timestamp == MAX_TIMESTAMP:
            slots = self._store.live_slots()
            for start in range(0, len(slots), _BATCH_AT_ONCE):
                some = slots[start : start + _BATCH_AT_ONCE]
                keys = self.keys.take(self._store.keys_of(some))
                assert keys is not None
                rows = pa.RecordBatch.from_arrays(
                    [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in keys.columns],
                    schema=self.schema,
                )
                self._give(rows, self._results(some))
        super().on_watermark(timestamp)

    @property
    def stores(self) -> Mapping[str, RowStore]:
        return {_STATE: self._store}
