"""Which of many intervals touch, key by key: the arithmetic that says when sessions merge, on whole columns."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from actors.columns.ordering import differs_from_previous, order_by
from actors.columns.ranges import Indices
from actors.keys.index import Ids
from actors.operators.aggregates.value_rules import Flags
from actors.operators.windows.base.times import Times


class MergedIntervals(Struct, frozen=True):
    """Intervals [start, end) merged where those of one key overlap or touch; by key, then start.

    Attributes:
        key_ids, starts, ends: of each merged interval.
        merged_of: for each interval that was given, the index of the merged one that it is part of.
    """

    key_ids: Ids
    starts: Times
    ends: Times
    merged_of: Indices

    def __len__(self) -> int:
        return len(self.starts)


def merge_touching(key_ids: Ids, starts: Times, ends: Times) -> MergedIntervals:
    """Merges intervals, at least one, each with start <= end, where those of one key overlap or touch."""
    order = order_by(key_ids, starts)
    keys, begins = key_ids[order], starts[order]
    latest = _latest_ends(keys, ends[order])
    is_first = differs_from_previous(keys)
    is_first[1:] |= begins[1:] > latest[:-1]
    firsts = np.flatnonzero(is_first)
    merged_of = np.empty(len(order), np.int64)
    merged_of[order] = np.cumsum(is_first) - 1
    return MergedIntervals(keys[firsts], begins[firsts], latest[np.append(firsts[1:], len(order)) - 1], merged_of)


def touch_any(key_ids: Ids, starts: Times, ends: Times, merged: MergedIntervals) -> Flags:
    """Which intervals touch one of the merged ones (of the same key)."""
    times, ranks = np.unique(np.concatenate([merged.starts, ends]), return_inverse=True)
    merged_codes = merged.key_ids * len(times) + ranks[: len(merged)]
    # The last run of the key that starts at or before the interval's end is the only one that can touch its start.
    before = np.searchsorted(merged_codes, key_ids * len(times) + ranks[len(merged) :], "right") - 1
    index = np.maximum(before, 0)
    touches: Flags = (before >= 0) & (merged.key_ids[index] == key_ids) & (merged.ends[index] >= starts)
    return touches


def _latest_ends(keys: Ids, ends: Times) -> Times:
    """The latest end of its key so far, at each row; rows are sorted by key."""
    is_same = keys[1:] == keys[:-1]
    if not (is_same & (ends[1:] < ends[:-1])).any():
        return ends
    distinct_ends, ranks = np.unique(ends, return_inverse=True)
    # Numbers of keys within the batch, so that a key's codes are above those of all keys before it.
    number = np.concatenate([[0], np.cumsum(~is_same)]) * len(distinct_ends)
    latest: Times = distinct_ends[np.maximum.accumulate(ranks + number) - number]
    return latest
