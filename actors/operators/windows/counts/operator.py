"""Count windows with built-in aggregates: columns in, one batch of results per batch out."""

from __future__ import annotations

from actors.keys.hashes import key_columns
from actors.keys.state_tables import KeyedTables, same_rows
from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.operator import TimedOperator
from actors.operators.windows.base.results import WindowBounds, emit_windows
from actors.operators.windows.counts.arithmetic import count_windows_of
from actors.operators.windows.counts.store import CountStore
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import KeySelector

# The part is named as that of windows of time, so that a program that goes from the one to the other is told so.
_STATE = state_parts.ACCUMULATORS
_GRID = "windows"

# So many panes are merged at a time: this bounds the memory that the windows take that a batch fills.
_PANES_AT_ONCE = 1 << 19


class ColumnarCountOperator(TimedOperator):
    """Accumulates each row once, into its pane; a window is made of its panes when its last row comes.

    Result columns: the key's, `window_start` and `window_end` (null), then the aggregates; ordered by the rows that
    filled the windows. Their event time is the end of time. What is not full at the end does not fire.
    """

    _PARTS = frozenset({_STATE})

    def __init__(self, factory: WindowFactory) -> None:
        windows = count_windows_of(factory)
        assert windows is not None
        super().__init__(is_event_time=False, late_tag=None)
        self._windows = windows
        self._aggregates = factory.aggregates
        self._bounds_type = factory.bounds_type

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._begin()

    def _begin(self) -> None:
        self._store = CountStore(self._windows, self._aggregates, self._where)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        keys = None if self._selector is None else key_columns(batch, self._selector, self._where)
        full = self._store.add(batch.data, keys)
        at_once = max(1, _PANES_AT_ONCE // self._windows.panes_per_window)
        for offset in range(0, len(full), at_once):
            some = full[offset : offset + at_once]
            names = [name for name, _ in self._aggregates]
            results = list(zip(names, self._store.results(some), strict=True))
            bounds = WindowBounds.of_no_time(len(some))
            keys_of_some = self._store.key_columns(some)
            emit_windows(self.context, self.output, keys_of_some, bounds, results, self._bounds_type)
        self._store.compact()

    def _fire_due(self, watermark: int) -> None:
        """No time ends a window of rows."""

    def end_keys(self) -> None:
        super().end_keys()
        self._begin()

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = self._snapshot_subtask(self._store.next_position)
        captured, tables = self._store.capture(), KeyedTables.of(self.context)
        if len(captured.accumulators):
            metadata = {_GRID: self._windows.encode().encode()}
            snapshot.add_keyed(_STATE, lambda: captured.table(tables, metadata), tables.owned)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is None:
            return
        next_position = self._restore_subtask(restored)
        parts = same_rows(restored.keyed(_STATE), _GRID, self._windows.encode(), label_of(self.context))
        self._store.restore(parts, next_position)
