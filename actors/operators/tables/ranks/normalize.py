"""Changes that say only what a row is now, as a whole changelog (Flink's ChangelogNormalize)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.tables.changes import Kinds, changed_rows, differ, weights_of
from actors.operators.tables.gathering import GatheringOperator
from actors.operators.tables.operator import WRITTEN
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_factories import NormalizeFactory
from flinkray.types.rows import RowKind

_STATE = "rows"


class NormalizeOperator(GatheringOperator[NormalizeFactory]):
    """Keeps the last row of each key. An update to an equal row gives nothing, nor does a deletion of a row that is not
    there.

    Of a batch the last change of each key counts. What a row was, where that comes, is left out: it may come again,
    long after the row has become another one.
    """

    def __init__(self, factory: NormalizeFactory) -> None:
        super().__init__(factory)
        self._store = RowStore(self.schema, {WRITTEN: Numbers(np.int64)})

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        self.expire()
        if kinds is not None and self.factory.takes[0].before:
            says = np.flatnonzero(kinds != RowKind.UPDATE_BEFORE.value)
            rows, keys, kinds = take(rows, from_numpy(says)), keys[says], kinds[says]
            if not len(keys):
                return
        last = _last_of_each(keys)
        keys, after, has = keys[last], take(rows, from_numpy(last)), weights_of(kinds, rows.num_rows)[last] > 0
        places, slots = self._store.of_keys(keys)
        had = np.zeros(len(keys), np.bool_)
        had[places] = True
        before = self._with(after, places, self._store.take(slots))
        is_equal = had & has & ~differ(before, after)
        if self.factory.state_ttl_ms:
            self._store.numbers(WRITTEN)[slots] = self.now()
        self._store.remove(slots[~is_equal[places]])
        new, changed = np.flatnonzero(has & ~is_equal), np.flatnonzero((had | has) & ~is_equal)
        self._store.add(keys[new], take(after, from_numpy(new)), written=self.now())
        before, after = take(before, from_numpy(changed)), take(after, from_numpy(changed))
        self.emit(*changed_rows(before, after, had[changed], has[changed], with_before=self.factory.gives.before))

    def _with(self, rows: pa.RecordBatch, places: Ids, others: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with others at these places."""
        sources = np.arange(rows.num_rows)
        sources[places] = rows.num_rows + np.arange(len(places))
        return take(pa.concat_batches([rows, others]), from_numpy(sources))

    @property
    def stores(self) -> Mapping[str, RowStore]:
        return {_STATE: self._store}


def _last_of_each(keys: Ids) -> Ids:
    """The place of the last one of each key, by ascending key."""
    order = order_by(keys)
    last: Ids = order[np.append(np.flatnonzero(differs_from_previous(keys[order]))[1:] - 1, len(keys) - 1)]
    return last
