"""Finds the open sessions of a key that rows may touch."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from actors.columns.ordering import differs_from_previous, order_by
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import grown, renumbered
from actors.operators.aggregates.value_rules import Flags
from actors.operators.windows.base.times import Times
from actors.operators.windows.sessions.intervals import MergedIntervals
from actors.operators.windows.sessions.session_table import NO_SESSION, NO_SESSIONS, SessionIds, SessionTable
from actors.operators.windows.sessions.time_index import SessionIndex
from flinkray.types.records import MIN_TIMESTAMP

_MOST_CHAINED = 32
"""A key with more open sessions than this has them in the index."""


class NearSessions(Struct, frozen=True):
    """Open sessions of some keys.

    Attributes:
        sessions: those that may touch the rows that have come; of each key the latest first.
        rest: for each key of these rows, ascending, the newest of its other sessions in a chain, or NO_SESSION.
    """

    sessions: SessionIds
    rest: SessionIds


class SessionsByKey:
    """The open sessions of each key, which neither overlap nor touch. Few are chained from the newest to older ones;
    many are in an index.

    What is asked for most, the newest sessions of the keys of a batch, is thus found by a gather or two, and a late row
    of a key with very many by a search. Belongs to one thread.
    """

    def __init__(self, sessions: SessionTable) -> None:
        self._table = sessions
        self._index = SessionIndex(sessions)
        self._newest: SessionIds = NO_SESSIONS
        """The newest session of each key."""
        self._sizes: SessionIds = NO_SESSIONS
        """How many open sessions each key has."""
        self._is_indexed: Flags = np.empty(0, np.bool_)
        """Whether the sessions of each key are in the index."""
        self._older: SessionIds = NO_SESSIONS
        """The next session in the chain of each. Those after one that is over are over too."""

    def grow(self, key_count: int) -> None:
        """Makes room for the keys 0 ... key_count - 1."""
        self._newest = grown(self._newest, key_count, NO_SESSION)
        self._sizes = grown(self._sizes, key_count, 0)
        self._is_indexed = grown(self._is_indexed, key_count, False)

    # -- finding

    def near(self, intervals: MergedIntervals) -> NearSessions:
        """The open sessions that may touch the intervals of their keys."""
        is_first = differs_from_previous(intervals.key_ids)
        key_ids, earliest = intervals.key_ids[is_first], intervals.starts[is_first]
        newest = self._newest[key_ids]
        if not len(self._index):
            return self._chained(newest, earliest)
        chained = self._chained(np.where(self._is_indexed[key_ids], NO_SESSION, newest), earliest)
        return NearSessions(np.concatenate([chained.sessions, self._indexed(intervals)]), chained.rest)

    def _chained(self, current: SessionIds, earliest: Times) -> NearSessions:
        """Follows chains from the sessions `current` on, as far as sessions are open and end at or after a time."""
        rest = np.full(len(current), NO_SESSION, np.int64)
        key_indices = np.arange(len(current))
        found = [NO_SESSIONS]
        while True:
            is_open = current != NO_SESSION
            is_open[is_open] = self._table.is_open[current[is_open]]
            current, key_indices = current[is_open], key_indices[is_open]
            is_near = self._table.ends[current] >= earliest[key_indices]
            rest[key_indices[~is_near]] = current[~is_near]
            current, key_indices = current[is_near], key_indices[is_near]
            if not len(current):
                return NearSessions(np.concatenate(found), rest)
            found.append(current)
            current = self._older[current]

    def _indexed(self, intervals: MergedIntervals) -> SessionIds:
        newest = self._newest[intervals.key_ids]
        # Rows mostly come after all sessions of their keys.
        may_touch = self._is_indexed[intervals.key_ids] & (intervals.starts <= self._table.ends[newest])
        if not may_touch.any():
            return NO_SESSIONS
        return self._index.touching(
            intervals.key_ids[may_touch], intervals.starts[may_touch], intervals.ends[may_touch]
        )

    # -- sessions that come, grow and go

    def add(self, sessions: SessionIds, is_new: Flags, starts_earlier: Flags, rest: SessionIds) -> None:
        """Adds sessions, or says that they have grown.

        Args:
            sessions: sessions that are open now, sorted by key and start: new ones, and those that were near.
            is_new: which of them are new.
            starts_earlier: which of them start earlier than they did, or are new.
            rest: for each, `NearSessions.rest` of its key.
        """
        if not len(sessions):
            return
        key_ids = self._table.key_ids[sessions]
        np.add.at(self._sizes, key_ids[is_new], 1)
        is_many = self._sizes[key_ids] > _MOST_CHAINED
        if len(self._index):
            is_many |= self._is_indexed[key_ids]
        if not is_many.any():
            self._chain(key_ids, sessions, rest)
            return
        self._put_into_index(key_ids[is_many], sessions[is_many], starts_earlier[is_many], rest[is_many])
        is_few = ~is_many
        self._chain(key_ids[is_few], sessions[is_few], rest[is_few])

    def _chain(self, key_ids: Ids, sessions: SessionIds, rest: SessionIds) -> None:
        """Puts these sessions before the rest of their keys' chains."""
        if not len(sessions):
            return
        self._older = grown(self._older, self._table.count, NO_SESSION)
        is_first = differs_from_previous(key_ids)
        older = np.empty(len(sessions), np.int64)
        older[1:] = sessions[:-1]
        older[is_first] = rest[is_first]
        self._older[sessions] = older
        is_last = np.append(is_first[1:], True)
        self._newest[key_ids[is_last]] = sessions[is_last]

    def _put_into_index(self, key_ids: Ids, sessions: SessionIds, starts_earlier: Flags, rest: SessionIds) -> None:
        is_newly = ~self._is_indexed[key_ids]
        added = sessions[starts_earlier | is_newly]
        if is_newly.any():
            # What is left in the chains of these keys; of a key without, NO_SESSION, which is no session.
            left = rest[is_newly & differs_from_previous(key_ids)]
            added = np.concatenate([added, self._chained(left, np.full(len(left), MIN_TIMESTAMP)).sessions])
            self._is_indexed[key_ids] = True
        self._index.add(added)
        is_last = np.append(key_ids[1:] != key_ids[:-1], True)
        self._be_newest(key_ids[is_last], sessions[is_last])

    def _be_newest(self, key_ids: Ids, sessions: SessionIds) -> None:
        table, newest = self._table, self._newest[key_ids]
        is_newer = (newest == NO_SESSION) | ~table.is_open[newest] | (table.starts[newest] < table.starts[sessions])
        self._newest[key_ids[is_newer]] = sessions[is_newer]

    def absorb(self, absorbed: SessionIds, into: SessionIds) -> None:
        """Closes sessions that have become part of others of their keys."""
        key_ids = self._table.key_ids[absorbed]
        np.subtract.at(self._sizes, key_ids, 1)
        if len(self._index):
            is_indexed = self._is_indexed[key_ids]
            self._index.absorb(absorbed[is_indexed], into[is_indexed])

    def over(self, sessions: SessionIds) -> None:
        """Closes these sessions: all that end before some time."""
        np.subtract.at(self._sizes, self._table.key_ids[sessions], 1)
        if not self._table.open_count and len(self._index):
            self._index.clear()
            self._is_indexed[:] = False

    # -- letting go

    def retain(self, keys: Ids) -> None:
        """Keeps only these keys, as keys 0, 1, ..."""
        self._newest, self._sizes, self._is_indexed = self._newest[keys], self._sizes[keys], self._is_indexed[keys]

    def renumber(self, live: SessionIds, new_ids: SessionIds) -> None:
        """Gives session n the number `new_ids[n]`, whose last element is that of NO_SESSION; only `live` ones stay."""
        older = grown(self._older, len(new_ids) - 1, NO_SESSION)
        older[live] = new_ids[older[live]]
        self._older = renumbered(older, live, np.arange(len(live)), len(live), NO_SESSION)
        self._newest = new_ids[self._newest]
        if len(self._index):
            self._index_again()

    def _index_again(self) -> None:
        table = self._table
        sessions = np.flatnonzero(self._is_indexed[table.key_ids[: table.count]])
        self._is_indexed &= self._sizes > _MOST_CHAINED // 2  # so that a key does not go to and fro
        is_indexed = self._is_indexed[table.key_ids[sessions]]
        self._index.clear()
        self._index.add(sessions[is_indexed])
        few = sessions[~is_indexed]
        few = few[order_by(table.key_ids[few], table.starts[few])]
        self._chain(table.key_ids[few], few, np.full(len(few), NO_SESSION))

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        table, live = self._table, self._table.open()
        is_indexed = self._is_indexed[table.key_ids[live]]
        self._index.check(live[is_indexed])
        keys = np.flatnonzero(~self._is_indexed)
        chained = self._chained(self._newest[keys], np.full(len(keys), MIN_TIMESTAMP)).sessions
        assert sorted(chained.tolist()) == live[~is_indexed].tolist(), "every other open session is in a chain, once"
        newest, older = self._newest[keys], self._older[chained]
        newest_of, older_of = newest[newest != NO_SESSION], older[older != NO_SESSION]
        assert (table.key_ids[newest_of] == keys[newest != NO_SESSION]).all(), "a chain begins in its own key"
        assert (table.key_ids[older_of] == table.key_ids[chained[older != NO_SESSION]]).all(), "and stays there"
        sorted_sessions = live[order_by(table.key_ids[live], table.starts[live])]
        is_same = table.key_ids[sorted_sessions[1:]] == table.key_ids[sorted_sessions[:-1]]
        is_apart = table.starts[sorted_sessions[1:]] > table.ends[sorted_sessions[:-1]]
        assert (is_apart | ~is_same).all(), "sessions of a key do not touch"
        assert not len(chained) or np.bincount(table.key_ids[chained]).max() <= _MOST_CHAINED, "a chain is short"
        sizes = np.bincount(table.key_ids[live], minlength=len(self._sizes))
        assert (sizes == self._sizes).all(), "the open sessions of a key are counted"
