"""SESSION: rows with the bounds of their sessions, once these have ended (Flink's windows that are unaligned)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import grown
from actors.operators.tables.changes import Kinds
from actors.operators.tables.ranks.waiting import TIME, WaitingOperator, times_of
from actors.operators.tables.rows.row_store import Numbers, RowStore
from actors.state.snapshots.snapshot import RestoredState
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.execution import LATE_RECORDS_DROPPED
from flinkray.time.zones import to_instant, to_local
from flinkray.transformations.table_window_factories import SessionFactory
from flinkray.types.records import MAX_TIMESTAMP, Kind

_BOUND = pa.timestamp("ms")
_KIND = "kind"


class SessionOperator(WaitingOperator[SessionFactory]):
    """A session has the rows of a key that are no further apart than the gap, and ends that long behind its last row.

    Results have the times of their windows as event times. A row is late whose session, with all that wait and come
    with it, has ended. Of a changelog all changes make sessions, those that take rows away among them, and come when
    these have ended, those of a session in the order of their arrival.
    """

    def __init__(self, factory: SessionFactory) -> None:
        super().__init__(factory)
        if not factory.takes[0].is_insert_only:
            self._waiting = RowStore(self.input_schemas[0], {TIME: Numbers(np.int64), _KIND: Numbers(np.int8)})
        self._ends_from: Ids = np.zeros(0, np.int64)
        """For each key a time before which none of its sessions ends: a session that goes on is looked at once in a
        gap."""

    def process_rows(self, rows: pa.RecordBatch, keys: Ids, kinds: Kinds | None, input_index: int) -> None:
        times = self._local_times(rows.column(self.factory.time))
        is_late = times + self.factory.gap_ms <= self._watermark + 1
        if is_late.any():
            _, waiting = self._waiting.of_keys(distinct(keys))
            all_keys = np.concatenate([self._waiting.keys_of(waiting), keys])
            _, ends = self._sessions(all_keys, np.concatenate([self._waiting.numbers(TIME)[waiting], times]))
            on_time = np.flatnonzero(ends[len(waiting) :] - 1 > self._watermark)
            self.context.metrics.count(LATE_RECORDS_DROPPED, len(times) - len(on_time))
            keys, rows, times = keys[on_time], take(rows, from_numpy(on_time)), times[on_time]
            kinds = None if kinds is None else kinds[on_time]
        if len(times):
            self._waiting.add(keys, rows, **{TIME: times}, **({} if kinds is None else {_KIND: kinds}))
            self._expect(keys, times + self.factory.gap_ms - 1)

    def _local_times(self, column: pa.Array) -> Ids:
        zone = self.factory.time_zone
        return times_of(column if zone == "UTC" else to_local(column, zone))

    def process_until(self, time: int) -> None:
        keys = np.flatnonzero(self._ends_from <= time)
        _, slots = self._waiting.of_keys(keys)
        starts, ends = self._sessions(self._waiting.keys_of(slots), self._waiting.numbers(TIME)[slots])
        is_due = ends - 1 <= time
        self._ends_from[keys] = MAX_TIMESTAMP
        self._expect(self._waiting.keys_of(slots[~is_due]), ends[~is_due] - 1)
        due = np.flatnonzero(is_due)
        if not len(due):
            return
        due = due[order_by(ends[due], slots[due])]
        rows, kinds = self._waiting.take(slots[due]), self._kinds_of(slots[due])
        self._waiting.remove(slots[due])
        self._give(rows, starts[due], ends[due], kinds)
        self.forget_unused()

    def _expect(self, keys: Ids, times: Ids) -> None:
        """Sessions of these keys end no earlier than that."""
        self._ends_from = grown(self._ends_from, len(self.keys), int(MAX_TIMESTAMP))
        np.minimum.at(self._ends_from, keys, times)
        self._earliest = int(self._ends_from.min(initial=int(MAX_TIMESTAMP)))

    def _expect_all(self) -> None:
        slots = self._waiting.live_slots()
        self._ends_from = np.zeros(0, np.int64)
        self._expect(self._waiting.keys_of(slots), self._waiting.numbers(TIME)[slots] + self.factory.gap_ms - 1)

    def forget_unused(self) -> None:
        known = len(self.keys)
        super().forget_unused()
        if len(self.keys) < known:  # they have other numbers
            self._expect_all()

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        self._expect_all()

    def _sessions(self, keys: Ids, times: Ids) -> tuple[Ids, Ids]:
        """The start and the end of the session of each row, where these are all rows of their keys."""
        order = order_by(keys, times)
        sorted_times = times[order]
        is_first = differs_from_previous(keys[order]) | (
            np.diff(sorted_times, prepend=sorted_times[:1]) > self.factory.gap_ms
        )
        firsts, numbers = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        lasts = np.append(firsts, len(order))[1:] - 1  # none where no rows wait
        starts, ends = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        starts[order] = sorted_times[firsts][numbers]
        ends[order] = sorted_times[lasts][numbers] + self.factory.gap_ms
        return starts, ends

    def _kinds_of(self, slots: Ids) -> Kinds | None:
        return None if self.factory.takes[0].is_insert_only else self._waiting.numbers(_KIND)[slots]

    def _give(self, rows: pa.RecordBatch, starts: Ids, ends: Ids, kinds: Kinds | None) -> None:
        times = from_numpy(ends - 1)
        zone, kind = self.factory.time_zone, self.schema.types[-1]
        shown = times.cast(kind) if zone == "UTC" else to_instant(times.cast(_BOUND), zone).cast(kind)
        bounds = [from_numpy(starts).cast(_BOUND), from_numpy(ends).cast(_BOUND), shown]
        data = pa.RecordBatch.from_arrays([*rows.columns, *bounds], schema=self.schema)
        batch = Batch(data, Kind.ROW, times, None, None if kinds is None or not kinds.any() else from_numpy(kinds))
        for offset in range(0, batch.num_rows, self.context.batch_rows):
            self.output.emit(batch.slice(offset, self.context.batch_rows))
