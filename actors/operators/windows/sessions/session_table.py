"""The table of sessions: what all look at that find, fire and keep sessions."""

from __future__ import annotations

import numpy as np

from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators, grown, renumbered
from actors.operators.aggregates.value_rules import Flags
from actors.operators.windows.base.times import Times

SessionIds = Accumulators
"""Numbers of sessions; a session's number is that of its accumulator in all columns of aggregates."""

NO_SESSION = -1
NO_SESSIONS: SessionIds = np.empty(0, np.int64)


class SessionTable:
    """The sessions [start, end) of all keys, one number each, in order of arrival; no number is used again.

    Attributes:
        count: of all numbers, with those of sessions that were let go of.
        key_ids, starts, ends, is_open, has_fired: by session; there may be more elements than sessions.
    """

    def __init__(self) -> None:
        self.count = 0
        self._closed_count = 0
        self.key_ids: Ids = NO_SESSIONS
        self.starts: Times = NO_SESSIONS
        self.ends: Times = NO_SESSIONS
        self.is_open: Flags = np.empty(0, np.bool_)
        self.has_fired: Flags = np.empty(0, np.bool_)

    @property
    def open_count(self) -> int:
        return self.count - self._closed_count

    @property
    def closed_count(self) -> int:
        """How many sessions are over, or part of another one, and have not been removed from the table."""
        return self._closed_count

    def add(self, count: int) -> SessionIds:
        """Makes so many new sessions, which are open; their key, start and end are to be set."""
        first, self.count = self.count, self.count + count
        self.key_ids = grown(self.key_ids, self.count, 0)
        self.starts = grown(self.starts, self.count, 0)
        self.ends = grown(self.ends, self.count, 0)
        self.is_open = grown(self.is_open, self.count, True)
        self.has_fired = grown(self.has_fired, self.count, False)
        return np.arange(first, self.count)

    def close(self, sessions: SessionIds) -> None:
        """Closes these sessions, which are distinct and open: they are over, or part of another one."""
        self.is_open[sessions] = False
        self._closed_count += len(sessions)

    def open(self) -> SessionIds:
        """The open sessions, in order."""
        return np.flatnonzero(self.is_open[: self.count])

    def compact(self, live: SessionIds) -> None:
        """Keeps only these sessions, which are the open ones, as sessions 0, 1, ..."""
        count = len(live)
        numbers = np.arange(count)
        self.key_ids = renumbered(self.key_ids, live, numbers, count, 0)
        self.starts = renumbered(self.starts, live, numbers, count, 0)
        self.ends = renumbered(self.ends, live, numbers, count, 0)
        self.has_fired = renumbered(self.has_fired, live, numbers, count, False)
        self.is_open = np.ones(len(self.has_fired), np.bool_)
        self.count, self._closed_count = count, 0
