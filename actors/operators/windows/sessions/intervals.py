"""Which of many intervals touch, key by key: the arithmetic of session windows, on whole columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.columns.ordering import differs_from_previous, order_by
from actors.keys.index import Ids
from actors.operators.aggregates.value_rules import Flags
from actors.operators.windows.base.times import Times

Rows = npt.NDArray[np.int64]

_RUNS = 8
"""So many sorted runs of a queue become one."""


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
    order = order_by(key_ids, starts)
    keys, begins = key_ids[order], starts[order]
    latest = _latest_ends(keys, ends[order])
    is_first = differs_from_previous(keys)
    is_first[1:] |= begins[1:] > latest[:-1]
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
    """Sessions by the time at which they want attention; a session may be in it several times.

    Sorted runs, of which some of about the same length become one.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Times, Rows]] = []

    def add(self, times: Times, sessions: Rows) -> None:
        if not len(times):
            return
        order = order_by(times)
        self._runs.append((times[order], sessions[order]))
        while len(self._runs) >= _RUNS and len(self._runs[-_RUNS][0]) <= _RUNS * len(self._runs[-1][0]):
            times, sessions = (np.concatenate(each) for each in zip(*self._runs[-_RUNS:], strict=True))
            order = order_by(times)
            self._runs[-_RUNS:] = [(times[order], sessions[order])]

    def pop(self, limit: int) -> tuple[Times, Rows]:
        """Takes out all that want attention at or before `limit`; in no particular order."""
        popped: list[tuple[Times, Rows]] = []
        kept: list[tuple[Times, Rows]] = []
        for times, sessions in self._runs:
            count = int(np.searchsorted(times, limit, "right"))
            if count:
                popped.append((times[:count], sessions[:count]))
            if count < len(times):
                kept.append((times[count:], sessions[count:]) if count else (times, sessions))
        self._runs = kept
        if not popped:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([times for times, _ in popped]), np.concatenate([sessions for _, sessions in popped])

    def renumber(self, place: Rows) -> None:
        """Session n is now `place[n]`; those with a negative one are forgotten."""
        renumbered = []
        for times, sessions in self._runs:
            sessions = place[sessions]
            is_kept = sessions >= 0
            if is_kept.any():
                renumbered.append((times[is_kept], sessions[is_kept]))
        self._runs = renumbered

    def content(self) -> list[tuple[int, int]]:
        """(time, session), in no particular order."""
        return [pair for times, sessions in self._runs for pair in zip(times.tolist(), sessions.tolist(), strict=True)]

    def earliest(self) -> int | None:
        """None: it is empty."""
        return min((int(times[0]) for times, _ in self._runs), default=None)
