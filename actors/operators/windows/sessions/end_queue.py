"""The queue of sessions by the time at which they are due, or over."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from actors.columns.ordering import order_by
from actors.operators.windows.base.compaction import are_due_to_merge
from actors.operators.windows.base.times import Times
from actors.operators.windows.sessions.session_table import SessionIds

_FAN_IN = 8
"""So many sorted runs of about the same size become one."""


class _QueuedRun(Struct, frozen=True):
    """A sorted run: sessions and their times, which ascend."""

    times: Times
    sessions: SessionIds

    def __len__(self) -> int:
        return len(self.times)


class EndQueue:
    """Sessions by time; a session may be in the queue several times."""

    def __init__(self) -> None:
        self._runs: list[_QueuedRun] = []

    def add(self, times: Times, sessions: SessionIds) -> None:
        """Adds each session with a time, in any order."""
        if not len(times):
            return
        self._runs.append(_sorted_run(times, sessions))
        while are_due_to_merge(self._runs, _FAN_IN):
            merged = self._runs[-_FAN_IN:]
            times = np.concatenate([run.times for run in merged])
            self._runs[-_FAN_IN:] = [_sorted_run(times, np.concatenate([run.sessions for run in merged]))]

    def pop(self, limit: int) -> tuple[Times, SessionIds]:
        """Removes all entries with a time at or before `limit`, and gives them in no particular order."""
        popped: list[_QueuedRun] = []
        rest: list[_QueuedRun] = []
        for run in self._runs:
            count = int(np.searchsorted(run.times, limit, "right"))
            if count:
                popped.append(_QueuedRun(run.times[:count], run.sessions[:count]))
            if count < len(run):
                rest.append(_QueuedRun(run.times[count:], run.sessions[count:]) if count else run)
        self._runs = rest
        if not popped:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([run.times for run in popped]), np.concatenate([run.sessions for run in popped])

    def renumber(self, new_ids: SessionIds) -> None:
        """Gives session n the number `new_ids[n]`; those with a negative number are forgotten."""
        renumbered = []
        for run in self._runs:
            sessions = new_ids[run.sessions]
            is_left = sessions >= 0
            if is_left.any():
                renumbered.append(_QueuedRun(run.times[is_left], sessions[is_left]))
        self._runs = renumbered

    def content(self) -> list[tuple[int, int]]:
        """The pairs of time and session, in no particular order."""
        return [pair for run in self._runs for pair in zip(run.times.tolist(), run.sessions.tolist(), strict=True)]

    def earliest(self) -> int | None:
        """The lowest time; None: the queue is empty."""
        return min((int(run.times[0]) for run in self._runs), default=None)


def _sorted_run(times: Times, sessions: SessionIds) -> _QueuedRun:
    order = order_by(times)
    return _QueuedRun(times[order], sessions[order])
