"""Running aggregates of a keyed stream: one result per row, in order of arrival per key; in batch mode only the last of
each key."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.keys.hashes import key_columns
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import (
    KeyedTables,
    StateRows,
    check_same,
    state_rows,
    types_from_bytes,
    types_to_bytes,
)
from actors.operators.aggregates.group_columns import Choice, Improvements, State
from actors.operators.aggregates.running import Running, check_ordered, create_running, widened_type
from actors.operators.aggregates.segments import Segments
from actors.operators.aggregates.stored_aggregates import aggregate_columns, facts_metadata, stored_names
from actors.operators.aggregates.value_rules import AggregateTypeError, cast_exactly
from actors.operators.contract.operator import Operator, label_of
from actors.operators.expressions.column_operators import Evaluator
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.errors import CheckpointError, InvalidProgramError, TypeMismatchError, UnknownColumnError
from flinkray.expressions.tree import Expression, col
from flinkray.transformations.operator_factories import RunningAggregateFactory, RunningColumnFactory
from flinkray.types.records import MAX_TIMESTAMP, Kind, Timestamp
from flinkray.windows.aggregates import Aggregate, Max, Min, Sum

_STATE = "groups"
_TYPES = "types"


# In batch mode, so many results that a later one of their key has replaced stay before they are dropped.
_MOST_REPLACED_RESULTS = 65_536


class _LastResults:
    """The last result of each key, with the event time of its last row, for batch mode.

    (Flink gives these the highest of all times, with which no window after it could do anything.)
    """

    def __init__(self) -> None:
        self._results: list[tuple[Ids, Batch]] = []
        """The groups, each at most once in a batch, and their results."""
        self._rows = 0

    def add(self, segments: Segments, results: Batch, keys: int) -> None:
        """Adds the results of a batch.

        Args:
            keys: how many keys there are in all.
        """
        self._results.append((segments.groups, results.take(from_numpy(segments.order[segments.ends]))))
        self._rows += len(segments.groups)
        if self._rows > keys + _MOST_REPLACED_RESULTS:
            self._drop_replaced(keys)

    def take(self, keys: int) -> list[Batch]:
        """Gives all results, and forgets them."""
        self._drop_replaced(keys)
        results, self._results, self._rows = self._results, [], 0
        return [batch for _, batch in results]

    def _drop_replaced(self, keys: int) -> None:
        is_seen = np.zeros(keys, np.bool_)
        latest: list[tuple[Ids, Batch]] = []
        for groups, results in reversed(self._results):
            is_last = ~is_seen[groups]
            is_seen[groups] = True
            if is_last.any():
                latest.append((groups[is_last], results.filter(from_numpy(is_last))))
        self._results = latest[::-1]
        self._rows = sum(len(groups) for groups, _ in latest)


class _RunningOperator(Operator):
    """Base: numbers the keys, whose rows are the groups; subclasses make the columns of the result."""

    def setup(self, context: Any, output: Any) -> None:
        super().setup(context, output)
        self._label = label_of(context)
        self._last_results = _LastResults()
        self._begin()

    def _begin(self) -> None:
        """Begins without any key."""
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
        results = self.results(batch, keys, segments, before)
        if self.context.is_batch:
            self._last_results.add(segments, results, len(self._index))
        else:
            self.output.emit(results)

    def end_keys(self) -> None:
        for results in self._last_results.take(len(self._index)):
            self.output.emit(results)
        self._begin()

    def on_watermark(self, timestamp: Timestamp) -> None:
        if self.context.is_batch and timestamp == MAX_TIMESTAMP:
            self.end_keys()
        super().on_watermark(timestamp)

    @abstractmethod
    def results(self, batch: Batch, keys: pa.RecordBatch, segments: Segments, known: int) -> Batch:
        """A row for each row of the batch. Groups below `known` have been seen in earlier batches."""

    @abstractmethod
    def capture(self, size: int) -> Callable[[], tuple[dict[str, pa.Array], dict[str, bytes]]]:
        """The state of the groups 0 ... size - 1 as it is now, as a function that gives columns and metadata, on any
        thread."""

    @abstractmethod
    def restore(self, parts: Sequence[StateRows]) -> None:
        """Takes the rows of the parts, at least one, as the groups 0, 1, ... in this order."""

    # -- snapshots

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot | None:
        keys = self._index.key_columns()
        if keys is None:
            return None
        make, tables = self.capture(len(self._index)), KeyedTables.of(self.context)
        snapshot = OperatorSnapshot()
        snapshot.add_keyed(_STATE, lambda: tables.make(keys, None, *make()), tables.owned)
        return snapshot

    def initialize_state(self, restored: RestoredState | None) -> None:
        parts = [] if restored is None else state_rows(restored.keyed(_STATE))
        for part in parts:
            assert part.keys is not None
            self._index.restored_ids(part.keys)
        if parts:
            self.restore(parts)

    def _keys(self, batch: Batch) -> pa.RecordBatch:
        selector = self.context.keys[0]
        if selector is None:
            raise InvalidProgramError(f"{self._label}: a running aggregate needs key_by before it")
        return key_columns(batch, selector, self._label)

    def _decoded(self, array: pa.Array) -> pa.Array:
        return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


class _RunningAggregate:
    """One aggregate: creates its running form when the type of its column is known, and widens it."""

    def __init__(self, name: str, aggregate: Aggregate, label: str) -> None:
        self.name = name
        self._aggregate = aggregate
        self._label = label
        self._type: pa.DataType | None = None
        self._running: Running | None = None

    def add(self, values: pa.Array, segments: Segments, size: int, known: int) -> pa.Array:
        try:
            running = self._of_type(values.type, known)
            return running.add(segments, values if running.takes_narrower else cast_exactly(values, self._type), size)
        except (AggregateTypeError, pa.ArrowInvalid) as error:
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
            wider.restore(running.capture(known)())
            self._type, self._running = merged, wider
            return wider
        return running

    # -- state

    def capture(self, size: int) -> _CapturedAggregate | None:
        """The state as it is now; None: no row has come, so not even the type is known."""
        if self._type is None or self._running is None:
            return None
        return _CapturedAggregate(self.name, self._type, self._running.capture(size))

    def restore(self, parts: Sequence[StateRows], names: Sequence[str | None]) -> None:
        """Takes the rows of the parts as the groups 0, 1, ... in this order; the column may have another type in
        each.

        Args:
            names: the name that the aggregate has in each part; None: it starts empty.
        """
        stored = [_StoredAggregate.of(part, name) for part, name in zip(parts, names, strict=True)]
        known = [each.type for each in stored if each.type is not None]
        if not known:
            return
        try:
            merged = functools.reduce(widened_type, known)
            states = [self._state_of(each, merged) for each in stored]
        except (AggregateTypeError, pa.ArrowInvalid) as error:
            raise CheckpointError(f"{self._label}: aggregate {self.name!r} cannot be restored: {error}") from error
        self._type, self._running = merged, create_running(self._aggregate, merged)
        self._running.restore({name: pa.concat_arrays([state[name] for state in states]) for name in states[0]})

    def _state_of(self, stored: _StoredAggregate, merged: pa.DataType) -> State:
        """The part's columns as they are for the type `merged`; those of empty groups where the part has none."""
        running = create_running(self._aggregate, merged)
        if stored.type is not None:
            if stored.type == merged:
                return stored.state
            before = create_running(self._aggregate, stored.type)
            before.restore(stored.state)
            running.restore(before.capture(stored.num_rows)())
        return running.capture(stored.num_rows)()


