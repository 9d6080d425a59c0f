"""The state of columnar count windows: aggregates per key and pane, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column, Columns
from actors.columns.ordering import distinct, is_other_than_before, order_by
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import KeyedTables, StateRows
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.aggregates.base import Cells, grown, moved
from actors.operators.windows.counts.arithmetic import CountWindows, Numbers, Panes
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.fixed_width import as_numpy, from_numpy
from flinkray.windows.aggregates import Aggregate

_NONE = -1
_NO_CELLS: Cells = np.empty(0, np.int64)

# Columns of snapshots beside the key and the aggregates.
_PANE = "pane"
_COMING = "coming"

# Cells that no window needs are squeezed out when there are twice as many cells as there were needed ones the last
# time, and more than this.
_CELLS_BEFORE_COMPACTING = 4096
# Where aggregates keep values, which may be large, it is worth a call for fewer.
_KEEPING_CELLS_BEFORE_COMPACTING = 64


class CountStore:
    """A *cell* holds the aggregates of one pane of one key; cells are numbered in order of arrival.

    A key's cells are chained from the newest to older ones. A cell is not needed any more when all windows that it is
    part of are full; a key without a needed cell begins anew, should it come again. Belongs to one thread.
    """

    def __init__(self, windows: CountWindows, aggregates: Sequence[tuple[str, Aggregate]], where: str) -> None:
        self._windows = windows
        self._keys = KeyIndex()
        self._aggregates = AggregateColumns(aggregates, where)
        self._next_position = 0
        self._coming: Numbers = _NO_CELLS
        """By key: the number of its next row."""
        self._newest: Cells = _NO_CELLS
        """By key."""
        self._cell_count = 0
        self._needed_then = 0
        """How many cells were left the last time that others were squeezed out."""
        self._key_ids: Ids = _NO_CELLS
        self._panes: Panes = _NO_CELLS
        self._older: Cells = _NO_CELLS

    @property
    def next_position(self) -> int:
        """Above the positions of all rows so far."""
        return self._next_position

    # -- adding

    def add(self, data: pa.RecordBatch, keys: pa.RecordBatch | None) -> Cells:
        """Adds each row to its pane.

        Args:
            keys: the key columns; None: one key for all.
        Returns:
            The windows that are full now, as the cells of their last panes, in the order of the rows that filled them.
        """
        key_ids = np.zeros(data.num_rows, np.int64) if keys is None else self._keys.ids(keys)
        self._grow_keys()
        order = order_by(key_ids)
        numbers, cells = np.empty_like(key_ids), np.empty_like(key_ids)
        numbers[order], cells[order] = self._entered(key_ids[order])
        if self._windows.has_gaps:
            self._accumulate(data, cells, self._windows.are_in_window(numbers))
        else:
            self._aggregates.add(data, cells, self._next_position)
        self._next_position += data.num_rows
        return cells[self._windows.are_last(numbers)]

    def _accumulate(self, data: pa.RecordBatch, cells: Cells, is_counted: npt.NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(is_counted)
        if len(rows):
            self._aggregates.add(data.take(from_numpy(rows)), cells[rows], self._next_position)

    def _grow_keys(self) -> None:
        count = max(1, len(self._keys))
        self._coming = grown(self._coming, count, self._windows.first)
        self._newest = grown(self._newest, count, _NONE)

    def _entered(self, key_ids: Ids) -> tuple[Numbers, Cells]:
        """The number of each row, and its cell, for which there is room now; rows are sorted by key."""
        is_first = is_other_than_before(key_ids)
        firsts = np.flatnonzero(is_first)
        counts = np.diff(firsts, append=len(key_ids))
        keys = key_ids[firsts]
        numbers = np.arange(len(key_ids)) + np.repeat(self._coming[keys] - firsts, counts)
        self._coming[keys] += counts
        panes = self._windows.panes(numbers)
        begins = np.flatnonzero(is_first | is_other_than_before(panes))
        cells = self._cells_of(key_ids[begins], panes[begins], is_first[begins])
        return numbers, np.repeat(cells, np.diff(begins, append=len(key_ids)))

    def _cells_of(self, key_ids: Ids, panes: Panes, is_first: npt.NDArray[np.bool_]) -> Cells:
        """The cells of these panes, which are sorted by key, and each key's as they come; `is_first` of its key."""
        newest = self._newest[key_ids]
        goes_on = is_first & (newest != _NONE)
        goes_on[goes_on] = self._panes[newest[goes_on]] == panes[goes_on]
        new, first = np.flatnonzero(~goes_on), self._cell_count
        self._grow(first + len(new))
        cells = newest.copy()
        cells[new] = np.arange(first, self._cell_count)
        older = np.where(is_first, newest, np.roll(cells, 1))
        self._key_ids[first : self._cell_count] = key_ids[new]
        self._panes[first : self._cell_count] = panes[new]
        self._older[first : self._cell_count] = older[new]
        is_last = np.append(is_first[1:], True)
        self._newest[key_ids[is_last]] = cells[is_last]
        return cells

    def _grow(self, count: int) -> None:
        self._key_ids = grown(self._key_ids, count, 0)
        self._panes = grown(self._panes, count, 0)
        self._older = grown(self._older, count, _NONE)
        self._aggregates.grow(count)
        self._cell_count = count

    # -- reading

    def key_columns(self, full: Cells) -> list[tuple[str, Column]]:
        """The key columns of these windows, one row for each."""
        if not len(self._keys):
            return []
        keys = self._keys.take(self._key_ids[full])
        return list(zip(keys.schema.names, keys.columns, strict=True))

    def results(self, full: Cells) -> list[Column]:
        """One column per aggregate; of windows as `add` gave them, before `compact`."""
        if self._windows.panes_per_window == 1:
            return self._aggregates.results(full)
        combined = self._aggregates.combine(*self._parts(full), len(full))
        return combined.results(np.arange(len(full)))

    def _parts(self, full: Cells) -> tuple[Cells, Cells]:
        """The cells that these windows are made of, oldest ones first; and for each of them which window it is."""
        cells, which = full, np.arange(len(full))
        parts = [(cells, which)]
        for _ in range(self._windows.panes_per_window - 1):
            older = self._older[cells]
            is_there = older != _NONE
            cells, which = older[is_there], which[is_there]
            if not len(cells):
                break
            parts.append((cells, which))
        parts.reverse()
        return np.concatenate([part for part, _ in parts]), np.concatenate([windows for _, windows in parts])

    # -- letting go

    def compact(self) -> None:
        """Gives room back if enough is not needed any more; call it when the results of full windows were read."""
        is_small = self._aggregates.is_fixed_size
        fewest = _CELLS_BEFORE_COMPACTING if is_small else _KEEPING_CELLS_BEFORE_COMPACTING
        if self._cell_count > max(fewest, 2 * self._needed_then):
            self._compact()

    def _needed(self) -> Cells:
        key_ids = self._key_ids[: self._cell_count]
        oldest = self._windows.oldest_needed(self._coming)
        return np.flatnonzero(self._panes[: self._cell_count] >= oldest[key_ids])

    def _compact(self) -> None:
        needed = self._needed()
        places, count = np.arange(len(needed)), len(needed)
        place = np.full(self._cell_count + 1, _NONE, np.int64)  # at the end that of _NONE
        place[needed] = places
        kept_keys = distinct(self._key_ids[needed])  # ascending: they keep their order of arrival
        if len(kept_keys) < len(self._keys) // 2:
            self._key_ids[needed] = np.searchsorted(kept_keys, self._key_ids[needed])
            self._newest, self._coming = self._newest[kept_keys], self._coming[kept_keys]
            self._keys.retain(kept_keys)
        self._newest, self._older[needed] = place[self._newest], place[self._older[needed]]
        self._key_ids = moved(self._key_ids, needed, places, count, 0)
        self._panes = moved(self._panes, needed, places, count, 0)
        self._older = moved(self._older, needed, places, count, _NONE)
        self._aggregates.move(needed, places, count)
        self._cell_count = self._needed_then = count

    # -- snapshots

    def capture(self) -> CapturedCounts:
        """What is needed as it is now. Quick: arrays are copied, everything else is immutable."""
        count = self._cell_count
        return CapturedCounts(
            self._keys.key_columns(),
            self._needed(),
            self._key_ids[:count].copy(),
            self._panes[:count].copy(),
            self._coming.copy(),
            self._aggregates.copy(count),
        )

    def restore(self, parts: Iterable[StateRows], next_position: int) -> None:
        """Adds the cells of snapshots to a store without any.

        Args:
            next_position: above the positions of all parts.
        """
        self._next_position = max(self._next_position, next_position)
        pieces = list(parts)
        if not pieces:
            return
        key_ids = np.concatenate(
            [np.zeros(part.num_rows, np.int64) if part.keys is None else self._keys.ids(part.keys) for part in pieces]
        )
        panes, coming = (np.concatenate([as_numpy(part.columns[name]) for part in pieces]) for name in (_PANE, _COMING))
        self._grow_keys()
        self._coming[key_ids] = coming
        order = order_by(key_ids, panes)
        ordered_ids = key_ids[order]
        cells = np.empty(len(order), np.int64)
        cells[order] = self._cells_of(ordered_ids, panes[order], is_other_than_before(ordered_ids))
        first = 0
        for part in pieces:
            targets = cells[first : first + part.num_rows]
            self._aggregates.merge(self._aggregates.loaded(part), np.arange(part.num_rows), targets)
            first += part.num_rows

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        needed = set(self._needed().tolist())
        chained: set[int] = set()
        for key, cell in enumerate(self._newest[: max(1, len(self._keys))].tolist()):
            newer = None
            while cell in needed:
                assert self._key_ids[cell] == key, "a cell is in its own key's chain"
                assert newer is None or self._panes[cell] == newer - 1, "panes of a key are neighbours"
                chained.add(cell)
                newer, cell = int(self._panes[cell]), int(self._older[cell])
        assert chained == needed, "every needed cell is in a chain"


class CapturedCounts(Struct, frozen=True):
    """The content of a CountStore at a barrier; any thread may read it."""

    keys: Columns | None
    cells: Cells
    key_ids: Ids
    panes: Panes
    coming: Numbers
    aggregates: AggregateColumns

    def table(self, tables: KeyedTables, metadata: Mapping[str, bytes]) -> KeyedTable:
        """A row per needed cell, in their order."""
        key_ids = self.key_ids[self.cells]
        columns: Mapping[str, pa.Array] = {
            _PANE: from_numpy(self.panes[self.cells]),
            _COMING: from_numpy(self.coming[key_ids]),
            **self.aggregates.columns(self.cells),
        }
        return tables.make(self.keys, key_ids, columns, {**self.aggregates.metadata(), **metadata})
