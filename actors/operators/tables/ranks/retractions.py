"""Which of equal rows are left when some are taken back: rows have no identity but their values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from actors.columns.ordering import differs_from_previous, order_by
from actors.keys.index import Ids, KeyIndex
from actors.operators.tables.changes import Flags, Kinds


def are_left(rows: pa.RecordBatch, weights: Kinds, *, newest: bool) -> Flags:
    """Whether each row is there after all of them have come; false for those that take one back.

    What takes back a row that is not there does nothing.

    Args:
        rows: in the order in which they came.
        weights: one for a row that is added, minus one for a row that takes an equal one back.
        newest: whether of equal rows the newest ones are left, or the oldest.
    """
    ids = KeyIndex().ids(rows) if rows.num_columns else np.zeros(rows.num_rows, np.int64)
    order = order_by(ids)
    sorted_ids, sorted_weights = ids[order], weights[order].astype(np.int64)
    starts = np.flatnonzero(differs_from_previous(sorted_ids))
    sizes = np.diff(np.append(starts, len(order)))
    sums = _running_sums(sorted_weights, starts, sizes)
    lowest = np.minimum.reduceat(sums, starts)
    left = sums[starts + sizes - 1] - np.minimum(lowest, 0)
    is_added = sorted_weights > 0
    number = _running_sums(is_added.astype(np.int64), starts, sizes)
    oldest = number[starts + sizes - 1] - left if newest else np.zeros_like(left)
    found = np.zeros(len(order), np.bool_)
    found[order] = is_added & (number > np.repeat(oldest, sizes)) & (number <= np.repeat(oldest + left, sizes))
    return found


def _running_sums(values: Ids, starts: Ids, sizes: Ids) -> Ids:
    sums: Ids = np.cumsum(values) - np.repeat(np.cumsum(values)[starts] - values[starts], sizes)
    return sums
