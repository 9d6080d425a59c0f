"""Open sessions of keys that have many, by key and time."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.ranges import indices_of_ranges
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import grown
from actors.operators.aggregates.value_rules import Flags
from actors.operators.windows.base.times import Times
from actors.operators.windows.sessions.session_table import NO_SESSION, NO_SESSIONS, SessionIds, SessionTable

_RUNS = 4
"""So many sorted runs of about the same length become one."""

_JOINED_BEFORE_TIDYING = 1024
"""Entries of sessions that have become part of others are left out when more than half are such, and at least these."""

_MOST_CODES = 1 << 62
"""So many pairs of key and time get numbers by arithmetic; where they are more, the times that occur are numbered."""


class _AllTimes(Struct, frozen=True):
    """Numbers the times from one to another, both included."""

    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def places(self, times: Times) -> SessionIds:
        """The number of each time; of one that has none, that of the last time before it, -1 where there is none."""
        return np.where(times < self.first, -1, np.minimum(times, self.last) - self.first)


class _SomeTimes(Struct, frozen=True):
    """Numbers times that ascend."""

    times: Times

    @property
    def count(self) -> int:
        return len(self.times)

    def places(self, times: Times) -> SessionIds:
        """As `_AllTimes.places`."""
        return np.searchsorted(self.times, times, "right") - 1


class _SessionRun(Struct, frozen=True):
    """Starts of sessions, sorted by key, then time.

    Attributes:
        numbers: of the times.
        keys: all are below.
        codes: of key and time in one number: the key, times how many times have numbers, plus the time's number.
        sessions: the session of each entry, each once, when the run was made.
    """

    numbers: _AllTimes | _SomeTimes
    keys: int
    codes: Ids
    sessions: SessionIds

    def __len__(self) -> int:
        return len(self.sessions)

    @classmethod
    def of(cls, key_ids: Ids, times: Times, sessions: SessionIds) -> _SessionRun:
        """Sessions that are open, with their starts; at least one. Any may be there several times."""
        numbers: _AllTimes | _SomeTimes = _AllTimes(int(times.min()), int(times.max()))
        keys = int(key_ids.max()) + 1
        if (keys + 1) * numbers.count > _MOST_CODES:
            numbers = _SomeTimes(distinct(times))
        codes = key_ids * numbers.count + numbers.places(times)
        order = np.argsort(codes, kind="stable")  # which finds that it is in order, or consists of parts that are
        codes, sessions = codes[order], sessions[order]
        is_other = differs_from_previous(codes)
        return cls(numbers, keys, codes[is_other], sessions[is_other])

    def until(self, key_ids: Ids, times: Times) -> SessionIds:
        """How many entries are at or before that time of the key, or of a lower key."""
        codes = np.minimum(key_ids, self.keys) * self.numbers.count + self.numbers.places(times)
        return np.searchsorted(self.codes, codes, "right")


class SessionIndex:
    """Finds sessions near some times without a look at the others of their keys.

    An entry is a session and the start that it had. Sessions only grow until they are over, so it stays true where its
    session becomes part of another one; which that is by now is followed from session to session.

    All sessions of a run were open, and apart, when it was made; and of two sessions the earlier one is over first. So
    nothing that is over is between a session's entry and its end, and the last entry at or before a time is of the
    session that has this time, if that one's start is in the run.

    Entries are in sorted runs, of which some of about the same length become one, whereby those are left out that say
    nothing new. So a row costs some searches, and its entry as many sorts, as the logarithm of how many there are.
    """

    def __init__(self, sessions: SessionTable) -> None:
        self._table = sessions
        self._runs: list[_SessionRun] = []
        self._into: SessionIds = np.empty(0, np.int64)
        """By session: that of the session which it became part of; NO_SESSION, or not there: of none."""
        self._joined_count = 0
        """Sessions that have become part of others since the runs were last made one."""

    def __len__(self) -> int:
        """The number of entries."""
        return sum(map(len, self._runs))

    def clear(self) -> None:
        self._runs, self._into, self._joined_count = [], np.empty(0, np.int64), 0

    def add(self, sessions: SessionIds) -> None:
        """These distinct sessions are new here, or start earlier than they did."""
        if not len(sessions):
            return
        self._runs.append(self._run(sessions))
        while len(self._runs) >= _RUNS and len(self._runs[-_RUNS]) <= _RUNS * len(self._runs[-1]):
            self._make_one(_RUNS)

    def join(self, sessions: SessionIds, targets: SessionIds) -> None:
        """The sessions have become part of those others."""
        self._into = grown(self._into, self._table.count, NO_SESSION)
        self._into[sessions] = targets
        self._joined_count += len(sessions)
        if self._joined_count > max(_JOINED_BEFORE_TIDYING, len(self) // 2):
            self._make_one(len(self._runs))
            self._joined_count = 0

    def touching(self, key_ids: Ids, starts: Times, ends: Times) -> SessionIds:
        """The open sessions that touch one of these intervals [start, end): of each key the latest first."""
        found = [NO_SESSIONS]
        for run in self._runs:
            # From the last one at or before the start on.
            first = np.maximum(run.until(key_ids, starts) - 1, 0)
            counts = run.until(key_ids, ends) - first
            which = np.repeat(np.arange(len(counts)), counts)
            sessions = self._current(run.sessions[indices_of_ranges(first, counts)])
            found.append(sessions[self._touches(sessions, key_ids[which], starts[which], ends[which])])
        sessions = distinct(np.concatenate(found))
        return sessions[order_by(self._table.key_ids[sessions], self._table.starts[sessions])[::-1]]

    def _touches(self, sessions: SessionIds, key_ids: Ids, starts: Times, ends: Times) -> Flags:
        of = self._table
        is_near: Flags = (of.starts[sessions] <= ends) & (of.ends[sessions] >= starts)
        is_near &= (of.key_ids[sessions] == key_ids) & of.is_open[sessions]
        return is_near

    def _make_one(self, count: int) -> None:
        """Of the last runs."""
        sessions = self._current(np.concatenate([run.sessions for run in self._runs[-count:]]))
        sessions = sessions[self._table.is_open[sessions]]
        self._runs[-count:] = [self._run(sessions)] if len(sessions) else []

    def _run(self, sessions: SessionIds) -> _SessionRun:
        return _SessionRun.of(self._table.key_ids[sessions], self._table.starts[sessions], sessions)

    def _current(self, sessions: SessionIds) -> SessionIds:
        """The sessions of the sessions that these are, or are part of, now."""
        if not len(self._into):
            return sessions
        self._into = grown(self._into, self._table.count, NO_SESSION)
        passed: list[SessionIds] = []
        current = sessions
        while True:
            into = self._into[current]
            is_part = into != NO_SESSION
            if not is_part.any():
                break
            passed.append(current)
            current = np.where(is_part, into, current)
        for former in passed[:-1]:  # they need not be followed again
            is_former = former != current
            self._into[former[is_former]] = current[is_former]
        return current

    def check(self, indexed: SessionIds) -> None:
        """Raises AssertionError where one of these open sessions is not found."""
        of = self._table
        found = self.touching(of.key_ids[indexed], of.starts[indexed], of.starts[indexed])
        assert set(found.tolist()) == set(indexed.tolist()), "every session of a key with many is found"
