"""Windows with built-in aggregates: columns in, one batch of results per watermark out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from actors.elements import CheckpointOptions
from actors.keys import key_columns
from actors.large_columns import Column
from actors.operators.accumulator_base import Cells, Places, listed, number_of, together
from actors.operators.base import OperatorContext, Output
from actors.operators.columns import operator_label
from actors.operators.keyed_tables import KeyedTables, check_same, state_rows
from actors.operators.merged_slices import MergedSlices, Piece, combine
from actors.operators.partial_aggregates import is_partial, rows_behind
from actors.operators.slice_store import SliceStore
from actors.operators.window_base import WindowOperatorBase
from actors.operators.window_results import Bounds, emit_windows
from actors.operators.window_times import PendingWindows
from actors.ordering import distinct
from actors.state.key_index import Ids
from actors.state.snapshot import OperatorSnapshot, RestoredState
from actors.taking import contiguous, without_gaps
from flinkray.batch import Batch
from flinkray.keys import KeySelector
from flinkray.operator_factories import WindowFactory
from flinkray.windowing import AlignedWindows

_STATE = "cells"
_GRID = "windows"

# Windows that are due at the same time are turned into results together until they have this many cells, and large
# ones in pieces of so many: their columns stay in a core's cache, and the last watermark, with which all windows are
# due, takes little memory.
_CELLS_AT_ONCE = 1 << 17

_T = TypeVar("_T")


class ColumnarWindowOperator(WindowOperatorBase):
    """Accumulates each row once, into its slice; a window is made of its slices when it fires.

    Result columns: the key's, `window_start` and `window_end` (ms), then the aggregates; ordered by window, its keys by
    their cells. A late row that is still allowed makes its (key, window) fire again, once per batch. In processing time
    a batch is in the windows of the moment at which it arrives. A batch may have partial aggregates in place of rows,
    of a key and slice each.
    """

    def __init__(self, factory: WindowFactory) -> None:
        assert isinstance(factory.assigner, AlignedWindows)
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._aggregates = factory.aggregates
        self._waiting = PendingWindows()
        self._slices = PendingWindows()
        self._cleared: set[int] = set()
        """Slices whose cells were all cleared when their window fired."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._merged = MergedSlices(self._slice_piece)
        self._store = SliceStore(self._aggregates, self._where, self._merged.clear)

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        kept = self._in_time(self._arrived(batch))
        if kept is None:
            return
        starts, which = self._times.slices_of_rows(kept)
        keys = None if self._selector is None else key_columns(kept, self._selector, self._where)
        cells = self._store.add(kept.data, keys, starts, which)
        for start in starts:
            self._merged.drop(self._number(start))
            if start not in self._slices:
                self._slices.add(start)
                self._wait_for_windows_over(start)
        if self._times.is_due(self._times.starts_over_slice(starts[0])[0], self._watermark):
            self._fire_again(cells, starts, which)
        self._await_clock()

    def _emit_late(self, late: Batch) -> None:
        if is_partial(late.data):
            self.context.metrics.count("late_records_dropped", rows_behind(late.data))
        else:
            super()._emit_late(late)

    def _earliest_end(self) -> int | None:
        start = self._waiting.earliest()
        return None if start is None else start + self._times.size

    def _wait_for_windows_over(self, slice_start: int) -> None:
        for start in self._times.starts_over_slice(slice_start):
            # One that is due already fires for its new rows at once, and never by the watermark.
            if not self._times.is_due(start, self._watermark):
                self._waiting.add(start)

    def _fire_again(self, cells: Cells, starts: list[int], which: npt.NDArray[Any] | None) -> None:
        touched: dict[int, list[Cells]] = {}
        for index, slice_start in enumerate(starts):
            in_slice = None
            for start in self._times.starts_over_slice(slice_start):
                if self._times.is_due(start, self._watermark) and not self._times.is_over(start, self._watermark):
                    if in_slice is None:
                        in_slice = distinct(cells if which is None else cells[which == index])
                    touched.setdefault(start, []).append(in_slice)
        keys = {start: distinct(self._store.key_ids(np.concatenate(touched[start]))) for start in sorted(touched)}
        self._fire(keys, keys)

    # -- watermarks

    def _fire_due(self, watermark: int) -> None:
        starts = self._waiting.pop_until(self._times.due_limit(watermark))
        self._fire(starts, self._not_fired_yet(starts))
        self._release(watermark)
        self._store.forget_fired(watermark)

    def _not_fired_yet(self, starts: list[int]) -> dict[int, Ids]:
        """Which keys to fire of windows that had already fired for some keys before a restore; mostly empty."""
        store = self._store
        if not store.has_fired_ahead:
            return {}
        return {start: store.keys_to_fire(self._cells_of(start, None), start + self._times.size) for start in starts}

    def _release(self, watermark: int) -> None:
        for slice_start in self._slices.pop_until(self._times.released_limit(watermark)):
            self._store.release(slice_start, slice_start in self._cleared)
            self._merged.drop(self._number(slice_start))
        self._cleared.clear()
        self._store.compact()

    # -- results

    def _fire(self, starts: Iterable[int], only_keys: Mapping[int, Ids]) -> None:
        """Results of these windows, ascending; for a window in `only_keys` just of those keys."""
        if self._times.is_sliced:
            pieces = ((start, self._pieces_of(start, only_keys.get(start))) for start in starts)
            for group in _grouped(pieces, lambda some: sum(len(piece.cells) for piece in some)):
                self._emit_merged(group)
        else:
            cells = ((start, self._cells_of(start, only_keys.get(start))) for start in starts)
            for windows in _grouped(cells, number_of):
                self._emit_cells(windows, are_whole=not only_keys)

    def _cells_of(self, start: int, only_keys: Ids | None) -> Places:
        parts = [self._store.cells_of(slice_start) for slice_start in self._times.slices_of(start)]
        if len(parts) == 1 and only_keys is None:
            return parts[0]
        cells = together([listed(part) for part in parts])
        return cells if only_keys is None else cells[np.isin(self._store.key_ids(cells), only_keys)]

    def _pieces_of(self, start: int, only_keys: Ids | None) -> list[Piece]:
        times = self._times
        if only_keys is None and self._store.is_worth_merging:
            first = self._number(start)
            return list(self._merged.pieces(first, first + times.size // times.slice))
        cells = self._cells_of(start, only_keys)
        return [self._store.piece(cells)] if number_of(cells) else []

    def _slice_piece(self, number: int) -> Piece | None:
        cells = self._store.cells_of(number * self._times.slice + self._times.offset)
        return self._store.piece(cells) if number_of(cells) else None

    def _number(self, slice_start: int) -> int:
        return (slice_start - self._times.offset) // self._times.slice

    def _emit_merged(self, windows: Sequence[tuple[int, list[Piece]]]) -> None:
        """Windows that are put together from these pieces each."""
        key_ids, counts, combined = combine([pieces for _, pieces in windows])
        results = combined.results(np.arange(len(key_ids), dtype=np.int64))
        self._emit_rows(self._store.key_columns(key_ids), self._bounds(windows, counts), results)

    def _emit_cells(self, windows: Sequence[tuple[int, Places]], are_whole: bool) -> None:
        """Windows that have these cells, ascending, each. `are_whole`: these are all their cells."""
        if len(windows) == 1:
            self._emit_window(*windows[0], are_whole)
        else:
            cells = together([listed(cells) for _, cells in windows])
            self._emit_places(contiguous(cells), self._bounds(windows, [number_of(cells) for _, cells in windows]))

    def _emit_window(self, start: int, cells: Places, is_whole: bool) -> None:
        rows = min(number_of(cells), _CELLS_AT_ONCE)
        bounds = Bounds.of_one(start, start + self._times.size, rows)
        is_cleared = is_whole and self._times.is_over(start, self._watermark)
        for some in _in_pieces(cells, rows):
            self._emit_places(some, bounds.slice(0, number_of(some)))
            is_cleared = is_cleared and self._store.clear(some)
        if is_cleared:
            self._cleared.add(start)

    def _emit_places(self, places: Places, bounds: Bounds) -> None:
        self._emit_rows(self._store.key_columns_of(places), bounds, self._store.results(places))

    def _bounds(self, windows: Sequence[tuple[int, Any]], counts: Sequence[int]) -> Bounds:
        starts = np.repeat(np.array([start for start, _ in windows], np.int64), counts)
        return Bounds.of(starts, starts + self._times.size)

    def _emit_rows(self, key_columns: list[Column], bounds: Bounds, results: list[Column]) -> None:
        keys = list(zip(self._store.key_names(), key_columns, strict=True))
        names = [name for name, _ in self._aggregates]
        aggregates = list(zip(names, results, strict=True))
        emit_windows(self.context, self.output, keys, bounds, aggregates)

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = self._snapshot_subtask(self._store.next_position)
        captured, tables = self._store.capture(self._watermark), KeyedTables.of(self.context)
        if len(captured.cells):
            metadata = {_GRID: self._times.grid.encode()}
            snapshot.add_keyed(_STATE, lambda: captured.table(tables, metadata), tables.owned)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is None:
            return
        next_position = self._restore_subtask(restored)
        parts = state_rows(restored.keyed(_STATE))
        for part in parts:
            check_same(part, _GRID, self._times.grid, operator_label(self.context))
        self._store.restore(parts, next_position, self._watermark)
        for slice_start in self._store.slice_starts():
            self._slices.add(slice_start)
        for start in self._times.due_later(self._store.slice_starts(), self._watermark):
            self._waiting.add(start)
        self._await_clock()


def _in_pieces(cells: Places, size: int) -> Iterator[Places]:
    for offset in range(0, number_of(cells), size):
        if isinstance(cells, slice):
            yield slice(cells.start + offset, min(cells.start + offset + size, cells.stop))
        else:
            yield without_gaps(cells[offset : offset + size])


def _grouped(windows: Iterable[tuple[int, _T]], cells: Callable[[_T], int]) -> Iterator[list[tuple[int, _T]]]:
    """Windows that have something, those in a list having at most `_CELLS_AT_ONCE` cells together, or being one."""
    group: list[tuple[int, _T]] = []
    count = 0
    for start, content in windows:
        more = cells(content)
        if group and count + more > _CELLS_AT_ONCE:
            yield group
            group, count = [], 0
        if more:
            group.append((start, content))
            count += more
    if group:
        yield group
