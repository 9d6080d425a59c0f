"""What session operators share: rows find their sessions in columns, whatever is made of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from actors.keys.hashes import key_columns
from actors.keys.state_tables import KeyedTables, state_rows
from actors.operators.contract.operator import OperatorContext, Output
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.late_updates import parts_by_update
from actors.operators.windows.base.operator import TimedOperator
from actors.operators.windows.base.times import Times, late_limit
from actors.operators.windows.sessions.contents import SessionContents
from actors.operators.windows.sessions.session_table import SessionIds
from actors.operators.windows.sessions.store import SessionStore
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import raise_attributed
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.row_codec import decode
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import KeySelector
from flinkray.types.records import MAX_TIMESTAMP
from flinkray.windows.assigners import SessionWindows, checked_gap

_STATE = state_parts.SESSIONS

# So many sessions fire at a time: this bounds the memory that the last watermark takes, with which all are due.
_SESSIONS_AT_ONCE = 1_000_000


class SessionOperatorBase(TimedOperator):
    """Base: adds each row to the open session of its key that it touches, in event or processing time.

    Sessions fire by their end, start, then first arrival. A late row that is still allowed makes its session fire
    again. After Flink's WindowOperator with MergingWindowSet: lateness is that of the merged session.
    """

    _PARTS = frozenset({_STATE})

    def __init__(self, factory: WindowFactory) -> None:
        assigner = factory.assigner
        assert isinstance(assigner, SessionWindows)
        super().__init__(assigner.is_event_time(), factory.late_tag)
        self._state_windows = state_parts.windows_of(assigner)
        self._gap_ms = assigner.gap_ms
        self._gap_function = assigner.gap_function
        self._lateness = int(factory.allowed_lateness_ms) if self._is_event_time else 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._store = SessionStore(self._make_contents())

    @abstractmethod
    def _make_contents(self) -> SessionContents:
        """Makes the contents of sessions; called once, when there is a context."""

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        batch = self._arrived(batch)
        starts = self._timestamps(batch)
        # Nothing ends after the end of time.
        ends = starts + np.minimum(self._gaps(batch), MAX_TIMESTAMP - np.maximum(starts, 0))
        keys = None if self._selector is None else key_columns(batch, self._selector, self._where)
        may_fire_again = ends - 1 <= self._watermark
        if not self._lateness or not may_fire_again.any():
            self._add(batch, keys, starts, ends)
        else:
            for rows in parts_by_update(self._store.numbered(keys, batch.num_rows), may_fire_again):
                first, count = rows.start, rows.stop - rows.start
                its_keys = None if keys is None else keys.slice(first, count)
                self._add(batch.slice(first, count), its_keys, starts[rows], ends[rows])
        self._await_clock()

    def _add(self, batch: Batch, keys: pa.RecordBatch | None, starts: Times, ends: Times) -> None:
        touched, is_late = self._store.add(batch, keys, starts, ends, self._late_limit)
        if is_late.any():
            self._emit_late(batch.filter(from_numpy(is_late)))
        reached = touched[self._store.is_reached(touched, self._watermark)]
        if len(reached):
            self._fire(self._store.in_order(reached))

    def _gaps(self, batch: Batch) -> Times | int:
        function = self._gap_function
        if function is None:
            assert self._gap_ms is not None
            return int(self._gap_ms)
        gaps = np.empty(batch.num_rows, np.int64)
        for row, value in enumerate(decode(batch)):
            try:
                gaps[row] = min(checked_gap(function(value)), MAX_TIMESTAMP)
            except BaseException as error:
                raise_attributed(self.context.operator_name, self.context.subtask, value, error)
        return gaps

    @property
    def _late_limit(self) -> int:
        return late_limit(self._watermark, self._lateness)

    # -- firing

    def _fire_due(self, watermark: int) -> Iterator[None] | None:
        self._fire(self._store.due(watermark))
        self._store.release(self._store.over(self._late_limit))
        return None

    def _earliest_end(self) -> int | None:
        return self._store.earliest_end()

    def _fire(self, sessions: SessionIds) -> None:
        for offset in range(0, len(sessions), _SESSIONS_AT_ONCE):
            self._emit(sessions[offset : offset + _SESSIONS_AT_ONCE])
        self._store.fired(sessions)

    @abstractmethod
    def _emit(self, sessions: SessionIds) -> None:
        """Emits the results of these sessions, in their order."""

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = self._snapshot_subtask(self._store.next_position)
        captured, tables = self._store.capture(), KeyedTables.of(self.context)
        if len(captured.sessions):
            snapshot.add_keyed(_STATE, lambda: captured.table(tables), tables.owned)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is None:
            return
        next_position = self._restore_subtask(restored)
        self._store.restore(state_rows(restored.keyed(_STATE)), next_position)
        self._has_unfired = self._store.has_due(self._watermark)
        self._await_clock()
