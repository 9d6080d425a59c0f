"""The unit of flow: a batch of rows as Arrow columns, with the event times, keys and kinds that travel beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import pyarrow as pa

from flinkray.batches import wire_format as wire
from flinkray.batches.numpy_arrays import INT64, fixed_width
from flinkray.batches.sizes import data_bytes
from flinkray.types.records import MIN_TIMESTAMP, Kind, RecordType
from flinkray.types.rows import RowKind

LARGEST_OVER_TARGET = 4
"""A batch may have up to so many times the rows or bytes that batches aim at before it is split, so that batches are
bounded whatever an operator makes of its input."""
FEW_ROWS = 1024
"""Batches of fewer rows are coalesced where several are there: a batch costs as much on its way through a task as about
so many rows."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as Arrow columns, with what travels beside them. Immutable, so operators pass it on by reference.

    Attributes:
        data: the user's columns, shape (rows, columns).
        kind: how a row function sees a row.
        times: event time in epoch milliseconds: per row (int64, no nulls), one for all rows, or None where none was
            assigned.
        keys: the key columns where the stream is keyed by a function (a key made of columns is read from `data`).
        kinds: what each row does in a changelog: the value of its `RowKind` (int8, no nulls); None: all are inserts.
    """

    data: pa.RecordBatch
    kind: Kind = Kind.ROW
    times: pa.Array | int | None = None
    keys: pa.RecordBatch | None = None
    kinds: pa.Array | None = None
    _timestamps: pa.Array | None = field(default=None, init=False, repr=False, compare=False)
    """The timestamp of each row, where all rows share one and somebody has asked for a column of it."""
    _nbytes: int | None = field(default=None, init=False, repr=False, compare=False)
    """The bytes of the rows, once somebody has asked: Arrow takes some 2 us per column, and every task on the way
    asks."""
    _row_bits: int | None = field(default=None, init=False, repr=False, compare=False)
    """The bits of a row without its validity bits, where all rows have as many; 0: they have not. None: nobody has
    asked."""
    _time_bounds: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)
    """The lowest and highest event time, once somebody has asked: sources, windows and their local phase do."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self.data.num_rows)

    @property
    def timestamps(self) -> pa.Array | None:
        """Event time per row in epoch milliseconds (int64, no nulls), or None where none was assigned."""
        if not isinstance(self.times, int):
            return self.times
        if self._timestamps is None:
            object.__setattr__(self, "_timestamps", pa.repeat(pa.scalar(self.times, pa.int64()), self.num_rows))
        return self._timestamps

    @property
    def row_kinds(self) -> pa.Array:
        """The kind of each row as `kinds` has them, also where all are inserts."""
        return inserts(self.num_rows) if self.kinds is None else self.kinds

    @property
    def nbytes(self) -> int:
        """Bytes of the rows themselves, whatever buffers they are slices of."""
        if self._nbytes is not None:
            return self._nbytes
        total = self._column_bytes() + _nbytes_of(self.times) + (0 if self.kinds is None else self.num_rows)
        self.set_nbytes(total)  # the class is frozen; the value is the same for everyone
        return total

    def _column_bytes(self) -> int:
        columns = [*self.data.columns, *(() if self.keys is None else self.keys.columns)]
        if self.has_even_rows:  # Arrow would look at each buffer, and give the interpreter's lock away for that
            marked = sum(int(column.null_count) > 0 for column in columns)
            return ((self._bits_per_row() + marked) * self.num_rows + 7) // 8
        return sum(map(data_bytes, columns))

    @property
    def time_bounds(self) -> tuple[int, int]:
        """The lowest and the highest event time; the batch has rows, and they have event time."""
        if self._time_bounds is not None:
            return self._time_bounds
        if isinstance(self.times, int):
            return self.times, self.times
        assert self.times is not None
        times = fixed_width(self.times, INT64)
        bounds = int(times.min()), int(times.max())
        object.__setattr__(self, "_time_bounds", bounds)
        return bounds

    @property
    def is_timed(self) -> bool:
        """Whether all rows have event time; the batch has rows."""
        return self.times is not None and self.time_bounds[0] != MIN_TIMESTAMP

    @property
    def record_type(self) -> RecordType:
        """The type of the rows: their kind, and the Arrow schema of `data`."""
        return RecordType(self.kind, self.data.schema)

    def slice(self, offset: int, length: int | None = None) -> Batch:
        """Rows from `offset`, without copying; keeps the whole batch's buffers alive."""
        return self.sized(
            Batch(
                self.data.slice(offset, length),
                self.kind,
                self.times.slice(offset, length) if isinstance(self.times, pa.Array) else self.times,
                None if self.keys is None else self.keys.slice(offset, length),
                None if self.kinds is None else self.kinds.slice(offset, length),
            )
        )

    def take(self, indices: pa.Array) -> Batch:
        """The rows at `indices`, in that order; copies."""
        return Batch(
            self.data.take(indices),
            self.kind,
            self.times.take(indices) if isinstance(self.times, pa.Array) else self.times,
            None if self.keys is None else self.keys.take(indices),
            None if self.kinds is None else self.kinds.take(indices),
        )

    def filter(self, mask: pa.Array) -> Batch:
        """The rows where `mask` is true (null counts as false); copies."""
        return Batch(
            self.data.filter(mask),
            self.kind,
            self.times.filter(mask) if isinstance(self.times, pa.Array) else self.times,
            None if self.keys is None else self.keys.filter(mask),
            None if self.kinds is None else self.kinds.filter(mask),
        )

    def sized(self, part: Batch) -> Batch:
        """`part`, which has some rows of this batch, with its `nbytes` set where all rows have as many bytes."""
        if self._nbytes and self.has_even_rows:
            part.set_nbytes(self._nbytes * part.num_rows // self.num_rows)
            object.__setattr__(part, "_row_bits", self._row_bits)
        return part

    def set_nbytes(self, nbytes: int) -> None:
        """Sets `nbytes`, for whoever knows it, so that nobody need compute it."""
        object.__setattr__(self, "_nbytes", nbytes)

    @property
    def has_even_rows(self) -> bool:
        """Whether all rows have as many bytes, validity bits aside."""
        return self._bits_per_row() > 0

    def _bits_per_row(self) -> int:
        bits = self._row_bits
        if bits is None:
            types = [*self.data.schema.types, *(() if self.keys is None else self.keys.schema.types)]
            bits = sum(int(arrow_type.bit_width) for arrow_type in types) if all(map(_is_even, types)) else 0
            object.__setattr__(self, "_row_bits", bits)
        return bits

    def select(self, columns: Sequence[int]) -> Batch:
        """All rows with only the columns at these indices; without copying."""
        batch = Batch(self.data.select(columns), self.kind, self.times, self.keys, self.kinds)
        object.__setattr__(batch, "_time_bounds", self._time_bounds)
        return batch

    def with_times(self, times: pa.Array | int | None) -> Batch:
        """The same rows with other event times."""
        batch = Batch(self.data, self.kind, times, self.keys, self.kinds)
        if self._nbytes is not None:
            batch.set_nbytes(self._nbytes - _nbytes_of(self.times) + _nbytes_of(times))
        return batch

    def with_kinds(self, kinds: pa.Array | None) -> Batch:
        """The same rows, which do something else in a changelog."""
        return self if kinds is self.kinds else Batch(self.data, self.kind, self.times, self.keys, kinds)

    def with_data(self, data: pa.RecordBatch, kind: Kind = Kind.ROW) -> Batch:
        """Other columns for the same rows, which keep their event times and kinds. Keys that were computed from the
        former columns are left out."""
        batch = Batch(data, kind, self.times, None, self.kinds)
        object.__setattr__(batch, "_time_bounds", self._time_bounds)
        return batch

    def without_keys(self) -> Batch:
        """The same rows without the columns of a computed key."""
        return self if self.keys is None else Batch(self.data, self.kind, self.times, None, self.kinds)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickles the rows of this batch only, however large the buffers are that it is a slice of."""
        columns, names = list(self.data.columns), list(self.data.schema)
        for beside in (self._timestamp_columns(), self._kind_columns(), self.keys):
            if beside is not None:
                columns += beside.columns
                names += list(beside.schema)
        schema = pa.schema(names, metadata=self.data.schema.metadata)
        combined = pa.RecordBatch.from_arrays(columns, schema=schema) if columns else self.data
        written = wire.encode(combined)
        time = self.times if isinstance(self.times, int) else None
        layout: _Layout = (self.data.num_columns, isinstance(self.times, pa.Array), self.keys is not None)
        if self.kinds is not None:
            layout = (*layout, True)
        return _rebuild, (self.kind, layout, written if int(protocol) >= 5 else written.in_band(), time)

    def _timestamp_columns(self) -> pa.RecordBatch | None:
        if not isinstance(self.times, pa.Array):
            return None
        return pa.RecordBatch.from_arrays([self.times], names=["timestamp"])

    def _kind_columns(self) -> pa.RecordBatch | None:
        return None if self.kinds is None else pa.RecordBatch.from_arrays([self.kinds], names=["kind"])


def inserts(rows: int) -> pa.Array:
    """The kinds of so many inserts."""
    return pa.repeat(pa.scalar(RowKind.INSERT.value, pa.int8()), rows)


def _nbytes_of(times: pa.Array | int | None) -> int:
    return 8 * len(times) if isinstance(times, pa.Array) else 0


_Layout = tuple[int, bool, bool] | tuple[int, bool, bool, bool]
"""How many columns are the rows' own; whether event times come behind them, and keys last; whether kinds come before
the keys (left out where there are none, as before there were any)."""


def _rebuild(kind: Kind, layout: _Layout, written: wire.Written, time: int | None = None) -> Batch:
    combined = wire.decode(written)
    width, has_timestamps, has_keys = layout[:3]
    has_kinds = len(layout) > 3
    key_start = width + has_timestamps + has_kinds
    return Batch(
        combined.select(range(width)),
        kind,
        combined.column(width) if has_timestamps else time,
        combined.select(range(key_start, combined.num_columns)).replace_schema_metadata(None) if has_keys else None,
        combined.column(width + has_timestamps) if has_kinds else None,
    )


def _is_even(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(arrow_type) or pa.types.is_decimal(arrow_type))


def is_same_layout(left: Batch, right: Batch) -> bool:
    """Whether the two batches can be concatenated without changing a type; only one of them may have kinds."""
    return (
        left.kind is right.kind
        and (left.times is None) == (right.times is None)
        and _are_alike(left.data, right.data)
        and (left.keys is None) == (right.keys is None)
        and (left.keys is None or right.keys is None or _are_alike(left.keys, right.keys))
    )


def _are_alike(left: pa.RecordBatch, right: pa.RecordBatch) -> bool:
    """Whether both have the same schema, the metadata by which fields are decoded included, and the same dictionaries:
    two dictionaries together might have more values than the type of their indices can count."""
    if not left.schema.equals(right.schema, check_metadata=True):
        return False
    if "dictionary<" not in str(left.schema):  # asking each type takes longer than all the rest
        return True
    return all(map(_have_one_dictionary, left.columns, right.columns))


def _have_one_dictionary(left: pa.Array, right: pa.Array) -> bool:
    if pa.types.is_dictionary(left.type):
        return bool(left.dictionary.equals(right.dictionary))
    return "dictionary<" not in str(left.type)


def is_at_one_time(batches: Sequence[Batch]) -> bool:
    """Whether all rows are known to have the same event time."""
    time = batches[0].times
    return isinstance(time, int) and all(isinstance(batch.times, int) and batch.times == time for batch in batches)


def concat(batches: Sequence[Batch]) -> Batch:
    """One batch with the rows of all, in order. They must share a layout (`is_same_layout`). Copies unless there is
    only one."""
    first = batches[0]
    if len(batches) == 1:
        return first
    return Batch(
        pa.concat_batches([batch.data for batch in batches]),
        first.kind,
        first.times
        if first.times is None or is_at_one_time(batches)
        else pa.concat_arrays([batch.timestamps for batch in batches]),
        None if first.keys is None else pa.concat_batches([batch.keys for batch in batches]),
        None
        if all(batch.kinds is None for batch in batches)
        else pa.concat_arrays([batch.row_kinds for batch in batches]),
    )
