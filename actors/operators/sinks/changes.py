"""What of a changelog reaches a sink."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.types.changelogs import ChangelogMode
from flinkray.types.rows import RowKind

_BEFORE, _DELETE = RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value


def accepted_changes(batch: Batch, mode: ChangelogMode, key_columns: Sequence[str] = ()) -> Batch:
    """The rows of a changelog that a sink of this mode takes, with kinds, also where all are inserts.

    Where rows replace those of the same key, there is no -U: it says nothing where the row of that key is the next one,
    and else takes its row away, as -D does. So it is where a filter has kept back the row as it is after the update, or
    the update changes the key.
    """
    batch = batch.with_kinds(batch.row_kinds)
    if mode is not ChangelogMode.UPSERT:
        return batch
    kinds = as_numpy(batch.kinds)
    befores = np.flatnonzero(kinds == _BEFORE)
    if not len(befores):
        return batch
    replaced = befores[befores + 1 < len(kinds)]
    replaced = replaced[(kinds[replaced + 1] != _BEFORE) & (kinds[replaced + 1] != _DELETE)]
    for name in key_columns:
        replaced = replaced[_equal_to_next(batch.data.column(name), replaced)]
    changed = kinds.copy()
    changed[befores] = _DELETE
    changed[replaced] = _BEFORE
    return batch.with_kinds(from_numpy(changed)).filter(from_numpy(changed != _BEFORE))


def _equal_to_next(column: pa.Array, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each of the rows has the value of the one behind it; nulls are equal."""
    these, next_ones = column.take(from_numpy(rows)), column.take(from_numpy(rows + 1))
    if pa.types.is_nested(column.type):
        return np.array([a == b for a, b in zip(these.to_pylist(), next_ones.to_pylist(), strict=True)], np.bool_)
    is_equal = pc.fill_null(pc.equal(these, next_ones), False)
    return as_numpy(pc.or_(is_equal, pc.and_(these.is_null(), next_ones.is_null())))
