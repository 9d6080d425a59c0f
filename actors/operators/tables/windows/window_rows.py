"""Rows that wait for the end of their window, and are then looked at together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.take import take
from actors.keys.hashes import key_columns
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import KeyedTables, same_rows
from actors.operators.contract.operator import OperatorContext, Output, label_of
from actors.operators.tables.rows.stored_columns import StoredColumns
from actors.operators.windows.base.operator import TimedOperator
from actors.operators.windows.base.times import PendingStarts, Times
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import KeyedTable, OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.tables.types.arrow import stored_schema
from flinkray.transformations.table_window_factories import WindowRowsFactory
from flinkray.types.keys import KeySelector
from flinkray.types.records import Kind

Factory = TypeVar("Factory", bound=WindowRowsFactory)
_INPUTS = ("left", "right")
"""The names of the parts of state."""
_ROWS = "rows"
_ROW = "row:"
_ROWS_AT_ONCE = 1 << 17
"""Windows that end together are looked at together while they have no more rows than this."""


class WindowRowsOperator(TimedOperator, Generic[Factory]):
    """Keeps the rows of each window by its end, which is a column of them; keys are told apart once it has come. Rows
    that come later are dropped, and counted. Takes inserts."""

    def __init__(self, factory: Factory) -> None:
        super().__init__(True, None)
        self.factory = factory
        self.input_schemas = tuple(map(stored_schema, factory.input_rows))
        self.schema = stored_schema(factory.rows)
        self._ends = PendingStarts()
        self._rows: tuple[dict[int, StoredColumns], ...] = tuple({} for _ in self.input_schemas)

    @property
    def number_of_inputs(self) -> int:
        return len(self.input_schemas)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._selectors: tuple[KeySelector | None, ...] = tuple(context.keys) or (None,) * self.number_of_inputs

    # -- rows

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        self._keep(batch.data, input_index)

    def _keep(self, rows: pa.RecordBatch, input_index: int) -> None:
        ends = self.ends_of(rows, input_index)
        if int(ends.min()) - 1 <= self._watermark:
            is_late = ends - 1 <= self._watermark
            self._drop_late(int(np.count_nonzero(is_late)))
            rows, ends = rows.filter(from_numpy(~is_late)), ends[~is_late]
        if not len(ends):
            return
        if (ends[1:] < ends[:-1]).any():
            order = order_by(ends)
            rows, ends = take(rows, from_numpy(order)), ends[order]
        starts = np.flatnonzero(differs_from_previous(ends)).tolist()
        for start, until in zip(starts, [*starts[1:], len(ends)], strict=True):
            self._add(int(ends[start]), rows.slice(start, until - start), input_index)

    def _add(self, end: int, rows: pa.RecordBatch, input_index: int) -> None:
        windows = self._rows[input_index]
        if end not in windows:
            windows[end] = StoredColumns(self.input_schemas[input_index])
            self._ends.add(end)
        windows[end].append(rows)
        self.kept(windows[end], input_index)

    def kept(self, rows: StoredColumns, input_index: int) -> None:
        """Called when rows of a window have come: leaves out those that the result will not have."""

    def ends_of(self, rows: pa.RecordBatch, input_index: int) -> Times:
        """The end of the window of each row."""
        ends: Times = as_numpy(rows.column(self.factory.ends[input_index]).cast(pa.int64()))
        return ends

    # -- windows that have ended

    def _fire_due(self, watermark: int) -> Iterator[None] | None:
        due = self._ends.pop_until(watermark + 1)
        while due:
            count = self._together(due)
            self.ended([self._taken(due[:count], index) for index in range(self.number_of_inputs)])
            due = due[count:]
        return None

    def _together(self, ends: Sequence[int]) -> int:
        """How many of the windows, which have ended, are looked at together."""
        rows = np.cumsum([sum(len(windows.get(end, ())) for windows in self._rows) for end in ends])
        return max(1, int(np.searchsorted(rows, _ROWS_AT_ONCE, "right")))

    def _taken(self, ends: Sequence[int], input_index: int) -> pa.RecordBatch:
        """The rows of these windows of an input, which are then forgotten."""
        windows, schema = self._rows[input_index], self.input_schemas[input_index]
        chunks = [chunk for end in ends if end in windows for chunk in windows.pop(end).chunks]
        return pa.concat_batches(chunks) if chunks else pa.RecordBatch.from_pylist([], schema=schema)

    @abstractmethod
    def ended(self, rows: Sequence[pa.RecordBatch]) -> None:
        """Windows have ended; in order of their ends, of each all rows of an input in order of arrival."""

    def emit(self, columns: Sequence[pa.Array], ends: Times) -> None:
        """Results, which have the columns of `schema`, with the ends of their windows."""
        if not len(ends):
            return
        rows = pa.RecordBatch.from_arrays(list(columns), schema=self.schema)
        batch = Batch(rows, Kind.ROW, from_numpy(ends - 1))
        for offset in range(0, batch.num_rows, self.context.batch_rows):
            self.output.emit(batch.slice(offset, self.context.batch_rows))

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        snapshot = self._snapshot_subtask()
        tables = KeyedTables.of(self.context)
        for name, windows, schema, selector in zip(
            _INPUTS, self._rows, self.input_schemas, self._selectors, strict=False
        ):
            chunks = [chunk for end in sorted(windows) for chunk in windows[end].chunks]
            if chunks:
                make = partial(_table, tables, chunks, selector, _metadata(schema), label_of(self.context))
                snapshot.add_keyed(name, make, tables.owned)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        if restored is None:
            return
        self._restore_subtask(restored)
        where = label_of(self.context)
        for index, schema in enumerate(self.input_schemas):
            for part in same_rows(restored.keyed(_INPUTS[index]), _ROWS, _metadata(schema)[_ROWS].decode(), where):
                arrays = [part.columns[f"{_ROW}{place}"].cast(field.type) for place, field in enumerate(schema)]
                self._restore(pa.RecordBatch.from_arrays(arrays, schema=schema), index)

    def _restore(self, rows: pa.RecordBatch, input_index: int) -> None:
        """Keeps rows of a snapshot, none of which is late: a window that has fired has none in it."""
        watermark, self._watermark = self._watermark, int(np.iinfo(np.int64).min)
        self._keep(rows, input_index)
        self._watermark = watermark


def numbered_keys(rows: pa.RecordBatch, columns: Sequence[int], index: KeyIndex | None = None) -> Ids:
    """The number of each row's key, which these columns are: 0, 1, ... as they come.

    Args:
        index: has the keys so far; None: there are none.
    """
    key = [rows.column(each) for each in columns]
    names = [str(place) for place in range(len(key))]
    return (KeyIndex() if index is None else index).ids(pa.RecordBatch.from_arrays(key, names=names))


def _metadata(schema: pa.Schema) -> dict[str, bytes]:
    return {_ROWS: ", ".join(f"{field.name} {field.type}" for field in schema).encode()}


def _table(
    tables: KeyedTables,
    chunks: Sequence[pa.RecordBatch],
    selector: KeySelector | None,
    metadata: dict[str, bytes],
    where: str,
) -> KeyedTable:
    """The rows of all windows, by key; any thread may call it."""
    rows = pa.concat_batches(chunks)
    keys = None if selector is None else key_columns(Batch(rows, Kind.ROW), selector, where)
    return tables.make(keys, None, {f"{_ROW}{place}": column for place, column in enumerate(rows.columns)}, metadata)
