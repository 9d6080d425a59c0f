"""The built-in aggregates of one operator: columns in, one result column per aggregate out, for many cells at once."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.casting import stored_type
from actors.columns.large_columns import Column
from actors.columns.take import contiguous
from actors.keys.state_tables import StateRows, check_same, types_from_bytes, types_to_bytes
from actors.operators.aggregates.base import (
    AggregateTypeError,
    ArrayAccumulator,
    Cells,
    ColumnAccumulator,
    Counts,
    Places,
    Rows,
    cast_exactly,
    is_fixed_width,
    listed,
)
from actors.operators.aggregates.entries import (
    BestAccumulator,
    DecimalSumAccumulator,
    DistinctAccumulator,
    ListAccumulator,
    TopAccumulator,
)
from actors.operators.aggregates.numeric import (
    CountAccumulator,
    EndAccumulator,
    ExtremeAccumulator,
    FloatSumAccumulator,
    IntegerSumAccumulator,
)
from actors.operators.expressions.column_operators import evaluate
from flinkray.batches.fixed_width import INT64, as_numpy, fixed_width, from_numpy
from flinkray.errors import InvalidProgramError, TypeMismatchError, UnknownColumnError
from flinkray.expressions.tree import Expression
from flinkray.types.value_types import merge_types
from flinkray.windows.aggregates import (
    Aggregate,
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)

_TYPES = "types"

# The column of a snapshot with an aggregate's counts.
_COUNT = "count"


class AggregateColumns:
    """All aggregates of one operator. Belongs to one thread.

    Args:
        aggregates: (name of the result column, what is computed).
        where: names operator and subtask in errors, for example "window (1/2)".
    """

    def __init__(self, aggregates: Sequence[tuple[str, Aggregate]], where: str) -> None:
        self._aggregates = tuple(aggregates)
        self._where = where
        self._slots = [_Slot(name, aggregate, where) for name, aggregate in aggregates]
        self._size = 0
        self._has_begun = False
        """Something was added."""

    def fresh(self) -> AggregateColumns:
        """The same aggregates without cells."""
        return AggregateColumns(self._aggregates, self._where)

    @property
    def is_fixed_size(self) -> bool:
        """Whether merging cells makes them smaller: no aggregate keeps entries of what was added."""
        return all(slot.is_fixed_size for slot in self._slots)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self._aggregates]

    def grow(self, size: int) -> None:
        """Makes room for the cells 0 ... size - 1."""
        if size <= self._size:
            return
        self._size = size
        for slot in self._slots:
            slot.grow(size)
        self._grow_counts()

    def add(self, data: pa.RecordBatch, cells: Cells, first_position: int) -> None:
        """Adds each row of `data` to its cell; rows are numbered from `first_position` in order of arrival.

        Raises:
            UnknownColumnError, TypeMismatchError: a column is missing, or an aggregate cannot take its type; names
                operator, aggregate and column.
        """
        everything = Rows(cells, first_position, None)
        seen: dict[object, Rows] = {}
        given: list[tuple[_Slot, Rows]] = []
        same: list[tuple[_Slot, object]] = []
        for slot in self._slots:
            key = slot.columns_key
            if key not in seen:
                seen[key] = self._rows(data, everything, slot)
            rows = seen[key]
            same.append((slot, len(rows.cells) == len(cells) or key))
            if len(rows.cells):
                with slot:
                    prepared = slot.prepared(rows, self._size)
                if prepared is not None:
                    given.append((slot, prepared))
        self._share_counts(same)
        for slot, rows in given:
            with slot:
                slot.add(rows)
        for counts, counted in {id(slot.counts): (slot.counts, rows.cells) for slot, rows in given}.values():
            if counts is not None:
                counts.add(counted)

    def prepare(self, data: pa.RecordBatch) -> None:
        """Makes the accumulators that rows of this schema need, of which `data` may have none. Raises as `add`."""
        nothing = Rows(np.empty(0, np.int64), 0, None)
        for slot in self._slots:
            with slot:
                slot.prepared(self._rows(data.slice(0, 0), nothing, slot), 0)

    def merge(self, other: AggregateColumns, cells: Cells, targets: Cells) -> None:
        """Adds other's `cells[i]` to `targets[i]` here, for which there must be room; both may repeat."""
        pairs = list(zip(self._slots, other._slots, strict=True))
        for slot, source in pairs:
            with slot:
                slot.prepare_merge(source, self._size)
        self._share_counts([(slot, id(source.counts)) for slot, source in pairs])
        for slot, source in pairs:
            with slot:
                slot.merge(source, cells, targets)
        for counts, others in {id(slot.counts): (slot.counts, source.counts) for slot, source in pairs}.values():
            if counts is not None and others is not None:
                counts.merge(others, cells, targets)

    def move(self, cells: Cells, targets: Cells, size: int) -> None:
        """Keeps only these distinct cells, `cells[i]` as `targets[i]`, and makes room for the cells 0 ... size - 1."""
        for slot in self._slots:
            slot.move(cells, targets, size)
        for counts in self._counts():
            counts.move(cells, targets, size)
        self._size = size

    def clear(self, cells: slice) -> None:
        """Makes these cells empty."""
        for slot in self._slots:
            slot.clear(cells)
        for counts in self._counts():
            counts.clear(cells)

    def combine(self, cells: Cells, targets: Cells, size: int) -> AggregateColumns:
        """New aggregates of `size` cells, where `targets[i]` has what `cells[i]` has here; both may repeat."""
        combined = self.fresh()
        combined.grow(size)
        combined.merge(self, cells, targets)
        return combined

    def results(self, cells: Places) -> list[Column]:
        """One column per aggregate, in their order; in chunks where one array has no room for it."""
        places = cells if isinstance(cells, slice) else contiguous(cells)
        columns: list[Column] = []
        for slot in self._slots:
            with slot:
                columns.append(slot.results(places))
        return columns

    # -- snapshots

    def copy(self, size: int) -> AggregateColumns:
        """The cells 0 ... size - 1 as they are now; quick, whatever there is in them."""
        copied = AggregateColumns(self._aggregates, self._where)
        copied._size, copied._has_begun = size, self._has_begun
        self.grow(size)
        copied._slots = [slot.copy(size) for slot in self._slots]
        copies = {id(counts): counts.copy(size) for counts in self._counts()}
        for slot in copied._slots:
            slot.counts = copies.get(id(slot.counts))
        return copied

    def columns(self, cells: Cells) -> dict[str, pa.Array]:
        """The state of these distinct cells, a row for each; any thread may call it on a copy."""
        places = contiguous(cells)
        counts = {id(each): from_numpy(each.of(places)) for each in self._counts()}
        columns: dict[str, pa.Array] = {}
        for slot in self._slots:
            columns |= slot.state_columns(places, counts.get(id(slot.counts)))
        return columns

    def metadata(self) -> dict[str, bytes]:
        """What `loaded` needs beside the columns."""
        types = {slot.name: slot.type for slot in self._slots if slot.type is not None}
        return {_TYPES: _types_to_bytes(tuple(types.items()))} | {
            slot.title: slot.kind.encode() for slot in self._slots
        }

    def loaded(self, part: StateRows) -> AggregateColumns:
        """New aggregates like these, whose cells 0, 1, ... are the rows of a snapshot.

        An aggregate that the snapshot does not know is empty; one that only the snapshot knows is dropped.

        Raises:
            CheckpointError: an aggregate of that name computed something else.
        """
        loaded = AggregateColumns(self._aggregates, self._where)
        types = _types_from_bytes(part.metadata[_TYPES])
        for slot in loaded._slots:
            if slot.title in part.metadata:
                check_same(part, slot.title, slot.kind, f"operator {self._where!r}")
                slot.load(part, types.get(slot.name))
        loaded._share_equal_counts()
        loaded.grow(part.num_rows)
        return loaded

    # -- counts

    def counts_rows_of(self, cells: Cells) -> bool:
        """Whether there is a count of all rows, and all rows of these cells are in it: a snapshot may not have had it,
        but what is added from now on is."""
        rows = self._row_counts
        return rows is not None and bool(rows.array[cells].all())

    def has_rows(self, cells: slice) -> npt.NDArray[np.bool_]:
        """Which of these cells rows have been added to since they were cleared, where `counts_rows_of` all others."""
        rows = self._row_counts
        assert rows is not None
        return rows.array[cells] != 0  # type: ignore[no-any-return]

    @property
    def _row_counts(self) -> Counts | None:
        return next((slot.counts for slot in self._slots if slot.counts_rows), None)

    def _counts(self) -> list[Counts]:
        """Each of them once."""
        return list({id(slot.counts): slot.counts for slot in self._slots if slot.counts is not None}.values())

    def _share_counts(self, same: Sequence[tuple[_Slot, object]]) -> None:
        """Before something is added: those that had the same so far, and get the same now, count together.

        Args:
            same: for each what it gets, equal where it is the same.
        """
        if not self._has_begun:
            self._has_begun, shared = True, Counts()
            for slot in self._slots:
                if slot.counts is not None:
                    slot.counts = shared
        if len({given for _, given in same}) > 1:
            self._part_counts(same)
        self._grow_counts()

    def _part_counts(self, same: Sequence[tuple[_Slot, object]]) -> None:
        counting: dict[int, object] = {}
        parted: dict[tuple[int, object], Counts] = {}
        for slot, given in same:
            counts = slot.counts
            if counts is not None and counting.setdefault(id(counts), given) != given:
                key = id(counts), given
                slot.counts = parted[key] = parted.get(key) or counts.copy(self._size)

    def _grow_counts(self) -> None:
        for slot in self._slots:
            if slot.counts is not None:
                slot.counts.grow(self._size)

    def _share_equal_counts(self) -> None:
        self._has_begun, each = True, self._counts()
        for slot in self._slots:
            if slot.counts is not None and np.array_equal(slot.counts.array, each[0].array):
                slot.counts = each[0]

    def _rows(self, data: pa.RecordBatch, everything: Rows, slot: _Slot) -> Rows:
        columns = [self._column(data, column) for column in slot.columns]
        if not columns:
            return everything
        required = columns[-1]  # the value, or what it is chosen by
        values = columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, ["value", "by"])
        rows = everything.with_values(values)
        if not required.null_count:
            return rows
        return rows.take(np.flatnonzero(as_numpy(required.is_valid())))

    def _column(self, data: pa.RecordBatch, column: object) -> pa.Array:
        if isinstance(column, Expression):
            array = evaluate(column, data, f"operator {self._where!r}")
        elif isinstance(column, str):
            number = data.schema.get_field_index(column)
            if number < 0:
                raise UnknownColumnError(column, data.schema.names, f"operator {self._where!r}")
            array = data.column(number)
        else:
            raise InvalidProgramError(
                f"operator {self._where!r}: an aggregate takes a column name or an expression, not {column!r}"
            )
        return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


