"""Columns of text or bytes of more than 2 GiB, which is as much as one of Arrow's arrays of `string` or `binary` holds.

A column of state may have more. While it is state, its type is one with offsets of 64 bits, or it is in several chunks;
what is emitted has the declared type, and is in chunks where one array has no room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.columns.ordering import order_by
from actors.columns.take import take
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy
from flinkray.types.records import Kind

_MOST_BYTES = 1 << 30
"""Bytes of text that are put into one array: half of what fits."""

Column: TypeAlias = pa.Array | pa.ChunkedArray
"""A column of the declared type, in chunks where one array has no room for it."""

Columns: TypeAlias = pa.RecordBatch | pa.Table
"""Rows as a batch, or as a table where one batch has no room for them."""

_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def fits(nbytes: int) -> bool:
    """Whether there is room for so many bytes of text in one array."""
    return nbytes <= _MOST_BYTES


def enlarged(values: Any) -> Any:
    """Text or bytes (an array, chunked or not) in the type with offsets of 64 bits; other columns as they are."""
    return values.cast(enlarged_type(values.type)) if values.type in _LARGE else values


def enlarged_type(arrow_type: pa.DataType) -> pa.DataType:
    """The type that `enlarged` gives values of this type."""
    return _LARGE.get(arrow_type, arrow_type)


def narrowed(values: pa.Array, arrow_type: pa.DataType) -> Column:
    """The values in `arrow_type`, from which `enlarged` made them; in chunks where one array has no room for them."""
    if values.type.equals(arrow_type):
        return values
    offsets = _offsets(values)
    if fits(offsets[-1]):
        return values.cast(arrow_type)
    chunks = [_narrow(values, begin, end, arrow_type) for begin, end in _cuts(offsets)]
    return pa.chunked_array(chunks, arrow_type)


def narrowed_lists(
    offsets: npt.NDArray[np.int64], items: pa.Array, is_null: npt.NDArray[np.bool_], item_type: pa.DataType
) -> Column:
    """Lists of items of `item_type`, which begin and end at these offsets; in chunks where one array has no room.

    Args:
        items: the items of all lists, as `enlarged` gave them.
        is_null: which lists are null.
    """
    if items.type.equals(item_type):
        return _lists(offsets, items, is_null)
    ends = _offsets(items)
    if fits(ends[-1]):
        return _lists(offsets, items.cast(item_type), is_null)
    chunks = []
    for begin, end in _cuts(ends[offsets]):
        some = _narrow(items, int(offsets[begin]), int(offsets[end]), item_type)
        chunks.append(_lists(offsets[begin : end + 1] - offsets[begin], some, is_null[begin:end]))
    return pa.chunked_array(chunks, pa.list_(item_type))


def _lists(offsets: npt.NDArray[np.int64], items: pa.Array, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    mask = from_numpy(is_null) if is_null.any() else None
    narrow = from_numpy(offsets.astype(np.int32))
    return pa.ListArray.from_arrays(narrow, items, type=pa.list_(items.type), mask=mask)


def _narrow(values: pa.Array, begin: int, end: int, arrow_type: pa.DataType) -> pa.Array:
    """A range of the values in `arrow_type`, copied: a slice of a large array cannot be cast where it lies."""
    return pa.concat_arrays([values.slice(begin, end - begin)]).cast(arrow_type)


def _offsets(values: pa.Array) -> npt.NDArray[np.int64]:
    """Where each value of large text begins in the bytes of all, and the last one ends."""
    if not len(values):
        return np.zeros(1, np.int64)
    return np.frombuffer(values.buffers()[1], np.int64, len(values) + 1, values.offset * 8)


def _cuts(offsets: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """(begin, end) of ranges of values, each of which fits into one array unless it is a single value.

    Args:
        offsets: where each value begins in the bytes of all, and the last one ends.
    """
    begin = 0
    while begin < len(offsets) - 1:
        fitting = int(np.searchsorted(offsets, offsets[begin] + _MOST_BYTES, "right")) - 1
        end = max(begin + 1, fitting)
        yield begin, end
        begin = end


def take_column(values: Any, indices: npt.NDArray[np.int64]) -> Column:
    """The values (an array, chunked or not) at these indices, which must be within its bounds."""
    return narrowed(take_enlarged(values, indices), values.type)


def take_enlarged(values: Any, indices: npt.NDArray[np.int64]) -> pa.Array:
    """As `take_column`, but in the type that `enlarged` gives them, and so in one array."""
    if not isinstance(values, pa.ChunkedArray):
        return take(enlarged(values), from_numpy(indices))
    if values.num_chunks < 2:
        return take_enlarged(values.chunk(0) if values.num_chunks else values.combine_chunks(), indices)
    return _from_parts(values.chunks, indices, take_enlarged, pa.concat_arrays)


def _from_parts(
    parts: Sequence[Any],
    indices: npt.NDArray[np.int64],
    take_from: Callable[[Any, npt.NDArray[np.int64]], Any],
    concat: Callable[[list[Any]], Any],
) -> Any:
    """The rows at these indices of several parts, which are counted through.

    Args:
        take_from: takes rows at indices of one part.
        concat: concatenates what was taken of each part.
    """
    sizes = np.array([len(part) for part in parts])
    ends = np.cumsum(sizes)
    which = np.searchsorted(ends, indices, "right")
    order = order_by(which)
    bounds = np.searchsorted(which[order], np.arange(len(ends) + 1))
    taken = [
        take_from(part, indices[order[begin:end]] - start)
        for part, start, (begin, end) in zip(parts, ends - sizes, pairwise(bounds), strict=True)
    ]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return take(concat(taken), from_numpy(back))


def take_distinct_rows(data: Columns, indices: npt.NDArray[np.int64]) -> Columns:
    """The rows at these distinct indices; a batch where `data` is one, since some of its rows fit where all do."""
    return take_rows_as_table(data, indices) if isinstance(data, pa.Table) else take(data, from_numpy(indices))


def take_repeated_rows(data: Columns, indices: npt.NDArray[np.int64]) -> Columns:
    """The rows at these indices, which must be within bounds and may repeat; a table where one batch might have no room
    for them."""
    if isinstance(data, pa.RecordBatch):
        text = max((column.nbytes for column in data.columns if column.type in _LARGE), default=0)
        if not text or fits(text * int(np.bincount(indices, minlength=1).max())):
            return take(data, from_numpy(indices))
    return take_rows_as_table(data, indices)


def take_rows_as_table(data: Columns, indices: npt.NDArray[np.int64]) -> pa.Table:
    """The rows at these indices, which must be within bounds, as a table."""
    return pa.Table.from_arrays([take_column(column, indices) for column in data.columns], schema=data.schema)


def as_columns(table: pa.Table) -> Columns:
    """The table, or the one batch that it consists of; a table without columns gives a batch without rows."""
    batches = table.to_batches()
    if len(batches) > 1:
        return table
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def take_batch(data: Columns, indices: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows at these indices, which must be within bounds, as one batch, which must have room for them."""
    if not isinstance(data, pa.Table):
        return take(data, from_numpy(indices))
    return _from_parts(data.to_batches(), indices, lambda part, at: take(part, from_numpy(at)), pa.concat_batches)


