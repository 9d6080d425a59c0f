"""Running aggregates of a keyed stream: one result per row, in order of arrival per key. Columnar."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from actors.keys import key_columns
from actors.operators.base import Operator
from actors.operators.columns import evaluate, operator_label
from actors.operators.group_columns import Choice, Improvements
from actors.operators.running_aggregates import (
    Running,
    RunningError,
    create_running,
    widened_type,
)
from actors.operators.segments import Segments
from actors.state.key_index import Ids, KeyIndex
from flinkray.aggregates import Aggregate, ArgMax, ArgMin, Count, Max, Min, Sum
from flinkray.batch import Batch
from flinkray.errors import InvalidProgramError, TypeMismatchError, UnknownColumnError
from flinkray.expressions import Expression, col
from flinkray.operator_factories import RunningAggregateFactory, RunningColumnFactory
from flinkray.types import Kind


class _RunningOperator(Operator):
    """Numbers the keys; subclasses make the columns of the result."""

    def setup(self, context: Any, output: Any) -> None:
        super().setup(context, output)
        self._label = operator_label(context)
        self._index = KeyIndex()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if batch.kind is Kind.OBJECT:
            raise InvalidProgramError(
                f"{self._label}: these rows are objects that Arrow cannot hold, so they have no columns to aggregate; "
                "map them to tuples or rows first"
            )
        keys = self._keys(batch)
        before = len(self._index)
        ids: Ids = self._index.ids(keys)
        segments = Segments(ids, len(self._index))
        self.output.emit(self.results(batch, keys, segments, before))

    def results(self, batch: Batch, keys: pa.RecordBatch, segments: Segments, known: int) -> Batch:
        """A row for each row of the batch. Groups below `known` have been seen in earlier batches."""
        raise TypeError(f"{type(self).__name__} computes nothing")

    def _keys(self, batch: Batch) -> pa.RecordBatch:
        selector = self.context.keys[0]
        if selector is None:
            raise InvalidProgramError(f"{self._label}: a running aggregate needs key_by before it")
        return key_columns(batch, selector, self._label)

    def _plain(self, array: pa.Array) -> pa.Array:
        return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


class _Cell:
    """One aggregate: creates its running form when the column's type is known, and widens it."""

    def __init__(self, name: str, aggregate: Aggregate, label: str) -> None:
        self.name = name
        self._aggregate = aggregate
        self._label = label
        self._type: pa.DataType | None = None
        self._running: Running | None = None

    def add(self, values: pa.Array, segments: Segments, size: int, known: int) -> pa.Array:
        try:
            running = self._of_type(values.type, known)
            return running.add(segments, values if values.type == self._type else values.cast(self._type), size)
        except (RunningError, pa.ArrowInvalid) as error:
            kind = type(self._aggregate).__name__
            raise TypeMismatchError(f"{self._label}: {kind} for column {self.name!r}: {error}") from error

    def _of_type(self, arrow_type: pa.DataType, known: int) -> Running:
        old, running = self._type, self._running
        if old is None or running is None:
            self._type, self._running = arrow_type, create_running(self._aggregate, arrow_type)
            return self._running
        merged = widened_type(old, arrow_type)
        if merged != old:
            wider = create_running(self._aggregate, merged)
            wider.restore(running.state(known))
            self._type, self._running = merged, wider
            return wider
        return running

    def snapshot(self, size: int) -> dict[str, Any]:
        columns = {} if self._running is None else self._running.state(size)
        return {"type": self._type, "columns": columns}

    def restore(self, snapshot: dict[str, Any]) -> None:
        if snapshot["type"] is not None:
            self._type = snapshot["type"]
            self._running = create_running(self._aggregate, self._type)
            self._running.restore(snapshot["columns"])


class RunningAggregateOperator(_RunningOperator):
    """The row's key columns, and the aggregates over all rows of that key so far, it included."""

    def __init__(self, factory: RunningAggregateFactory) -> None:
        self._aggregates = factory.aggregates

    def setup(self, context: Any, output: Any) -> None:
        super().setup(context, output)
        self._cells = [_Cell(name, aggregate, self._label) for name, aggregate in self._aggregates]

    def results(self, batch: Batch, keys: pa.RecordBatch, segments: Segments, known: int) -> Batch:
        columns = dict(zip(keys.schema.names, keys.columns, strict=True))
        for cell, (name, aggregate) in zip(self._cells, self._aggregates, strict=True):
            if name in columns:
                raise InvalidProgramError(f"{self._label}: two result columns are named {name!r}; rename the aggregate")
            values = self._argument(batch.data, aggregate)
            columns[name] = cell.add(values, segments, len(self._index), known)
        data = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return Batch(data, Kind.ROW, batch.timestamps)

    def _argument(self, data: pa.RecordBatch, aggregate: Aggregate) -> pa.Array:
        """What is aggregated: the column; for ArgMin and ArgMax a struct of (column, by); for Count() every row."""
        if isinstance(aggregate, ArgMin | ArgMax):
            both = [self._column(data, aggregate.column), self._column(data, aggregate.by)]
            return pa.StructArray.from_arrays(both, names=["value", "by"])
        if aggregate.column is None and isinstance(aggregate, Count):
            return pa.array(np.ones(data.num_rows, np.bool_))
        return self._column(data, aggregate.column)

    def _column(self, data: pa.RecordBatch, column: object) -> pa.Array:
        expression = column if isinstance(column, Expression) else col(column)  # type: ignore[arg-type]
        return self._plain(evaluate(expression, data, self._label))

    def snapshot_state(self, checkpoint_id: int) -> Any:
        size = len(self._index)
        return {
            "keys": self._index.key_columns(),
            "aggregates": {cell.name: cell.snapshot(size) for cell in self._cells},
        }

    def initialize_state(self, restored: Any) -> None:
        if restored is None or restored["keys"] is None:
            return
        self._index.ids(restored["keys"])
        for cell in self._cells:
            if cell.name in restored["aggregates"]:
                cell.restore(restored["aggregates"][cell.name])