class _Slot:
    """One aggregate, whose accumulator is made when the type of its column is known. Within `with slot`, errors say
    which operator and aggregate they are about."""

    def __init__(self, name: str, aggregate: Aggregate, where: str) -> None:
        self.name = name
        self._where = where
        self.columns = _columns(aggregate)
        self.columns_key = tuple(column if isinstance(column, str) else id(column) for column in self.columns)
        """Equal where two aggregates read the same columns."""
        self.type: pa.DataType | None = None
        """Of its column; None while it is not known, and for counts."""
        self._aggregate = aggregate
        self._accumulator: ColumnAccumulator | None = None
        if isinstance(aggregate, Count):
            self._accumulator = CountAccumulator()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, AggregateTypeError):
            raise TypeMismatchError(f"operator {self._where!r}: {self.name}={self.shown}: {error}") from error

    @property
    def counts_rows(self) -> bool:
        """It is the number of all rows."""
        return isinstance(self._aggregate, Count) and not self.columns

    @property
    def is_fixed_size(self) -> bool:
        return self._accumulator is None or isinstance(self._accumulator, ArrayAccumulator)

    @property
    def shown(self) -> str:
        columns = ", ".join(str(column) for column in self.columns)
        return f"{type(self._aggregate).__name__}({columns})"

    def grow(self, size: int) -> None:
        if self._accumulator is not None:
            self._accumulator.grow(size)

    def prepared(self, rows: Rows, size: int) -> Rows | None:
        """The rows as the accumulator, which is there then, takes them; None while their type is not known at all."""
        if rows.values is None or isinstance(self._aggregate, Count):
            return rows
        values = self._typed(rows.values, size)
        return None if values is None else rows.with_values(values)

    @property
    def counts(self) -> Counts | None:
        """Of its values; None: they are not counted, or there have been none."""
        return None if self._accumulator is None else self._accumulator.counts

    @counts.setter
    def counts(self, counts: Counts | None) -> None:
        if self._accumulator is not None:
            self._accumulator.counts = counts

    def add(self, rows: Rows) -> None:
        """Rows as `prepared` gave them."""
        assert self._accumulator is not None
        self._accumulator.add(rows)

    def move(self, cells: Cells, targets: Cells, size: int) -> None:
        if self._accumulator is not None:
            self._accumulator.move(cells, targets, size)

    def clear(self, cells: slice) -> None:
        if self._accumulator is not None:
            self._accumulator.clear(cells)

    def prepare_merge(self, source: _Slot, size: int) -> None:
        """Brings both to one type."""
        if source._accumulator is None:
            return
        if self._accumulator is None:
            self.type = source.type
            self._accumulator = source._accumulator.fresh()
            self._accumulator.grow(size)
        elif self.type is not None and source.type is not None and not self.type.equals(source.type):
            source._widen(self._widen(source.type))

    def merge(self, source: _Slot, cells: Cells, targets: Cells) -> None:
        if source._accumulator is not None:
            assert self._accumulator is not None
            self._accumulator.merge(source._accumulator, cells, targets)

    # -- snapshots

    @property
    def kind(self) -> str:
        return type(self._aggregate).__name__

    @property
    def title(self) -> str:
        return f"aggregate {self.name!r}"

    def copy(self, size: int) -> _Slot:
        copied = copy.copy(self)
        copied._accumulator = None if self._accumulator is None else self._accumulator.copy(size)
        return copied

    def state_columns(self, cells: Places, counts: pa.Array | None) -> dict[str, pa.Array]:
        columns = {} if self._accumulator is None else self._accumulator.columns(cells)
        if counts is not None:
            columns[_COUNT] = counts
        return {f"{self.name}:{name}": column for name, column in columns.items()}

    def load(self, part: StateRows, arrow_type: pa.DataType | None) -> None:
        if arrow_type is not None:
            self.type = arrow_type
            self._accumulator = make_accumulator(self._aggregate, arrow_type)
        if self._accumulator is not None:
            columns = part.columns_of(self.name)
            self._accumulator.load(columns)
            if self.counts is not None:
                self.counts = Counts(fixed_width(columns[_COUNT], INT64))

    # -- results

    def results(self, cells: Places) -> Column:
        if self._accumulator is not None:
            return self._accumulator.results(cells)
        size = len(listed(cells))
        return from_numpy(np.zeros(size, np.int64)) if isinstance(self._aggregate, CountDistinct) else pa.nulls(size)

    def _typed(self, values: pa.Array, size: int) -> pa.Array | None:
        """The values as the accumulator, widened if need be, takes them; None while their type is not known at all."""
        if self.type is not None and values.type.equals(self.type):
            return values
        if self._accumulator is None or self.type is None:
            if pa.types.is_null(_parts(values.type)[-1]):
                return None
            self.type = values.type
            self._accumulator = make_accumulator(self._aggregate, values.type)
            self._accumulator.grow(size)
            return values
        merged = self._widen(values.type)
        return values if self._accumulator.takes_narrower else cast_exactly(values, merged)

    def _widen(self, arrow_type: pa.DataType) -> pa.DataType:
        """Makes room for values of that type too; gives the type that holds both."""
        assert self._accumulator is not None
        merged = merge_types(self.type, arrow_type)
        if merged is None:
            raise AggregateTypeError(
                f"its column was {self.type} and is {arrow_type} now; set output_type= on the operator that makes it"
            )
        if not merged.equals(self.type):
            self._accumulator = self._accumulator.widened(merged)
            self.type = merged
        return merged


