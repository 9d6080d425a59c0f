"""Built-in aggregates in windows of any kind: rows are noted one by one, and aggregated in columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from actors.columns.large_columns import batches_of, batches_with_times
from actors.columns.ordering import distinct
from actors.keys.hashes import key_columns
from actors.keys.state_tables import KeyedTables, same_rows
from actors.operators.aggregates.accumulators import Accumulators
from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.windows.aligned.accumulator_runs import Counts
from actors.operators.windows.aligned.slice_store import SliceStore
from actors.operators.windows.base.results import check_names
from actors.operators.windows.user_functions.contents import WindowContents, WindowRow
from actors.state.keyed.backend import KeyedStateBackend
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.batches.row_codec import RowEncoder
from flinkray.errors import operator_label
from flinkray.state.descriptors import ValueStateDescriptor
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import KeySelector
from flinkray.types.records import MIN_TIMESTAMP

_STATE = "aggregates"
_KIND = "windows"
_GENERAL = b"of any kind"

Slices = tuple[int, ...]


class AggregateFirings:
    """The aggregates of *slices*: here some rows of one key, which belong to one window or to several that have merged.

    Rows and firings are noted down, and both worked off by `flush`, each in one go. Slices have numbers that no other
    subtask gives out, now or after a restore.
    """

    def __init__(self, factory: WindowFactory, context: OperatorContext, output: Output, where: str) -> None:
        self._aggregates = factory.aggregates
        self._bounds_type = factory.bounds_type or pa.int64()
        self._context = context
        self._output = output
        self._where = where
        self._selector: KeySelector | None = context.keys[0] if context.keys else None
        self._store = SliceStore(self._aggregates, where)
        self._next_slice = context.subtask_index
        self._batch: Batch | None = None
        self._rows: list[int] = []
        self._slices_of_rows: list[int] = []
        self._firings: list[tuple[Any, Slices]] = []
        self._fired: set[int] = set()
        self._released: list[int] = []

    def new_slice(self) -> int:
        number = self._next_slice
        self._next_slice += self._context.parallelism
        return number

    def begin(self, batch: Batch) -> None:
        """Begins a batch: the rows that are noted down until `flush` are of this one."""
        self._batch = batch

    def add(self, row: int, slice_number: int) -> None:
        if slice_number in self._fired:
            self.flush()  # what has fired does not have this row
        self._rows.append(row)
        self._slices_of_rows.append(slice_number)

    def add_rows(self, rows: Sequence[WindowRow], slice_number: int) -> None:
        """Adds rows of earlier batches, at once."""
        encoders = groupby(rows, lambda row: row.record_type)
        for record_type, of_type in encoders:
            encoder = RowEncoder(self._context.operator_name, self._context.subtask, record_type)
            batch = encoder.encode([row.value for row in of_type], None)
            keys = self._keys(batch.slice(0, 1))
            if keys is not None:
                keys = keys.take(from_numpy(np.zeros(batch.num_rows, np.int64)))
            self._store.add(batch.data, keys, [slice_number], None)

    def fire(self, window: Any, slices: Slices) -> None:
        self._firings.append((window, slices))
        self._fired.update(slices)
        if len(self._firings) >= self._context.batch_rows:
            self.flush()

    def release(self, slices: Slices) -> None:
        """Releases slices that get no more rows, and do not fire again."""
        self._released.extend(slices)

    def flush(self) -> None:
        """Adds the rows, emits the results of the firings, in order, and forgets the slices that were released."""
        if self._rows:
            assert self._batch is not None
            indices = pa.array(self._rows)
            batch = self._batch.take(indices)
            starts, slice_indices = np.unique(np.array(self._slices_of_rows, np.int64), return_inverse=True)
            self._store.add(batch.data, self._keys(batch), starts.tolist(), slice_indices)
            self._rows.clear()
            self._slices_of_rows.clear()
        if self._firings:
            self._emit()
            self._firings.clear()
            self._fired.clear()
        if self._released:
            self._store.release(sorted(set(self._released)))
            self._released.clear()
            self._store.compact()

    def _keys(self, batch: Batch) -> pa.RecordBatch | None:
        return None if self._selector is None else key_columns(batch, self._selector, self._where)

    def _emit(self) -> None:
        accumulators, counts = self._accumulators()
        firings = len(counts)
        key_ids = self._store.key_ids(accumulators[np.cumsum(counts) - counts])
        if len(accumulators) == firings == len(distinct(accumulators)):
            results = self._store.results(accumulators)
        else:
            results = self._store.combined_results(accumulators, np.repeat(np.arange(firings), counts), firings)
        windows = [window for window, _ in self._firings]
        names = [*self._store.key_names(), "window_start", "window_end", *(name for name, _ in self._aggregates)]
        check_names(names, operator_label(self._where))
        starts, ends = (
            pa.array([getattr(window, bound, None) for window in windows], self._bounds_type)
            for bound in ("start", "end")
        )
        columns = [*self._store.key_columns(key_ids), starts, ends, *results]
        times = pa.array([window.max_timestamp() for window in windows], pa.int64())
        for rows in batches_with_times(batches_of(columns, names), times):
            self._output.emit(rows)

    def _accumulators(self) -> tuple[Accumulators, Counts]:
        """The accumulators of each firing's slices, which have one each, in the order of the firings; and how many each
        firing has."""
        numbers = np.array([number for _, slices in self._firings for number in slices], np.int64)
        found = self._store.read(distinct(numbers))
        assert len(found.accumulators) == len(found.starts), "a slice is of one key"
        return found.accumulators[found.starts.searchsorted(numbers)], np.array(
            [len(slices) for _, slices in self._firings]
        )

    # -- snapshots; nothing is noted down between batches

    @property
    def next_number(self) -> int:
        """A number above those of all rows and slices so far."""
        return max(self._store.next_position, self._next_slice)

    def snapshot(self, snapshot: OperatorSnapshot) -> None:
        captured, tables = self._store.capture(MIN_TIMESTAMP), KeyedTables.of(self._context)
        if len(captured.accumulators):
            snapshot.add_keyed(_STATE, lambda: captured.table(tables, {_KIND: _GENERAL}), tables.owned)

    def restore(self, restored: RestoredState, next_number: int) -> None:
        """Restores the slices of snapshots.

        Args:
            next_number: the highest of the former subtasks.
        """
        parts = same_rows(restored.keyed(_STATE), _KIND, _GENERAL.decode(), label_of(self._context))
        self._store.restore(parts, next_number, MIN_TIMESTAMP)
        self._next_slice = next_number + self._context.subtask_index


class AggregateContents(WindowContents):
    """Built-in aggregates that take rows as they come; the state of a window is the numbers of its slices."""

    def __init__(self, backend: KeyedStateBackend, firings: AggregateFirings) -> None:
        super().__init__(backend)
        self._firings = firings

    def open(self) -> None:
        self._state = self._backend.get_state(ValueStateDescriptor("window-contents"))

    def add(self, value: Any, timestamp: int | None, row: int) -> None:
        slices = self._state.value()
        if slices is None:
            slices = (self._firings.new_slice(),)
            self._state.update(slices)
        self._firings.add(row, slices[-1])

    def fire(self, window: Any) -> None:
        slices = self._state.value()
        if slices is not None:
            self._firings.fire(window, slices)

    def clear(self) -> None:
        slices = self._state.value()
        if slices is not None:
            self._firings.release(slices)
            self._state.clear()

    def _take_out(self) -> Any:
        slices = self._state.value()
        self._state.clear()
        return slices

    def _merge_in(self, slices: Any) -> None:
        # Of the slices only the last one grows, so that windows that merge again and again stay in few.
        self._state.update((*(self._state.value() or ()), *slices))
