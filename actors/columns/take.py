"""Rows and elements at places that are known to be there: what splits and joins batches takes them with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import from_numpy

# Below so many rows a second copy of event time costs less than finding out that it is one.
_WORTH_LOOKING = 1024


def take_rows(batch: Batch, rows: npt.NDArray[np.integer[Any]]) -> Batch:
    """The rows at these places, in that order; copies. As `Batch.take`, but nobody looks whether a place is there.

    Event time that lies in the memory of a column does so in the result.
    """
    indices = from_numpy(rows)
    data = take(batch.data, indices)
    times = batch.times
    if isinstance(times, pa.Array):
        column = _same_column(batch.data, times)
        times = take(times, indices) if column is None else data.column(column)
    return batch.sized(Batch(data, batch.kind, times, None if batch.keys is None else take(batch.keys, indices)))


def take(values: Any, indices: pa.Array) -> Any:
    """The entries of an array, record batch or table at these places, each of which must be there: nobody looks."""
    return pc.take(values, indices, boundscheck=False)


def contiguous(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | slice:
    """These places, as a slice if each is the one after that before: several times as quick an index."""
    run = without_gaps(places)
    return run if isinstance(run, slice) and (places[1:] > places[:-1]).all() else places


def without_gaps(ascending: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | slice:
    """As `contiguous`, at once, of distinct places that ascend."""
    is_run = len(ascending) > 0 and int(ascending[-1]) - int(ascending[0]) + 1 == len(ascending)
    return slice(int(ascending[0]), int(ascending[-1]) + 1) if is_run else ascending


def _same_column(data: pa.RecordBatch, times: pa.Array) -> int | None:
    """The number of the column that is these event times; None: none is known to be."""
    if len(times) < _WORTH_LOOKING:
        return None
    place = _place(times)
    for number, arrow_type in enumerate(data.schema.types):
        if arrow_type.equals(times.type):
            column = data.column(number)
            if _place(column) == place and not column.null_count:
                return number
    return None


def _place(column: pa.Array) -> int:
    return int(column.buffers()[1].address + 8 * column.offset)
