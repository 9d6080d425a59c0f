"""The state of aligned windows with built-in aggregates: an accumulator per key and slice, in arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column, Columns
from actors.columns.ordering import differs_from_previous, order_by
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import KeyedTables, StateRows
from actors.operators.aggregates.accumulators import Accumulators, Selection, grown, numbers_in, renumbered
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.aggregates.partial import is_partial, state_of, write_partial
from actors.operators.windows.aligned.accumulator_runs import AccumulatorRun, Counts, Starts
from actors.operators.windows.aligned.dense_index import DenseIndex, HasRows, is_dense
from actors.operators.windows.aligned.merged_slices import SliceAggregate
from actors.operators.windows.aligned.slice_index import SliceIndex
from actors.operators.windows.aligned.sparse_index import AppendIndex, LookupIndex
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.types.records import MIN_TIMESTAMP
from flinkray.windows.aggregates import Aggregate

# Columns of snapshots beside the key and the aggregates.
_SLICE = "slice"
_CELL = "cell"
_FIRED_UNTIL = "fired_until"


class SliceStore:
    """The accumulators of keys in slices; for a while a key may have several in a slice.

    Keys, accumulators and aggregates are arrays throughout: per row nothing but kernels runs, per accumulator nothing
    but a few bytes stay. Belongs to one thread.

    Args:
        renumbered: called when accumulators and keys have other numbers than those that were given out, in `add` or
            `compact`.
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
        self._index: SliceIndex = AppendIndex()
        self._fired_until: npt.NDArray[np.int64] | None = None
        """For each accumulator, windows that end before this have fired for its key, before the operator was restored
        with the lower watermark of another subtask. None: exactly the windows that the watermark has passed have
        fired."""

    @property
    def accumulator_count(self) -> int:
        """How many accumulators are in use: more than there are keys in slices where some were not found yet to be of
        the same one."""
        return self._index.count

    def pair_count(self) -> int:
        """How many keys there are in the slices, each slice's counted by itself. Looks at all accumulators."""
        self._index.merge_repeated()
        self._merge_repeated()
        return self._index.count

    # -- adding

    def add(
        self,
        data: pa.RecordBatch,
        keys: pa.RecordBatch | None,
        starts: list[int],
        slice_indices: npt.NDArray[Any] | None,
    ) -> Accumulators:
        """Adds rows, or partial aggregates, to their accumulators, which are returned.

        Args:
            keys: the key columns; None: one key for all.
            starts: the distinct slices of the rows.
            slice_indices: for each row the index of its slice in `starts`; None: they are all in the only one.
        """
        key_ids = self.numbered(keys, data.num_rows)
        is_suitable = self._index.is_suitable(starts, self._key_count, data.num_rows)
        self._merge_repeated()
        if not is_suitable:
            self._rebuild(starts, data.num_rows)
        accumulators = self._accumulators_for(key_ids, starts, slice_indices)
        if self._fired_until is not None:  # what has come now has not been in any firing
            self._fired_until[accumulators] = MIN_TIMESTAMP
        self._add(self._aggregates, data, accumulators)
        self._next_position += data.num_rows
        return accumulators

    def _add(self, aggregates: AggregateColumns, data: pa.RecordBatch, accumulators: Accumulators) -> None:
        if is_partial(data):
            source = np.arange(data.num_rows, dtype=np.int64)
            aggregates.merge(self._aggregates.loaded(state_of(data)), source, accumulators)
        else:
            aggregates.add(data, accumulators, self._next_position)

    def numbered(self, keys: pa.RecordBatch | None, rows: int) -> Ids:
        """The number of each row's key."""
        return np.zeros(rows, np.int64) if keys is None else self._keys.ids(keys)

    def _merge(self, rows: StateRows, accumulators: Accumulators) -> None:
        """Adds row i of a snapshot, or of partial aggregates, to `accumulators[i]`."""
        source = np.arange(rows.num_rows, dtype=np.int64)
        self._aggregates.merge(self._aggregates.loaded(rows), source, accumulators)

    def _merge_repeated(self) -> None:
        """Merges accumulators that turned out to be of a key and slice which has another one into that one."""
        for accumulators, targets in self._index.repeated():
            self._aggregates.merge(self._aggregates, accumulators, targets)
            if self._fired_until is not None:
                np.minimum.at(self._fired_until, targets, self._fired_until[accumulators])

    @property
    def _key_count(self) -> int:
        return max(1, len(self._keys))

    def _accumulators_for(
        self, key_ids: Ids, starts: list[int], slice_indices: npt.NDArray[Any] | None
    ) -> Accumulators:
        """The accumulator of each key in its slice, with room for it."""
        accumulators = self._index.accumulators(key_ids, starts, slice_indices, self._key_count)
        for reused in self._index.reused():
            self._aggregates.clear(reused)
        self._aggregates.grow(self._index.size)
        if self._fired_until is not None:
            self._fired_until = grown(self._fired_until, self._index.size, MIN_TIMESTAMP)
        return accumulators

    # -- reading

    def slice_starts(self) -> list[int]:
        return self._index.starts()

    def accumulators_of(self, slice_start: int) -> Selection:
        """The accumulators of a slice, ascending, one for each key; none if there is no such slice."""
        accumulators = self._index.accumulators_of(slice_start)
        self._merge_repeated()
        return accumulators

    def sizes(self, starts: Starts) -> Counts:
        """How many accumulators each of these slices has at most."""
        return self._index.sizes(starts)

    def read(self, starts: Starts) -> AccumulatorRun:
        """The accumulators of those of these slices, which ascend, that there are, one for each key; in as many steps
        for all slices as for one."""
        run = self._index.read(starts)
        self._merge_repeated()
        return run

    def key_ids(self, accumulators: Selection) -> Ids:
        return numbers_in(self._index.key_ids(accumulators))

    def key_columns(self, key_ids: Ids | slice) -> list[Column]:
        """The key columns of these keys, one row for each."""
        return list(self._keys.take(key_ids).columns) if len(self._keys) else []

    def key_columns_of(self, accumulators: Selection) -> list[Column]:
        """The key columns of these accumulators, one row for each."""
        return self.key_columns(self._index.key_ids(accumulators))

    def key_names(self) -> list[str]:
        keys = self._keys.key_columns()
        return [] if keys is None else list(keys.schema.names)

    def results(self, accumulators: Selection) -> list[Column]:
        """One column per aggregate."""
        return self._aggregates.results(accumulators)

    def combined_results(self, accumulators: Accumulators, targets: Accumulators, size: int) -> list[Column]:
        """The aggregates of `size` new accumulators, where `targets[i]` takes in `accumulators[i]`."""
        combined = self._aggregates.combine(accumulators, targets, size)
        return combined.results(np.arange(size, dtype=np.int64))

    def apart(
        self, accumulators: Accumulators, targets: Accumulators, size: int, data: pa.RecordBatch
    ) -> AggregateColumns:
        """Aggregates apart from those here: `size` accumulators, where `targets[i]` takes in `accumulators[i]`, and
        behind them one for each row of `data`, which is not in the store yet."""
        rows = np.arange(size, size + data.num_rows)
        aggregates = self._aggregates.combine(accumulators, targets, size + data.num_rows)
        self._add(aggregates, data, rows)
        return aggregates

    def slice_aggregate(self, selection: Selection) -> SliceAggregate:
        """Makes these accumulators, of one slice or several, part of a window."""
        accumulators = numbers_in(selection)
        return SliceAggregate(self.key_ids(accumulators), accumulators, self._aggregates, accumulators)

    def partial_rows(self, accumulators: Accumulators, written_columns: set[str]) -> list[pa.RecordBatch]:
        """Writes these accumulators as rows for another store, whose first aggregate counts the rows.

        Args:
            written_columns: the columns that could not be left out before, as `write_partial` takes them.
        """
        keys = self._keys.take(self.key_ids(accumulators)) if len(self._keys) else None
        return write_partial(self._aggregates, accumulators, keys, written_columns)

    @property
    def is_worth_merging(self) -> bool:
        """Whether slices merged ahead of time are smaller than what they were made of."""
        return self._aggregates.is_fixed_size

    def read_changed(self, starts: Starts) -> None:
        """Reads those of these slices, which ascend, that have changed: to be called before `accumulators_of` each of
        them, as it takes fewer steps than these would."""
        self._index.read_changed(starts)
        self._merge_repeated()

    # -- letting go

    def clear(self, accumulators: Selection) -> bool:
        """Clears neighbouring accumulators of a slice that is to be released: now, as they are in the cache. False: it
        need not be done, as they will not be used again."""
        if not self._index.is_dense:
            return False
        self._aggregates.clear(
            accumulators if isinstance(accumulators, slice) else slice(int(accumulators[0]), int(accumulators[-1]) + 1)
        )
        return True

    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        """Forgets slices that are not needed any more; should one come again, it is a new one.

        Args:
            starts: ascending.
            cleared: those of them whose accumulators have all been cleared.
        """
        self._index.release(starts, cleared)

    def compact(self) -> None:
        """Gives room back if enough was released; call it after releasing."""
        if self._index.is_wasteful():
            self._rebuild([], 0, self._index.most_keys)

    def _rebuild(self, coming: Sequence[int], rows: int, most_keys: int = 0) -> None:
        """Numbers all accumulators anew, in the index that is the best one now that so many rows are coming for these
        slices.

        Args:
            most_keys: how many accumulators one of the slices that were released had; the keys of the others may be
                forgotten. 0: it is not known.
        """
        run = self.read(np.array(self._index.starts(), np.int64))
        starts, live, slice_indices = run.starts.tolist(), run.accumulators, run.slice_indices
        key_ids = self.key_ids(live)
        if 0 < 2 * most_keys < len(self._keys):
            key_ids = self._forget_keys(key_ids)
        has_rows = self._aggregates.has_rows if self._aggregates.counts_rows_of(live) else None
        slices = len({*starts, *coming})
        self._index = self._best_index(slices, len(live), rows, most_keys, has_rows)
        if not self._index.is_dense:  # it numbers accumulators in the order in which they are given
            order = order_by(live)
            live, slice_indices, key_ids = live[order], slice_indices[order], key_ids[order]
        numbers = self._index.accumulators(key_ids, starts, slice_indices, self._key_count)
        self._aggregates.renumber(live, numbers, self._index.size)
        if self._fired_until is not None:
            self._fired_until = renumbered(self._fired_until, live, numbers, self._index.size, MIN_TIMESTAMP)
        self._renumbered()

    def _best_index(
        self, slices: int, expected: int, rows: int, most_keys: int, has_rows: HasRows | None
    ) -> SliceIndex:
        """The index that costs least from now on, without accumulators.

        Args:
            slices: so many there are about to be.
            expected: so many accumulators are asked for first, each of another key or slice; then come that many rows.
            most_keys: in one of the slices that were released last; 0: it is not known.
            has_rows: as `DenseIndex` takes it.
        """
        if is_dense(self._key_count, slices, expected + rows, most_keys):
            return DenseIndex(self._key_count, has_rows)
        return LookupIndex(expected) if self._index.is_worth_looking_up else AppendIndex(expected)

    def _forget_keys(self, live_ids: Ids) -> Ids:
        """Forgets all keys that have had no accumulator of late, if these are most, and gives the numbers that
        `live_ids` have then. The keys of accumulators that were just released stay: they mostly come again in the next
        window."""
        is_recent = np.zeros(len(self._keys), np.bool_)
        is_recent[self.key_ids(self._index.recent())] = True
        recent = np.flatnonzero(is_recent)  # ascending: they keep their order of arrival
        if 2 * len(recent) >= len(self._keys):
            return live_ids
        self._keys.retain(recent)
        return np.searchsorted(recent, live_ids)

    # -- windows that have fired before a restore

    @property
    def has_fired_ahead(self) -> bool:
        """Whether some accumulators come from a subtask whose watermark was higher: windows of theirs have fired
        already."""
        return self._fired_until is not None

    def forget_fired(self, watermark: int) -> None:
        """To be called with the watermark after firing: once it has caught up, no window has fired before its time."""
        if self._fired_until is not None and int(self._fired_until.max(initial=MIN_TIMESTAMP)) <= watermark:
            self._fired_until = None

    def are_to_fire(self, accumulators: Accumulators, window_ends: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether the window of each of these accumulators, which ends there, has not fired for its key."""
        assert self._fired_until is not None
        return self._fired_until[accumulators] < window_ends - 1

    # -- snapshots

    @property
    def next_position(self) -> int:
        """A number above the positions of all rows so far."""
        return self._next_position

    def capture(self, watermark: int) -> CapturedSlices:
        """All accumulators as they are now. Quick: arrays are copied, all else is immutable, and nothing is merged."""
        run = self._index.read_unmerged()
        accumulators = run.accumulators
        fired_until = np.full(len(accumulators), watermark, np.int64)
        if self._fired_until is not None:
            np.maximum(fired_until, self._fired_until[accumulators], out=fired_until)
        aggregates = self._aggregates.copy(self._index.size)
        keys = self._keys.key_columns()
        key_ids = self.key_ids(accumulators)
        return CapturedSlices(keys, run, key_ids, fired_until, aggregates, self._index.has_repeats)

    def restore(self, parts: Iterable[StateRows], next_position: int, watermark: int) -> None:
        """Adds the accumulators of snapshots, which differ from part to part.

        Args:
            next_position: above the positions of all parts.
            watermark: of this subtask; some of those that the parts come from may have had a higher one.
        """
        self._next_position = max(self._next_position, next_position)
        for part in parts:
            part = part.take(order_by(as_numpy(part.columns[_CELL])))
            key_ids = np.zeros(part.num_rows, np.int64) if part.keys is None else self._keys.restored_ids(part.keys)
            starts, slice_of = np.unique(as_numpy(part.columns[_SLICE]), return_inverse=True)
            accumulators = self._accumulators_for(key_ids, starts.tolist(), slice_of)
            self._merge(part, accumulators)
            fired_until = as_numpy(part.columns[_FIRED_UNTIL])
            if int(fired_until.max()) > watermark and self._fired_until is None:
                self._fired_until = grown(np.empty(0, np.int64), self._index.size, MIN_TIMESTAMP)
            if self._fired_until is not None:
                self._fired_until[accumulators] = fired_until

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        starts = self._index.starts()
        parts = [numbers_in(self.accumulators_of(start)) for start in starts]
        accumulators = [accumulator for part in parts for accumulator in part.tolist()]
        assert len(accumulators) == len(set(accumulators)) == self.accumulator_count, "every live cell is in one slice"
        assert all((np.diff(part) > 0).all() for part in parts), "cells of a slice ascend"


class CapturedSlices(Struct, frozen=True):
    """The content of a SliceStore at a barrier; any thread may read it."""

    keys: Columns | None
    slices: AccumulatorRun
    """The slices and their accumulators."""
    key_ids: Ids
    """The key of each accumulator."""
    fired_until: npt.NDArray[np.int64]
    aggregates: AggregateColumns
    has_repeats: bool
    """Whether a key may have several accumulators in a slice."""

    @property
    def accumulators(self) -> Accumulators:
        return self.slices.accumulators

    def table(self, tables: KeyedTables, metadata: Mapping[str, bytes]) -> KeyedTable:
        """A row per key and slice, in the order of their first accumulators."""
        order = order_by(self.accumulators)
        accumulators, slice_indices, key_ids, fired_until = (
            each[order] for each in (self.accumulators, self.slices.slice_indices, self.key_ids, self.fired_until)
        )
        aggregates, numbers = self.aggregates, accumulators
        if self.has_repeats:
            first_rows, pair_numbers = number_pairs(slice_indices, key_ids)
            aggregates, numbers = (
                aggregates.combine(accumulators, pair_numbers, len(first_rows)),
                np.arange(len(first_rows)),
            )
            least = fired_until[first_rows]
            np.minimum.at(least, pair_numbers, fired_until)
            accumulators, slice_indices, key_ids, fired_until = (
                accumulators[first_rows],
                slice_indices[first_rows],
                key_ids[first_rows],
                least,
            )
        columns = {
            _SLICE: from_numpy(self.slices.starts[slice_indices]),
            _CELL: from_numpy(accumulators),
            _FIRED_UNTIL: from_numpy(fired_until),
            **aggregates.columns(numbers),
        }
        return tables.make(self.keys, key_ids, columns, {**metadata, **aggregates.metadata()})


def number_pairs(slice_indices: npt.NDArray[np.int64], key_ids: Ids) -> tuple[Accumulators, Accumulators]:
    """Numbers the distinct pairs of window or slice and key.

    Returns:
        The index of the first row of each pair, ascending; and for each row the number of its pair in that order.
    """
    by_pair = order_by(slice_indices, key_ids)
    is_first = differs_from_previous(slice_indices.take(by_pair)) | differs_from_previous(key_ids.take(by_pair))
    first_rows = by_pair[is_first]
    order = order_by(first_rows)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order))
    groups = np.empty(len(by_pair), np.int64)
    groups[by_pair] = numbers[np.cumsum(is_first) - 1]
    return first_rows[order], groups
