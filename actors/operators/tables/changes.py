"""The changes that turn rows as they were into rows as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from actors.columns.take import take
from actors.keys.index import Ids
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.batches.value_columns import to_values
from flinkray.types.rows import RowKind

Flags = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.int8]


def weights_of(kinds: Kinds | None, rows: int) -> Kinds:
    """One for each row that is added, minus one for each that is taken back."""
    if kinds is None:
        return np.ones(rows, np.int8)
    is_taken = (kinds == RowKind.UPDATE_BEFORE.value) | (kinds == RowKind.DELETE.value)
    return np.where(is_taken, -1, 1).astype(np.int8)


def changed_rows(
    before: pa.RecordBatch, after: pa.RecordBatch, had: Flags, has: Flags, *, with_before: bool
) -> tuple[pa.RecordBatch, Kinds]:
    """The changes of keys whose rows were `before` and are `after`, which have the same columns.

    For each key in turn: +I, -D, or -U and +U; nothing where there was none and is none.

    Args:
        had: whether the key had a row; where not, that of `before` says nothing.
        has: whether the key has one now.
        with_before: whether an update comes with -U.
    """
    is_after, numbers, kinds = change_order(had, has, with_before=with_before)
    both = pa.concat_batches([before, after])
    return take(both, from_numpy(numbers + is_after * len(had))), kinds


def change_order(had: Flags, has: Flags, *, with_before: bool) -> tuple[Flags, Ids, Kinds]:
    """What `changed_rows` gives: whether each row is the key's one after the change, the number of its key, and its
    kind."""
    keys = len(had)
    is_given = np.empty((keys, 2), np.bool_)
    is_given[:, 0] = had if with_before else had & ~has
    is_given[:, 1] = has
    kinds = np.empty((keys, 2), np.int8)
    kinds[:, 0] = np.where(has, RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value)
    kinds[:, 1] = np.where(had, RowKind.UPDATE_AFTER.value, RowKind.INSERT.value)
    places = np.flatnonzero(is_given)
    return (places & 1).astype(np.bool_), places >> 1, kinds[is_given]


def differ(before: pa.RecordBatch, after: pa.RecordBatch) -> Flags:
    """Whether each row is another one than it was. NULL equals NULL, and NaN equals NaN."""
    return columns_differ(before.columns, after.columns, before.num_rows)


def columns_differ(before: Sequence[pa.Array], after: Sequence[pa.Array], rows: int) -> Flags:
    """As `differ`, of rows that are columns."""
    found = np.zeros(rows, np.bool_)
    for old, new in zip(before, after, strict=True):
        found |= _column_differs(old, new)
    return found


def _column_differs(old: pa.Array, new: pa.Array) -> Flags:
    if pa.types.is_nested(old.type):  # Arrow does not compare these
        return np.array([a != b for a, b in zip(to_values(old), to_values(new), strict=True)], np.bool_)
    if pa.types.is_null(old.type):
        return np.zeros(len(old), np.bool_)
    differs = pc.not_equal(old, new)
    if pa.types.is_floating(old.type):
        differs = pc.and_not_kleene(differs, pc.and_kleene(pc.is_nan(old), pc.is_nan(new)))
    if not old.null_count and not new.null_count:
        return np.asarray(as_numpy(differs), np.bool_)
    values: npt.NDArray[Any] = as_numpy(differs.fill_null(False))
    one_is_null = as_numpy(pc.xor(pc.is_null(old), pc.is_null(new)))
    return np.asarray(values | one_is_null, np.bool_)
