"""For each row the results of calls OVER a window of the rows of its key (Flink's OverAggregate)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.take import take
from actors.keys.index import Ids, KeyIndex
from actors.operators.calc.values.decimals import unscaled
from actors.operators.tables.aggregates.user_aggregates import OpenFunctions, of_frames
from actors.operators.tables.over.arrangement import CARRIED, DUE, FARTHEST, FORMER, Arrangement, RangeValues, offset_of
from actors.operators.tables.over.calls import (
    RUNNING_RANKS,
    argument_of,
    carried_parts,
    distinct_parts,
    finished,
    is_of_values,
    of_values,
    parts_of,
    share,
    shift_of,
    shifted,
    single_arguments,
    steps,
)
from actors.operators.tables.over.reductions import reduced
from actors.operators.tables.ranks.sort_codes import Codes, sort_codes
from actors.operators.tables.ranks.waiting import DueRowsOperator, times_of
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.tables.plans.expressions import Column, SortKey, WindowCall
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import DecimalType
from flinkray.transformations.table_factories import OverFactory

_CARRIED = "sums"
_FORMER = "rows"
_SEEN = "values"
_WRITTEN = "written"
_VALUE = "value"
_SUM = "sum"
MILLIS_PER_DAY = 86_400_000
_FARTHEST_FLOAT = 1e300
"""NULL is so far below all values that no frame reaches from one to the other."""


class OverOperator(DueRowsOperator[OverFactory]):
    """Rows are processed in the order of their time. Of the rows of a key before those that are due there are kept

    - what they came to, for each part of an aggregate of all rows up to the current one;
    - the last ones themselves, as far as a frame of later rows reaches back.
    """

    def __init__(self, factory: OverFactory) -> None:
        super().__init__(factory, factory.time)
        self.functions = dict(factory.functions)
        self._open_functions = OpenFunctions(factory.functions)
        built_in = [call for call in factory.calls if call.function not in self.functions]
        parts = [(self._text(call), part) for call in built_in for part in carried_parts(call)]
        written = {_WRITTEN: Numbers(np.int64)}
        self._carried = RowStore(pa.schema([(name, part.type) for name, part in parts]), written)
        self.seen = {
            call: RowStore(pa.schema([(self._text(call), to_arrow(call.arguments[0].type))]), written)
            for call in built_in
            if call.distinct and carried_parts(call)
        }
        """Of calls of distinct values, those that each key has had."""
        self._former = RowStore(self.input_schemas[0], {**written, _VALUE: Numbers(np.int64)})
        self._rows_back = max(map(self._reach, factory.calls), default=0)
        self._range_back = max(map(_range_back, factory.calls), default=-1)

    def open(self) -> None:
        super().open()
        self._open_functions.open(self.context)

    def close(self) -> None:
        self._open_functions.close()
        super().close()

    def _reach(self, call: WindowCall) -> int:
        """How many rows before the current one a call looks at."""
        needs_rows = call.function in self.functions or is_of_values(call)
        if needs_rows and call.frame is not None and call.frame.start.offset is None:
            return FARTHEST  # nothing can stand for former rows
        return _rows_back(call)

    def _text(self, call: WindowCall) -> str:
        """By which what is kept for a call is told from what is kept for others."""
        names = self.input_schemas[0].names
        read = [names[each.index] for each in (*call.arguments, call.filter) if isinstance(each, Column)]
        return f"{call.function}({'DISTINCT ' if call.distinct else ''}{', '.join(read)})"

    def process_due(self, keys: Ids, rows: pa.RecordBatch) -> None:
        self._expire()
        due = _Due(self, keys, rows)
        columns: list[pa.Array] = []
        parts: list[pa.Array] = []
        for call in self.factory.calls:
            results, totals = due.results(call, len(parts))
            columns.append(results)
            parts += totals
        found = pa.RecordBatch.from_arrays(due.with_results(columns), schema=self.schema)
        for begin in range(0, found.num_rows, self.context.batch_rows):
            self.emit(found.slice(begin, self.context.batch_rows))
        if not self.context.is_batch:
            self._keep(due, parts)

    def codes_of(self, former: Ids, rows: pa.RecordBatch) -> Codes:
        """As the order has former rows, by their slots, and then the rows that are due."""
        if self._comes_in_order:
            return [np.arange(len(former) + rows.num_rows)]
        order = self.factory.order
        stored = self._former.take(former, [key.index for key in order])
        pairs = zip(stored.columns, order, strict=True)
        return sort_codes([pa.concat_arrays([column, rows.column(key.index)]) for column, key in pairs], order)

    def values_of(self, rows: pa.RecordBatch) -> RangeValues:
        """Of each row the value of which a RANGE counts so many back or forth."""
        if self._comes_in_order:
            return np.full(rows.num_rows, self.now())
        if len(self.factory.order) != 1:
            return np.zeros(rows.num_rows, np.int64)
        (key,) = self.factory.order
        return range_values(rows.column(key.index), key)

    @property
    def unit(self) -> int:
        """Which of these values is 1 of a RANGE."""
        order = [self.factory.input_rows[0].types[key.index] for key in self.factory.order]
        return 10 ** order[0].scale if order and isinstance(order[0], DecimalType) else 1

    @property
    def _comes_in_order(self) -> bool:
        return self.factory.time is None and not self.context.is_batch

    # -- what is kept

    def _keep(self, due: _Due, parts: Sequence[pa.Array]) -> None:
        now = self.now()
        for call, (keys, values) in due.new_values.items():
            store = self.seen[call]
            store.add(keys, pa.RecordBatch.from_arrays([values], schema=store.schema), written=now)
        if self._carried.schema.names:
            self._carried.remove(due.carried)
            rows = pa.RecordBatch.from_arrays(list(parts), schema=self._carried.schema)
            self._carried.add(due.keys, rows, written=now)
        if self._rows_back or self._range_back >= 0:
            arranged = due.arranged
            is_kept = arranged.end - 1 - arranged.rows < self._rows_back
            if self._range_back >= 0:
                is_kept |= due.values[arranged.order] >= self._oldest
            former = arranged.order[(arranged.ages == FORMER) & ~is_kept] - len(due.carried)
            self._former.remove(due.former[former])
            new = arranged.order[(arranged.ages == DUE) & is_kept]
            values, new = due.values[new], new - len(due.carried) - len(due.former)
            kept = take(due.rows, from_numpy(new))
            self._former.add(due.row_keys[new], kept, written=now, value=values)
        if self._range_back >= 0 and not self._rows_back:  # also of keys that have no new rows
            self._former.remove(self._former.sweep(_VALUE, self._oldest))

    @property
    def _oldest(self) -> int:
        """The least value that a frame of later rows may reach back to."""
        reached = self.now() if self.factory.time is None else self._watermark
        return reached - self._range_back

    def _expire(self) -> None:
        before = self.expires_before
        if before is not None:
            for store in (self._carried, self._former, *self.seen.values()):
                store.remove(store.sweep(_WRITTEN, before))

    @property
    def stores(self) -> Mapping[str, RowStore]:
        seen = {f"{_SEEN} {number}": store for number, store in enumerate(self.seen.values())}
        return {**super().stores, _CARRIED: self._carried, _FORMER: self._former, **seen}


class _Due:
    """The rows that are due, with what is kept of former rows of their keys."""

    def __init__(self, operator: OverOperator, keys: Ids, rows: pa.RecordBatch) -> None:
        self.rows, self.row_keys, self.keys = rows, keys, distinct(keys)
        self._operator = operator
        carried_places, self.carried = operator._carried.of_keys(self.keys)
        former_places, self.former = operator._former.of_keys(self.keys)
        places = np.concatenate([carried_places, former_places, np.searchsorted(self.keys, keys)])
        counts = [len(self.carried), len(self.former), rows.num_rows]
        ages = np.repeat([CARRIED, FORMER, DUE], counts)
        none = np.zeros(len(self.carried), np.int64)
        codes = [np.concatenate([none, each]) for each in operator.codes_of(self.former, rows)]
        former_values = operator._former.numbers(_VALUE)[self.former]
        self.values = np.concatenate([none, former_values, operator.values_of(rows)])
        self.arranged = Arrangement(places, ages, codes, self.values, operator.unit)
        self._columns: dict[int, pa.Array] = {}
        self.new_values: dict[WindowCall, tuple[Ids, pa.Array]] = {}
        """Of calls of distinct values, those that keys have for the first time."""

    def column(self, number: int) -> pa.Array:
        """A column of the rows as they are arranged."""
        if number not in self._columns:
            column = self.rows.column(number)
            (former,) = self._operator._former.take(self.former, [number]).columns
            all_rows = pa.concat_arrays([pa.nulls(len(self.carried), column.type), former, column])
            self._columns[number] = all_rows.take(from_numpy(self.arranged.order))
        return self._columns[number]

    def results(self, call: WindowCall, first: int) -> tuple[pa.Array, list[pa.Array]]:
        """The result of each row as they are arranged, and what its carried parts have come to for each key.

        Args:
            first: the number of the first of these parts among those of all calls.
        """
        arranged = self.arranged
        if call.function in RUNNING_RANKS:
            added, ends = steps(call, arranged)
            (found,), totals = self._running([(_SUM, added)], first, (arranged.begin, ends))
            found = found.fill_null(0)
            return (pc.add(found, 1) if call.function == "RANK" else found), totals
        if call.frame is not None and is_of_values(call):
            begin, end = arranged.frame(call.frame)
            return of_values(call, self.column, arranged, np.maximum(begin, arranged.real_begin), end), []
        argument = argument_of(call, self.column, len(arranged.rows))
        if call.function in ("LAG", "LEAD"):
            return shifted(call, argument, arranged), []
        if call.frame is None:
            return share(call, arranged), []
        begin, end = arranged.frame(call.frame)
        if call.function in self._operator.functions:
            columns = [argument_of(each, self.column, len(arranged.rows)) for each in single_arguments(call)]
            implementation = self._operator.functions[call.function]
            frames = (np.where(arranged.due, np.maximum(begin, arranged.real_begin), 0), np.where(arranged.due, end, 0))
            return of_frames(implementation, columns, *frames, to_arrow(call.type)), []
        if call.distinct and not carried_parts(call):
            return finished(call, distinct_parts(call, argument, arranged, begin, end)), []
        if call.distinct:
            argument = self._first_of_each(call, argument)
        parts = [(part.how, part.of(argument)) for part in parts_of(call)]
        if carried_parts(call):
            found, totals = self._running(parts, first, (begin, end))
            return finished(call, found), totals
        return finished(call, [reduced(how, added, begin, end) for how, added in parts]), []

    def _first_of_each(self, call: WindowCall, argument: pa.Array) -> pa.Array:
        """An argument, NULL where the row's key has had the value before."""
        store, arranged = self._operator.seen[call], self.arranged
        places, slots = store.of_keys(self.keys)
        both = pa.concat_arrays([store.take(slots).column(0), argument])
        values = KeyIndex().ids(pa.RecordBatch.from_arrays([both], names=["value"]))
        keys = np.concatenate([places, arranged.keys])
        order = order_by(keys, values)
        is_first = np.empty(len(order), np.bool_)
        is_first[order] = differs_from_previous(keys[order]) | differs_from_previous(values[order])
        is_new = is_first[len(slots) :] & as_numpy(argument.is_valid())
        new = np.flatnonzero(is_new)
        self.new_values[call] = (self.keys[arranged.keys[new]], argument.take(from_numpy(new)))
        return pc.if_else(from_numpy(is_new), argument, pa.scalar(None, argument.type))

    def _running(
        self, parts: Sequence[tuple[str, pa.Array]], first: int, frame: tuple[Ids, Ids]
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """What parts come to, in frames that begin with the first row of each key, and for each key."""
        arranged = self.arranged
        last = np.flatnonzero(arranged.rows == arranged.end - 1)
        found, totals = [], []
        for number, (how, added) in enumerate(parts, first):
            stored = self._operator._carried.take(self.carried, [number]).column(0)
            sources = np.where(arranged.ages == CARRIED, arranged.order, len(stored) + arranged.rows)
            # Former rows are in what is carried.
            values = pa.concat_arrays([stored, added]).take(from_numpy(sources, arranged.ages == FORMER))
            found.append(reduced(how, values, *frame))
            totals.append(reduced(how, values, arranged.begin[last], arranged.end[last]))
        return found, totals

    def with_results(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The rows that are due, those of a key in their order, with columns of the rows as they are arranged."""
        places = np.flatnonzero(self.arranged.due)
        numbers = self.arranged.order[places] - len(self.carried) - len(self.former)
        results = [column.take(from_numpy(places)) for column in columns]
        return [*take(self.rows, from_numpy(numbers)).columns, *results]


def range_values(column: pa.Array, key: SortKey) -> RangeValues:
    """Numbers, or times in milliseconds, as numbers that ascend as the key has them; zeros of other types."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        values = times_of(column)
    elif pa.types.is_date(kind):
        values = as_numpy(column.cast(pa.int32()).cast(pa.int64()).fill_null(0)) * MILLIS_PER_DAY
    elif pa.types.is_time(kind):
        values = as_numpy(column.cast(pa.time32("ms"), safe=False).cast(pa.int32()).cast(pa.int64()).fill_null(0))
    elif pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        whole = unscaled(column) if pa.types.is_decimal(kind) else column
        values = as_numpy(whole.cast(pa.int64()).fill_null(0))
    elif pa.types.is_floating(kind):
        return _float_values(column, key)
    else:
        return np.zeros(len(column), np.int64)
    values = np.clip(values, 1 - FARTHEST, FARTHEST - 1)
    of_null = -FARTHEST if key.nulls_first else FARTHEST
    return np.where(as_numpy(column.is_null()), 2 * of_null, -values if key.descending else values)


def _float_values(column: pa.Array, key: SortKey) -> RangeValues:
    """Floats, with NaN above all of them, and NULL beyond NaN."""
    given = as_numpy(column.cast(pa.float64()).fill_null(0.0))
    values = np.where(np.isnan(given), 2 * _FARTHEST_FLOAT, np.clip(given, -_FARTHEST_FLOAT, _FARTHEST_FLOAT))
    of_null = -_FARTHEST_FLOAT if key.nulls_first else _FARTHEST_FLOAT
    return np.where(as_numpy(column.is_null()), 4 * of_null, -values if key.descending else values)


def _rows_back(call: WindowCall) -> int:
    """How many rows before the current one a call looks at."""
    if call.function == "LAG":
        return -shift_of(call)
    return _offset(call, "ROWS") or 0


def _range_back(call: WindowCall) -> int:
    """How far behind the current row a call looks; -1: that does not matter."""
    found = _offset(call, "RANGE")
    return -1 if found is None else found


def _offset(call: WindowCall, unit: str) -> int | None:
    frame = call.frame
    if frame is None or frame.unit != unit or frame.start.offset is None:
        return None
    return offset_of(frame.start)
