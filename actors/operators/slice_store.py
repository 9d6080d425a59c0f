"""The state of columnar windows: aggregates per key and slice, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.operators.accumulator_base import Cells, grown
from actors.operators.accumulators import AggregateColumns
from actors.operators.keyed_tables import KeyedTables, StateRows
from actors.operators.merged_slices import Piece
from actors.operators.partial_aggregates import is_partial, state_of, write_partial
from actors.state.integer_index import PairIndex
from actors.state.key_index import Ids, KeyIndex
from actors.state.snapshot import KeyedTable
from flinkray.aggregates import Aggregate
from flinkray.types import MIN_TIMESTAMP

# Columns of snapshots beside the key and the aggregates.
_SLICE = "slice"
_CELL = "cell"
_FIRED_UNTIL = "fired_until"

# Released cells are squeezed out when there are more of them than live ones, and at least this many.
_RELEASED_BEFORE_COMPACTING = 4096

_RELEASED = -1
"""In place of the number of a slice."""


class SliceStore:
    """A *cell* holds the aggregates of one key in one slice; cells are numbered in order of arrival.

    Keys, cells and aggregates are arrays throughout: per row nothing but kernels runs, per cell nothing but a few
    bytes stay. Belongs to one thread.
    """

    def __init__(self, aggregates: Sequence[tuple[str, Aggregate]], where: str) -> None:
        self._named = tuple(aggregates)
        self._where = where
        self._keys = KeyIndex()
        self._aggregates = AggregateColumns(aggregates, where)
        self._next_position = 0
        self._pairs = PairIndex()
        """Numbers cells: a pair is the number of the slice, counted from 0 as slices appear, and that of the key."""
        self._cell_count = 0
        self._released_count = 0
        self._most_keys = 0
        """In one of the slices that were released since the last compacting."""
        self._numbers: dict[int, int] = {}
        self._next_number = 0
        self._slices: dict[int, list[Cells]] = {}
        """Slice start -> its cells, ascending, in chunks."""
        self._fired_until: npt.NDArray[np.int64] | None = None
        """Per cell: windows that end before this have fired for its key, before the operator was restored with the
        lower watermark of another subtask. None: with those that the watermark has passed, all is said."""

    @property
    def cell_count(self) -> int:
        """Cells in use."""
        return self._cell_count - self._released_count

    def __contains__(self, slice_start: int) -> bool:
        return slice_start in self._slices

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
        cells = self._cells(key_ids, starts, which)
        if self._fired_until is not None:  # what has come now has not been in any firing
            self._fired_until = grown(self._fired_until, self._cell_count, MIN_TIMESTAMP)
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

    def _number(self, slice_start: int) -> int:
        number = self._numbers.get(slice_start)
        if number is None:
            number = self._numbers[slice_start] = self._next_number
            self._next_number += 1
        return number

    def _cells(self, key_ids: Ids, starts: list[int], which: npt.NDArray[Any] | None) -> Cells:
        """The cell of each key in its slice; new ones are entered in their slices."""
        numbers = np.array([self._number(start) for start in starts], np.int64)
        of_rows = numbers[0] if which is None else numbers.take(which)
        cells = self._pairs.ids(of_rows, key_ids, max(1, len(self._keys)))
        before, self._cell_count = self._cell_count, self._pairs.size
        if self._cell_count == before:
            return cells
        self._aggregates.grow(self._cell_count)
        new_cells = np.arange(before, self._cell_count, dtype=np.int64)
        if len(starts) == 1:
            self._slices.setdefault(starts[0], []).append(new_cells)
        else:
            self._enter(new_cells, self._pairs.firsts(slice(before, None)), starts)
        return cells

    def _enter(self, new_cells: Cells, numbers: npt.NDArray[np.int64], starts: list[int]) -> None:
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        bounds = np.flatnonzero(np.diff(numbers)) + 1
        start_of = {self._numbers[start]: start for start in starts}
        firsts = numbers[np.concatenate([[0], bounds])].tolist()
        for number, cells in zip(firsts, np.split(new_cells[order], bounds), strict=True):
            self._slices.setdefault(start_of[number], []).append(cells)

    # -- reading

    def slice_starts(self) -> list[int]:
        return list(self._slices)

    def cells_of(self, slice_start: int) -> Cells:
        """The cells of a slice, ascending: in order of the keys' first rows in it. Empty if there is no such slice."""
        chunks = self._slices.get(slice_start)
        if chunks is None:
            return np.empty(0, np.int64)
        if len(chunks) > 1:
            chunks[:] = [np.concatenate(chunks)]
        return chunks[0]

    def key_ids(self, cells: Cells | slice) -> Ids:
        return self._pairs.seconds(cells)

    def key_columns(self, key_ids: Ids) -> list[pa.Array]:
        """The key columns of these keys, one row for each."""
        return list(self._keys.take(key_ids).columns) if len(self._keys) else []

    def key_names(self) -> list[str]:
        keys = self._keys.key_columns()
        return [] if keys is None else list(keys.schema.names)

    def results(self, cells: Cells) -> list[pa.Array]:
        """One column per aggregate."""
        return self._aggregates.results(cells)

    def combined_results(self, cells: Cells, targets: Cells, size: int) -> list[pa.Array]:
        """The aggregates of `size` groups, where group `targets[i]` takes in `cells[i]`."""
        combined = self._aggregates.combine(cells, targets, size)
        return combined.results(np.arange(size, dtype=np.int64))

    def piece(self, cells: Cells) -> Piece:
        """These cells, of one slice or several, as part of a window."""
        return Piece(self.key_ids(cells), cells, self._aggregates, cells)

    def partial_rows(self, cells: Cells, kept: set[str]) -> pa.RecordBatch:
        """These cells as rows for another store, whose first aggregate counts the rows; `kept`: see `write_partial`."""
        keys = self._keys.take(self.key_ids(cells)) if len(self._keys) else None
        return write_partial(self._aggregates, cells, keys, kept)

    @property
    def is_worth_merging(self) -> bool:
        """Whether slices merged ahead of time are smaller than what they were made of."""
        return self._aggregates.is_fixed_size

    # -- letting go

    def release(self, slice_start: int) -> None:
        """The slice is not needed any more; should it come again, it is a new one."""
        chunks = self._slices.pop(slice_start, [])
        self._numbers.pop(slice_start, None)
        released = sum(map(len, chunks))
        self._released_count += released
        self._most_keys = max(self._most_keys, released)

    def compact(self) -> bool:
        """Gives room back if enough was released; call it after releasing. Whether keys and cells have new numbers."""
        if self._released_count <= max(_RELEASED_BEFORE_COMPACTING, self.cell_count):
            return False
        self._rebuild()
        return True

    def _rebuild(self) -> None:
        numbers = np.full(self._cell_count, _RELEASED, np.int64)
        for number, start in enumerate(self._slices):
            numbers[self.cells_of(start)] = number
        live = np.flatnonzero(numbers != _RELEASED)
        place = np.empty(self._cell_count, np.int64)
        place[live] = np.arange(len(live))
        self._slices = {start: [place[self.cells_of(start)]] for start in self._slices}
        self._numbers = {start: number for number, start in enumerate(self._slices)}
        self._next_number = len(self._numbers)
        self._aggregates.retain(live)
        if self._fired_until is not None:
            self._fired_until = self._fired_until[live]
        self._pairs.renumber(numbers[live], self._retained_keys(live), max(1, len(self._keys)))
        self._cell_count, self._released_count, self._most_keys = len(live), 0, 0

    def _retained_keys(self, live: Cells) -> Ids:
        """The keys of the cells that stay, after all keys are forgotten that have had no cell since the last time, if
        these are most. Those of released cells are kept: they mostly come again in the next window."""
        if 2 * self._most_keys < len(self._keys):
            is_used = np.zeros(len(self._keys), np.bool_)
            is_used[self.key_ids(slice(None))] = True
            used = np.flatnonzero(is_used)  # ascending: they keep their order of arrival
            if 2 * len(used) < len(self._keys):
                self._keys.retain(used)
                return np.searchsorted(used, self.key_ids(live))
        return self.key_ids(live)

    # -- windows that have fired before a restore

    @property
    def has_fired_ahead(self) -> bool:
        """Whether some cells come from a subtask whose watermark was higher: windows of theirs have fired already."""
        return self._fired_until is not None

    def forget_fired(self, watermark: int) -> None:
        """Call it with the watermark after firing: once it has caught up, no window has fired before its time."""
        if self._fired_until is not None and int(self._fired_until.max(initial=MIN_TIMESTAMP)) <= watermark:
            self._fired_until = None

    def keys_to_fire(self, cells: Cells, window_end: int) -> Ids:
        """Keys with a cell among these for which the window that ends there has not fired."""
        assert self._fired_until is not None
        return np.unique(self.key_ids(cells[self._fired_until[cells] < window_end - 1]))

    # -- snapshots

    @property
    def next_position(self) -> int:
        """Above the positions of all rows so far."""
        return self._next_position

    def capture(self, watermark: int) -> CapturedCells:
        """All cells as they are now. Quick: arrays are copied, everything else is immutable."""
        fired_until = np.full(self._cell_count, watermark, np.int64)
        if self._fired_until is not None:
            np.maximum(fired_until, self._fired_until[: self._cell_count], out=fired_until)
        return CapturedCells(
            self._keys.key_columns(),
            self.key_ids(slice(None)),
            {start: tuple(chunks) for start, chunks in self._slices.items()},
            fired_until,
            self._aggregates.copy(self._cell_count),
        )

    def restore(self, parts: Iterable[StateRows], next_position: int, watermark: int) -> None:
        """Adds the cells of snapshots, whose keys differ from part to part.

        Args:
            next_position: above the positions of all parts.
            watermark: of this subtask; some of those that the parts come from may have had a higher one.
        """
        self._next_position = max(self._next_position, next_position)
        for part in parts:
            part = part.take(np.argsort(part.columns[_CELL].to_numpy(), kind="stable"))
            key_ids = np.zeros(part.num_rows, np.int64) if part.keys is None else self._keys.ids(part.keys)
            starts, slice_of = np.unique(part.columns[_SLICE].to_numpy(), return_inverse=True)
            cells = self._cells(key_ids, starts.tolist(), slice_of)
            self._merge(part, cells)
            fired_until = part.columns[_FIRED_UNTIL].to_numpy()
            if int(fired_until.max()) > watermark and self._fired_until is None:
                self._fired_until = np.empty(0, np.int64)
            if self._fired_until is not None:
                self._fired_until = grown(self._fired_until, self._cell_count, MIN_TIMESTAMP)
                self._fired_until[cells] = fired_until

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        listed = [cell for start in self._slices for cell in self.cells_of(start).tolist()]
        assert len(listed) == len(set(listed)) == self.cell_count, "every live cell is in one slice"
        assert all((np.diff(self.cells_of(start)) > 0).all() for start in self._slices), "cells of a slice ascend"


class CapturedCells(Struct, frozen=True):
    """The content of a SliceStore at a barrier; any thread may read it."""

    keys: pa.RecordBatch | None
    cell_keys: Ids
    slices: Mapping[int, tuple[Cells, ...]]
    fired_until: npt.NDArray[np.int64]
    aggregates: AggregateColumns

    def table(self, tables: KeyedTables, metadata: Mapping[str, bytes]) -> KeyedTable:
        """A row per cell in use, in their order."""
        listed = [(start, chunk) for start, chunks in self.slices.items() for chunk in chunks]
        none = np.empty(0, np.int64)
        cells = np.concatenate([none, *(chunk for _, chunk in listed)])
        starts = np.concatenate([none, *(np.full(len(chunk), start, np.int64) for start, chunk in listed)])
        order = np.argsort(cells, kind="stable")
        cells, starts = cells[order], starts[order]
        columns = {
            _SLICE: pa.array(starts),
            _CELL: pa.array(cells),
            _FIRED_UNTIL: pa.array(self.fired_until[cells]),
            **self.aggregates.columns(cells),
        }
        return tables.make(self.keys, self.cell_keys[cells], columns, {**metadata, **self.aggregates.metadata()})
