"""The state of count windows with built-in aggregates: an accumulator per key and pane, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column, Columns
from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import KeyedTables, StateRows
from actors.operators.aggregates.accumulators import Accumulators, grown, renumbered
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.windows.base.compaction import has_doubled
from actors.operators.windows.counts.arithmetic import CountWindowPanes, Numbers, Panes
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.windows.aggregates import Aggregate

_NO_ACCUMULATOR = -1
_NO_ACCUMULATORS: Accumulators = np.empty(0, np.int64)

# Columns of snapshots beside the key and the aggregates.
_PANE = "pane"
_NEXT_ROW = "coming"

# Accumulators that no window needs are removed when there are twice as many accumulators as were needed the last time,
# and more than this.
_FEWEST_COMPACTED = 4096
# Where aggregates keep values, which may be large, removing fewer is worth it.
_FEWEST_COMPACTED_ENTRIES = 64


class CountStore:
    """The accumulators of keys in panes, numbered in order of arrival.

    A key's accumulators are chained from the newest to older ones. An accumulator is not needed any more when all
    windows that its pane is part of are full; a key without a needed one begins anew, should it come again. Belongs to
    one thread.
    """

    def __init__(self, windows: CountWindowPanes, aggregates: Sequence[tuple[str, Aggregate]], where: str) -> None:
        self._windows = windows
        self._keys = KeyIndex()
        self._aggregates = AggregateColumns(aggregates, where)
        self._next_position = 0
        self._next_rows: Numbers = _NO_ACCUMULATORS
        """For each key the number of its next row."""
        self._newest: Accumulators = _NO_ACCUMULATORS
        """For each key its newest accumulator."""
        self._accumulator_count = 0
        self._last_needed = 0
        """How many accumulators were left the last time that others were removed."""
        self._key_ids: Ids = _NO_ACCUMULATORS
        self._panes: Panes = _NO_ACCUMULATORS
        self._older: Accumulators = _NO_ACCUMULATORS

    @property
    def next_position(self) -> int:
        """A number above the positions of all rows so far."""
        return self._next_position

    # -- adding

    def add(self, data: pa.RecordBatch, keys: pa.RecordBatch | None) -> Accumulators:
        """Adds each row to its pane.

        Args:
            keys: the key columns; None: one key for all.
        Returns:
            The windows that are full now, as the accumulators of their last panes, in the order of the rows that filled
            them.
        """
        key_ids = np.zeros(data.num_rows, np.int64) if keys is None else self._keys.ids(keys)
        self._grow_keys()
        order = order_by(key_ids)
        row_numbers, accumulators = np.empty_like(key_ids), np.empty_like(key_ids)
        row_numbers[order], accumulators[order] = self._numbers_and_accumulators(key_ids[order])
        if self._windows.has_gaps:
            self._accumulate(data, accumulators, self._windows.are_in_window(row_numbers))
        else:
            self._aggregates.add(data, accumulators, self._next_position)
        self._next_position += data.num_rows
        return accumulators[self._windows.are_last(row_numbers)]

    def _accumulate(self, data: pa.RecordBatch, accumulators: Accumulators, is_counted: npt.NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(is_counted)
        if len(rows):
            self._aggregates.add(data.take(from_numpy(rows)), accumulators[rows], self._next_position)

    def _grow_keys(self) -> None:
        count = max(1, len(self._keys))
        self._next_rows = grown(self._next_rows, count, self._windows.first)
        self._newest = grown(self._newest, count, _NO_ACCUMULATOR)

    def _numbers_and_accumulators(self, key_ids: Ids) -> tuple[Numbers, Accumulators]:
        """The number of each row within its key, and its accumulator, for which there is room now; rows are sorted by
        key."""
        is_first = differs_from_previous(key_ids)
        firsts = np.flatnonzero(is_first)
        counts = np.diff(firsts, append=len(key_ids))
        keys = key_ids[firsts]
        numbers = np.arange(len(key_ids)) + np.repeat(self._next_rows[keys] - firsts, counts)
        self._next_rows[keys] += counts
        panes = self._windows.panes(numbers)
        begins = np.flatnonzero(is_first | differs_from_previous(panes))
        accumulators = self._accumulators_of(key_ids[begins], panes[begins], is_first[begins])
        return numbers, np.repeat(accumulators, np.diff(begins, append=len(key_ids)))

    def _accumulators_of(self, key_ids: Ids, panes: Panes, is_first: npt.NDArray[np.bool_]) -> Accumulators:
        """The accumulators of these panes, which are sorted by key, and each key's as they come.

        Args:
            is_first: which of them is the first one of its key.
        """
        newest = self._newest[key_ids]
        is_in_newest = is_first & (newest != _NO_ACCUMULATOR)
        is_in_newest[is_in_newest] = self._panes[newest[is_in_newest]] == panes[is_in_newest]
        new, first = np.flatnonzero(~is_in_newest), self._accumulator_count
        self._grow(first + len(new))
        accumulators = newest.copy()
        accumulators[new] = np.arange(first, self._accumulator_count)
        older = np.where(is_first, newest, np.roll(accumulators, 1))
        self._key_ids[first : self._accumulator_count] = key_ids[new]
        self._panes[first : self._accumulator_count] = panes[new]
        self._older[first : self._accumulator_count] = older[new]
        is_last = np.append(is_first[1:], True)
        self._newest[key_ids[is_last]] = accumulators[is_last]
        return accumulators

    def _grow(self, count: int) -> None:
        self._key_ids = grown(self._key_ids, count, 0)
        self._panes = grown(self._panes, count, 0)
        self._older = grown(self._older, count, _NO_ACCUMULATOR)
        self._aggregates.grow(count)
        self._accumulator_count = count

    # -- reading

    def key_columns(self, full: Accumulators) -> list[tuple[str, Column]]:
        """The key columns of these windows, one row for each."""
        if not len(self._keys):
            return []
        keys = self._keys.take(self._key_ids[full])
        return list(zip(keys.schema.names, keys.columns, strict=True))

    def results(self, full: Accumulators) -> list[Column]:
        """One column per aggregate; of windows as `add` gave them, before `compact`."""
        if self._windows.panes_per_window == 1:
            return self._aggregates.results(full)
        combined = self._aggregates.combine(*self._parts(full), len(full))
        return combined.results(np.arange(len(full)))

    def _parts(self, full: Accumulators) -> tuple[Accumulators, Accumulators]:
        """The accumulators of the panes that these windows are made of, oldest ones first; and for each of them the
        index of its window."""
        accumulators, window_indices = full, np.arange(len(full))
        parts = [(accumulators, window_indices)]
        for _ in range(self._windows.panes_per_window - 1):
            older = self._older[accumulators]
            is_there = older != _NO_ACCUMULATOR
            accumulators, window_indices = older[is_there], window_indices[is_there]
            if not len(accumulators):
                break
            parts.append((accumulators, window_indices))
        parts.reverse()
        return np.concatenate([part for part, _ in parts]), np.concatenate([windows for _, windows in parts])

    # -- letting go

    def compact(self) -> None:
        """Gives room back if enough is not needed any more; to be called when the results of full windows were read."""
        is_small = self._aggregates.is_fixed_size
        fewest = _FEWEST_COMPACTED if is_small else _FEWEST_COMPACTED_ENTRIES
        if has_doubled(self._accumulator_count, self._last_needed, fewest):
            self._compact()

    def _needed(self) -> Accumulators:
        key_ids = self._key_ids[: self._accumulator_count]
        oldest = self._windows.oldest_needed(self._next_rows)
        return np.flatnonzero(self._panes[: self._accumulator_count] >= oldest[key_ids])

    def _compact(self) -> None:
        needed = self._needed()
        numbers, count = np.arange(len(needed)), len(needed)
        new_numbers = np.full(self._accumulator_count + 1, _NO_ACCUMULATOR, np.int64)  # at the end that of _NONE
        new_numbers[needed] = numbers
        needed_keys = distinct(self._key_ids[needed])  # ascending: they keep their order of arrival
        if len(needed_keys) < len(self._keys) // 2:
            self._key_ids[needed] = np.searchsorted(needed_keys, self._key_ids[needed])
            self._newest, self._next_rows = self._newest[needed_keys], self._next_rows[needed_keys]
            self._keys.retain(needed_keys)
        self._newest, self._older[needed] = new_numbers[self._newest], new_numbers[self._older[needed]]
        self._key_ids = renumbered(self._key_ids, needed, numbers, count, 0)
        self._panes = renumbered(self._panes, needed, numbers, count, 0)
        self._older = renumbered(self._older, needed, numbers, count, _NO_ACCUMULATOR)
        self._aggregates.renumber(needed, numbers, count)
        self._accumulator_count = self._last_needed = count

    # -- snapshots

    def capture(self) -> CapturedCounts:
        """The accumulators that are needed, as they are now. Quick: arrays are copied, everything else is immutable."""
        count = self._accumulator_count
        return CapturedCounts(
            self._keys.key_columns(),
            self._needed(),
            self._key_ids[:count].copy(),
            self._panes[:count].copy(),
            self._next_rows.copy(),
            self._aggregates.copy(count),
        )

    def restore(self, parts: Iterable[StateRows], next_position: int) -> None:
        """Adds the accumulators of snapshots to a store without any.

        Args:
            next_position: above the positions of all parts.
        """
        self._next_position = max(self._next_position, next_position)
        all_parts = list(parts)
        if not all_parts:
            return
        key_ids = np.concatenate(
            [
                np.zeros(part.num_rows, np.int64) if part.keys is None else self._keys.restored_ids(part.keys)
                for part in all_parts
            ]
        )
        panes, next_rows = (
            np.concatenate([as_numpy(part.columns[name]) for part in all_parts]) for name in (_PANE, _NEXT_ROW)
        )
        self._grow_keys()
        self._next_rows[key_ids] = next_rows
        order = order_by(key_ids, panes)
        ordered_ids = key_ids[order]
        accumulators = np.empty(len(order), np.int64)
        accumulators[order] = self._accumulators_of(ordered_ids, panes[order], differs_from_previous(ordered_ids))
        first = 0
        for part in all_parts:
            targets = accumulators[first : first + part.num_rows]
            self._aggregates.merge(self._aggregates.loaded(part), np.arange(part.num_rows), targets)
            first += part.num_rows

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        needed = set(self._needed().tolist())
        chained: set[int] = set()
        for key, accumulator in enumerate(self._newest[: max(1, len(self._keys))].tolist()):
            newer = None
            while accumulator in needed:
                assert self._key_ids[accumulator] == key, "a cell is in its own key's chain"
                assert newer is None or self._panes[accumulator] == newer - 1, "panes of a key are neighbours"
                chained.add(accumulator)
                newer, accumulator = int(self._panes[accumulator]), int(self._older[accumulator])
        assert chained == needed, "every needed cell is in a chain"


class CapturedCounts(Struct, frozen=True):
    """The content of a CountStore at a barrier; any thread may read it."""

    keys: Columns | None
    accumulators: Accumulators
    key_ids: Ids
    panes: Panes
    next_rows: Numbers
    aggregates: AggregateColumns

    def table(self, tables: KeyedTables, metadata: Mapping[str, bytes]) -> KeyedTable:
        """A row per needed accumulator, in their order."""
        key_ids = self.key_ids[self.accumulators]
        columns: Mapping[str, pa.Array] = {
            _PANE: from_numpy(self.panes[self.accumulators]),
            _NEXT_ROW: from_numpy(self.next_rows[key_ids]),
            **self.aggregates.columns(self.accumulators),
        }
        return tables.make(self.keys, key_ids, columns, {**self.aggregates.metadata(), **metadata})
