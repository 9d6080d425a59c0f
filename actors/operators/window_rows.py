"""Windows with the user's own functions: reduce, AggregateFunction, ProcessWindowFunction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from actors.elements import CheckpointOptions
from actors.keys import hashable_keys, key_columns, key_groups
from actors.operators.base import OperatorContext, Output
from actors.operators.columns import operator_label
from actors.operators.keyed_tables import KeyedTables
from actors.operators.panes import Pane, pane_rows, panes_table
from actors.operators.results import ResultCollector
from actors.operators.window_base import WindowOperatorBase
from actors.operators.window_contents import fold_of
from actors.operators.window_contexts import FiringContext
from actors.operators.window_times import PendingWindows
from actors.state.backends import create_keyed_state
from actors.state.keyed_state import KeyedStateBackend
from actors.state.snapshot import OperatorSnapshot, RestoredState
from actors.user_code import OfKey, TaskRuntimeContext, UserFunctions, raise_attributed
from flinkray.batch import Batch
from flinkray.functions import ProcessWindowFunction, as_callable
from flinkray.keys import KeySelector
from flinkray.operator_factories import WindowFactory
from flinkray.row_codec import decode
from flinkray.windowing import AlignedWindows, Window

_STATE = "panes"


class RowWindowOperator(WindowOperatorBase):
    """Keeps per window and key a list of rows, a reduced value or an accumulator, and calls the user's function.

    Windows fire in order, in each the keys by first arrival. A late row that is still allowed makes its (key, window)
    fire again with everything so far, once per batch.
    """

    def __init__(self, factory: WindowFactory) -> None:
        assert isinstance(factory.assigner, AlignedWindows)
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._factory = factory
        self._waiting = PendingWindows()
        self._open = PendingWindows()
        self._panes: dict[int, Pane] = {}
        """By window start."""
        self._opened: list[int] = []
        """Of them, those that are new and yet to be put into the two above."""
        self._fold = fold_of(factory)
        self._process = None if factory.process is None else as_callable(factory.process, "process")

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._results = ResultCollector(context, output, self._factory.output_type)
        self._functions = UserFunctions(context, self._factory.user_functions)
        # What the window function keeps: per key, and per key and window.
        self._key_state: KeyedStateBackend = create_keyed_state(context, "key/")
        self._window_state: KeyedStateBackend = create_keyed_state(context, "window/")
        self._firing = FiringContext(self, self._key_state, self._window_state)

    def open(self) -> None:
        self._functions.open(TaskRuntimeContext(self.context, None if self._selector is None else self._key_state))

    def close(self) -> None:
        try:
            self._functions.close()
        finally:
            self._key_state.close()
            self._window_state.close()

    @property
    def current_watermark(self) -> int:
        return self._watermark

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        kept = self._in_time(batch)
        if kept is None:
            return
        times = self._times
        timestamps = self._timestamps(kept)
        last_starts = times.last_starts(timestamps).tolist()
        values = decode(kept)
        keys, groups = self._keys(kept)
        fire_again: dict[int, dict[Any, None]] = {}
        rows = zip(values, keys, groups, timestamps.tolist(), last_starts, strict=True)
        for value, key, group, timestamp, last_start in rows:
            starts = times.starts(last_start, timestamp) if times.is_sliced else (last_start,)
            for start in starts:
                if self._add_to(start, key, group, value):
                    fire_again.setdefault(start, {})[key] = None
        self._await_opened()
        for start in sorted(fire_again):
            self._fire(start, fire_again[start])
        self._clear_current()
        self._results.flush()

    def _keys(self, batch: Batch) -> tuple[list[Any], list[int]]:
        """The key of each row, and its key group."""
        if self._selector is None:
            return [None] * batch.num_rows, [self.context.key_group_range.start] * batch.num_rows
        columns = key_columns(batch, self._selector, self._where)
        return hashable_keys(columns, self._where), key_groups(columns, self.context.max_parallelism).tolist()

    def _add_to(self, start: int, key: Any, group: int, value: Any) -> bool:
        """Adds the value to a window that is not over; whether it has to fire again for the key."""
        if self._watermark >= start and self._times.is_over(start, self._watermark):
            return False
        pane = self._panes.get(start)
        if pane is None:
            pane = self._open_pane(start)
        try:
            pane.contents[key] = self._fold.add(pane.to_change(key, group, self._fold.copy), value)
        except BaseException as error:
            raise_attributed(self.context.operator_name, self.context.subtask, value, error)
        return self._times.is_due(start, self._watermark)

    def _open_pane(self, start: int) -> Pane:
        pane = self._panes[start] = Pane()
        self._opened.append(start)
        return pane

    def _await_opened(self) -> None:
        if self._opened:
            opened, self._opened = sorted(self._opened), []
            self._open.add_all(opened)
            self._waiting.add_all(opened[bisect_right(opened, self._times.due_limit(self._watermark)) :])

    # -- watermarks

    def _fire_due(self, watermark: int) -> None:
        times = self._times
        for start in self._waiting.pop_until(times.due_limit(watermark)):
            self._fire(start, self._panes[start].to_fire())
        clearing = _clearing(self._factory.process)
        for start in self._open.pop_until(times.over_limit(watermark)):
            pane = self._panes.pop(start)
            if clearing is not None:
                self._clear(start, pane, clearing)
        self._clear_current()
        self._results.flush()

    def end_keys(self) -> None:
        super().end_keys()
        self._key_state.drop_all()
        self._window_state.drop_all()

    def _fire(self, start: int, keys: Iterable[Any]) -> None:
        window = Window(start, start + self._times.size)
        self._firing.current = window
        pane = self._panes[start]
        for key in keys:
            self._set_current(key, start, pane.groups[key])
            try:
                self._call(key, window, pane.to_show(key))
            except BaseException as error:
                value = OfKey(key, repr(window))
                raise_attributed(self.context.operator_name, self.context.subtask, value, error)
            self._results.flush_if_full()

    def _set_current(self, key: Any, start: int, group: int) -> None:
        self._key_state.set_current_key(key, group)
        self._window_state.set_current_key((key, start), group)

    def _clear_current(self) -> None:
        self._key_state.clear_current_key()
        self._window_state.clear_current_key()

    def _call(self, key: Any, window: Window, contents: Any) -> None:
        timestamp = window.max_timestamp()
        result = self._fold.result(contents)
        if self._process is None:
            self._results.add(result, timestamp)
        else:
            self._results.collect(self._process(key, self._firing, result), timestamp)

    def _clear(self, start: int, pane: Pane, process: ProcessWindowFunction) -> None:
        self._firing.current = Window(start, start + self._times.size)
        for key, group in pane.groups.items():
            self._set_current(key, start, group)
            try:
                process.clear(self._firing)
            except BaseException as error:
                value = OfKey(key, repr(self._firing.current))
                raise_attributed(self.context.operator_name, self.context.subtask, value, error)

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = self._snapshot_subtask()
        panes = {start: pane.freeze() for start, pane in self._panes.items()}
        if panes:
            watermark, tables, size = self._watermark, KeyedTables.of(self.context), self._times.size
            snapshot.add_keyed(_STATE, lambda: panes_table(panes, watermark, size, tables), tables.owned)
        snapshot.parts += self._key_state.snapshot(options, checkpoint_id)
        snapshot.parts += self._window_state.snapshot(options, checkpoint_id)
        self._functions.snapshot_state(checkpoint_id, snapshot)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._key_state.notify_checkpoint_complete(checkpoint_id)
        self._window_state.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._key_state.notify_checkpoint_aborted(checkpoint_id)
        self._window_state.notify_checkpoint_aborted(checkpoint_id)

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None:
            self._restore(restored)
        self._functions.initialize_state(restored)

    def _restore(self, restored: RestoredState) -> None:
        self._restore_subtask(restored)
        where = operator_label(self.context)
        for start, key, group, contents, fired_until in pane_rows(restored.keyed(_STATE), self._times.size, where):
            pane = self._panes.get(start) or self._open_pane(start)
            has_fired = self._times.is_due(start, fired_until) and not self._times.is_due(start, self._watermark)
            pane.restore(key, group, contents, has_fired)
        self._await_opened()
        self._key_state.restore(restored)
        self._window_state.restore(restored)


def _clearing(process: Any) -> ProcessWindowFunction | None:
    """The window function if its `clear` is the user's own; that of the base class does nothing."""
    if not isinstance(process, ProcessWindowFunction):
        return None
    is_own = getattr(process.clear, "__func__", None) is not ProcessWindowFunction.clear
    return process if is_own else None