class _StoredAggregate(Struct, frozen=True):
    """The state of one aggregate in a part of a snapshot."""

    state: State
    type: pa.DataType | None
    """None: the part has none of it."""
    num_rows: int

    @staticmethod
    def of(part: StateRows, name: str | None) -> _StoredAggregate:
        arrow_type = None if name is None else types_from_bytes(part.metadata[_TYPES]).get(name)
        return _StoredAggregate({} if name is None else part.columns_of(name), arrow_type, part.num_rows)


class _CapturedAggregate(Struct, frozen=True):
    """The state of one aggregate at a barrier."""

    name: str
    type: pa.DataType
    make_columns: Callable[[], State]

    def columns(self) -> State:
        return {f"{self.name}:{name}": column for name, column in self.make_columns().items()}


def _types_metadata(states: Iterable[_CapturedAggregate]) -> dict[str, bytes]:
    return {_TYPES: types_to_bytes({state.name: state.type for state in states})}


class RunningAggregateOperator(_RunningOperator):
    """Emits the row's key columns, and the aggregates over all rows of that key so far, it included."""

    def __init__(self, factory: RunningAggregateFactory) -> None:
        self._aggregates = factory.aggregates
        self._evaluators: dict[int, Evaluator] = {}
        """Evaluators by the identity of the columns that the aggregates name, or of their expressions."""

    def _begin(self) -> None:
        super()._begin()
        self._running_columns = [
            _RunningAggregate(name, aggregate, self._label) for name, aggregate in self._aggregates
        ]

    def results(self, batch: Batch, keys: pa.RecordBatch, segments: Segments, known: int) -> Batch:
        columns = dict(zip(keys.schema.names, keys.columns, strict=True))
        for running, (name, aggregate) in zip(self._running_columns, self._aggregates, strict=True):
            if name in columns:
                raise InvalidProgramError(f"{self._label}: two result columns are named {name!r}; rename the aggregate")
            values = self._argument(batch.data, aggregate)
            columns[name] = running.add(values, segments, len(self._index), known)
        data = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return Batch(data, Kind.ROW, batch.times)

    def _argument(self, data: pa.RecordBatch, aggregate: Aggregate) -> pa.Array:
        """What is aggregated: the column; where there is a `by` a struct of (column, by); for Count() every row."""
        arrays = [self._column(data, column) for column in aggregate_columns(aggregate)]
        if not arrays:
            return from_numpy(np.ones(data.num_rows, np.bool_))
        return arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, names=["value", "by"])

    def _column(self, data: pa.RecordBatch, column: object) -> pa.Array:
        evaluator = self._evaluators.get(id(column))
        if evaluator is None:
            expression = column if isinstance(column, Expression) else col(column)  # type: ignore[arg-type]
            evaluator = self._evaluators[id(column)] = Evaluator([expression], self._label)
        return self._decoded(evaluator.arrays(data)[0])

    def capture(self, size: int) -> Callable[[], tuple[dict[str, pa.Array], dict[str, bytes]]]:
        states = [state for running in self._running_columns if (state := running.capture(size)) is not None]
        return lambda: (
            {name: column for state in states for name, column in state.columns().items()},
            _types_metadata(states) | facts_metadata(self._aggregates),
        )

    def restore(self, parts: Sequence[StateRows]) -> None:
        names = [stored_names(self._aggregates, part.metadata, self._label) for part in parts]
        for running in self._running_columns:
            running.restore(parts, [of_part[running.name] for of_part in names])


