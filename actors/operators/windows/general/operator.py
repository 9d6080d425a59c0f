"""Windows of any kind, row by row: any assigner, trigger and evictor, also those of the user."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import numpy as np

from actors.keys.hashes import hashable_keys, key_columns, key_groups
from actors.keys.key_types import KeyTypes
from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.functions.result_collector import ResultCollector
from actors.operators.time.timers import InternalTimerService, Timer
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.operator import TimedOperator
from actors.operators.windows.general.aggregates import AggregateContents, AggregateFirings
from actors.operators.windows.general.merging import MergingWindows
from actors.operators.windows.user_functions.contents import (
    EvictedContents,
    FoldedContents,
    RowContents,
    WindowContents,
    WindowRow,
    fold_of,
)
from actors.operators.windows.user_functions.contents_by_key import NOTHING
from actors.operators.windows.user_functions.contexts import (
    FiringContext,
    NoWindowState,
    WindowEvictorContext,
    WindowTriggerContext,
)
from actors.protocol.elements import CheckpointOptions
from actors.state.backends import create_keyed_state
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import OfKey, raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.row_codec import decode, short_repr
from flinkray.errors import InvalidProgramError, TypeMismatchError
from flinkray.functions.interfaces import AggregateFunction, ProcessWindowFunction, as_callable
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import KeySelector
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from flinkray.windows.assigners import MergingWindowAssigner, is_of_users
from flinkray.windows.triggers import TriggerResult


class GeneralWindowOperator(TimedOperator):
    """After Flink's WindowOperator and EvictingWindowOperator: a row fires its windows at once where it has to.

    A *pane* is a key and a window. Contents, trigger state, timers and the function's own state are kept by pane; where
    windows merge, contents by the key and the window's state window.
    """

    FIRES_IN_PIECES = True

    _PARTS = frozenset({state_parts.GENERAL})

    def __init__(self, factory: WindowFactory) -> None:
        self._assigner = factory.assigner
        super().__init__(self._assigner.is_event_time(), factory.late_tag)
        self._state_windows = state_parts.windows_of(self._assigner)
        self._factory = factory
        self._trigger = factory.trigger or self._assigner.get_default_trigger(None)
        self._lateness = int(factory.allowed_lateness_ms) if self._is_event_time else 0
        self._fold = fold_of(factory)
        self._process = None if factory.process is None else as_callable(factory.process, "process")
        self._window: Any = None
        """The current window."""
        self._key: Any = None
        self._key_group = 0
        self._assigned_at = 0
        """The time at which the current row got its windows, where the clock decides and they merge."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._label = label_of(context)
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._key_types = KeyTypes()
        self._results = ResultCollector(context, output, self._factory.output_type)
        self._functions = UserFunctions(context, self._factory.user_functions)
        # What the window function keeps: per key, and per key and window. And what the operator and its trigger keep.
        self._key_state: KeyedStateBackend = create_keyed_state(context, "key/")
        self._window_state: KeyedStateBackend = create_keyed_state(context, "window/")
        self._own_state: KeyedStateBackend = create_keyed_state(context, f"{state_parts.GENERAL}/")
        self._timers = InternalTimerService(context, self._on_processing_time)
        self._merging: MergingWindows | None = None
        if isinstance(self._assigner, MergingWindowAssigner):
            self._merging = MergingWindows(self._assigner, self._own_state)
        runtime_context = TaskRuntimeContext(context, self._key_state)
        self._evictor_context = WindowEvictorContext(self, runtime_context)
        self._trigger_context = WindowTriggerContext(self, runtime_context, self._timers, self._own_state)
        window_state = self._window_state if self._merging is None else NoWindowState(self._label)
        self._firing = FiringContext(self, self._key_state, window_state)
        self._begin_contents()

    def _begin_contents(self) -> None:
        self._aggregates: AggregateFirings | None = None
        if self._factory.aggregates:
            self._aggregates = AggregateFirings(self._factory, self.context, self.output, self._where)
        self._contents = self._make_contents()

    def _make_contents(self) -> WindowContents:
        backend, factory = self._own_state, self._factory
        if factory.evictor is not None:
            emit = self._emit_rows if self._aggregates is None else self._aggregate_rows
            return EvictedContents(backend, factory.evictor, self._evictor_context, self._label, emit)
        if self._aggregates is not None:
            return AggregateContents(backend, self._aggregates)
        if factory.reduce is not None or factory.aggregate is not None:
            return FoldedContents(backend, self._fold, self._emit)
        return RowContents(backend, self._emit)

    def open(self) -> None:
        self._contents.open()
        if self._merging is not None:
            self._merging.open()
        is_keyed = self._selector is not None
        self._functions.open(TaskRuntimeContext(self.context, self._key_state if is_keyed else None))

    def close(self) -> None:
        super().close()
        self._timers.close()
        try:
            self._functions.close()
        finally:
            for backend in (self._key_state, self._window_state, self._own_state):
                backend.close()

    @property
    def current_watermark(self) -> int:
        return self._watermark

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._is_event_time and not is_of_users(self._assigner):
            self._check_times(batch)
        times = _times_of(batch)
        self._begin_batch(batch)
        keys, key_groups_of_rows = self._keys(batch)
        late: list[int] = []
        for row, value in enumerate(decode(batch)):
            self._set_key(keys[row], key_groups_of_rows[row])
            try:
                if not self._add(value, times[row], row):
                    late.append(row)
            except BaseException as error:
                raise_attributed(self.context.operator_name, self.context.subtask, value, error)
            self._results.flush_if_full()
        self._end_round()
        if late:
            self._emit_late(batch.take(from_numpy(np.array(late))))

    def _begin_batch(self, batch: Batch) -> None:
        if self._aggregates is not None:
            self._aggregates.begin(batch)
            if isinstance(self._contents, EvictedContents):
                self._contents.record_type = batch.record_type

    def _keys(self, batch: Batch) -> tuple[list[Any], list[int]]:
        """The key of each row, and its key group."""
        if self._selector is None:
            return [None] * batch.num_rows, [self.context.key_group_range.start] * batch.num_rows
        columns = key_columns(batch, self._selector, self._where)
        self._key_types.add(columns, self._where)
        keys = hashable_keys(columns, self._where, self._selector)
        return keys, key_groups(columns, self.context.max_parallelism).tolist()

    def _set_key(self, key: Any, group: int) -> None:
        self._key, self._key_group = key, group
        self._key_state.set_current_key(key, group)

    def _add(self, value: Any, time: int | None, row: int) -> bool:
        """Adds the row to its windows, which may fire; gives False where it is late."""
        is_skipped = True
        timestamp = MIN_TIMESTAMP if time is None else time
        if self._merging is not None and not self._is_event_time:
            self._assigned_at = self.context.clock.now_ms()
        for window in self._checked_windows(self._assigner.assign_windows(value, timestamp, self._evictor_context)):
            state_window = window
            if self._merging is not None:
                windows = self._merging.of(self._key, self._key_group)
                window = windows.add(window, self._merge)
                if self._is_over(window):
                    windows.retire(window)
                    continue
                state_window = windows.windows[window]
            elif self._is_over(window):
                continue
            is_skipped = False
            self._set_window(window)
            self._contents.set_current((self._key, state_window), self._key_group)
            self._contents.add(value, time, row)
            self._trigger_context.set_current((self._key, window), self._key_group)
            result = self._trigger.on_element(value, timestamp, window, self._trigger_context)
            self._follow(result, "on_element", window, state_window)
            self._register_cleanup(window)
        # One that has no window at all, or none that is open, is late only if its own time is past.
        return not (is_skipped and self._is_event_time and timestamp + self._lateness <= self._watermark)

    def _checked_windows(self, windows: Any) -> Any:
        """The windows that the assigner gave. Raises TypeMismatchError where these are none."""
        if isinstance(windows, Collection) and all(hasattr(window, "max_timestamp") for window in windows):
            for window in windows:
                if window.max_timestamp() > MAX_TIMESTAMP:
                    raise TypeMismatchError(
                        f"{self._label}: {type(self._assigner).__name__} gave {short_repr(window)}, which ends after "
                        f"{MAX_TIMESTAMP}, the highest time that 64 bits hold, and would never fire; filter such rows "
                        "out before, or give them a time in milliseconds"
                    )
            return windows
        raise TypeMismatchError(
            f"{self._label}: assign_windows of {type(self._assigner).__name__} must return a list of windows such as "
            f"Window(start, end), not {short_repr(windows)}"
        )

    def _merge(self, window: Any, parts: Any, state_window: Any, state_windows: Any) -> None:
        """Called when windows have become one: moves their state."""
        self._check_merged(window)
        context = self._trigger_context
        context.set_current((self._key, window), self._key_group, parts)
        self._trigger.on_merge(window, context)
        for part in parts:
            if part != window:
                context.set_current((self._key, part), self._key_group)
                self._trigger.clear(part, context)
                self._delete_cleanup(part)
        self._contents.merge(self._key, self._key_group, state_window, state_windows)

    def _check_merged(self, window: Any) -> None:
        end = window.max_timestamp()
        if self._is_event_time:
            is_past, now = self._is_over(window), f"the watermark, {self._watermark}"
        else:
            # Not the clock of now: between the two readings the process may stand still for longer than a window.
            is_past, now = end < self._assigned_at, f"the clock, {self._assigned_at}"
        if is_past:
            raise InvalidProgramError(
                f"{self._label}: {type(self._assigner).__name__} merged windows into {short_repr(window)}, whose end "
                f"is before {now}: a window that merges must not end earlier than those that it is made of"
            )

    # -- timers

    def on_watermark(self, timestamp: Timestamp) -> None:
        # Also if it was as high before: the snapshot that the operator comes from may have timers that had yet to fire.
        self._watermark = max(self._watermark, timestamp)
        self._begin_firing(partial(self.output.emit_watermark, timestamp))

    def end_keys(self) -> None:
        super().end_keys()
        for backend in (self._key_state, self._window_state, self._own_state):
            backend.drop_all()
        if self._aggregates is not None:  # beside the state, it has the rows of windows that have not fired
            self._begin_contents()
            self._contents.open()

    def _fire_due(self, watermark: int) -> Iterator[None]:
        return self._fire_timers(self._timers.advance_watermark(Timestamp(watermark)), True)

    def _on_processing_time(self) -> None:
        steps = self._fire_timers(self._timers.due_processing_timers(), False)
        self._pieces.make(steps, to_the_end=not self.context.fires_in_pieces)
        self._end_round()
        self._pieces.end()

    def _fire_timers(self, due: Iterator[Timer], is_event_time: bool) -> Iterator[None]:
        for timer in due:
            self.context.cancellation.check()  # a trigger's timer may set the next one, without end
            self._on_timer(timer, is_event_time)
            yield

    def _on_timer(self, timer: Timer, is_event_time: bool) -> None:
        key, window = timer.key
        self._set_key(key, timer.key_group)
        state_window = window
        if self._merging is not None:
            state_window = self._merging.of(key, timer.key_group).windows.get(window)
            if state_window is None:  # the trigger has left a timer of a window that is gone
                return
        self._set_window(window)
        self._trigger_context.set_current(timer.key, timer.key_group)
        try:
            self._call_trigger(timer.timestamp, is_event_time, window, state_window)
        except BaseException as error:
            value = OfKey(key, repr(window))
            raise_attributed(self.context.operator_name, self.context.subtask, value, error)
        self._results.flush_if_full()

    def _call_trigger(self, time: int, is_event_time: bool, window: Any, state_window: Any) -> None:
        if is_event_time:
            result = self._trigger.on_event_time(time, window, self._trigger_context)
            self._follow(result, "on_event_time", window, state_window)
        else:
            time -= 1  # see `after`
            result = self._trigger.on_processing_time(time, window, self._trigger_context)
            self._follow(result, "on_processing_time", window, state_window)
        now = self._watermark if self._is_event_time else self.context.clock.now_ms() - 1
        if is_event_time == self._is_event_time and time == self._cleanup_time(window):
            self._clear(window, state_window)
        elif now < self._cleanup_time(window):
            self._trigger_context.set_current((self._key, window), self._key_group)
            self._register_cleanup(window)  # which the trigger may have deleted with a timer of its own

    def _end_round(self) -> None:
        if self._merging is not None:
            self._merging.persist()
        if self._aggregates is not None:
            self._aggregates.flush()
        self._results.flush()
        for backend in (self._key_state, self._window_state, self._own_state):
            backend.clear_current_key()

    # -- firing

    def _set_window(self, window: Any) -> None:
        self._window = window
        self._firing.current = window

    def _follow(self, result: Any, method: str, window: Any, state_window: Any) -> None:
        """Does what the trigger wants: fires, purges, both or nothing."""
        if result is TriggerResult.CONTINUE:
            return
        if not isinstance(result, TriggerResult):
            raise TypeMismatchError(
                f"{self._label}: {method} of {type(self._trigger).__name__} must return a TriggerResult, not "
                f"{short_repr(result)}"
            )
        self._contents.set_current((self._key, state_window), self._key_group)
        if result.is_fire():
            self._contents.fire(window)
            self._contents.set_current((self._key, state_window), self._key_group)
        if result.is_purge():
            self._contents.clear()

    def _emit(self, contents: Any) -> None:
        timestamp = self._window.max_timestamp()
        if self._process is None:
            self._results.add(contents, timestamp)
            return
        self._window_state.set_current_key((self._key, self._window), self._key_group)
        self._results.collect(self._process(self._key, self._firing, contents), timestamp)

    def _emit_rows(self, rows: list[WindowRow]) -> None:
        """Emits the result of the rows that an evictor has left."""
        contents = self._fold.of(row.value for row in rows)
        if contents is not NOTHING:
            self._emit(self._fold.result(contents))
        elif isinstance(self._factory.aggregate, AggregateFunction):
            self._emit(self._fold.result(self._factory.aggregate.create_accumulator()))
        elif self._factory.reduce is None:
            self._emit([])

    def _aggregate_rows(self, rows: list[WindowRow]) -> None:
        assert self._aggregates is not None
        if rows:
            slices = (self._aggregates.new_slice(),)
            self._aggregates.add_rows(rows, slices[0])
            self._aggregates.fire(self._window, slices)
            self._aggregates.release(slices)

    # -- the end of a window

    def _cleanup_time(self, window: Any) -> int:
        return min(int(window.max_timestamp()) + self._lateness, MAX_TIMESTAMP)

    def _is_over(self, window: Any) -> bool:
        return self._is_event_time and self._cleanup_time(window) <= self._watermark

    def _register_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time == MAX_TIMESTAMP:  # it goes with the job
            return
        if self._is_event_time:
            self._trigger_context.register_event_time_timer(time)
        else:
            self._trigger_context.register_processing_time_timer(time)

    def _delete_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if self._is_event_time:
            self._trigger_context.delete_event_time_timer(time)
        else:
            self._trigger_context.delete_processing_time_timer(time)

    def _clear(self, window: Any, state_window: Any) -> None:
        self._contents.set_current((self._key, state_window), self._key_group)
        self._contents.clear()
        self._trigger_context.set_current((self._key, window), self._key_group)
        self._trigger.clear(window, self._trigger_context)
        process = self._factory.process
        if isinstance(process, ProcessWindowFunction):
            self._window_state.set_current_key((self._key, window), self._key_group)
            process.clear(self._firing)
        if self._merging is not None:
            self._merging.of(self._key, self._key_group).retire(window)

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = self._snapshot_subtask(0 if self._aggregates is None else self._aggregates.next_number)
        if self._aggregates is not None:
            self._aggregates.snapshot(snapshot)
        before = len(snapshot.parts)
        for backend in (self._key_state, self._window_state, self._own_state):
            snapshot.parts += backend.snapshot(options, checkpoint_id)
        snapshot.parts += self._timers.snapshot(self.context.key_group_range)
        if len(snapshot.parts) > before:
            self._key_types.add_to(snapshot)
        self._functions.snapshot_state(checkpoint_id, snapshot)
        return snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        for backend in (self._key_state, self._window_state, self._own_state):
            backend.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        for backend in (self._key_state, self._window_state, self._own_state):
            backend.notify_checkpoint_aborted(checkpoint_id)

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None:
            next_number = self._restore_subtask(restored)
            if self._aggregates is not None:
                self._aggregates.restore(restored, next_number)
            for backend in (self._key_state, self._window_state, self._own_state):
                backend.restore(restored)
            self._timers.restore(restored)
            self._key_types.restore(restored)
        self._functions.initialize_state(restored)


def _times_of(batch: Batch) -> list[int | None]:
    return [None] * batch.num_rows if batch.timestamps is None else batch.timestamps.to_pylist()