@functools.lru_cache(maxsize=256)
def _types_to_bytes(types: tuple[tuple[str, pa.DataType], ...]) -> bytes:
    return types_to_bytes(dict(types))


_types_from_bytes = functools.lru_cache(maxsize=256)(types_from_bytes)


def _parts(arrow_type: pa.DataType) -> list[pa.DataType]:
    return [field.type for field in arrow_type] if pa.types.is_struct(arrow_type) else [arrow_type]


def column_names(aggregates: Sequence[tuple[str, Aggregate]]) -> frozenset[str]:
    """Of all columns that they read; what is neither a column nor an expression `AggregateColumns.add` refuses."""
    read = [column for _, aggregate in aggregates for column in _columns(aggregate)]
    names = frozenset(column for column in read if isinstance(column, str))
    return names.union(*(column.columns() for column in read if isinstance(column, Expression)))


def _columns(aggregate: Aggregate) -> tuple[object, ...]:
    """The columns, or expressions, that it reads."""
    if aggregate.column is None and isinstance(aggregate, Count):
        return ()
    return (aggregate.column, aggregate.by) if isinstance(aggregate, ArgMin | ArgMax) else (aggregate.column,)


def make_accumulator(aggregate: Aggregate, arrow_type: pa.DataType) -> ColumnAccumulator:
    """The accumulator of an aggregate over values of that type (of ArgMin and ArgMax: a struct of value and `by`).

    Raises:
        AggregateTypeError: it cannot take them.
    """
    if isinstance(aggregate, Count):
        return CountAccumulator()
    if isinstance(aggregate, Sum | Avg):
        return _sum_or_mean(aggregate, arrow_type)
    if isinstance(aggregate, Min | Max):
        _check_sortable(arrow_type)
        if is_fixed_width(arrow_type):
            return ExtremeAccumulator(arrow_type, isinstance(aggregate, Max))
        return BestAccumulator(arrow_type, "descending" if isinstance(aggregate, Max) else "ascending")
    if isinstance(aggregate, First | Last):
        is_last = isinstance(aggregate, Last)
        if is_fixed_width(arrow_type):
            return EndAccumulator(arrow_type, is_last)
        return BestAccumulator(arrow_type, None, is_last=is_last)
    if isinstance(aggregate, ArgMin | ArgMax):
        value_type, by_type = _parts(arrow_type)
        _check_sortable(by_type)
        return BestAccumulator(value_type, "descending" if isinstance(aggregate, ArgMax) else "ascending", by_type)
    if isinstance(aggregate, TopN):
        _check_sortable(arrow_type)
        return TopAccumulator(arrow_type, aggregate.n)
    if isinstance(aggregate, CountDistinct):
        _check_not_nested(arrow_type)
        return DistinctAccumulator(arrow_type)
    if isinstance(aggregate, CollectList):
        return ListAccumulator(arrow_type)
    raise AggregateTypeError(f"{type(aggregate).__name__} is no built-in aggregate")


