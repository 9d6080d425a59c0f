"""How many bytes each row of a batch takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.numpy_arrays import as_numpy

_BINARY = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}
_OFFSET_BYTES = 4
"""Bytes of the offset that says where a text or list ends."""
Sizes = npt.NDArray[np.int64] | int
"""Bytes of each row; one number where all have as many."""


def row_sizes(data: pa.RecordBatch | pa.Table) -> Sizes:
    """The bytes of each row, about: all items of a list column are taken to be as large as they are on average."""
    return _sum_of(data.columns)


def _sum_of(columns: Iterable[pa.Array | pa.ChunkedArray]) -> Sizes:
    total: Sizes = 0
    for column in columns:
        total = total + _value_sizes(column)
    return total


def _value_sizes(column: pa.Array | pa.ChunkedArray) -> Sizes:
    if isinstance(column, pa.ChunkedArray):
        parts = [_value_sizes(chunk) for chunk in column.chunks]
        if all(isinstance(part, int) for part in parts):
            return max(parts, default=0)
        sized = zip(parts, column.chunks, strict=True)
        return np.concatenate([np.broadcast_to(np.asarray(part), len(chunk)) for part, chunk in sized])
    kind: Any = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _value_sizes(column.storage)
    if pa.types.is_dictionary(kind):
        return _value_sizes(column.indices)
    if pa.types.is_struct(kind):
        return _sum_of(column.flatten())
    if kind in _BINARY:
        return _numbers(pc.binary_length(column)) + _OFFSET_BYTES
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = column.flatten()
        return _numbers(pc.list_value_length(column)) * int(items.nbytes // max(1, len(items))) + _OFFSET_BYTES
    return -int(-column.nbytes // max(1, len(column)))


def _numbers(lengths: pa.Array) -> npt.NDArray[np.int64]:
    return as_numpy(lengths.fill_null(0)).astype(np.int64)