_MODES: dict[str, type[Aggregate]] = {"sum": Sum, "min": Min, "max": Max}


class RunningColumnOperator(_RunningOperator):
    """sum, min, max: emits the key's first row with that column replaced by the aggregate so far. min_by, max_by: emits
    the row that has the extreme value so far, the first of equal ones. Nulls in the column are left out."""

    def __init__(self, factory: RunningColumnFactory) -> None:
        if factory.mode not in (*_MODES, "min_by", "max_by"):
            raise InvalidProgramError(f"unknown running aggregate {factory.mode!r}")
        self._factory = factory

    def _begin(self) -> None:
        super()._begin()
        mode, column = self._factory.mode, self._factory.column
        self._running_column = (
            _RunningAggregate(str(column), _MODES[mode](column), self._label) if mode in _MODES else None
        )
        self._schema: pa.Schema | None = None
        self._choice = Choice([])
        self._improvements: Improvements | None = None

    def results(self, batch: Batch, keys: pa.RecordBatch, segments: Segments, known: int) -> Batch:
        position = self._position(batch.data.schema.names)
        columns = [self._decoded(column) for column in batch.data.columns]
        columns = self._in_one_schema(batch.data.schema.names, columns, known)
        size = len(self._index)
        is_new = segments.groups >= known
        first = np.where(is_new, segments.starts, -1)[segments.segment_of]
        if self._running_column is None:
            assert self._improvements is not None
            best = self._improvements.rows(segments, columns[position], size)
            results = self._choice.take(segments, np.where(best < 0, first, best), columns, size)
        else:
            results = self._choice.take(segments, first, columns, size)
            results[position] = self._running_column.add(columns[position], segments, size, known)
        data = pa.RecordBatch.from_arrays(results, names=batch.data.schema.names)
        return Batch(self._declared(data), batch.kind, batch.times)

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
        """The columns in types that hold the rows in state too, which are widened where needed."""
        types = [column.type for column in columns]
        try:
            if self._schema is None:
                self._begin_with(pa.schema(list(zip(names, types, strict=True))))
            assert self._schema is not None
            if self._schema.types != types or self._schema.names != names:
                self._widen(names, types, known)
            return [cast_exactly(*both) for both in zip(columns, self._schema.types, strict=True)]
        except AggregateTypeError as error:
            raise TypeMismatchError(f"{self._label}: {error}") from error

    def _widen(self, names: list[str], types: list[pa.DataType], known: int) -> None:
        assert self._schema is not None
        if self._schema.names != names:
            raise TypeMismatchError(
                f"{self._label}: rows had columns {', '.join(self._schema.names)} and have {', '.join(names)} now"
            )
        merged = [widened_type(old, new) for old, new in zip(self._schema.types, types, strict=True)]
        if merged != self._schema.types:
            rows, best = self._choice.capture(known)(), self._captured_best(known)
            self._begin_with(pa.schema(list(zip(names, merged, strict=True))))
            self._restore_rows(rows, None if best is None else best())

    def _begin_with(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._choice = Choice(schema.types)
        if self._running_column is None:
            by_type = schema.types[self._position(schema.names)]
            check_ordered(by_type, self._description())
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

    def _captured_best(self, size: int) -> Callable[[], pa.Array] | None:
        return None if self._improvements is None else self._improvements.capture(size)

    def _restore_rows(self, rows: State, best: pa.Array | None) -> None:
        self._choice.restore(rows)
        if self._improvements is not None and best is not None:
            self._improvements.restore(best)

    def capture(self, size: int) -> Callable[[], tuple[dict[str, pa.Array], dict[str, bytes]]]:
        assert self._schema is not None
        schema, rows, best = self._schema, self._choice.capture(size), self._captured_best(size)
        running = None if self._running_column is None else self._running_column.capture(size)
        metadata = {"running aggregate": self._description().encode(), "rows": bytes(schema.serialize())}

        def make() -> tuple[dict[str, pa.Array], dict[str, bytes]]:
            columns = {f"row:{name}": column for name, column in rows().items()}
            if best is not None:
                columns["best"] = best()
            if running is not None:
                columns |= running.columns()
            return columns, metadata | _types_metadata([] if running is None else [running])

        return make

    def restore(self, parts: Sequence[StateRows]) -> None:
        for part in parts:
            check_same(part, "running aggregate", self._description(), self._label)
        schemas = [pa.ipc.read_schema(pa.py_buffer(part.metadata["rows"])) for part in parts]
        names = schemas[0].names
        if any(schema.names != names for schema in schemas):
            raise CheckpointError(f"{self._label}: its former subtasks had rows of different columns: {schemas}")
        types = [
            functools.reduce(widened_type, same) for same in zip(*(schema.types for schema in schemas), strict=True)
        ]
        self._begin_with(pa.schema(list(zip(names, types, strict=True))))
        rows = {
            f"c{index}": _concatenated(parts, f"row:c{index}", arrow_type) for index, arrow_type in enumerate(types)
        }
        best_type = types[self._position(names)]
        self._restore_rows(rows, None if self._improvements is None else _concatenated(parts, "best", best_type))
        if self._running_column is not None:
            self._running_column.restore(parts, [self._running_column.name] * len(parts))

    def _description(self) -> str:
        return f"{self._factory.mode}({self._factory.column!r})"


def _concatenated(parts: Sequence[StateRows], name: str, arrow_type: pa.DataType) -> pa.Array:
    return pa.concat_arrays([cast_exactly(part.columns[name], arrow_type) for part in parts])
