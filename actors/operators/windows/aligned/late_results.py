"""The results that aligned windows give once more with each late row: those of a batch's rows in one go.

A result after a late row is made of what its key had in the window before the batch, of the row, and of the rows of
its key and window before it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Column
from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.ranges import indices_of_ranges
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators
from actors.operators.aggregates.aggregate_columns import AggregateColumns
from actors.operators.windows.aligned.accumulator_runs import Starts
from actors.operators.windows.aligned.slice_store import SliceStore, number_pairs
from actors.operators.windows.aligned.window_accumulators import WindowAccumulators, WindowKeys

_BLOCK = 16
"""So many rows of a group are put together one by one, each with all before it; then such blocks are."""


class LateResults(Struct, frozen=True):
    """One result of each late row in each window that fires again with it; by row, then by window.

    Attributes:
        starts: the start of the window of each result.
        rows: the late row of each.
        key_ids: the key of each.
    """

    starts: Starts
    rows: npt.NDArray[np.int64]
    key_ids: Ids

    def columns(self, data: pa.RecordBatch, store: SliceStore, accumulators: WindowAccumulators) -> list[Column]:
        """One column per aggregate; `data` has the late rows, which are not in the store yet."""
        windows = distinct(self.starts)
        window_indices, known = accumulators.of(windows)
        known_keys = store.key_ids(known)
        is_wanted = WindowKeys(self.starts, self.key_ids).among(windows, window_indices, known_keys)
        known = known[is_wanted]
        _, pairs = number_pairs(
            np.concatenate([window_indices[is_wanted], windows.searchsorted(self.starts)]),
            np.concatenate([known_keys[is_wanted], self.key_ids]),
        )
        own_pairs = pairs[len(known) :]
        count = int(pairs.max()) + 1
        together = store.apart(known, pairs[: len(known)], count, data)
        order = order_by(own_pairs)
        groups = own_pairs[order]
        totals = running_totals(together, count + self.rows[order], groups, count + data.num_rows)
        together.merge(together, groups, totals)
        in_order = np.empty(len(order), np.int64)
        in_order[order] = totals
        return together.results(in_order)


def running_totals(
    aggregates: AggregateColumns, accumulators: Accumulators, groups: npt.NDArray[np.int64], size: int
) -> Accumulators:
    """New accumulators, one for each of these: of those of its group up to it, it included.

    Args:
        groups: the group of each, ascending.
        size: how many accumulators there are; the new ones follow.
    """
    begins = np.flatnonzero(differs_from_previous(groups))
    ranks = np.arange(len(groups)) - np.repeat(begins, np.diff(begins, append=len(groups)))
    within = ranks % _BLOCK
    totals = np.arange(size, size + len(groups))
    aggregates.grow(size + len(groups))
    members = accumulators[indices_of_ranges(np.arange(len(groups)) - within, within + 1)]
    aggregates.merge(aggregates, members, np.repeat(totals, within + 1))
    is_later = ranks >= _BLOCK
    if is_later.any():
        firsts = np.flatnonzero(within == 0)
        lasts = np.append(firsts[1:], len(groups)) - 1
        of_blocks = running_totals(aggregates, totals[lasts], groups[firsts], size + len(groups))
        blocks = np.cumsum(within == 0) - 1
        aggregates.merge(aggregates, of_blocks[blocks[is_later] - 1], totals[is_later])
    return totals
