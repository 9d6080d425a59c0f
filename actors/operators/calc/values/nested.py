"""Lists and maps taken apart into lengths and their values, and put together again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Lengths = npt.NDArray[np.int64]


def flat_list(values: pa.Array) -> tuple[Lengths, pa.Array]:
    """How many elements each list has (0 for NULL), and all elements, one list after the other."""
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths, values.flatten()


def flat_map(values: pa.Array) -> tuple[Lengths, pa.Array, pa.Array]:
    """How many entries each map has (0 for NULL), all keys, and all values."""
    if values.null_count:
        values = values.take(pa.array(np.arange(len(values))))  # leaves out what lies under NULL
    offsets = np.asarray(values.offsets)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    return np.diff(offsets).astype(np.int64), values.keys.slice(first, size), values.items.slice(first, size)


def offsets_of(lengths: Lengths) -> pa.Array:
    """Where each list begins, and where the last one ends."""
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def lists_of(lengths: Lengths, items: pa.Array, like: pa.Array | None, arrow_type: pa.DataType) -> pa.Array:
    """Lists of these lengths, NULL where `like` is."""
    mask = like.is_null() if like is not None and like.null_count else None
    if not items.type.equals(arrow_type.value_type):
        items = items.cast(arrow_type.value_type)
    return pa.ListArray.from_arrays(offsets_of(lengths), items, type=arrow_type, mask=mask)


def maps_of(
    lengths: Lengths, keys: pa.Array, items: pa.Array, like: pa.Array | None, arrow_type: pa.DataType
) -> pa.Array:
    """Maps of these lengths, NULL where `like` is."""
    mask = like.is_null() if like is not None and like.null_count else None
    return pa.MapArray.from_arrays(offsets_of(lengths), keys, items, type=arrow_type, mask=mask)


def rows_of(lengths: Lengths) -> npt.NDArray[np.int64]:
    """The row of each element."""
    return np.repeat(np.arange(len(lengths)), lengths)


def positions_of(lengths: Lengths) -> npt.NDArray[np.int64]:
    """The place of each element in its list, from 0."""
    begins = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(begins, lengths)
