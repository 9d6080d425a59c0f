"""The index of open sessions of keys that have many, by key and time."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.ranges import indices_of_ranges
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import grown
from actors.operators.aggregates.value_rules import Flags
from actors.operators.windows.base.compaction import are_due_to_merge, is_mostly_released
from actors.operators.windows.base.times import Times
from actors.operators.windows.sessions.session_table import NO_SESSION, NO_SESSIONS, SessionIds, SessionTable

_FAN_IN = 4
"""So many sorted runs of about the same size become one."""

_FEWEST_ABSORBED = 1024
"""Entries of sessions that have become part of others are removed when more than half are such, and at least these."""

_MOST_CODES = 1 << 62
"""So many pairs of key and time get numbers by arithmetic; where there are more, the times that occur are numbered."""


class _TimeRange(Struct, frozen=True):
    """Numbers the times from `first` to `last`, both included."""

    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def numbers(self, times: Times) -> SessionIds:
        """The number of each time; of one that has none, that of the last time before it, -1 where there is none."""
        return np.where(times < self.first, -1, np.minimum(times, self.last) - self.first)


class _ListedTimes(Struct, frozen=True):
    """Numbers these times, which ascend."""

    times: Times

    @property
    def count(self) -> int:
        return len(self.times)

    def numbers(self, times: Times) -> SessionIds:
        """The number of each time, as `_TimeRange.numbers` gives it."""
        return np.searchsorted(self.times, times, "right") - 1


class _SessionRun(Struct, frozen=True):
    """A sorted run: sessions by key, then start.

    Attributes:
        numbers: numbers the starts.
        keys: a number above those of all keys.
        codes: key and start of each entry in one number: the key, times how many starts have numbers, plus the number
            of the start.
        sessions: the session of each entry, each once, when the run was made.
    """

    numbers: _TimeRange | _ListedTimes
    keys: int
    codes: Ids
    sessions: SessionIds

    def __len__(self) -> int:
        return len(self.sessions)

    @classmethod
    def of(cls, key_ids: Ids, times: Times, sessions: SessionIds) -> _SessionRun:
        """Sorts open sessions, at least one, given their starts. A session may be there several times."""
        numbers: _TimeRange | _ListedTimes = _TimeRange(int(times.min()), int(times.max()))
        keys = int(key_ids.max()) + 1
        if (keys + 1) * numbers.count > _MOST_CODES:
            numbers = _ListedTimes(distinct(times))
        codes = key_ids * numbers.count + numbers.numbers(times)
        order = np.argsort(codes, kind="stable")  # which finds that it is in order, or consists of parts that are
        codes, sessions = codes[order], sessions[order]
        is_other = differs_from_previous(codes)
        return cls(numbers, keys, codes[is_other], sessions[is_other])

    def until(self, key_ids: Ids, times: Times) -> SessionIds:
        """How many entries are at or before that time of the key, or of a lower key."""
        codes = np.minimum(key_ids, self.keys) * self.numbers.count + self.numbers.numbers(times)
        return np.searchsorted(self.codes, codes, "right")


class SessionIndex:
    """Finds sessions near some times without a look at the others of their keys.

    An entry is a session and the start that it had. Sessions only grow until they are over, so it stays true where its
    session becomes part of another one; which one that is by now is followed from session to session.

    All sessions of a run were open, and apart, when it was made; and of two sessions the earlier one is over first. So
    nothing that is over is between a session's entry and its end, and the last entry at or before a time is of the
    session that has this time, if that one's start is in the run.

    Entries are in sorted runs, of which some of about the same size become one, whereby those are left out that say
    nothing new. So a row costs some searches, and its entry as many sorts, as the logarithm of how many there are.
    """

    def __init__(self, sessions: SessionTable) -> None:
        self._table = sessions
        self._runs: list[_SessionRun] = []
        self._absorbed_by: SessionIds = np.empty(0, np.int64)
        """For each session the one of which it became part; NO_SESSION: it is not part of another one. There may be
        fewer elements than sessions."""
        self._absorbed_count = 0
        """How many sessions have become part of others since all runs were last made one."""

    def __len__(self) -> int:
        """The number of entries."""
        return sum(map(len, self._runs))

    def clear(self) -> None:
        self._runs, self._absorbed_by, self._absorbed_count = [], np.empty(0, np.int64), 0

    def add(self, sessions: SessionIds) -> None:
        """Adds distinct sessions that are new here, or start earlier than they did."""
        if not len(sessions):
            return
        self._runs.append(self._run(sessions))
        while are_due_to_merge(self._runs, _FAN_IN):
            self._merge_last(_FAN_IN)

    def absorb(self, absorbed: SessionIds, into: SessionIds) -> None:
        """Says of which other sessions these have become part."""
        self._absorbed_by = grown(self._absorbed_by, self._table.count, NO_SESSION)
        self._absorbed_by[absorbed] = into
        self._absorbed_count += len(absorbed)
        if is_mostly_released(self._absorbed_count, len(self) // 2, _FEWEST_ABSORBED):
            self._merge_last(len(self._runs))
            self._absorbed_count = 0

    def touching(self, key_ids: Ids, starts: Times, ends: Times) -> SessionIds:
        """The open sessions that touch one of these intervals [start, end): of each key the latest first."""
        found = [NO_SESSIONS]
        for run in self._runs:
            # Beginning with the last entry at or before the start.
            first = np.maximum(run.until(key_ids, starts) - 1, 0)
            counts = run.until(key_ids, ends) - first
            which = np.repeat(np.arange(len(counts)), counts)
            sessions = self._current_sessions(run.sessions[indices_of_ranges(first, counts)])
            found.append(sessions[self._touches(sessions, key_ids[which], starts[which], ends[which])])
        sessions = distinct(np.concatenate(found))
        return sessions[order_by(self._table.key_ids[sessions], self._table.starts[sessions])[::-1]]

    def _touches(self, sessions: SessionIds, key_ids: Ids, starts: Times, ends: Times) -> Flags:
        table = self._table
        is_near: Flags = (table.starts[sessions] <= ends) & (table.ends[sessions] >= starts)
        is_near &= (table.key_ids[sessions] == key_ids) & table.is_open[sessions]
        return is_near

    def _merge_last(self, count: int) -> None:
        """Merges the last `count` runs."""
        sessions = self._current_sessions(np.concatenate([run.sessions for run in self._runs[-count:]]))
        sessions = sessions[self._table.is_open[sessions]]
        self._runs[-count:] = [self._run(sessions)] if len(sessions) else []

    def _run(self, sessions: SessionIds) -> _SessionRun:
        return _SessionRun.of(self._table.key_ids[sessions], self._table.starts[sessions], sessions)

    def _current_sessions(self, sessions: SessionIds) -> SessionIds:
        """The sessions that these are, or are part of, now."""
        if not len(self._absorbed_by):
            return sessions
        self._absorbed_by = grown(self._absorbed_by, self._table.count, NO_SESSION)
        passed: list[SessionIds] = []
        current = sessions
        while True:
            into = self._absorbed_by[current]
            is_part = into != NO_SESSION
            if not is_part.any():
                break
            passed.append(current)
            current = np.where(is_part, into, current)
        for former in passed[:-1]:  # they need not be followed again
            is_former = former != current
            self._absorbed_by[former[is_former]] = current[is_former]
        return current

    def check(self, indexed: SessionIds) -> None:
        """Raises AssertionError where one of these open sessions is not found."""
        table = self._table
        found = self.touching(table.key_ids[indexed], table.starts[indexed], table.starts[indexed])
        assert set(found.tolist()) == set(indexed.tolist()), "every session of a key with many is found"
