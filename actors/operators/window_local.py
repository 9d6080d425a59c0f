"""The local phase of windows: rows of a batch become one row per key and slice before they are sent to their window."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.keys import key_columns
from actors.operators.accumulator_base import Cells
from actors.operators.accumulators import AggregateColumns
from actors.operators.base import Operator, OperatorContext, Output
from actors.operators.columns import operator_label
from actors.operators.partial_aggregates import COUNTED, write_partial
from actors.operators.window_times import Times, WindowTimes
from actors.state.integer_index import Ids, PairIndex
from actors.state.key_index import KeyIndex
from flinkray.batch import Batch
from flinkray.errors import FlinkrayError
from flinkray.operator_factories import LocalWindowAggregateFactory
from flinkray.types import MIN_TIMESTAMP, Kind
from flinkray.windowing import AlignedWindows

# Below so many rows in a batch the fixed costs of both phases are more than the exchange costs.
_FEWEST_ROWS = 8192

# A batch is worth aggregating if its groups are at most this share of its rows: numbering keys that are mostly new, and
# rows that are wider than before, cost more than half as many of them save.
_LARGEST_SHARE = 0.4

# Batches that pass after one that was not worth it: twice as many each time, up to the last.
_FIRST_PASSING = 4
_MOST_PASSING = 128

# The numbers of keys are kept from batch to batch, which spares finding them anew; these bound what that takes.
_MOST_KEYS = 1 << 17
_MOST_KEY_BYTES = 16 << 20

# Combinations of key and slice that have a place each in a table; more are looked up.
_MOST_PLACES = 1 << 18


_Found = tuple[Cells, int, Cells, npt.NDArray[np.integer]]
"""The first four of `_Groups`."""


class _Groups(Struct, frozen=True):
    """The distinct (key, slice) pairs of a batch, in order of first appearance."""

    cells: Cells
    """Per row a number for its pair."""
    end: int
    """Above all of these."""
    numbers: Cells
    """Per pair its number."""
    first_rows: npt.NDArray[np.integer]
    """Per pair its first row."""
    slice_starts: Times
    """Per pair."""


class LocalWindowAggregateOperator(Operator):
    """Aggregates within each batch what a window would aggregate behind the exchange. After Flink's operator of that
    name, with a batch in place of its buffer: nothing is kept between batches, so there is nothing to snapshot, no row
    waits, and watermarks and barriers pass.

    What comes out has an event time in the same slice, and is late exactly where the rows are that it stands for.
    Where there are few rows per group, batches pass unchanged, and from time to time one is tried again. What cannot
    be aggregated passes too: only the window knows whether the rows that are wrong are late, and does not look at
    these.
    """

    def __init__(self, factory: LocalWindowAggregateFactory) -> None:
        assigner = factory.window.assigner
        assert isinstance(assigner, AlignedWindows)
        self._selector = factory.key
        self._times = WindowTimes(assigner, 0)
        self._aggregates = (COUNTED, *factory.window.aggregates)
        self._keys = KeyIndex()
        self._rows = np.empty(0, np.int32)
        """0, 1, ..., for as many rows as there were in a batch."""
        self._distances = np.empty(0, np.int64)
        """For integers by their distance; taking memory anew for each batch costs more than they do."""
        self._kept: set[str] = set()
        """For `write_partial`."""
        self._passing = 0
        """Batches that are still to pass."""
        self._next_passing = _FIRST_PASSING

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._where = operator_label(context)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if batch.num_rows < _FEWEST_ROWS or batch.timestamps is None:
            self.output.emit(batch)
        elif self._passing:
            self._passing -= 1
            self.output.emit(batch)
        else:
            self.output.emit(self._tried(batch))

    def _tried(self, batch: Batch) -> Batch:
        try:
            partial = self._aggregated(batch)
        except FlinkrayError:
            self._keys = KeyIndex()
            partial = None
        if partial is None:
            self._passing = self._next_passing
            self._next_passing = min(2 * self._next_passing, _MOST_PASSING)
            return batch
        self._next_passing = _FIRST_PASSING
        return partial

    def _aggregated(self, batch: Batch) -> Batch | None:
        """The batch's partial aggregates; None: they would not be few enough, or not small."""
        assert batch.timestamps is not None
        timestamps = batch.timestamps.to_numpy(zero_copy_only=False)
        if int(timestamps.min()) == MIN_TIMESTAMP:
            return None
        keys = None if self._selector is None else key_columns(batch, self._selector, self._where)
        groups = self._groups(keys, timestamps)
        if groups is None:
            return None
        aggregates = AggregateColumns(self._aggregates, self._where)
        aggregates.grow(groups.end)
        aggregates.add(batch.data, groups.cells, 0)
        if not aggregates.is_fixed_size:
            return None
        first_rows = pa.array(groups.first_rows)
        first_keys = None if keys is None else keys.take(first_rows)
        data = write_partial(aggregates, groups.numbers, first_keys, self._kept)
        return Batch(data, Kind.ROW, pa.array(groups.slice_starts))

    # -- groups

    def _groups(self, keys: pa.RecordBatch | None, timestamps: Times) -> _Groups | None:
        """None: there are too many for so few rows."""
        starts, which = self._times.slices_of_rows(timestamps)
        rows = len(timestamps)
        if len(starts) > _LARGEST_SHARE * rows:
            return None
        key_ids, end = self._key_ids(keys, rows)
        size = end * len(starts)
        if size > _MOST_PLACES:
            found = _by_lookup(np.int64(0) if which is None else which, key_ids, end)
        elif which is None:
            found = self._by_place(key_ids, size)
        else:
            found = self._by_place(which * end + key_ids, size)
        if found is None:
            return None
        first_rows = found[-1]
        if which is None:
            return _Groups(*found, np.full(len(first_rows), starts[0]))
        return _Groups(*found, np.array(starts)[which[first_rows]])

    def _key_ids(self, keys: pa.RecordBatch | None, rows: int) -> tuple[Ids, int]:
        """A number for each row's key, and one above all of them."""
        if keys is None:
            return np.zeros(rows, np.int64), 1
        if keys.num_columns == 1:
            near = self._near_integers(keys.column(0))
            if near is not None:
                return near
        if len(self._keys) > min(_MOST_KEYS, _MOST_KEY_BYTES * rows // max(1, keys.nbytes)):
            self._keys = KeyIndex()
        key_ids = self._keys.ids(keys)
        return key_ids, len(self._keys)

    def _near_integers(self, column: pa.Array) -> tuple[Ids, int] | None:
        """Integers by their distance from the lowest, and a number above that of all; None: they are no integers
        without nulls, or too far apart."""
        if not pa.types.is_integer(column.type) or column.null_count:
            return None
        values = column.to_numpy()
        lowest = values.min()
        end = int(values.max()) - int(lowest) + 1
        if end > _MOST_PLACES:
            return None
        if values.dtype == np.uint64:  # which may have no counterpart in int64, unlike the distance
            return (values - lowest).astype(np.int64), end
        if len(values) > len(self._distances):
            self._distances = np.empty(len(values), np.int64)
        # In 64 bits also where the values, but not their distance, fit fewer.
        return np.subtract(values, lowest, out=self._distances[: len(values)], dtype=np.int64), end

    def _by_place(self, places: Ids, size: int) -> _Found | None:
        rows = len(places)
        if rows > len(self._rows):
            self._rows = np.arange(rows, dtype=np.int32)
        first_row = np.full(size, rows, np.int32)
        np.minimum.at(first_row, places, self._rows[:rows])
        first_rows = first_row[first_row < rows]
        if len(first_rows) > _LARGEST_SHARE * rows:
            return None
        first_rows.sort()
        numbers = places[first_rows]
        if size <= rows:
            return places, size, numbers, first_rows
        dense = np.arange(len(first_rows))
        first_row[numbers] = dense
        return first_row[places].astype(np.int64), len(dense), dense, first_rows


def _by_lookup(slices: npt.NDArray[Any] | np.int64, key_ids: Ids, end: int) -> _Found | None:
    """As `_by_place`, for pairs of which there may be very many."""
    index = PairIndex()
    cells = index.ids(slices, key_ids, end)
    if index.size > _LARGEST_SHARE * len(cells):
        return None
    first_rows = np.full(index.size, len(cells))
    np.minimum.at(first_rows, cells, np.arange(len(cells)))
    return cells, index.size, np.arange(index.size), first_rows
