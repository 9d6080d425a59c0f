"""Pairs of rows that lie near each other in time (Flink's interval join of SQL: TimeIntervalJoin)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.joins.interval_partners import shifted
from actors.operators.tables.changes import Flags, Kinds
from actors.operators.tables.joins.candidates import any_null, most_pairs
from actors.operators.tables.joins.conditions import JoinCondition
from actors.operators.tables.joins.results import JoinResults
from actors.operators.tables.joins.timed_rows import NO_TIME, TIME, RowsByTime, milliseconds_of, timed_store
from actors.operators.tables.operator import TableOperator
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.table_join_factories import TableIntervalJoinFactory
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

_STATES = ("left", "right")
_IS_MATCHED = "is_matched"


class TableIntervalJoinOperator(TableOperator[TableIntervalJoinFactory]):
    """Takes inserts and gives inserts. A row is kept until the watermark says that no partner of it can come any more;
    an outer join gives it padded with NULLs then, where it had none.

    A row that is late meets what is still kept. Watermarks are held back by as much as a row may be kept, since
    results have the times of both of their rows.
    """

    def __init__(self, factory: TableIntervalJoinFactory) -> None:
        super().__init__(factory)
        self._is_padded = (factory.kind in ("LEFT", "FULL"), factory.kind in ("RIGHT", "FULL"))
        self._stores = tuple(timed_store(schema, {_IS_MATCHED: Numbers(np.int8)}) for schema in self.input_schemas)
        self._key_columns = tuple([pair[side] for pair in factory.keys] for side in (0, 1))
        # The range of times in which partners lie, relative to a row of each input.
        self._ranges = ((factory.lower_ms, factory.upper_ms), (-factory.upper_ms, -factory.lower_ms))
        self._delay = max(0, *(highest for _, highest in self._ranges))
        self._watermark: int = MIN_TIMESTAMP

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        factory = self.factory
        self._condition = (
            None if factory.condition is None else JoinCondition(factory.condition, factory.input_rows, self.where)
        )
        self._results = JoinResults(factory.rows, factory.input_rows, factory.gives, context.batch_rows, self.emit)

    # -- rows

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        times = self._times(rows, input_index)
        is_null = any_null(rows, self._key_columns[input_index])
        may_match = times != NO_TIME if is_null is None else ~is_null & (times != NO_TIME)
        is_matched = self._join(rows, keys, times, may_match, input_index)
        _, highest = self._ranges[input_index]
        is_kept = may_match & (shifted(times, highest) > self._watermark)
        if self._is_padded[input_index]:
            self._give_padded(take(rows, from_numpy(np.flatnonzero(~is_kept & ~is_matched))), input_index)
        kept = np.flatnonzero(is_kept)
        self._stores[input_index].add(
            keys[kept], take(rows, from_numpy(kept)), time=times[kept], is_matched=is_matched[kept]
        )
        self._results.flush()

    def _times(self, rows: pa.RecordBatch, input_index: int) -> Ids:
        if self.factory.times is not None:
            return milliseconds_of(rows.column(self.factory.times[input_index]))
        now = max(self.now(), self._watermark + 1)
        self._end_until(now - 1)
        return np.full(rows.num_rows, now, np.int64)

    def _join(self, rows: pa.RecordBatch, keys: Ids, times: Ids, may_match: Flags, input_index: int) -> Flags:
        """Gives the pairs of these rows; whether each is in one."""
        low, high = self._ranges[input_index]
        other = self._stores[1 - input_index]
        is_matched = np.zeros(rows.num_rows, np.bool_)
        found = RowsByTime(keys, other)
        lowest, highest = shifted(times, low), shifted(times, high)
        for own, slots in found.pairs(lowest, highest, may_match, most_pairs(self.context, rows, other)):
            if self._condition is not None:
                holds = self._holds(rows, own, slots, input_index)
                own, slots = own[holds], slots[holds]
            is_matched[own] = True
            other.numbers(_IS_MATCHED)[slots] = 1
            pair = take(rows, from_numpy(own)), other.take(slots)
            self._results.insert(self._results.beside(*(pair if input_index == 0 else pair[::-1])))
        return is_matched

    def _holds(self, rows: pa.RecordBatch, own: Ids, slots: Ids, input_index: int) -> Flags:
        assert self._condition is not None
        other = self._stores[1 - input_index]
        sides = (
            lambda columns: take(rows.select(columns), from_numpy(own)),
            lambda columns: other.take(slots, columns),
        )
        left, right = sides if input_index == 0 else sides[::-1]
        return self._condition.holds(left, right, len(own), self.now())

    def _give_padded(self, rows: pa.RecordBatch, side: int) -> None:
        self._results.insert(self._results.padded(rows, side))

    # -- time

    def on_watermark(self, timestamp: Timestamp) -> None:
        is_last = timestamp == MAX_TIMESTAMP
        if self.factory.times is not None:
            self._end_until(timestamp)
            self.forget_unused()
            timestamp = timestamp if is_last else Timestamp(max(timestamp - self._delay, MIN_TIMESTAMP))
        super().on_watermark(timestamp)

    def _end_until(self, watermark: int) -> None:
        """Forgets the rows that find no partners any more."""
        if watermark <= self._watermark:
            return
        self._watermark = watermark
        for side, (store, (_, highest)) in enumerate(zip(self._stores, self._ranges, strict=True)):
            slots = store.live_slots()
            over = slots[shifted(store.numbers(TIME)[slots], highest) <= watermark]
            if self._is_padded[side]:
                self._give_padded(store.take(over[store.numbers(_IS_MATCHED)[over] == 0]), side)
            store.remove(over)
        self._results.flush()

    # -- state

    @property
    def stores(self) -> Mapping[str, RowStore]:
        return dict(zip(_STATES, self._stores, strict=True))
