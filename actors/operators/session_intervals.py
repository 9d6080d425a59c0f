"""Which of many intervals touch, key by key: the arithmetic of session windows, on whole columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.operators.window_times import Times
from actors.state.key_index import Ids

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


class Runs(Struct, frozen=True):
    """Intervals [start, end) merged where those of one key overlap or touch; by key, then start.

    Attributes:
        key_ids, starts, ends: of each run.
        run_of: the run of each interval, in the order given.
    """

    key_ids: Ids
    starts: Times
    ends: Times
    run_of: Rows

    def __len__(self) -> int:
        return len(self.starts)


def merge_touching(key_ids: Ids, starts: Times, ends: Times) -> Runs:
    """At least one interval, each with start <= end."""
    order = _by_key_and_time(key_ids, starts)
    keys, begins = key_ids[order], starts[order]
    latest = _latest_ends(keys, ends[order])
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (keys[1:] != keys[:-1]) | (begins[1:] > latest[:-1])
    firsts = np.flatnonzero(is_first)
    run_of = np.empty(len(order), np.int64)
    run_of[order] = np.cumsum(is_first) - 1
    return Runs(keys[firsts], begins[firsts], latest[np.append(firsts[1:], len(order)) - 1], run_of)


def touch_any(key_ids: Ids, starts: Times, ends: Times, runs: Runs) -> Flags:
    """Which intervals touch one of the runs (of the same key)."""
    times, ranks = np.unique(np.concatenate([runs.starts, ends]), return_inverse=True)
    run_codes = runs.key_ids * len(times) + ranks[: len(runs)]
    # The last run of the key that starts at or before the interval's end is the only one that can touch its start.
    before = np.searchsorted(run_codes, key_ids * len(times) + ranks[len(runs) :], "right") - 1
    place = np.maximum(before, 0)
    touches: Flags = (before >= 0) & (runs.key_ids[place] == key_ids) & (runs.ends[place] >= starts)
    return touches


def _by_key_and_time(key_ids: Ids, times: Times) -> Rows:
    lowest = int(times.min())
    span = int(times.max()) - lowest + 1
    if span * (int(key_ids.max()) + 1) < 2**63:  # both in one number, which sorts faster than two columns
        return np.argsort(key_ids * span + (times - lowest), kind="stable")
    return np.lexsort((times, key_ids))


def _latest_ends(keys: Ids, ends: Times) -> Times:
    """The latest end of its key so far, at each row; sorted by key."""
    is_same = keys[1:] == keys[:-1]
    if not (is_same & (ends[1:] < ends[:-1])).any():
        return ends
    distinct, ranks = np.unique(ends, return_inverse=True)
    # Numbers of keys within the batch, so that a key's codes are above those of all keys before it.
    number = np.concatenate([[0], np.cumsum(~is_same)]) * len(distinct)
    latest: Times = distinct[np.maximum.accumulate(ranks + number) - number]
    return latest


class EndQueue:
    """Cells by the time at which they want attention; a cell may be in it several times. Sorted runs that double."""

    def __init__(self) -> None:
        self._runs: list[tuple[Times, Rows]] = []

    def add(self, times: Times, cells: Rows) -> None:
        if not len(times):
            return
        order = np.argsort(times, kind="stable")
        self._runs.append((times[order], cells[order]))
        while len(self._runs) > 1 and 2 * len(self._runs[-1][0]) > len(self._runs[-2][0]):
            last, before = self._runs.pop(), self._runs.pop()
            times, cells = (np.concatenate(both) for both in zip(before, last, strict=True))
            order = np.argsort(times, kind="stable")  # of two sorted runs: a merge
            self._runs.append((times[order], cells[order]))

    def pop(self, limit: int) -> tuple[Times, Rows]:
        """Takes out all that want attention at or before `limit`; in no particular order."""
        popped: list[tuple[Times, Rows]] = []
        kept: list[tuple[Times, Rows]] = []
        for times, cells in self._runs:
            count = int(np.searchsorted(times, limit, "right"))
            if count:
                popped.append((times[:count], cells[:count]))
            if count < len(times):
                kept.append((times[count:], cells[count:]) if count else (times, cells))
        self._runs = kept
        if not popped:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([times for times, _ in popped]), np.concatenate([cells for _, cells in popped])

    def earliest(self) -> int | None:
        """None: it is empty."""
        return min((int(times[0]) for times, _ in self._runs), default=None)
