"""Sorted runs of buffered rows: sorted by slice, so that those of any range of slices lie side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.ranges import indices_of_ranges
from actors.columns.take import take
from actors.keys.index import Ids
from actors.operators.windows.base.times import Times
from actors.operators.windows.buffers.buffered_rows import BufferedRows, concat_rows, follow_each_other
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy

# A run of so many rows, or bytes, is not merged any more: what it costs to look into it is nothing per row.
_ENOUGH_ROWS = 1 << 15
_ENOUGH_BYTES = 1 << 24

HIGHEST_LEVEL = 64
"""The level of runs that are not merged any more."""


class KeyOrder:
    """The rows of a run by key: sorted when they are first looked for."""

    __slots__ = ("_keys", "_order")

    def __init__(self) -> None:
        self._order: Ids | None = None
        self._keys: Ids = np.empty(0, np.int64)

    def rows_of(self, keys: Ids, key_ids: Ids) -> Ids:
        """The indices, ascending, of the rows of these keys, which ascend, among rows with the keys `key_ids`."""
        if self._order is None:
            self._order = order_by(key_ids)
            self._keys = key_ids[self._order]
        begins, ends = self._keys.searchsorted(keys), self._keys.searchsorted(keys, "right")
        indices: Ids = self._order[indices_of_ranges(begins, ends - begins)]
        indices.sort()
        return indices


class SlicedRun(Struct, frozen=True):
    """A sorted run: rows by slice, those of a slice by arrival; there is at least one. Holds no received batch
    alive."""

    rows: BufferedRows
    """The rows; the first ones may have been released."""
    starts: Times
    """The starts of the slices, each once, ascending."""
    bounds: Ids
    """For each slice the index of its first row, and behind them the end of the last slice."""
    earliest: int
    """The start of the first slice."""
    latest: int
    level: int
    """Runs of one level have about as many rows; those of the next one, eight times as many."""
    by_key: KeyOrder = field(default_factory=KeyOrder)

    @staticmethod
    def of(rows: BufferedRows, starts: Times, bounds: Ids) -> SlicedRun:
        level = _level_of(rows, int(bounds[-1]) - int(bounds[0]))
        return SlicedRun(rows, starts, bounds, int(starts[0]), int(starts[-1]), level)

    @staticmethod
    def of_batch(
        batch: Batch, key_ids: Ids, first_position: int, starts: Sequence[int], slice_indices: Any
    ) -> SlicedRun:
        """Copies a batch, whose row i is of the slice `starts[slice_indices[i]]` (None: all are of the only one)."""
        if slice_indices is None:
            order, counts = np.arange(batch.num_rows), np.array([batch.num_rows])
        else:
            order, counts = order_by(slice_indices), np.bincount(slice_indices, minlength=len(starts))
        data = pa.Table.from_batches([take(batch.data, from_numpy(order))])
        rows = BufferedRows(data, batch.kind, key_ids[order], order + first_position)
        return SlicedRun.of(rows, np.array(starts, np.int64), np.concatenate([[0], np.cumsum(counts)]))

    @staticmethod
    def of_rows(rows: BufferedRows, slices: Times, are_by_arrival: bool = False) -> SlicedRun:
        """Sorts rows in any order, given the start of each one's slice.

        Args:
            are_by_arrival: they are known to be in order of arrival.
        """
        if not (are_by_arrival and (slices[1:] >= slices[:-1]).all()):
            order = order_by(slices) if are_by_arrival else order_by(slices, rows.positions)
            rows, slices = rows.take(order), slices[order]
        begins = np.flatnonzero(differs_from_previous(slices))
        return SlicedRun.of(rows, slices[begins], np.append(begins, len(slices)))

    @property
    def num_rows(self) -> int:
        """How many rows have not been released."""
        return int(self.bounds[-1]) - int(self.bounds[0])

    def live(self) -> BufferedRows:
        """The rows that have not been released, not copied."""
        return self.rows.slice(int(self.bounds[0]), int(self.bounds[-1]))

    def slices(self) -> Times:
        """The start of the slice of each row that has not been released."""
        return np.repeat(self.starts, np.diff(self.bounds))

    def of_keys(self, keys: Ids) -> SlicedRun | None:
        """The rows of these keys, which ascend; None: there are none. Quick also where the run has many others."""
        indices = self.by_key.rows_of(keys, self.rows.key_ids)
        if len(indices) and indices[0] < self.bounds[0]:
            indices = indices[indices.searchsorted(self.bounds[0]) :]
        if not len(indices):
            return None
        slices = self.bounds.searchsorted(indices, "right") - 1
        begins = np.flatnonzero(differs_from_previous(slices))
        starts, bounds = self.starts[slices[begins]], np.append(begins, len(slices))
        rows = self.rows.take(indices)
        return SlicedRun(rows, starts, bounds, int(starts[0]), int(starts[-1]), HIGHEST_LEVEL)

    def renumbered(self, new_ids: Ids) -> SlicedRun:
        """The run, in which key n has the number `new_ids[n]`."""
        rows = replace(self.rows, key_ids=new_ids[self.rows.key_ids])
        return replace(self, rows=rows, by_key=KeyOrder())

    def after(self, limit: int) -> SlicedRun | None:
        """The run without the slices that start at or before this; None: there are no others.

        Where most of the rows have been released, the others are copied, so that the memory is given back.
        """
        if self.latest <= limit:
            return None
        first = int(self.starts.searchsorted(limit, "right"))
        begin, end = int(self.bounds[first]), int(self.bounds[-1])
        starts, bounds = self.starts[first:], self.bounds[first:]
        if 2 * (end - begin) >= self.rows.num_rows:
            return SlicedRun.of(self.rows, starts, bounds)
        return SlicedRun.of(self.rows.take(np.arange(begin, end)), starts.copy(), bounds - begin)


def merged_runs(runs: Sequence[SlicedRun], where: str) -> SlicedRun:
    """One run of the rows of all runs, which have the same columns.

    Args:
        where: names the operator in errors.
    """
    parts = [run.live() for run in runs]
    slices = np.concatenate([run.slices() for run in runs])
    # Of runs that follow each other, the rows of each slice are in order of arrival, one behind the other.
    return SlicedRun.of_rows(concat_rows(parts, where), slices, follow_each_other(parts))


def _level_of(rows: BufferedRows, count: int) -> int:
    if count >= _ENOUGH_ROWS or rows.data.nbytes >= _ENOUGH_BYTES:
        return HIGHEST_LEVEL
    return (count.bit_length() - 1) // 3
