"""Rows and elements at given indices, taken without a check of bounds: for indices that are known to be there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy

# With fewer rows copying event times twice costs less than finding out that they are a column of the batch.
_FEWEST_TO_SHARE_TIMES = 1024


def take_rows(batch: Batch, rows: npt.NDArray[np.integer[Any]]) -> Batch:
    """The rows at these indices, in that order; copies. As `Batch.take`, but without a check of bounds.

    Event times that share the memory of a column share that of the column in the result.
    """
    indices = from_numpy(rows)
    data = take(batch.data, indices)
    times = batch.times
    if isinstance(times, pa.Array):
        column = _same_column(batch.data, times)
        times = take(times, indices) if column is None else data.column(column)
    keys = None if batch.keys is None else take(batch.keys, indices)
    kinds = None if batch.kinds is None else take(batch.kinds, indices)
    return batch.sized(Batch(data, batch.kind, times, keys, kinds))


def take(values: Any, indices: pa.Array) -> Any:
    """The entries of an array, record batch or table at these indices, which must be within its bounds."""
    return pc.take(values, indices, boundscheck=False)


def slices(batch: Batch, rows: int) -> Iterator[Batch]:
    """The batch in slices of so many rows each, without a copy; the last one may have fewer."""
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def contiguous(indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | slice:
    """The indices as a slice where each follows the one before it, since numpy takes a slice several times as quickly;
    else the indices."""
    found = without_gaps(indices)
    return found if isinstance(found, slice) and (indices[1:] > indices[:-1]).all() else indices


def without_gaps(ascending: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | slice:
    """As `contiguous`, in constant time, of distinct indices that ascend."""
    has_no_gap = len(ascending) > 0 and int(ascending[-1]) - int(ascending[0]) + 1 == len(ascending)
    return slice(int(ascending[0]), int(ascending[-1]) + 1) if has_no_gap else ascending


def _same_column(data: pa.RecordBatch, times: pa.Array) -> int | None:
    """The index of the column that shares its memory with these event times; None: there is none, or too few rows."""
    if len(times) < _FEWEST_TO_SHARE_TIMES:
        return None
    address = _address(times)
    for number, arrow_type in enumerate(data.schema.types):
        if arrow_type.equals(times.type):
            column = data.column(number)
            if _address(column) == address and not column.null_count:
                return number
    return None


def _address(column: pa.Array) -> int:
    return int(column.buffers()[1].address + 8 * column.offset)
