"""Columns of accumulators that keep entries: values of any Arrow type, or several of them, per accumulator.

The state is a table of (accumulator, position, columns). A batch's rows are reduced first, to what may still matter
(the n largest values of each accumulator, its different values, ...), and appended; from time to time the whole table
is reduced again. Text has wide offsets there, since all of it may come to more than 2 GiB.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.casting import comparable
from actors.columns.large_columns import Column, enlarged, narrowed, narrowed_lists
from actors.columns.ordering import differs_from_previous, order_by, partners_of
from actors.operators.aggregates.accumulator_column import AccumulatorColumn, AggregatedRows, ValueCounts
from actors.operators.aggregates.accumulators import Accumulators, Selection, numbers_in
from actors.operators.aggregates.value_rules import (
    cast_exactly,
    decimal_mean_type,
    decimal_means,
    decimal_overflow,
    decimal_sum_type,
    decimals_of,
    has_ranks,
    ranks_of,
    with_one_zero,
)
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

_CELL = "cell"
_POSITION = "position"
_VALUE = "value"
_BY = "by"

# Reducing the whole table again costs more than it saves while fewer entries than this have been appended.
_APPENDED_BEFORE_REDUCING = 65_536
# So many appended bytes are reduced however few the entries are: large texts, say, of which one per accumulator
# matters.
_APPENDED_BYTES_BEFORE_REDUCING = 16 << 20

# So many ranges of cleared accumulators are remembered: looking whether one of more is read would cost more than
# forgetting their entries.
_MOST_RANGES = 64


class EntryColumn(AccumulatorColumn):
    """Base of columns of entries: subclasses say how entries are reduced, and make results of them."""

    def __init__(self) -> None:
        self._chunks: list[pa.Table] = []
        self._cleared: list[slice] = []
        """Accumulators that were cleared; the table may still have entries of them, which nobody reads."""
        self._reduced_rows = self._reduced_bytes = 0
        self._appended_rows = self._appended_bytes = 0

    def grow(self, size: int) -> None:
        """Nothing to do: accumulators without entries take no room."""

    def add(self, rows: AggregatedRows) -> None:
        self._append(self._table(rows))

    def merge(self, other: EntryColumn, sources: Accumulators, targets: Accumulators) -> None:
        self._append(other._entries_of(sources, targets))

    def renumber(self, old: Accumulators, new: Accumulators, size: int) -> None:
        self._keep(self._reduced(self._entries_of(old, new)))
        self._cleared = []

    def clear(self, accumulators: slice) -> None:
        if not self._chunks:
            return
        if self._cleared and self._cleared[-1].stop == accumulators.start:
            accumulators = slice(self._cleared.pop().start, accumulators.stop)
        self._cleared.append(accumulators)
        if len(self._cleared) > _MOST_RANGES:
            self._forget_cleared()

    def _forget_cleared(self) -> None:
        if self._cleared and self._chunks:
            table = self._in_one_chunk()
            entry_accumulators = table.column(_CELL).to_numpy()
            is_live = np.ones(len(entry_accumulators), np.bool_)
            for accumulators in self._cleared:
                is_live &= (entry_accumulators < accumulators.start) | (entry_accumulators >= accumulators.stop)
            self._keep(table.filter(from_numpy(is_live)))
        self._cleared = []

    def _in_one_chunk(self) -> pa.Table:
        """All entries, of which there must be some, in one chunk: they are mostly read several times in a row."""
        if len(self._chunks) > 1:
            self._chunks = [pa.concat_tables(self._chunks).combine_chunks()]
        return self._chunks[0]

    def _keep(self, entries: pa.Table) -> None:
        self._chunks, self._reduced_rows, self._reduced_bytes = [entries], entries.num_rows, entries.nbytes
        self._appended_rows = self._appended_bytes = 0

    def widened(self, arrow_type: pa.DataType) -> EntryColumn:
        self._forget_cleared()
        wider = self._of_type(arrow_type)
        schema = wider._no_entries().schema
        for chunk in self._chunks:
            columns = [cast_exactly(*both) for both in zip(chunk.columns, schema.types, strict=True)]
            wider._chunks.append(pa.table(columns, schema=schema))
        wider._reduced_rows, wider._reduced_bytes = self._reduced_rows, self._reduced_bytes
        wider._appended_rows, wider._appended_bytes = self._appended_rows, self._appended_bytes
        return wider

    @abstractmethod
    def _of_type(self, arrow_type: pa.DataType) -> EntryColumn:
        """An empty column of this class for that type of what `add` gets."""

    def results(self, selection: Selection) -> Column:
        selection = numbers_in(selection)
        numbers = np.arange(len(selection), dtype=np.int64)
        return self._finish(self._reduced(self._entries_of(selection, numbers)), len(selection))

    # -- snapshots

    def copy(self, size: int) -> EntryColumn:
        copied = copy.copy(self)
        copied._chunks, copied._cleared = list(self._chunks), list(self._cleared)
        return copied

    def columns(self, selection: Selection) -> dict[str, pa.Array]:
        """One column for each column of the entries, with a list of values per accumulator."""
        selection = numbers_in(selection)
        entries = self._reduced(self._entries_of(selection, np.arange(len(selection), dtype=np.int64)))
        entry_accumulators = entries.column(_CELL).to_numpy()
        offsets = np.zeros(len(selection) + 1, np.int64)
        np.cumsum(np.bincount(entry_accumulators, minlength=len(selection)), out=offsets[1:])
        return {
            name: pa.LargeListArray.from_arrays(from_numpy(offsets), _one_chunk(entries.column(name)))
            for name in entries.column_names
            if name != _CELL
        }

    def load(self, columns: Mapping[str, pa.Array]) -> None:
        lengths = np.diff(as_numpy(columns[_POSITION].offsets))
        accumulators = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        table = pa.table({_CELL: accumulators} | {name: enlarged(column.flatten()) for name, column in columns.items()})
        if table.num_rows:
            self._keep(table)

    def _columns(self, rows: AggregatedRows) -> dict[str, Any]:
        return {_CELL: rows.accumulators, _POSITION: rows.positions, _VALUE: rows.values}

    def _reduced(self, entries: pa.Table) -> pa.Table:
        """The entries that still matter, sorted by accumulator, and within an accumulator as `_finish` wants it."""
        accumulators = entries.column(_CELL).to_numpy()
        # Where each entry has an accumulator of its own, in order, as those of keys with few rows mostly are, all
        # matter.
        return entries if (accumulators[1:] > accumulators[:-1]).all() else self._reduce(entries)

    @abstractmethod
    def _reduce(self, entries: pa.Table) -> pa.Table:
        """A copy of the entries that still matter, as `_reduced` gives them; some accumulators have several entries, or
        they are in no order."""

    @abstractmethod
    def _finish(self, entries: pa.Table, size: int) -> Column:
        """The results of the accumulators 0 ... size - 1, made from reduced entries."""

    def _append(self, entries: pa.Table) -> None:
        if not entries.num_rows:
            return
        self._forget_cleared()
        reduced = self._reduced(entries)
        if reduced is entries:  # the memory of a batch that was received must not be kept
            reduced = entries.take(from_numpy(np.arange(entries.num_rows)))
        self._chunks.append(reduced)
        self._appended_rows += reduced.num_rows
        self._appended_bytes += reduced.nbytes
        if self._appended_rows > max(_APPENDED_BEFORE_REDUCING, self._reduced_rows) or (
            self._appended_bytes > max(_APPENDED_BYTES_BEFORE_REDUCING, self._reduced_bytes)
        ):
            self._keep(self._reduced(self._in_one_chunk()))

    def _entries_of(self, sources: Accumulators, targets: Accumulators) -> pa.Table:
        """The entries of `sources[i]` as entries of `targets[i]`, for all i."""
        if not self._chunks or not len(sources):
            return self._no_entries()
        lowest, highest = int(sources.min()), int(sources.max())
        if any(cleared.start <= highest and cleared.stop > lowest for cleared in self._cleared):
            self._forget_cleared()
        table = self._in_one_chunk()
        entry_accumulators = table.column(_CELL).to_numpy()
        near = np.flatnonzero((entry_accumulators >= lowest) & (entry_accumulators <= highest))
        order, starts, counts = partners_of(sources - lowest, entry_accumulators[near] - lowest, highest - lowest + 1)
        before = np.cumsum(counts) - counts
        indices = np.arange(int(counts.sum()), dtype=np.int64) + np.repeat(starts - before, counts)
        entries = table.take(from_numpy(near[order[indices]]))
        return entries.set_column(0, _CELL, from_numpy(np.repeat(targets, counts)))

    def _no_entries(self) -> pa.Table:
        return self._table(AggregatedRows(np.empty(0, np.int64), 0, self._empty_values()))

    def _table(self, rows: AggregatedRows) -> pa.Table:
        columns = self._columns(rows)
        return pa.table(
            {
                name: from_numpy(column) if isinstance(column, np.ndarray) else enlarged(column)
                for name, column in columns.items()
            }
        )

    @abstractmethod
    def _empty_values(self) -> pa.Array:
        """An empty array of the type that `add` gets."""


class _TypedEntryColumn(EntryColumn):
    def __init__(self, arrow_type: pa.DataType) -> None:
        super().__init__()
        self._type = arrow_type

    def _empty_values(self) -> pa.Array:
        return pa.nulls(0, self._type)


class ListColumn(_TypedEntryColumn):
    """All values of each accumulator, in order of arrival."""

    def fresh(self) -> ListColumn:
        return ListColumn(self._type)

    def _of_type(self, arrow_type: pa.DataType) -> ListColumn:
        return ListColumn(arrow_type)

    def _reduce(self, entries: pa.Table) -> pa.Table:
        return _sorted(entries, (_POSITION, "ascending"))

    def _finish(self, entries: pa.Table, size: int) -> Column:
        return _as_lists(entries, size, self._type)


class TopNColumn(_TypedEntryColumn):
    """The n largest values of each accumulator, the largest first."""

    def __init__(self, arrow_type: pa.DataType, n: int) -> None:
        super().__init__(arrow_type)
        self._n = n

    def fresh(self) -> TopNColumn:
        return TopNColumn(self._type, self._n)

    def _of_type(self, arrow_type: pa.DataType) -> TopNColumn:
        return TopNColumn(arrow_type, self._n)

    def _reduce(self, entries: pa.Table) -> pa.Table:
        ordered = _sorted(entries, (_VALUE, "descending"), (_POSITION, "ascending"))
        return ordered.filter(from_numpy(_numbers_in_accumulators(ordered) < self._n))

    def _finish(self, entries: pa.Table, size: int) -> Column:
        return _as_lists(entries, size, self._type)


class BestColumn(EntryColumn):
    """One value per accumulator: that of the row which sorts first by `by` (or by itself, or by arrival).

    Args:
        by: "ascending" or "descending" by the `by` column if `by_type` is given, else by the value; None: by arrival.
        is_last: by arrival, the last instead of the first.
    """

    def __init__(
        self, arrow_type: pa.DataType, by: str | None, by_type: pa.DataType | None = None, is_last: bool = False
    ) -> None:
        super().__init__()
        self._type = arrow_type
        self._by = by
        self._by_type = by_type
        self._is_last = is_last

    def fresh(self) -> BestColumn:
        return BestColumn(self._type, self._by, self._by_type, self._is_last)

    def _of_type(self, arrow_type: pa.DataType) -> BestColumn:
        if self._by_type is None:
            return BestColumn(arrow_type, self._by, is_last=self._is_last)
        return BestColumn(arrow_type.field(0).type, self._by, arrow_type.field(1).type)

    def _columns(self, rows: AggregatedRows) -> dict[str, Any]:
        columns = {_CELL: rows.accumulators, _POSITION: rows.positions}
        if self._by_type is None:
            return columns | {_VALUE: rows.values}
        return columns | {_VALUE: pc.struct_field(rows.values, 0), _BY: pc.struct_field(rows.values, 1)}

    def _empty_values(self) -> pa.Array:
        if self._by_type is None:
            return pa.nulls(0, self._type)
        return pa.nulls(0, pa.struct([(_VALUE, self._type), (_BY, self._by_type)]))

    def _reduce(self, entries: pa.Table) -> pa.Table:
        by = [] if self._by is None else [(_VALUE if self._by_type is None else _BY, self._by)]
        ordered = _sorted(entries, *by, (_POSITION, "descending" if self._is_last else "ascending"))
        return ordered.filter(from_numpy(_numbers_in_accumulators(ordered) == 0))

    def _finish(self, entries: pa.Table, size: int) -> Column:
        return narrowed(_one_each(entries, size), self._type)


class TopByColumn(BestColumn):
    """The values of the n rows of each accumulator where `by` is largest, that of the largest first."""

    def __init__(self, arrow_type: pa.DataType, by_type: pa.DataType, n: int) -> None:
        super().__init__(arrow_type, "descending", by_type)
        self._n = n

    def fresh(self) -> TopByColumn:
        return self._of_type(pa.struct([(_VALUE, self._type), (_BY, self._by_type)]))

    def _of_type(self, arrow_type: pa.DataType) -> TopByColumn:
        return TopByColumn(arrow_type.field(0).type, arrow_type.field(1).type, self._n)

    def _reduce(self, entries: pa.Table) -> pa.Table:
        ordered = _sorted(entries, (_BY, "descending"), (_POSITION, "ascending"))
        return ordered.filter(from_numpy(_numbers_in_accumulators(ordered) < self._n))

    def _finish(self, entries: pa.Table, size: int) -> Column:
        return _as_lists(entries, size, self._type)


class DistinctColumn(_TypedEntryColumn):
    """How many different values each accumulator has."""

    def fresh(self) -> DistinctColumn:
        return DistinctColumn(self._type)

    def _of_type(self, arrow_type: pa.DataType) -> DistinctColumn:
        return DistinctColumn(arrow_type)

    def _columns(self, rows: AggregatedRows) -> dict[str, Any]:
        values = with_one_zero(comparable(rows.values))
        return {_CELL: rows.accumulators, _POSITION: np.zeros(len(rows.accumulators), np.int64), _VALUE: values}

    def _reduce(self, entries: pa.Table) -> pa.Table:
        accumulators, values = entries.column(_CELL).to_numpy(), _numbers(entries.column(_VALUE))
        order = order_by(accumulators, values)
        is_other = differs_from_previous(accumulators.take(order)) | differs_from_previous(values.take(order))
        return entries.take(from_numpy(order[is_other]))

    def _finish(self, entries: pa.Table, size: int) -> pa.Array:
        return from_numpy(np.bincount(entries.column(_CELL).to_numpy(), minlength=size).astype(np.int64))


class DecimalSumColumn(_TypedEntryColumn):
    """Exact sums of decimals: decimal128(38, scale), or decimal256(76, scale) for decimal256.

    They are added up with 76 digits, so that it shows when 38 are not enough.
    """

    takes_narrower = True

    def __init__(self, arrow_type: pa.DataType) -> None:
        super().__init__(arrow_type)
        self._sum_type = pa.decimal256(76, arrow_type.scale)
        self._result_type = decimal_sum_type(arrow_type)

    def fresh(self) -> DecimalSumColumn:
        return DecimalSumColumn(self._type)

    def _of_type(self, arrow_type: pa.DataType) -> DecimalSumColumn:
        return DecimalSumColumn(arrow_type)

    def _columns(self, rows: AggregatedRows) -> dict[str, Any]:
        return {**super()._columns(rows), _VALUE: cast_exactly(rows.values, self._sum_type)}

    def _reduce(self, entries: pa.Table) -> pa.Table:
        sums = entries.group_by([_CELL], use_threads=False).aggregate([(_POSITION, "min"), (_VALUE, "sum")])
        return pa.table(
            {
                _CELL: sums.column(_CELL),
                _POSITION: sums.column(f"{_POSITION}_min"),
                _VALUE: sums.column(f"{_VALUE}_sum").cast(self._sum_type),
            }
        )

    def _finish(self, entries: pa.Table, size: int) -> pa.Array:
        sums = _one_each(entries, size)
        try:
            return sums.cast(self._result_type)
        except pa.ArrowInvalid as error:
            raise decimal_overflow(self._result_type) from error


class DecimalMeanColumn(DecimalSumColumn):
    """Exact sums of decimals and the numbers of values, of which means are made."""

    counts: ValueCounts

    def __init__(self, arrow_type: pa.DataType) -> None:
        super().__init__(arrow_type)
        self.counts = ValueCounts()

    def fresh(self) -> DecimalMeanColumn:
        return DecimalMeanColumn(self._type)

    def _of_type(self, arrow_type: pa.DataType) -> DecimalMeanColumn:
        wider = DecimalMeanColumn(arrow_type)
        wider.counts = self.counts
        return wider

    def results(self, selection: Selection) -> pa.Array:
        selection = numbers_in(selection)
        numbers = np.arange(len(selection), dtype=np.int64)
        sums = _one_each(self._reduced(self._entries_of(selection, numbers)), len(selection))
        return decimal_means(sums, self.counts.of(selection), decimal_mean_type(self._type))

    def load(self, columns: Mapping[str, pa.Array]) -> None:
        if "sum" in columns:  # doubles, as means of integers have them, and as those of decimals once had
            self.add_doubles(columns["sum"])
        else:
            super().load({name: columns[name] for name in (_POSITION, _VALUE)})

    def add_doubles(self, sums: pa.Array) -> None:
        """Adds a sum to each of the accumulators 0, 1, ..."""
        self._append(self._table(AggregatedRows(np.arange(len(sums)), 0, decimals_of(sums, self._sum_type))))


def _sorted(entries: pa.Table, *keys: tuple[str, str]) -> pa.Table:
    """A copy of the entries, sorted by accumulator, then by `keys`: columns and directions."""
    columns = {name: comparable(entries.column(name)) for name, _ in keys}
    if all(has_ranks(column.type) for column in columns.values()):
        ranks = [ranks_of(columns[name], direction) for name, direction in keys]
        order = from_numpy(order_by(entries.column(_CELL).to_numpy(), *ranks))
    else:
        columns[_CELL] = entries.column(_CELL)
        order = pc.sort_indices(pa.table(columns), sort_keys=[(_CELL, "ascending"), *keys])
    return entries.take(order)


def _numbers(values: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Integers that are the same where the values are; no value is null."""
    if has_ranks(values.type):
        return ranks_of(values, "ascending")
    numbers: npt.NDArray[Any] = as_numpy(_one_chunk(values).dictionary_encode().indices)
    return numbers


def _numbers_in_accumulators(ordered: pa.Table) -> npt.NDArray[np.int64]:
    """The number of each entry within its accumulator: 0, 1, ..."""
    accumulators = ordered.column(_CELL).to_numpy()
    starts = np.flatnonzero(np.diff(accumulators, prepend=-1))
    lengths = np.diff(starts, append=len(accumulators))
    return np.arange(len(accumulators), dtype=np.int64) - np.repeat(starts, lengths)


def _as_lists(entries: pa.Table, size: int, arrow_type: pa.DataType) -> Column:
    """One list of values per accumulator from entries that are sorted by accumulator; null where there is none."""
    counts = np.bincount(entries.column(_CELL).to_numpy(), minlength=size)
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return narrowed_lists(offsets, _one_chunk(entries.column(_VALUE)), counts == 0, arrow_type)


def _one_each(entries: pa.Table, size: int) -> pa.Array:
    """The value of the entry of each accumulator, which has one at most; null where there is none."""
    rows = np.full(size, -1, np.int64)
    rows[entries.column(_CELL).to_numpy()] = np.arange(entries.num_rows)
    return _one_chunk(entries.column(_VALUE)).take(from_numpy(rows, is_null=rows < 0))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # which copies a single one, too
