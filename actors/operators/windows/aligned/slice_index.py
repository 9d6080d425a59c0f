"""Which accumulator a key has in a slice, found in the way that costs least."""

from __future__ import annotations

from actors.operators.windows.aligned.dense_index import DenseIndex, HasRows, is_dense
from actors.operators.windows.aligned.sparse_index import AppendIndex, LookupIndex, SparseIndex

SliceIndex = SparseIndex | DenseIndex


def best_index(
    before: SliceIndex, keys: int, slices: int, groups: int, rows: int, most_keys: int, has_rows: HasRows | None
) -> SliceIndex:
    """None in use yet.

    Args:
        before: what these come after.
        keys, has_rows: as `DenseIndex` takes them.
        slices: how many of these there are about to be.
        groups: accumulators that are asked for first, each of another key or slice; then come that many rows.
        most_keys: in one of the slices that were released last; 0: it is not known.
    """
    if is_dense(keys, slices, groups + rows, most_keys):
        return DenseIndex(keys, has_rows)
    return LookupIndex(groups) if before.is_worth_looking_up else AppendIndex(groups)