def _sum_or_mean(aggregate: Sum | Avg, arrow_type: pa.DataType) -> ColumnAccumulator:
    types = pa.types
    is_mean = isinstance(aggregate, Avg)
    if types.is_decimal(arrow_type):
        return FloatSumAccumulator(is_mean=True) if is_mean else DecimalSumAccumulator(arrow_type)
    if types.is_floating(arrow_type) or (is_mean and (types.is_integer(arrow_type) or types.is_boolean(arrow_type))):
        return FloatSumAccumulator(is_mean)
    if types.is_integer(arrow_type) or types.is_boolean(arrow_type) or (types.is_duration(arrow_type) and not is_mean):
        return IntegerSumAccumulator(arrow_type)
    raise AggregateTypeError(f"it takes numbers, and its column is {arrow_type}; cast the column")


def _check_sortable(arrow_type: pa.DataType) -> None:
    if pa.types.is_nested(stored_type(arrow_type)) or pa.types.is_interval(arrow_type):
        raise AggregateTypeError(f"values of type {arrow_type} have no order; use a column that has")


def _check_not_nested(arrow_type: pa.DataType) -> None:
    if pa.types.is_nested(stored_type(arrow_type)):
        raise AggregateTypeError(f"it compares plain values, and its column is {arrow_type}; use a column of it")
