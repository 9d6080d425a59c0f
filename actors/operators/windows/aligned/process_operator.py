"""Aligned windows whose function gets all rows: these are buffered in columns, and made values when the window
fires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from actors.columns.ordering import distinct
from actors.keys.index import Ids
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.times import Times
from actors.operators.windows.buffers.buffered_rows import BufferedRows
from actors.operators.windows.buffers.buffering_operator import BufferingWindowOperator
from actors.operators.windows.buffers.firing_batches import FiringBatch, windows_between
from actors.operators.windows.buffers.window_lookup import WindowedRows, WindowRanges
from actors.operators.windows.buffers.window_values import ValuesPerWindow
from actors.operators.windows.user_functions.calls import CallingOperator, WindowCalls
from actors.state.snapshots.snapshot import RestoredState
from flinkray.time.windows import Window
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import KeySelector
from flinkray.types.records import MIN_TIMESTAMP

_STATE = state_parts.ROWS


class ProcessWindowOperator(CallingOperator, BufferingWindowOperator):
    """Calls the function with all rows of a window and key, in order of arrival.

    Windows fire in order, in each the keys by first arrival. In processing time a batch is in the windows of the moment
    at which it arrives.
    """

    _INPUT_PARTS = (_STATE,)
    _PARTS = frozenset({_STATE})

    def __init__(self, factory: WindowFactory) -> None:
        super().__init__(factory)
        self._calls = WindowCalls(factory)
        self._ended_until: int = MIN_TIMESTAMP
        """The function's `clear` has been called for the windows that were over at this watermark."""
        self._ending: Iterator[tuple[Any, int, Window]] = iter(())
        self._next_ending: tuple[Any, int, Window] | None = None
        """Windows that are over now, by their time: `clear` is called when the windows that fire before that have
        fired."""

    def _key_selectors(self) -> Sequence[KeySelector | None]:
        return self.context.keys[:1] or (None,)

    def end_keys(self) -> None:
        super().end_keys()
        self._ended_until = self._watermark

    # -- results

    def _sides(self, batch: FiringBatch) -> list[WindowedRows | None]:
        """The rows of each layout of columns as a side of their own: values are to have the types that they came
        with."""
        alike: list[list[WindowRanges]] = []
        for found in batch.sides[0]:
            for others in alike:
                if _are_alike(others[0].run.rows, found.run.rows):
                    others.append(found)
                    break
            else:
                alike.append([found])
        return [self._ordered_by_window(found) for found in alike]

    def _fire_sides(self, sides: Sequence[WindowedRows | None], starts: Times) -> Iterator[int]:
        for ids, groups in ValuesPerWindow(sides, len(self._keys)).batches_by_arrival(self._VALUES_AT_ONCE):
            windows = self._windows_of(ids, starts)
            for pair, (key, key_group, window), rows in zip(ids.tolist(), windows, groups, strict=True):
                self._clear_ended(window.max_timestamp())
                yield pair
                self._calls.fire(key, key_group, window, rows)

    def _windows_of(self, ids: Ids, starts: Times) -> Iterator[tuple[Any, int, Window]]:
        """Key, key group and window of each pair of window and key."""
        windows, key_ids = np.divmod(ids, len(self._keys))
        begins = starts[windows]
        keys, groups = self._calls.keys(self._keys.take(key_ids), len(ids))
        return zip(keys, groups, map(Window, begins.tolist(), (begins + self._times.size).tolist()), strict=True)

    # -- windows that are over

    def _fire_due(self, watermark: int) -> Iterator[None]:
        if self._calls.has_clear:
            before, over = (self._times.over_limit(time) for time in (self._ended_until, watermark))
            self._ended_until = watermark
            self._ending = self._ended_windows(windows_between(self._times, self._buffers, before, over))
            self._next_ending = next(self._ending, None)
        return super()._fire_due(watermark)

    def _ended_windows(self, windows: Iterable[Times]) -> Iterator[tuple[Any, int, Window]]:
        for starts in windows:
            for batch in self._firing_batches(starts, self._buffers):
                ids = [self._not_cleared(found, batch.starts) for found in batch.sides[0]]
                yield from self._windows_of(distinct(np.concatenate(ids)), batch.starts)

    def _not_cleared(self, found: WindowRanges, starts: Times) -> Ids:
        """The pairs of window and key with a row that was not there when a subtask that was ahead called `clear` for
        them."""
        ids, fired_until = found.ids(len(self._keys)), found.fired_until()
        if fired_until is None:
            return ids
        return ids[fired_until < self._times.cleanup_times(starts)[ids // len(self._keys)]]

    def _clear_ended(self, before: int | None) -> None:
        """Calls `clear` for the windows that were over before this time; None: for all that are over now."""
        while self._next_ending is not None:
            key, key_group, window = self._next_ending
            if before is not None and self._times.cleanup_time(window.start) >= before:
                return
            self._calls.clear(key, key_group, window)
            self._next_ending = next(self._ending, None)

    def _before_release(self) -> None:
        self._clear_ended(None)
        self._end_round()

    def initialize_state(self, restored: RestoredState | None) -> None:
        super().initialize_state(restored)
        self._ended_until = self._fired_until


def _are_alike(rows: BufferedRows, others: BufferedRows) -> bool:
    return rows.kind is others.kind and rows.data.schema.equals(others.data.schema, check_metadata=True)
