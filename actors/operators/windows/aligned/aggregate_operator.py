"""Aligned windows with built-in aggregates: columns in, one batch of results per watermark out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.large_columns import Column
from actors.columns.ordering import order_by
from actors.columns.take import contiguous, without_gaps
from actors.keys.hashes import key_columns
from actors.keys.state_tables import KeyedTables, same_rows
from actors.operators.aggregates.accumulators import Selection, selection_size
from actors.operators.aggregates.partial import is_partial, rows_behind
from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.windows.aligned.accumulator_runs import Counts, Starts
from actors.operators.windows.aligned.late_results import LateResults
from actors.operators.windows.aligned.merged_slices import MergedSlices, SliceAggregate, combine
from actors.operators.windows.aligned.slice_store import SliceStore, number_pairs
from actors.operators.windows.aligned.window_accumulators import WindowAccumulators, WindowKeys, batches_of_windows
from actors.operators.windows.base import state_parts
from actors.operators.windows.base.operator import AlignedWindowOperator
from actors.operators.windows.base.results import WindowBounds, emit_windows
from actors.operators.windows.base.times import PendingStarts
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import KeySelector
from flinkray.windows.assigners import AlignedWindows

_STATE = state_parts.ACCUMULATORS
_GRID = "windows"

# Windows that are due at the same time are turned into results together until they have this many accumulators, and
# large ones in chunks of so many: their columns stay in a core's cache, and the last watermark, with which all windows
# are due, takes little memory.
_ACCUMULATORS_AT_ONCE = 1 << 17

# So many results are made at a time where windows fire again with each of many late rows.
_RESULTS_AT_ONCE = 1 << 20

# Windows of several slices with this many accumulators each or fewer are merged from these, not from merged slices.
_FEW_ACCUMULATORS = 4096


class ColumnarWindowOperator(AlignedWindowOperator):
    """Accumulates each row once, into its slice; a window is made of its slices when it fires.

    Result columns: the key's, `window_start` and `window_end` (ms), then the aggregates; ordered by window, its keys by
    their accumulators. A late row that is still allowed makes its windows fire again, for its key. In processing time a
    batch is in the windows of the moment at which it arrives. A batch may have partial aggregates in place of rows, of
    a key and slice each.
    """

    _PARTS = frozenset({_STATE})
    _KEEPS_SLICES = True

    def __init__(self, factory: WindowFactory) -> None:
        assert isinstance(factory.assigner, AlignedWindows)
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._aggregates = factory.aggregates
        self._bounds_type = factory.bounds_type
        self._waiting = PendingStarts()
        self._slices = PendingStarts()
        self._cleared: set[int] = set()
        """Slices whose accumulators were all cleared when their window fired."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._merged = MergedSlices(self._slice_aggregate)
        self._store = SliceStore(self._aggregates, self._where, self._merged.clear)
        self._window_accumulators = WindowAccumulators(self._store, self._times, self._slices)

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        in_time = self._in_time(self._arrived(batch))
        if in_time is None:
            return
        late = self._late_rows(in_time)
        if late is None:
            self._add(in_time)
        else:
            self._add_late(in_time, late.fires_again)
        self._await_clock()

    def _add(self, batch: Batch) -> None:
        starts, slice_indices = self._times.slices_of_rows(batch)
        self._store.add(batch.data, self._keys_of(batch), starts, slice_indices)
        self._merged.drop(map(self._number, starts))
        self._expect(starts)

    def _add_late(self, batch: Batch, late: npt.NDArray[np.bool_]) -> None:
        """Adds a batch of which some rows make windows fire again."""
        most = max(1, _RESULTS_AT_ONCE // (self._times.size // self._times.slide + 1))
        for first in range(0, batch.num_rows, most):
            part = batch.slice(first, most)
            is_late = late[first : first + most]
            if is_late.any():
                self._update(part.filter(from_numpy(is_late)))
            self._add(part)

    def _update(self, late: Batch) -> None:
        """Emits what windows give once more with each of these rows, which are not in the store yet."""
        times = self._times
        key_ids = self._store.numbered(self._keys_of(late), late.num_rows)
        over, due = times.over_limit(self._watermark), times.due_limit(self._watermark)
        starts, rows = times.windows_of_slices(times.slice_starts(self._timestamps(late)), over, due)
        results = LateResults(starts, rows, key_ids[rows])
        columns = results.columns(late.data, self._store, self._window_accumulators)
        self._emit_rows(self._store.key_columns(results.key_ids), self._bounds(starts), columns)

    def _keys_of(self, batch: Batch) -> pa.RecordBatch | None:
        return None if self._selector is None else key_columns(batch, self._selector, self._where)

    def _expect(self, starts: list[int]) -> None:
        """Makes the windows over these slices, which have rows, wait for the watermark. A window that is due already
        fires for its new rows at once, and never by the watermark."""
        new = self._slices.add_all(starts)
        if new:
            self._waiting.add_all(self._times.due_later(new, self._watermark))

    def _emit_late(self, late: Batch) -> None:
        if is_partial(late.data):
            self._drop_late(rows_behind(late.data))
        else:
            super()._emit_late(late)

    def _earliest_end(self) -> int | None:
        start = self._waiting.earliest()
        return None if start is None else start + self._times.size

    # -- watermarks

    def _fire_due(self, watermark: int) -> None:
        starts = np.array(self._waiting.pop_until(self._times.due_limit(watermark)), np.int64)
        if len(starts):
            self._fire(starts, self._not_fired_yet(starts))
        self._release(watermark)
        self._store.forget_fired(watermark)

    def _not_fired_yet(self, starts: Starts) -> WindowKeys | None:
        """The keys for which to fire windows that had already fired for some keys before a restore; None: all keys."""
        if not self._store.has_fired_ahead:
            return None
        window_indices, accumulators = self._window_accumulators.of(starts)
        is_wanted = self._store.are_to_fire(accumulators, starts[window_indices] + self._times.size)
        return WindowKeys(starts[window_indices[is_wanted]], self._store.key_ids(accumulators[is_wanted]))

    def _release(self, watermark: int) -> None:
        released = self._slices.pop_until(self._times.released_limit(watermark))
        self._store.release(released, self._cleared)
        self._merged.drop(map(self._number, released))
        self._cleared.clear()
        self._store.compact()

    # -- results

    def _fire(self, starts: Starts, only: WindowKeys | None) -> None:
        """Emits results of these windows, which ascend.

        Args:
            only: the keys of each window for which it fires; None: all keys.
        """
        sizes = self._window_accumulators.sizes(starts)
        starts, sizes = starts[sizes > 0], sizes[sizes > 0]
        if only is None and self._is_worth_merging(sizes):
            self._emit_merged(starts)
            return
        for batch in batches_of_windows(starts, sizes, _ACCUMULATORS_AT_ONCE):
            if len(batch) == 1 and only is None and not self._times.is_sliced:
                self._emit_window(int(batch[0]))
            else:
                self._emit_accumulators(batch, only)

    def _is_worth_merging(self, sizes: Counts) -> bool:
        """Whether windows of so many accumulators take less time slice by slice than accumulator by accumulator."""
        return (
            self._times.is_sliced and self._store.is_worth_merging and int(sizes.sum()) > _FEW_ACCUMULATORS * len(sizes)
        )

    def _emit_merged(self, starts: Starts) -> None:
        self._window_accumulators.read_changed(starts)
        begins, ends = self._times.begins(starts).tolist(), (starts + self._times.size).tolist()
        parts = (self._merged.parts(*map(self._number, bounds)) for bounds in zip(begins, ends, strict=True))
        for batch in _batches(zip(starts.tolist(), parts, strict=True)):
            key_ids, counts, combined = combine([parts for _, parts in batch])
            bounds = self._bounds(np.repeat(np.array([start for start, _ in batch]), counts))
            results = combined.results(np.arange(len(key_ids), dtype=np.int64))
            self._emit_rows(self._store.key_columns(key_ids), bounds, results)

    def _slice_aggregate(self, number: int) -> SliceAggregate | None:
        accumulators = self._store.accumulators_of(number * self._times.slice + self._times.offset)
        return self._store.slice_aggregate(accumulators) if selection_size(accumulators) else None

    def _number(self, slice_start: int) -> int:
        return (slice_start - self._times.offset) // self._times.slice

    def _emit_accumulators(self, starts: Starts, only: WindowKeys | None) -> None:
        """Emits windows that have few accumulators each, or fire for some keys: their accumulators are merged one by
        one."""
        window_indices, accumulators = self._window_accumulators.of(starts)
        if only is not None:
            is_wanted = only.among(starts, window_indices, self._store.key_ids(accumulators))
            window_indices, accumulators = window_indices[is_wanted], accumulators[is_wanted]
            if not len(accumulators):
                return
        if not self._times.is_sliced:
            self._emit_selection(contiguous(accumulators), self._bounds(starts[window_indices]))
            return
        order = order_by(window_indices, accumulators)
        window_indices, accumulators = window_indices[order], accumulators[order]
        key_ids = self._store.key_ids(accumulators)
        first_rows, pair_numbers = number_pairs(window_indices, key_ids)
        results = self._store.combined_results(accumulators, pair_numbers, len(first_rows))
        self._emit_rows(
            self._store.key_columns(key_ids[first_rows]), self._bounds(starts[window_indices[first_rows]]), results
        )

    def _emit_window(self, start: int) -> None:
        accumulators = self._store.accumulators_of(start)
        rows = min(selection_size(accumulators), _ACCUMULATORS_AT_ONCE)
        bounds = WindowBounds.of_one(start, start + self._times.size, rows)
        is_cleared = self._times.is_over(start, self._watermark)
        for some in _split(accumulators, rows):
            self._emit_selection(some, bounds.slice(0, selection_size(some)))
            is_cleared = is_cleared and self._store.clear(some)
        if is_cleared:
            self._cleared.add(start)

    def _emit_selection(self, selection: Selection, bounds: WindowBounds) -> None:
        self._emit_rows(self._store.key_columns_of(selection), bounds, self._store.results(selection))

    def _bounds(self, starts: Starts) -> WindowBounds:
        return WindowBounds.of(self._times.begins(starts), starts + self._times.size)

    def _emit_rows(self, key_columns: list[Column], bounds: WindowBounds, results: list[Column]) -> None:
        keys = list(zip(self._store.key_names(), key_columns, strict=True))
        names = [name for name, _ in self._aggregates]
        aggregates = list(zip(names, results, strict=True))
        emit_windows(self.context, self.output, keys, bounds, aggregates, self._bounds_type)

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = self._snapshot_subtask(self._store.next_position)
        captured, tables = self._store.capture(self._watermark), KeyedTables.of(self.context)
        if len(captured.accumulators):
            metadata = {_GRID: self._times.grid.encode()}
            snapshot.add_keyed(_STATE, lambda: captured.table(tables, metadata), tables.owned)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is None:
            return
        next_position = self._restore_subtask(restored)
        parts = same_rows(restored.keyed(_STATE), _GRID, self._times.grid, label_of(self.context))
        self._store.restore(parts, next_position, self._watermark)
        self._expect(self._store.slice_starts())
        self._await_clock()


def _split(accumulators: Selection, size: int) -> Iterator[Selection]:
    for offset in range(0, selection_size(accumulators), size):
        if isinstance(accumulators, slice):
            yield slice(accumulators.start + offset, min(accumulators.start + offset + size, accumulators.stop))
        else:
            yield without_gaps(accumulators[offset : offset + size])


def _batches(
    windows: Iterable[tuple[int, Iterator[SliceAggregate]]],
) -> Iterator[list[tuple[int, list[SliceAggregate]]]]:
    """Windows with their merged slices, in lists of at most `_ACCUMULATORS_AT_ONCE` keys of parts, or of one window."""
    batch: list[tuple[int, list[SliceAggregate]]] = []
    count = 0
    for start, content in windows:
        parts = list(content)
        more = sum(len(part.accumulators) for part in parts)
        if batch and count + more > _ACCUMULATORS_AT_ONCE:
            yield batch
            batch, count = [], 0
        batch.append((start, parts))
        count += more
    if batch:
        yield batch