_MODES: dict[str, type[Aggregate]] = {"sum": Sum, "min": Min, "max": Max}


class RunningColumnOperator(_RunningOperator):
    """sum, min, max: the key's first row with that column replaced by the aggregate so far; min_by, max_by: the row
    that has the extreme value so far, the first of equal ones. Nulls in the column are left out."""

    def __init__(self, factory: RunningColumnFactory) -> None:
        if factory.mode not in (*_MODES, "min_by", "max_by"):
            raise InvalidProgramError(f"unknown running aggregate {factory.mode!r}")
        self._factory = factory

    def setup(self, context: Any, output: Any) -> None:
        super().setup(context, output)
        mode, column = self._factory.mode, self._factory.column
        self._cell = _Cell(str(column), _MODES[mode](column), self._label) if mode in _MODES else None
        self._schema: pa.Schema | None = None
        self._choice = Choice([])
        self._improvements: Improvements | None = None

    def results(self, batch: Batch, keys: pa.RecordBatch, segments: Segments, known: int) -> Batch:
        position = self._position(batch.data.schema.names)
        columns = [self._plain(column) for column in batch.data.columns]
        columns = self._in_one_schema(batch.data.schema.names, columns, known)
        size = len(self._index)
        is_new = segments.groups >= known
        first = np.where(is_new, segments.starts, -1)[segments.segment_of]
        if self._cell is None:
            assert self._improvements is not None
            best = self._improvements.rows(segments, columns[position], size)
            results = self._choice.take(segments, np.where(best < 0, first, best), columns, size)
        else:
            results = self._choice.take(segments, first, columns, size)
            results[position] = self._cell.add(columns[position], segments, size, known)
        data = pa.RecordBatch.from_arrays(results, names=batch.data.schema.names)
        return Batch(self._declared(data), batch.kind, batch.timestamps)

    def _position(self, names: list[str]) -> int:
        column = self._factory.column
        if isinstance(column, int):
            if not -len(names) <= column < len(names):
                raise UnknownColumnError(str(column), names, self._label)
            return column % len(names)
        if column not in names:
            raise UnknownColumnError(column, names, self._label)
        return names.index(column)

    def _in_one_schema(self, names: list[str], columns: list[pa.Array], known: int) -> list[pa.Array]:
        """The columns in types that hold the rows kept so far too; widens what is kept where needed."""
        types = [column.type for column in columns]
        if self._schema is None:
            self._use(pa.schema(list(zip(names, types, strict=True))))
        elif self._schema.types != types or self._schema.names != names:
            self._widen(names, types, known)
        assert self._schema is not None
        return [column.cast(target) for column, target in zip(columns, self._schema.types, strict=True)]

    def _widen(self, names: list[str], types: list[pa.DataType], known: int) -> None:
        assert self._schema is not None
        if self._schema.names != names:
            raise TypeMismatchError(
                f"{self._label}: rows had columns {', '.join(self._schema.names)} and have {', '.join(names)} now"
            )
        try:
            merged = [widened_type(old, new) for old, new in zip(self._schema.types, types, strict=True)]
        except RunningError as error:
            raise TypeMismatchError(f"{self._label}: {error}") from error
        if merged != self._schema.types:
            snapshot = self._rows_snapshot(known)
            self._use(pa.schema(list(zip(names, merged, strict=True))))
            self._restore_rows(snapshot)

    def _use(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._choice = Choice(schema.types)
        if self._cell is None:
            by_type = schema.types[self._position(schema.names)]
            self._improvements = Improvements(by_type, self._factory.mode == "max_by")

    def _declared(self, data: pa.RecordBatch) -> pa.RecordBatch:
        declared = self._factory.output_type
        if declared is None:
            return data
        try:
            return data.rename_columns(declared.schema.names).cast(declared.schema)
        except (pa.ArrowException, ValueError) as error:
            raise TypeMismatchError(f"{self._label}: rows do not fit output_type={declared}: {error}") from error

    # -- state

    def _rows_snapshot(self, size: int) -> dict[str, Any]:
        best = None if self._improvements is None else self._improvements.best(size)
        return {"schema": self._schema, "rows": self._choice.state(size), "best": best}

    def _restore_rows(self, snapshot: dict[str, Any]) -> None:
        self._choice.restore(snapshot["rows"])
        if self._improvements is not None and snapshot["best"] is not None:
            self._improvements.restore(snapshot["best"])

    def snapshot_state(self, checkpoint_id: int) -> Any:
        size = len(self._index)
        cell = None if self._cell is None else self._cell.snapshot(size)
        return {"keys": self._index.key_columns(), "aggregate": cell, **self._rows_snapshot(size)}

    def initialize_state(self, restored: Any) -> None:
        if restored is None or restored["keys"] is None:
            return
        self._index.ids(restored["keys"])
        self._use(restored["schema"])
        self._restore_rows(restored)
        if self._cell is not None and restored["aggregate"] is not None:
            self._cell.restore(restored["aggregate"])