def coalesced(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows of batches of one schema, in their order, in as few batches as have room for them (Arrow's
    concat_batches, with regard to the 2 GiB of text that a batch can hold)."""
    if len(batches) < 2:
        return list(batches)
    groups: list[list[pa.RecordBatch]] = [[]]
    room = _MOST_BYTES
    for batch in batches:
        nbytes = max((column.nbytes for column in batch.columns if column.type in _LARGE), default=0)
        if nbytes > room and groups[-1]:
            groups.append([])
            room = _MOST_BYTES
        groups[-1].append(batch)
        room -= nbytes
    return [group[0] if len(group) == 1 else pa.concat_batches(group) for group in groups]


def batches_of(columns: Sequence[Column], names: Sequence[str]) -> list[pa.RecordBatch]:
    """The columns as one batch, or as several batches where some columns are in chunks."""
    if any(isinstance(column, pa.ChunkedArray) for column in columns):
        return pa.Table.from_arrays(columns, names=names).to_batches()  # type: ignore[no-any-return]
    return [pa.RecordBatch.from_arrays(columns, names=names)]


def batches_with_times(parts: Iterable[pa.RecordBatch], times: pa.Array | int) -> Iterator[Batch]:
    """The batches, which are parts of some rows, with the event times of these: one per row of all, or one for all."""
    first = 0
    for data in parts:
        yield Batch(data, Kind.ROW, times if isinstance(times, int) else times.slice(first, data.num_rows))
        first += data.num_rows
