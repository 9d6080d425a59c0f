"""The built-in aggregates of one operator: columns in, one result column per aggregate out, for many accumulators."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.casting import stored_type
from actors.columns.large_columns import Column
from actors.columns.take import contiguous
from actors.keys.state_tables import StateRows, types_from_bytes, types_to_bytes
from actors.operators.aggregates.accumulator_column import AccumulatorColumn, AggregatedRows, ArrayColumn, ValueCounts
from actors.operators.aggregates.accumulators import Accumulators, Selection, numbers_in
from actors.operators.aggregates.entry_columns import (
    BestColumn,
    DecimalMeanColumn,
    DecimalSumColumn,
    DistinctColumn,
    ListColumn,
    TopByColumn,
    TopNColumn,
)
from actors.operators.aggregates.fixed_width_columns import (
    CountColumn,
    ExtremeColumn,
    FirstLastColumn,
    FloatSumColumn,
    IntegerSumColumn,
)
from actors.operators.aggregates.stored_aggregates import aggregate_columns, facts_metadata, stored_names
from actors.operators.aggregates.value_rules import AggregateTypeError, cast_exactly, has_order, is_fixed_width
from actors.operators.expressions.column_operators import evaluate
from flinkray.batches.numpy_arrays import INT64, as_numpy, fixed_width, from_numpy
from flinkray.errors import InvalidProgramError, TypeMismatchError, UnknownColumnError, operator_label
from flinkray.expressions.tree import Expression
from flinkray.types.type_unification import unify_types
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

# The name of the column of a snapshot with an aggregate's counts.
_COUNT = "count"


class AggregateColumns:
    """All aggregates of one operator, each a column of accumulators. Belongs to one thread.

    Args:
        aggregates: pairs of the result column's name and what is computed.
        where: names operator and subtask in errors, for example "window (1/2)".
        facts: what other columns of the same aggregates say of them in metadata.
    """

    def __init__(
        self, aggregates: Sequence[tuple[str, Aggregate]], where: str, facts: Mapping[str, bytes] | None = None
    ) -> None:
        self._aggregates = tuple(aggregates)
        self._where = where
        self._aggregations = [_Aggregation(name, aggregate, where) for name, aggregate in aggregates]
        self._facts = facts_metadata(self._aggregates) if facts is None else facts
        self._known_facts: Mapping[str, bytes] | None = None
        """The metadata that `_known_names` were found in."""
        self._known_names: Mapping[str, str | None] = {}
        self._size = 0
        self._has_begun = False
        """Whether something was added."""

    def fresh(self) -> AggregateColumns:
        """The same aggregates without accumulators."""
        return AggregateColumns(self._aggregates, self._where, self._facts)

    @property
    def is_fixed_size(self) -> bool:
        """Whether merging accumulators makes them smaller: no aggregate keeps entries of what was added."""
        return all(aggregation.is_fixed_size for aggregation in self._aggregations)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self._aggregates]

    def grow(self, size: int) -> None:
        """Makes room for the accumulators 0 ... size - 1."""
        if size <= self._size:
            return
        self._size = size
        for aggregation in self._aggregations:
            aggregation.grow(size)
        self._grow_counts()

    def add(self, data: pa.RecordBatch, accumulators: Accumulators, first_position: int) -> None:
        """Adds each row of `data` to its accumulator; rows are numbered from `first_position` in order of arrival.

        Raises:
            UnknownColumnError, TypeMismatchError: a column is missing, or an aggregate cannot take its type; names
                operator, aggregate and column.
        """
        everything = AggregatedRows(accumulators, first_position, None)
        rows_by_columns: dict[object, AggregatedRows] = {}
        prepared_rows: list[tuple[_Aggregation, AggregatedRows]] = []
        same: list[tuple[_Aggregation, object]] = []
        for aggregation in self._aggregations:
            key = aggregation.columns_key
            if key not in rows_by_columns:
                rows_by_columns[key] = self._rows(data, everything, aggregation)
            rows = rows_by_columns[key]
            same.append((aggregation, len(rows.accumulators) == len(accumulators) or key))
            if len(rows.accumulators):
                with aggregation:
                    prepared = aggregation.prepared(rows, self._size)
                if prepared is not None:
                    prepared_rows.append((aggregation, prepared))
        self._share_counts(same)
        for aggregation, rows in prepared_rows:
            with aggregation:
                aggregation.add(rows)
        for counts, counted in {
            id(aggregation.counts): (aggregation.counts, rows.accumulators) for aggregation, rows in prepared_rows
        }.values():
            if counts is not None:
                counts.add(counted)

    def prepare(self, data: pa.RecordBatch) -> None:
        """Makes the columns of accumulators that rows of this schema need, of which `data` may have none. Raises as
        `add`."""
        nothing = AggregatedRows(np.empty(0, np.int64), 0, None)
        for aggregation in self._aggregations:
            with aggregation:
                aggregation.prepared(self._rows(data.slice(0, 0), nothing, aggregation), 0)

    def merge(self, other: AggregateColumns, sources: Accumulators, targets: Accumulators) -> None:
        """Adds what `sources[i]` of the others has to `targets[i]` here, for which there must be room; both may
        repeat."""
        pairs = list(zip(self._aggregations, other._aggregations, strict=True))
        for aggregation, source in pairs:
            with aggregation:
                aggregation.prepare_merge(source, self._size)
        self._share_counts([(aggregation, id(source.counts)) for aggregation, source in pairs])
        for aggregation, source in pairs:
            with aggregation:
                aggregation.merge(source, sources, targets)
        for counts, others in {
            id(aggregation.counts): (aggregation.counts, source.counts) for aggregation, source in pairs
        }.values():
            if counts is not None and others is not None:
                counts.merge(others, sources, targets)

    def renumber(self, old: Accumulators, new: Accumulators, size: int) -> None:
        """Keeps only the distinct accumulators `old`, of which `old[i]` is `new[i]` from now on, and makes room for the
        accumulators 0 ... size - 1."""
        for aggregation in self._aggregations:
            aggregation.renumber(old, new, size)
        for counts in self._counts():
            counts.renumber(old, new, size)
        self._size = size

    def clear(self, selection: slice) -> None:
        """Makes these accumulators empty."""
        for aggregation in self._aggregations:
            aggregation.clear(selection)
        for counts in self._counts():
            counts.clear(selection)

    def combine(self, sources: Accumulators, targets: Accumulators, size: int) -> AggregateColumns:
        """New aggregates of `size` accumulators, where `targets[i]` has what `sources[i]` has here; both may
        repeat."""
        combined = self.fresh()
        combined.grow(size)
        combined.merge(self, sources, targets)
        return combined

    def results(self, selection: Selection) -> list[Column]:
        """One column per aggregate, in their order; in chunks where one array has no room for it."""
        selection = selection if isinstance(selection, slice) else contiguous(selection)
        columns: list[Column] = []
        for aggregation in self._aggregations:
            with aggregation:
                columns.append(aggregation.results(selection))
        return columns

    # -- snapshots

    def copy(self, size: int) -> AggregateColumns:
        """A copy of the accumulators 0 ... size - 1 as they are now; quick, whatever there is in them."""
        copied = self.fresh()
        copied._size, copied._has_begun = size, self._has_begun
        self.grow(size)
        copied._aggregations = [aggregation.copy(size) for aggregation in self._aggregations]
        copies = {id(counts): counts.copy(size) for counts in self._counts()}
        for aggregation in copied._aggregations:
            aggregation.counts = copies.get(id(aggregation.counts))
        return copied

    def columns(self, accumulators: Accumulators) -> dict[str, pa.Array]:
        """The state of these distinct accumulators, a row for each; any thread may call it on a copy."""
        selection = contiguous(accumulators)
        counts = {id(each): from_numpy(each.of(selection)) for each in self._counts()}
        columns: dict[str, pa.Array] = {}
        for aggregation in self._aggregations:
            columns |= aggregation.state_columns(selection, counts.get(id(aggregation.counts)))
        return columns

    def metadata(self) -> dict[str, bytes]:
        """What `loaded` needs beside the columns."""
        types = {
            aggregation.name: aggregation.type for aggregation in self._aggregations if aggregation.type is not None
        }
        return {_TYPES: _types_to_bytes(tuple(types.items())), **self._facts}

    def loaded(self, part: StateRows) -> AggregateColumns:
        """New aggregates like these, whose accumulators 0, 1, ... are the rows of a snapshot.

        One that only the snapshot knows is dropped.

        Raises:
            IncompatibleStateError: as `stored_names`.
        """
        loaded = self.fresh()
        types = _types_from_bytes(part.metadata[_TYPES])
        names = self._names_in(part.metadata)
        for aggregation in loaded._aggregations:
            stored_name = names[aggregation.name]
            if stored_name is not None:
                aggregation.load(part.columns_of(stored_name), types.get(stored_name))
        loaded._share_equal_counts()
        loaded.grow(part.num_rows)
        return loaded

    def _names_in(self, metadata: Mapping[str, bytes]) -> Mapping[str, str | None]:
        """`stored_names`, looked for once where one program has written all, as partial aggregates of many batches."""
        facts = {name: value for name, value in metadata.items() if name != _TYPES}
        if facts != self._known_facts:
            self._known_names = stored_names(self._aggregates, facts, operator_label(self._where))
            self._known_facts = facts
        return self._known_names

    # -- counts

    def counts_rows_of(self, accumulators: Accumulators) -> bool:
        """Whether rows are counted, and all rows of these accumulators were: a snapshot may not have had their count,
        but what is added from now on is counted."""
        rows = self._row_counts
        return rows is not None and bool(rows.array[accumulators].all())

    def has_rows(self, accumulators: slice) -> npt.NDArray[np.bool_]:
        """Which of these accumulators have got rows since they were cleared. Only where `counts_rows_of` all others."""
        rows = self._row_counts
        assert rows is not None
        return rows.array[accumulators] != 0  # type: ignore[no-any-return]

    @property
    def _row_counts(self) -> ValueCounts | None:
        return next((aggregation.counts for aggregation in self._aggregations if aggregation.counts_rows), None)

    def _counts(self) -> list[ValueCounts]:
        """The counts of all aggregates; those that several share are there once."""
        return list(
            {
                id(aggregation.counts): aggregation.counts
                for aggregation in self._aggregations
                if aggregation.counts is not None
            }.values()
        )

    def _share_counts(self, same: Sequence[tuple[_Aggregation, object]]) -> None:
        """To be called before something is added: aggregates whose rows have been the same, and are the same now, share
        their counts.

        Args:
            same: for each aggregate something that is equal where it gets the same rows.
        """
        if not self._has_begun:
            self._has_begun, shared = True, ValueCounts()
            for aggregation in self._aggregations:
                if aggregation.counts is not None:
                    aggregation.counts = shared
        if len({rows_key for _, rows_key in same}) > 1:
            self._split_counts(same)
        self._grow_counts()

    def _split_counts(self, same: Sequence[tuple[_Aggregation, object]]) -> None:
        counting: dict[int, object] = {}
        split: dict[tuple[int, object], ValueCounts] = {}
        for aggregation, rows_key in same:
            counts = aggregation.counts
            if counts is not None and counting.setdefault(id(counts), rows_key) != rows_key:
                key = id(counts), rows_key
                aggregation.counts = split[key] = split.get(key) or counts.copy(self._size)

    def _grow_counts(self) -> None:
        for aggregation in self._aggregations:
            if aggregation.counts is not None:
                aggregation.counts.grow(self._size)

    def _share_equal_counts(self) -> None:
        self._has_begun, each = True, self._counts()
        for aggregation in self._aggregations:
            if aggregation.counts is not None and np.array_equal(aggregation.counts.array, each[0].array):
                aggregation.counts = each[0]

    def _rows(self, data: pa.RecordBatch, everything: AggregatedRows, aggregation: _Aggregation) -> AggregatedRows:
        columns = [self._column(data, column) for column in aggregation.columns]
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
            array = evaluate(column, data, operator_label(self._where))
        elif isinstance(column, str):
            number = data.schema.get_field_index(column)
            if number < 0:
                raise UnknownColumnError(column, data.schema.names, operator_label(self._where))
            array = data.column(number)
        else:
            raise InvalidProgramError(
                f"{operator_label(self._where)}: an aggregate takes a column name or an expression, not {column!r}"
            )
        return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


class _Aggregation:
    """One aggregate, whose column of accumulators is made when the type of its values is known. Within `with
    aggregation`, errors say which operator and aggregate they are about."""

    def __init__(self, name: str, aggregate: Aggregate, where: str) -> None:
        self.name = name
        self._where = where
        self.columns = aggregate_columns(aggregate)
        self.columns_key = tuple(column if isinstance(column, str) else id(column) for column in self.columns)
        """Equal where two aggregates read the same columns."""
        self.type: pa.DataType | None = None
        """The type of the values; None while it is not known, and for counts."""
        self._aggregate = aggregate
        self._accumulators: AccumulatorColumn | None = None
        if isinstance(aggregate, Count):
            self._accumulators = CountColumn()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, AggregateTypeError):
            raise TypeMismatchError(f"{operator_label(self._where)}: {self.name}={self.shown}: {error}") from error

    @property
    def counts_rows(self) -> bool:
        """Whether it is the number of all rows."""
        return isinstance(self._aggregate, Count) and not self.columns

    @property
    def is_fixed_size(self) -> bool:
        return self._accumulators is None or isinstance(self._accumulators, ArrayColumn)

    @property
    def shown(self) -> str:
        columns = ", ".join(str(column) for column in self.columns)
        return f"{type(self._aggregate).__name__}({columns})"

    def grow(self, size: int) -> None:
        if self._accumulators is not None:
            self._accumulators.grow(size)

    def prepared(self, rows: AggregatedRows, size: int) -> AggregatedRows | None:
        """The rows with values of the type that the column of accumulators takes, which is made if there is none yet;
        None while the type of the values is not known at all."""
        if rows.values is None or isinstance(self._aggregate, Count):
            return rows
        values = self._typed(rows.values, size)
        return None if values is None else rows.with_values(values)

    @property
    def counts(self) -> ValueCounts | None:
        """How many values each accumulator has had; None: they are not counted, or there have been none."""
        return None if self._accumulators is None else self._accumulators.counts

    @counts.setter
    def counts(self, counts: ValueCounts | None) -> None:
        if self._accumulators is not None:
            self._accumulators.counts = counts

    def add(self, rows: AggregatedRows) -> None:
        """Adds rows as `prepared` gave them."""
        assert self._accumulators is not None
        self._accumulators.add(rows)

    def renumber(self, old: Accumulators, new: Accumulators, size: int) -> None:
        if self._accumulators is not None:
            self._accumulators.renumber(old, new, size)

    def clear(self, selection: slice) -> None:
        if self._accumulators is not None:
            self._accumulators.clear(selection)

    def prepare_merge(self, source: _Aggregation, size: int) -> None:
        """Brings both columns to one type."""
        if source._accumulators is None:
            return
        if self._accumulators is None:
            self.type = source.type
            self._accumulators = source._accumulators.fresh()
            self._accumulators.grow(size)
        elif self.type is not None and source.type is not None and not self.type.equals(source.type):
            source._widen(self._widen(source.type))

    def merge(self, source: _Aggregation, sources: Accumulators, targets: Accumulators) -> None:
        if source._accumulators is not None:
            assert self._accumulators is not None
            self._accumulators.merge(source._accumulators, sources, targets)

    # -- snapshots

    def copy(self, size: int) -> _Aggregation:
        copied = copy.copy(self)
        copied._accumulators = None if self._accumulators is None else self._accumulators.copy(size)
        return copied

    def state_columns(self, selection: Selection, counts: pa.Array | None) -> dict[str, pa.Array]:
        columns = {} if self._accumulators is None else self._accumulators.columns(selection)
        if counts is not None:
            columns[_COUNT] = counts
        return {f"{self.name}:{name}": column for name, column in columns.items()}

    def load(self, columns: Mapping[str, pa.Array], arrow_type: pa.DataType | None) -> None:
        """Takes over columns as `state_columns` gave them, by their short names."""
        if arrow_type is not None:
            self.type = arrow_type
            self._accumulators = make_column(self._aggregate, arrow_type)
        if self._accumulators is not None:
            self._accumulators.load(columns)
            if self.counts is not None:
                self.counts = ValueCounts(fixed_width(columns[_COUNT], INT64))

    # -- results

    def results(self, selection: Selection) -> Column:
        if self._accumulators is not None:
            return self._accumulators.results(selection)
        size = len(numbers_in(selection))
        return from_numpy(np.zeros(size, np.int64)) if isinstance(self._aggregate, CountDistinct) else pa.nulls(size)

    def _typed(self, values: pa.Array, size: int) -> pa.Array | None:
        """The values in the type that the column of accumulators takes, which is widened if need be; None while their
        type is not known at all."""
        if self.type is not None and values.type.equals(self.type):
            return values
        if self._accumulators is None or self.type is None:
            if pa.types.is_null(_field_types(values.type)[-1]):
                return None
            self.type = values.type
            self._accumulators = make_column(self._aggregate, values.type)
            self._accumulators.grow(size)
            return values
        merged = self._widen(values.type)
        return values if self._accumulators.takes_narrower else cast_exactly(values, merged)

    def _widen(self, arrow_type: pa.DataType) -> pa.DataType:
        """Widens the column so that it takes values of that type too; gives the type that holds both."""
        assert self._accumulators is not None
        merged = unify_types(self.type, arrow_type)
        if merged is None:
            raise AggregateTypeError(
                f"its column was {self.type} and is {arrow_type} now; set output_type= on the operator that makes it"
            )
        if not merged.equals(self.type):
            self._accumulators = self._accumulators.widened(merged)
            self.type = merged
        return merged


@functools.lru_cache(maxsize=256)
def _types_to_bytes(types: tuple[tuple[str, pa.DataType], ...]) -> bytes:
    return types_to_bytes(dict(types))


_types_from_bytes = functools.lru_cache(maxsize=256)(types_from_bytes)


def _field_types(arrow_type: pa.DataType) -> list[pa.DataType]:
    return [field.type for field in arrow_type] if pa.types.is_struct(arrow_type) else [arrow_type]


def column_names(aggregates: Sequence[tuple[str, Aggregate]]) -> frozenset[str]:
    """The names of all columns that the aggregates read; what is neither a column nor an expression
    `AggregateColumns.add` refuses."""
    read = [column for _, aggregate in aggregates for column in aggregate_columns(aggregate)]
    names = frozenset(column for column in read if isinstance(column, str))
    return names.union(*(column.columns() for column in read if isinstance(column, Expression)))


def make_column(aggregate: Aggregate, arrow_type: pa.DataType) -> AccumulatorColumn:
    """The column of accumulators of an aggregate over values of that type (for those with a `by` a struct of value and
    `by`).

    Raises:
        AggregateTypeError: the aggregate cannot take them.
    """
    if isinstance(aggregate, Count):
        return CountColumn()
    if isinstance(aggregate, Sum | Avg):
        return _sum_or_mean(aggregate, arrow_type)
    if isinstance(aggregate, Min | Max):
        _check_sortable(arrow_type)
        if is_fixed_width(arrow_type):
            return ExtremeColumn(arrow_type, isinstance(aggregate, Max))
        return BestColumn(arrow_type, "descending" if isinstance(aggregate, Max) else "ascending")
    if isinstance(aggregate, First | Last):
        is_last = isinstance(aggregate, Last)
        if is_fixed_width(arrow_type):
            return FirstLastColumn(arrow_type, is_last)
        return BestColumn(arrow_type, None, is_last=is_last)
    if isinstance(aggregate, ArgMin | ArgMax):
        value_type, by_type = _field_types(arrow_type)
        _check_sortable(by_type)
        return BestColumn(value_type, "descending" if isinstance(aggregate, ArgMax) else "ascending", by_type)
    if isinstance(aggregate, TopN) and aggregate.by is not None:
        value_type, by_type = _field_types(arrow_type)
        _check_sortable(by_type)
        return TopByColumn(value_type, by_type, aggregate.n)
    if isinstance(aggregate, TopN):
        _check_sortable(arrow_type)
        return TopNColumn(arrow_type, aggregate.n)
    if isinstance(aggregate, CountDistinct):
        _check_not_nested(arrow_type)
        return DistinctColumn(arrow_type)
    if isinstance(aggregate, CollectList):
        return ListColumn(arrow_type)
    raise AggregateTypeError(f"{type(aggregate).__name__} is no built-in aggregate")


def _sum_or_mean(aggregate: Sum | Avg, arrow_type: pa.DataType) -> AccumulatorColumn:
    types = pa.types
    is_mean = isinstance(aggregate, Avg)
    if types.is_decimal(arrow_type):
        return DecimalMeanColumn(arrow_type) if is_mean else DecimalSumColumn(arrow_type)
    if types.is_floating(arrow_type) or (is_mean and (types.is_integer(arrow_type) or types.is_boolean(arrow_type))):
        return FloatSumColumn(is_mean)
    if types.is_integer(arrow_type) or types.is_boolean(arrow_type) or (types.is_duration(arrow_type) and not is_mean):
        return IntegerSumColumn(arrow_type)
    raise AggregateTypeError(f"it takes numbers, and its column is {arrow_type}; cast the column")


def _check_sortable(arrow_type: pa.DataType) -> None:
    if not has_order(arrow_type):
        raise AggregateTypeError(f"values of type {arrow_type} have no order; use a column that has")


def _check_not_nested(arrow_type: pa.DataType) -> None:
    if pa.types.is_nested(stored_type(arrow_type)):
        raise AggregateTypeError(f"it compares plain values, and its column is {arrow_type}; use a column of it")
