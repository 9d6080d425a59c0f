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

    Of a batch the last change of each key counts, unless each is a version that rows of another table may meet
    (`keeps_versions`). What a row was, where that comes, is left out: it may come again, long after the row has become
    another one.
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
        order = order_by(keys) if self.factory.keeps_versions else _last_of_each(keys)
        keys, after, has = keys[order], take(rows, from_numpy(order)), weights_of(kinds, rows.num_rows)[order] > 0
        firsts = np.flatnonzero(differs_from_previous(keys))
        lasts = np.append(firsts[1:], len(keys)) - 1
        places, slots = self._store.of_keys(keys[firsts])
        had = np.append(False, has[:-1])
        had[firsts] = False
        had[firsts[places]] = True
        before = self._before(after, firsts[places], self._store.take(slots))
        is_equal = had & has & ~differ(before, after)
        if self.factory.state_ttl_ms:
            self._store.numbers(WRITTEN)[slots] = self.now()
        is_touched = ~np.logical_and.reduceat(is_equal, firsts)
        self._store.remove(slots[is_touched[places]])
        new, changed = lasts[is_touched & has[lasts]], np.flatnonzero((had | has) & ~is_equal)
        self._store.add(keys[new], take(after, from_numpy(new)), written=self.now())
        before, after = take(before, from_numpy(changed)), take(after, from_numpy(changed))
        self.emit(*changed_rows(before, after, had[changed], has[changed], with_before=self.factory.gives.before))

    def _before(self, rows: pa.RecordBatch, places: Ids, others: pa.RecordBatch) -> pa.RecordBatch:
        """What each row's predecessor is: others at these places."""
        sources = np.maximum(np.arange(rows.num_rows) - 1, 0)
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
