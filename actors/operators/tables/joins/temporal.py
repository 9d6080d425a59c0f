"""Rows with the version of another table's row at their time (Flink's TemporalRowTimeJoinOperator)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from actors.columns.ordering import distinct
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.tables.changes import Flags, Kinds, weights_of
from actors.operators.tables.joins.candidates import any_null
from actors.operators.tables.joins.conditions import JoinCondition
from actors.operators.tables.joins.results import JoinResults
from actors.operators.tables.joins.timed_rows import TIME, RowsByTime, milliseconds_of, timed_store
from actors.operators.tables.operator import TableOperator
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_join_factories import TemporalJoinFactory
from flinkray.types.records import Timestamp
from flinkray.types.rows import RowKind

_KIND = "kind"
_IS_DELETED = "is_deleted"
_IS_PAST = "is_past"


class TemporalJoinOperator(TableOperator[TemporalJoinFactory]):
    """Rows of the left wait until the watermark has come to their time, since versions may come until then. They come
    out in the order in which they came in, and do what they did.

    Of the right each row is the version of its key from its time on; a row that is deleted ends it. Of two with the
    same time the later one counts. Versions that are followed by another one at the watermark are forgotten.
    """

    def __init__(self, factory: TemporalJoinFactory) -> None:
        super().__init__(factory)
        left, right = self.input_schemas
        self._left = timed_store(left, {_KIND: Numbers(np.int8)})
        self._right = timed_store(right, {_IS_DELETED: Numbers(np.int8), _IS_PAST: Numbers(np.int8)})
        self._right_keys = [pair[1] for pair in factory.keys]
        self._left_keys = [pair[0] for pair in factory.keys]

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        factory = self.factory
        self._condition = (
            None if factory.condition is None else JoinCondition(factory.condition, factory.input_rows, self.where)
        )
        self._results = JoinResults(factory.rows, factory.input_rows, factory.gives, context.batch_rows, self.emit)

    # -- rows

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        is_kept = np.ones(rows.num_rows, np.bool_)
        if input_index == 1 or self.factory.kind == "INNER":
            is_null = any_null(rows, self._right_keys if input_index else self._left_keys)
            is_kept = is_kept if is_null is None else ~is_null
        if input_index == 1 and kinds is not None:
            # It has the time from which the row was there; the row that replaces it says when that ended.
            is_kept &= kinds != RowKind.UPDATE_BEFORE.value
        kept = np.flatnonzero(is_kept)
        rows, keys = take(rows, from_numpy(kept)), keys[kept]
        times = milliseconds_of(rows.column(self.factory.times[input_index]))
        of_rows = np.zeros(len(keys), np.int8) if kinds is None else kinds[kept]
        if input_index == 0:
            self._left.add(keys, rows, time=times, kind=of_rows)
        else:
            is_deleted = weights_of(of_rows, len(keys)) < 0
            self._right.add(keys, rows, time=times, is_deleted=is_deleted)

    def on_watermark(self, timestamp: Timestamp) -> None:
        slots = self._left.live_slots()
        due = slots[self._left.numbers(TIME)[slots] <= timestamp]
        for start in range(0, len(due), self.context.batch_rows):
            self._give(due[start : start + self.context.batch_rows])
        self._left.remove(due)
        self._forget_versions(timestamp)
        self.forget_unused()
        super().on_watermark(timestamp)

    def _give(self, slots: Ids) -> None:
        """Gives rows of the left with the versions of their times."""
        found = RowsByTime(self._left.keys_of(slots), self._right)
        ends = found.first_after(self._left.numbers(TIME)[slots])
        has_version = ends > found.first_of_keys()
        versions = np.zeros(len(slots), np.int64)
        versions[has_version] = found.slots[ends[has_version] - 1]
        has_version[has_version] = self._right.numbers(_IS_DELETED)[versions[has_version]] == 0
        if self._condition is not None and has_version.any():
            has_version[has_version] = self._holds(slots[has_version], versions[has_version])
        if self.factory.kind == "INNER":
            slots, versions = slots[has_version], versions[has_version]
            rights = self._right.take(versions)
        else:
            matched = self._right.take(versions[has_version])
            rights = take(matched, from_numpy(np.cumsum(has_version) - 1, ~has_version))
        kinds = self._left.numbers(_KIND)[slots]
        self._results.change(self._results.beside(self._left.take(slots), rights), kinds)
        self._results.flush()

    def _holds(self, slots: Ids, versions: Ids) -> Flags:
        assert self._condition is not None
        return self._condition.holds(
            lambda columns: self._left.take(slots, columns),
            lambda columns: self._right.take(versions, columns),
            len(slots),
            self.now(),
        )

    def _forget_versions(self, watermark: int) -> None:
        """Forgets versions that are followed by another one not after the watermark."""
        store = self._right
        slots = store.live_slots()
        passed = slots[(store.numbers(_IS_PAST)[slots] == 0) & (store.numbers(TIME)[slots] <= watermark)]
        if not len(passed):
            return
        store.numbers(_IS_PAST)[passed] = 1
        keys = distinct(store.keys_of(passed))
        found = RowsByTime(keys, store)
        begins, ends = found.first_of_keys(), found.first_after(np.full(len(keys), watermark))
        # All of each key but the last one that the watermark has passed.
        is_over = np.zeros(len(found.slots) + 1, np.int64)
        np.add.at(is_over, begins, 1)
        np.add.at(is_over, np.maximum(ends - 1, begins), -1)
        store.remove(found.slots[np.cumsum(is_over)[:-1] > 0])

    # -- state

    @property
    def stores(self) -> Mapping[str, RowStore]:
        return {"left": self._left, "versions": self._right}
