"""Base of aligned windows that buffer rows, in columns, until they fire: joins, and functions that get all rows of a
window."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from actors.columns.ordering import distinct
from actors.keys.index import Ids
from actors.keys.state_tables import KeyedTables, same_rows
from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.windows.base.operator import AlignedWindowOperator
from actors.operators.windows.base.times import Times
from actors.operators.windows.buffers.buffered_keys import BufferedKeys
from actors.operators.windows.buffers.firing_batches import (
    FiringBatch,
    firing_batches_of,
    window_starts,
    windows_between,
)
from actors.operators.windows.buffers.row_buffer import FiredUntil, FiringProgress, RowBuffer, buffer_table
from actors.operators.windows.buffers.sliced_runs import SlicedRun
from actors.operators.windows.buffers.window_lookup import WindowedRows, WindowRanges, ordered_by_window, ranges_in
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.transformations.operator_factories import WindowCoGroupFactory, WindowFactory
from flinkray.types.keys import KeySelector
from flinkray.types.records import MIN_TIMESTAMP
from flinkray.windows.assigners import AlignedWindows

_GRID = "windows"


class BufferingWindowOperator(AlignedWindowOperator):
    """Base: buffers the rows of each input by slice until all windows over it are over.

    A window fires when the watermarks of all inputs have reached its end. A late row that is still allowed makes its
    windows fire again for its key, with everything so far.
    """

    _KEEPS_SLICES = True
    FIRES_IN_PIECES = True

    _INPUT_PARTS: ClassVar[tuple[str, ...]]
    """The part of snapshots that has the rows of each input."""

    _ROWS_AT_ONCE = 1 << 12
    """Windows fire together until they have this many rows of all inputs; one that has more fires alone. So windows of
    few rows cost little each, the values that functions get are not many at a time, and the last watermark, with which
    all windows are due, takes little memory."""

    _VALUES_AT_ONCE = 1 << 14
    """Rows become values for functions until there are so many, or all those of one key: they take several times the
    memory of the columns."""

    def __init__(self, factory: WindowFactory | WindowCoGroupFactory) -> None:
        assert isinstance(factory.assigner, AlignedWindows)
        super().__init__(factory.assigner, factory.allowed_lateness_ms, factory.late_tag)
        self._next_position = 0
        self._fired_until: int = MIN_TIMESTAMP
        """The watermark at which windows have last fired."""
        self._progress: FiringProgress | None = None
        """How far they have fired; None: all have fired that are due."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._buffers = tuple(RowBuffer(self._where) for _ in self._INPUT_PARTS)
        self._keys = BufferedKeys(self._key_selectors(), self._where)

    @abstractmethod
    def _key_selectors(self) -> Sequence[KeySelector | None]:
        """The key selector of each input; None: there is one key for all."""

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        in_time = self._in_time(self._arrived(batch))
        if in_time is None:
            return
        late = self._late_rows(in_time)
        parts = [slice(0, in_time.num_rows)] if late is None else late.parts(self._keys.ids(in_time, input_index))
        for rows in parts:
            self._add(in_time.slice(rows.start, rows.stop - rows.start), input_index)
        self._await_clock()

    def _add(self, batch: Batch, input_index: int) -> None:
        key_ids = self._keys.ids(batch, input_index)
        run = SlicedRun.of_batch(batch, key_ids, self._next_position, *self._times.slices_of_rows(batch))
        self._next_position += batch.num_rows
        self._buffers[input_index].add(run)
        due = self._times.due_limit(self._watermark)
        if self._times.starts_over_slice(run.earliest)[0] <= due:
            over = self._times.over_limit(self._watermark)
            for _ in self._fire(window_starts(self._times, [run.starts], over, due), run):
                pass
            self._end_round()

    # -- watermarks

    def _fire_due(self, watermark: int) -> Iterator[None]:
        before, due = (self._times.due_limit(time) for time in (self._fired_until, watermark))
        self._progress, self._fired_until = FiringProgress(self._fired_until), watermark
        return self._fire_and_release(windows_between(self._times, self._buffers, before, due), watermark)

    def _fire_and_release(self, windows: Iterable[Times], watermark: int) -> Iterator[None]:
        yield from self._fire(windows, None)
        self._progress = None
        self._before_release()
        limit = self._times.released_limit(watermark)
        for buffer in self._buffers:
            buffer.release(limit)
        self._forget_unused_keys()

    def _before_release(self) -> None:
        """Called when what was due has fired, while windows that are over are still there."""
        return

    def _earliest_end(self) -> int | None:
        slices = [earliest for buffer in self._buffers if (earliest := buffer.earliest()) is not None]
        if not slices:
            return None
        next_start = self._times.last_start(self._times.due_limit(self._watermark)) + self._times.slide
        return max(self._times.starts_over_slice(min(slices))[0], next_start) + self._times.size

    def end_keys(self) -> None:
        super().end_keys()
        self._fired_until = self._watermark  # the next keys' windows start again

    def _forget_unused_keys(self) -> None:
        new_ids = self._keys.forget_unused(part for buffer in self._buffers for part in buffer.live_keys())
        if new_ids is not None:
            for buffer in self._buffers:
                buffer.renumber_keys(new_ids)

    # -- results

    def _fire(self, windows: Iterable[Times], late: SlicedRun | None) -> Iterator[None]:
        """Fires these windows, which ascend. Yields before each call of a function.

        Args:
            late: fire only for the keys that these rows have in each window; None: for all keys.
        """
        for starts in windows:
            buffers = self._buffers if late is None else self._with_keys_of(late, starts)
            for batch in self._firing_batches(starts, buffers):
                yield from self._fire_batch(batch, late)

    @abstractmethod
    def _end_round(self) -> None:
        """Called when windows have fired."""

    def _with_keys_of(self, late: SlicedRun, starts: Times) -> tuple[RowBuffer, ...]:
        """Buffers with only the keys that these late rows have in the windows: few of what may be very many."""
        keys = distinct(self._late_ids(late, starts) % len(self._keys))
        last = int(starts[-1]) + self._times.size - 1
        return tuple(buffer.of_keys(keys, int(starts[0]), last) for buffer in self._buffers)

    def _late_ids(self, late: SlicedRun, starts: Times) -> Ids:
        """The pair of window and key of each of these rows."""
        found = ranges_in(late, starts, self._times.size)
        assert found is not None
        return found.ids(len(self._keys))

    def _firing_batches(self, starts: Times, buffers: Sequence[RowBuffer]) -> Iterator[FiringBatch]:
        return firing_batches_of(starts, self._times.size, buffers, self._ROWS_AT_ONCE)

    def _fire_batch(self, batch: FiringBatch, late: SlicedRun | None) -> Iterator[None]:
        try:
            sides = self._sides(batch)
        except pa.ArrowException:
            # Not all columns can be concatenated: dictionaries may have too many values for one.
            if len(batch.starts) > 1:
                for half in batch.halves():
                    yield from self._fire_batch(half, late)
                return
            sides = self._sides(batch.without_dictionaries())
        wanted = self._keys_to_fire(sides, batch.starts, late)
        if wanted is not None:
            sides = [None if side is None else side.only(np.isin(side.ids, wanted)) for side in sides]
        lasts, keys = (batch.starts + (self._times.size - 1)).tolist(), len(self._keys)
        for pair in self._fire_sides(sides, batch.starts):
            if self._progress is not None:
                self._progress.fires_next(lasts[pair // keys], pair % keys)
            yield
            self.context.cancellation.check()

    @abstractmethod
    def _sides(self, batch: FiringBatch) -> list[WindowedRows | None]:
        """The rows of these windows, ordered by window as far as they have to be; None: there are none."""

    def _ordered_by_window(self, found: Sequence[WindowRanges]) -> WindowedRows | None:
        return ordered_by_window(found, len(self._keys), self._times.is_sliced, self._where)

    def _keys_to_fire(self, sides: Sequence[WindowedRows | None], starts: Times, late: SlicedRun | None) -> Ids | None:
        """The pairs of window and key to fire; None: all of them."""
        if late is not None:
            return distinct(self._late_ids(late, starts))
        there = [side for side in sides if side is not None]
        if all(side.rows.fired_until is None for side in there):
            return None
        return np.concatenate([side.not_fired(starts + self._times.size) for side in there])

    @abstractmethod
    def _fire_sides(self, sides: Sequence[WindowedRows | None], starts: Times) -> Iterable[int]:
        """Emits the results of some windows; a side, which `_sides` gave, may have no rows, or be None.

        Where functions of the user are called, gives the pair of window and key before each call.
        """

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = self._snapshot_subtask(self._next_position)
        keys, tables = self._keys.columns(), KeyedTables.of(self.context)
        fired = FiredUntil.all(self._watermark) if self._progress is None else self._progress.fired_until()
        metadata = {_GRID: self._times.grid.encode()}
        for name, buffer in zip(self._INPUT_PARTS, self._buffers, strict=True):
            for captured in buffer.capture():
                make = functools.partial(buffer_table, captured, fired, keys, tables, metadata, self._where)
                snapshot.add_keyed(name, make, tables.owned)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is None:
            return
        self._next_position = self._restore_subtask(restored)
        self._fired_until = self._watermark
        for name, buffer in zip(self._INPUT_PARTS, self._buffers, strict=True):
            for part in same_rows(restored.keyed(name), _GRID, self._times.grid, label_of(self.context)):
                fired_until = buffer.restore(part, self._keys.restored_ids(part), self._watermark)
                self._fired_until = min(self._fired_until, fired_until)
        self._has_unfired = self._fired_until < self._watermark
        self._await_clock()
