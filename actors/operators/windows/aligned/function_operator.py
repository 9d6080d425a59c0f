"""Aligned windows with functions that fold rows: reduce, AggregateFunction, also with a ProcessWindowFunction."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Any

from actors.keys.hashes import key_columns
from actors.keys.key_types import KeyTypes
from actors.keys.state_tables import KeyedTables
from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.operator import AlignedWindowOperator
from actors.operators.windows.base.times import PendingStarts
from actors.operators.windows.user_functions.calls import CallingOperator, WindowCalls
from actors.operators.windows.user_functions.contents_by_key import ContentsByKey, contents_table, restored_contents
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import raise_attributed
from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import decode
from flinkray.time.windows import Window
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import KeySelector
from flinkray.windows.assigners import AlignedWindows

_STATE = state_parts.FOLDED


class RowWindowOperator(CallingOperator, AlignedWindowOperator):
    """Folds the rows of each window and key into a reduced value or an accumulator, and calls the user's function.

    Windows fire in order, in each the keys by first arrival. A late row that is still allowed makes its windows
    fire again, for its key, with everything so far. In processing time a batch is in the windows of the moment at which
    it arrives.
    """

    _PARTS = frozenset({_STATE})

    def __init__(self, factory: WindowFactory) -> None:
        assert isinstance(factory.assigner, AlignedWindows)
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._calls = WindowCalls(factory)
        self._waiting = PendingStarts()
        self._open = PendingStarts()
        self._by_window: dict[int, ContentsByKey] = {}
        """The contents of the open windows, by window start."""
        self._opened: list[int] = []
        """The starts of open windows that are new, and yet to be put into the two above."""
        self._due_starts: deque[int] = deque()
        """The starts of windows that are due and have not fired for all keys; the first may have for some."""
        self._fired_keys: list[Any] = []
        """For which keys the first of them has fired."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._key_types = KeyTypes()

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        in_time = self._in_time(self._arrived(batch))
        if in_time is None:
            return
        times = self._times
        timestamps = self._timestamps(in_time)
        last_starts = times.last_starts(timestamps).tolist()
        values = decode(in_time)
        keys, key_groups = self._keys(in_time)
        rows = zip(values, keys, key_groups, timestamps.tolist(), last_starts, strict=True)
        for value, key, key_group, timestamp, last_start in rows:
            starts = times.starts(last_start, timestamp) if times.is_sliced else (last_start,)
            for start in starts:
                if self._add_to(start, key, key_group, value):
                    self._fire(self._by_window[start], key, self._window(start))
        self._await_opened()
        self._calls.end_round()
        self._await_clock()

    def _keys(self, batch: Batch) -> tuple[list[Any], list[int]]:
        """The key of each row, and its key group."""
        if self._selector is None:
            return self._calls.keys(None, batch.num_rows)
        columns = key_columns(batch, self._selector, self._where)
        self._key_types.add(columns, self._where)
        return self._calls.keys(columns, batch.num_rows)

    def _add_to(self, start: int, key: Any, key_group: int, value: Any) -> bool:
        """Adds the value to a window that is not over; gives whether it has to fire again for the key."""
        if self._watermark >= start and self._times.is_over(start, self._watermark):
            return False
        by_key = self._by_window.get(start)
        if by_key is None:
            by_key = self._open_window(start)
        fold = self._calls.fold
        try:
            by_key.contents[key] = fold.add(by_key.changeable(key, key_group, fold.copy), value)
        except BaseException as error:
            raise_attributed(self.context.operator_name, self.context.subtask, value, error)
        return self._times.is_due(start, self._watermark)

    def _open_window(self, start: int) -> ContentsByKey:
        by_key = self._by_window[start] = ContentsByKey()
        self._opened.append(start)
        return by_key

    def _await_opened(self) -> None:
        if self._opened:
            opened, self._opened = sorted(self._opened), []
            self._open.add_all(opened)
            self._waiting.add_all(opened[bisect_right(opened, self._times.due_limit(self._watermark)) :])

    # -- watermarks

    def _fire_due(self, watermark: int) -> Iterator[None]:
        self._due_starts.extend(self._waiting.pop_until(self._times.due_limit(watermark)))
        return self._fire_and_close(self._open.pop_until(self._times.over_limit(watermark)))

    def _fire_and_close(self, over: list[int]) -> Iterator[None]:
        times, due, ended = self._times, self._due_starts, 0
        while due:
            start = due[0]
            while ended < len(over) and times.cleanup_time(over[ended]) < start + times.size - 1:
                yield from self._close(over[ended])
                ended += 1
            by_key, window = self._by_window[start], self._window(start)
            for key in by_key.keys_to_fire():
                self._fire(by_key, key, window)
                self._fired_keys.append(key)
                yield
            due.popleft()
            self._fired_keys = []
        for start in over[ended:]:
            yield from self._close(start)

    def _close(self, start: int) -> Iterator[None]:
        """Forgets the window, which is over."""
        if self._calls.has_clear:
            by_key = self._by_window[start]
            for key, key_group in by_key.key_groups.items():
                self._calls.clear(key, key_group, self._window(start))
                by_key.contents.pop(key, None)  # so that it is not cleared again if a snapshot comes between two keys
                yield
        del self._by_window[start]

    def _earliest_end(self) -> int | None:
        start = self._waiting.earliest()
        return None if start is None else start + self._times.size

    def _fire(self, by_key: ContentsByKey, key: Any, window: Window) -> None:
        self._calls.fire(key, by_key.key_groups[key], window, by_key.exposed(key))

    def _window(self, start: int) -> Window:
        return Window(start, start + self._times.size)

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = self._snapshot_subtask(key_types=self._key_types.written() if self._by_window else b"")
        frozen = {start: by_key.freeze() for start, by_key in self._by_window.items()}
        if frozen:
            watermark, tables, size = self._watermark, KeyedTables.of(self.context), self._times.size
            due = frozenset(self._due_starts)
            if due:
                first = self._due_starts[0]
                key_groups, contents, fired = frozen[first]
                frozen[first] = key_groups, contents, fired.union(self._fired_keys)
            snapshot.add_keyed(_STATE, lambda: contents_table(frozen, watermark, due, size, tables), tables.owned)
        self._calls.snapshot_state(checkpoint_id, options, snapshot)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is not None:
            self._restore(restored)
        self._calls.initialize_state(restored)

    def _restore(self, restored: RestoredState) -> None:
        self._restore_subtask(restored)
        self._key_types.restore_written(self._former_key_types)
        where = label_of(self.context)
        contents_of_keys = list(restored_contents(restored.keyed(_STATE), self._times.size, where))
        unfired = {start for start, *_, fired_until in contents_of_keys if not self._times.is_due(start, fired_until)}
        for start, key, key_group, contents, fired_until in contents_of_keys:
            by_key = self._by_window.get(start) or self._open_window(start)
            is_waiting = start in unfired or not self._times.is_due(start, self._watermark)
            by_key.restore(key, key_group, contents, is_waiting and self._times.is_due(start, fired_until))
        self._await_opened()
        due = sorted(start for start in unfired if self._times.is_due(start, self._watermark))
        self._waiting.add_all(due)
        self._has_unfired = bool(due)
        self._await_clock()
