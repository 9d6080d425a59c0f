"""The state of columnar windows: aggregates per key and slice, in arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column, Columns
from actors.columns.ordering import is_other_than_before, order_by
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import KeyedTables, StateRows
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.aggregates.base import Cells, Places, grown, listed, moved
from actors.operators.aggregates.partial import is_partial, state_of, write_partial
from actors.operators.windows.aligned.merged_slices import Piece
from actors.operators.windows.aligned.slice_index import SliceCells, best_cells
from actors.operators.windows.aligned.slice_runs import Counts, Run, Starts
from actors.operators.windows.aligned.sparse_index import AppendedCells, ArrivingCells
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.fixed_width import as_numpy, from_numpy
from flinkray.types.records import MIN_TIMESTAMP
from flinkray.windows.aggregates import Aggregate

# Columns of snapshots beside the key and the aggregates.
_SLICE = "slice"
_CELL = "cell"
_FIRED_UNTIL = "fired_until"


class SliceStore:
    """A *cell* holds the aggregates of one key in one slice, a *group*; for a while a group may have several cells.

    Keys, cells and aggregates are arrays throughout: per row nothing but kernels runs, per cell nothing but a few
    bytes stay. Belongs to one thread.

    Args:
        renumbered: called when cells and keys have other numbers than those that were given out, in `add` or `compact`.
    """

    def __init__(
        self,
        aggregates: Sequence[tuple[str, Aggregate]],
        where: str,
        renumbered: Callable[[], None] = lambda: None,
    ) -> None:
        self._where = where
        self._renumbered = renumbered
        self._keys = KeyIndex()
        self._aggregates = AggregateColumns(aggregates, where)
        self._next_position = 0
        self._cells: SliceCells = AppendedCells()
        self._fired_until: npt.NDArray[np.int64] | None = None
        """Per cell: windows that end before this have fired for its key, before the operator was restored with the
        lower watermark of another subtask. None: with those that the watermark has passed, all is said."""

    @property
    def cell_count(self) -> int:
        """Cells in use; more than there are groups where some were not found yet to be of the same one."""
        return self._cells.count

    def group_count(self) -> int:
        """How many keys there are in the slices, each slice's counted by itself. Looks at all cells."""
        self._cells.find_repeated()
        self._add_repeated()
        return self._cells.count

    # -- adding

    def add(
        self, data: pa.RecordBatch, keys: pa.RecordBatch | None, starts: list[int], which: npt.NDArray[Any] | None
    ) -> Cells:
        """Adds rows, or partial aggregates, to their cells, which are returned.

        Args:
            keys: the key columns; None: one key for all.
            starts: the distinct slices of the rows.
            which: for each row the index of its slice in `starts`; None: they are all in the only one.
        """
        key_ids = np.zeros(data.num_rows, np.int64) if keys is None else self._keys.ids(keys)
        has_room = self._cells.has_room(starts, self._key_count, data.num_rows)
        self._add_repeated()
        if not has_room:
            self._rebuild(starts, data.num_rows)
        cells = self._entered(key_ids, starts, which)
        if self._fired_until is not None:  # what has come now has not been in any firing
            self._fired_until[cells] = MIN_TIMESTAMP
        if is_partial(data):
            self._merge(state_of(data), cells)
        else:
            self._aggregates.add(data, cells, self._next_position)
        self._next_position += data.num_rows
        return cells

    def _merge(self, rows: StateRows, cells: Cells) -> None:
        """Adds row i of a snapshot, or of partial aggregates, to `cells[i]`."""
        source = np.arange(rows.num_rows, dtype=np.int64)
        self._aggregates.merge(self._aggregates.loaded(rows), source, cells)

    def _add_repeated(self) -> None:
        """What is in cells that turned out to be of another one's group goes to that one."""
        for cells, targets in self._cells.repeated():
            self._aggregates.merge(self._aggregates, cells, targets)
            if self._fired_until is not None:
                np.minimum.at(self._fired_until, targets, self._fired_until[cells])

    @property
    def _key_count(self) -> int:
        return max(1, len(self._keys))

    def _entered(self, key_ids: Ids, starts: list[int], which: npt.NDArray[Any] | None) -> Cells:
        """The cell of each key in its slice, with room for it."""
        cells = self._cells.cells(key_ids, starts, which, self._key_count)
        for places in self._cells.reused():
            self._aggregates.clear(places)
        self._aggregates.grow(self._cells.size)
        if self._fired_until is not None:
            self._fired_until = grown(self._fired_until, self._cells.size, MIN_TIMESTAMP)
        return cells

    # -- reading

    def slice_starts(self) -> list[int]:
        return self._cells.starts()

    def cells_of(self, slice_start: int) -> Places:
        """The cells of a slice, ascending, one for each key. None if there is no such slice."""
        cells = self._cells.cells_of(slice_start)
        self._add_repeated()
        return cells

    def sizes(self, starts: Starts) -> Counts:
        """How many cells each of these slices has at most."""
        return self._cells.sizes(starts)

    def read(self, starts: Starts) -> Run:
        """The cells of those of these slices that there are, which are asked for in ascending order: as `cells_of`
        each of them, in as many steps as one takes."""
        run = self._cells.read(starts)
        self._add_repeated()
        return run

    def key_ids(self, cells: Places) -> Ids:
        return listed(self._cells.key_ids(cells))

    def key_columns(self, key_ids: Ids | slice) -> list[Column]:
        """The key columns of these keys, one row for each."""
        return list(self._keys.take(key_ids).columns) if len(self._keys) else []

    def key_columns_of(self, cells: Places) -> list[Column]:
        """The key columns of these cells, one row for each."""
        return self.key_columns(self._cells.key_ids(cells))

    def key_names(self) -> list[str]:
        keys = self._keys.key_columns()
        return [] if keys is None else list(keys.schema.names)

    def results(self, cells: Places) -> list[Column]:
        """One column per aggregate."""
        return self._aggregates.results(cells)

    def combined_results(self, cells: Cells, targets: Cells, size: int) -> list[Column]:
        """The aggregates of `size` groups, where group `targets[i]` takes in `cells[i]`."""
        combined = self._aggregates.combine(cells, targets, size)
        return combined.results(np.arange(size, dtype=np.int64))

    def piece(self, places: Places) -> Piece:
        """These cells, of one slice or several, as part of a window."""
        cells = listed(places)
        return Piece(self.key_ids(cells), cells, self._aggregates, cells)

    def partial_rows(self, cells: Cells, kept: set[str]) -> list[pa.RecordBatch]:
        """These cells as rows for another store, whose first aggregate counts the rows; `kept`: see `write_partial`."""
        keys = self._keys.take(self.key_ids(cells)) if len(self._keys) else None
        return write_partial(self._aggregates, cells, keys, kept)

    @property
    def is_worth_merging(self) -> bool:
        """Whether slices merged ahead of time are smaller than what they were made of."""
        return self._aggregates.is_fixed_size

    def read_changed(self, starts: Starts) -> None:
        """To be called before `cells_of` each of these slices, which ascend: takes fewer steps than these would."""
        self._cells.read_changed(starts)
        self._add_repeated()

    # -- letting go

    def clear(self, cells: Places) -> bool:
        """Clears neighbouring cells of a slice that is to be released: now, as they are in the cache. False: it need
        not be done, as they will not be used again."""
        if isinstance(self._cells, ArrivingCells):
            return False
        self._aggregates.clear(cells if isinstance(cells, slice) else slice(int(cells[0]), int(cells[-1]) + 1))
        return True

    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        """These slices are not needed any more; should one come again, it is a new one.

        Args:
            starts: ascending.
            cleared: those all of whose cells are.
        """
        self._cells.release(starts, cleared)

    def compact(self) -> None:
        """Gives room back if enough was released; call it after releasing."""
        if self._cells.is_wasteful():
            self._rebuild([], 0, self._cells.most_keys)

    def _rebuild(self, coming: Sequence[int], rows: int, most_keys: int = 0) -> None:
        """Numbers all cells anew, in the way that is the best one now that so many rows are coming for these slices.

        Args:
            most_keys: in one of the slices that were released; the others may be forgotten. 0: it is not known.
        """
        run = self.read(np.array(self._cells.starts(), np.int64))
        starts, live, which = run.starts.tolist(), run.cells, run.which
        key_ids = self.key_ids(live)
        if 0 < 2 * most_keys < len(self._keys):
            key_ids = self._forget_keys(key_ids)
        has_rows = self._aggregates.has_rows if self._aggregates.counts_rows_of(live) else None
        slices = len({*starts, *coming})
        self._cells = best_cells(self._cells, self._key_count, slices, len(live), rows, most_keys, has_rows)
        if isinstance(self._cells, ArrivingCells):  # these are numbered in the order in which they are given
            order = order_by(live)
            live, which, key_ids = live[order], which[order], key_ids[order]
        places = self._cells.cells(key_ids, starts, which, self._key_count)
        self._aggregates.move(live, places, self._cells.size)
        if self._fired_until is not None:
            self._fired_until = moved(self._fired_until, live, places, self._cells.size, MIN_TIMESTAMP)
        self._renumbered()

    def _forget_keys(self, live_ids: Ids) -> Ids:
        """Forgets all keys that have had no cell of late, if these are most, and gives what `live_ids` are then. Those
        of cells that were just released stay: they mostly come again in the next window."""
        is_recent = np.zeros(len(self._keys), np.bool_)
        is_recent[self.key_ids(self._cells.recent())] = True
        recent = np.flatnonzero(is_recent)  # ascending: they keep their order of arrival
        if 2 * len(recent) >= len(self._keys):
            return live_ids
        self._keys.retain(recent)
        return np.searchsorted(recent, live_ids)

    # -- windows that have fired before a restore

    @property
    def has_fired_ahead(self) -> bool:
        """Whether some cells come from a subtask whose watermark was higher: windows of theirs have fired already."""
        return self._fired_until is not None

    def forget_fired(self, watermark: int) -> None:
        """Call it with the watermark after firing: once it has caught up, no window has fired before its time."""
        if self._fired_until is not None and int(self._fired_until.max(initial=MIN_TIMESTAMP)) <= watermark:
            self._fired_until = None

    def are_to_fire(self, cells: Cells, window_ends: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether the window of each of these cells, which ends there, has not fired for its key."""
        assert self._fired_until is not None
        return self._fired_until[cells] < window_ends - 1

    # -- snapshots

    @property
    def next_position(self) -> int:
        """Above the positions of all rows so far."""
        return self._next_position

    def capture(self, watermark: int) -> CapturedCells:
        """All cells as they are now. Quick: arrays are copied, all else is immutable, and no cells are merged."""
        run = self._cells.unmerged()
        cells = run.cells
        fired_until = np.full(len(cells), watermark, np.int64)
        if self._fired_until is not None:
            np.maximum(fired_until, self._fired_until[cells], out=fired_until)
        aggregates = self._aggregates.copy(self._cells.size)
        keys = self._keys.key_columns()
        key_ids = self.key_ids(cells)
        return CapturedCells(keys, run, key_ids, fired_until, aggregates, self._cells.has_repeats)

    def restore(self, parts: Iterable[StateRows], next_position: int, watermark: int) -> None:
        """Adds the cells of snapshots, which differ from part to part.

        Args:
            next_position: above the positions of all parts.
            watermark: of this subtask; some of those that the parts come from may have had a higher one.
        """
        self._next_position = max(self._next_position, next_position)
        for part in parts:
            part = part.take(order_by(as_numpy(part.columns[_CELL])))
            key_ids = np.zeros(part.num_rows, np.int64) if part.keys is None else self._keys.ids(part.keys)
            starts, slice_of = np.unique(as_numpy(part.columns[_SLICE]), return_inverse=True)
            cells = self._entered(key_ids, starts.tolist(), slice_of)
            self._merge(part, cells)
            fired_until = as_numpy(part.columns[_FIRED_UNTIL])
            if int(fired_until.max()) > watermark and self._fired_until is None:
                self._fired_until = grown(np.empty(0, np.int64), self._cells.size, MIN_TIMESTAMP)
            if self._fired_until is not None:
                self._fired_until[cells] = fired_until

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        starts = self._cells.starts()
        parts = [listed(self.cells_of(start)) for start in starts]
        cells = [cell for part in parts for cell in part.tolist()]
        assert len(cells) == len(set(cells)) == self.cell_count, "every live cell is in one slice"
        assert all((np.diff(part) > 0).all() for part in parts), "cells of a slice ascend"


class CapturedCells(Struct, frozen=True):
    """The content of a SliceStore at a barrier; any thread may read it."""

    keys: Columns | None
    slices: Run
    """Their cells."""
    key_ids: Ids
    """This and the next one are of each cell."""
    fired_until: npt.NDArray[np.int64]
    aggregates: AggregateColumns
    has_repeats: bool
    """Whether a key may have several cells in a slice."""

    @property
    def cells(self) -> Cells:
        return self.slices.cells

    def table(self, tables: KeyedTables, metadata: Mapping[str, bytes]) -> KeyedTable:
        """A row per key and slice, in the order of their first cells."""
        order = order_by(self.cells)
        cells, which, key_ids, fired_until = (
            each[order] for each in (self.cells, self.slices.which, self.key_ids, self.fired_until)
        )
        aggregates, places = self.aggregates, cells
        if self.has_repeats:
            first_rows, groups = groups_of(which, key_ids)
            aggregates, places = aggregates.combine(cells, groups, len(first_rows)), np.arange(len(first_rows))
            least = fired_until[first_rows]
            np.minimum.at(least, groups, fired_until)
            cells, which, key_ids, fired_until = cells[first_rows], which[first_rows], key_ids[first_rows], least
        columns = {
            _SLICE: from_numpy(self.slices.starts[which]),
            _CELL: from_numpy(cells),
            _FIRED_UNTIL: from_numpy(fired_until),
            **aggregates.columns(places),
        }
        return tables.make(self.keys, key_ids, columns, {**metadata, **aggregates.metadata()})


def groups_of(which: npt.NDArray[np.int64], key_ids: Ids) -> tuple[Cells, Cells]:
    """The first row of each pair of these, ascending; and for each row the number of its pair in that order."""
    by_pair = order_by(which, key_ids)
    is_first = is_other_than_before(which.take(by_pair)) | is_other_than_before(key_ids.take(by_pair))
    first_rows = by_pair[is_first]
    order = order_by(first_rows)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    groups = np.empty(len(by_pair), np.int64)
    groups[by_pair] = numbers[np.cumsum(is_first) - 1]
    return first_rows[order], groups
