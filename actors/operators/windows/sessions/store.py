"""The state of session windows: which sessions there are, and what is in them, by key and session, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.columns.large_columns import Columns
from actors.columns.ordering import differs_from_previous, distinct, order_by
from actors.columns.ranges import Indices
from actors.keys.index import Ids, KeyIndex
from actors.keys.state_tables import KeyedTables, StateRows
from actors.operators.aggregates.value_rules import Flags
from actors.operators.windows.base.compaction import is_mostly_released
from actors.operators.windows.base.times import Times
from actors.operators.windows.sessions.contents import FrozenContents, SessionContents
from actors.operators.windows.sessions.end_queue import EndQueue
from actors.operators.windows.sessions.intervals import MergedIntervals, merge_touching, touch_any
from actors.operators.windows.sessions.lookup import NearSessions, SessionsByKey
from actors.operators.windows.sessions.session_table import NO_SESSION, NO_SESSIONS, SessionIds, SessionTable
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.batch import Batch
from flinkray.batches.numpy_arrays import as_numpy, from_numpy

# Columns of snapshots beside the key and the contents.
_CELL = "cell"
_START = "start"
_END = "end"
_HAS_FIRED = "has_fired"

# So many sessions at least must be over before the others are numbered anew.
_FEWEST_COMPACTED = 4096


class _RowWindows(Struct, frozen=True):
    """The key of each row, and the window [start, end) that it would have alone."""

    key_ids: Ids
    starts: Times
    ends: Times

    def slice(self, rows: slice) -> _RowWindows:
        return _RowWindows(self.key_ids[rows], self.starts[rows], self.ends[rows])


class SessionStore:
    """Adds rows to sessions, and gives the sessions that are due. Belongs to one thread."""

    def __init__(self, contents: SessionContents) -> None:
        self._keys = KeyIndex()
        self._contents = contents
        self._next_position = 0
        self._table = SessionTable()
        self._by_key = SessionsByKey(self._table)
        self._waiting = EndQueue()
        """Sessions whose ends the watermark has not reached, by end; and as they were before they grew."""
        self._reached = EndQueue()
        """Sessions whose ends it has reached, which the allowed lateness keeps."""

    @property
    def session_count(self) -> int:
        """How many sessions are open."""
        return self._table.open_count

    @property
    def next_position(self) -> int:
        """A number above the positions of all rows so far."""
        return self._next_position

    # -- adding

    def add(
        self, batch: Batch, keys: pa.RecordBatch | None, starts: Times, ends: Times, late_limit: int
    ) -> tuple[SessionIds, Flags]:
        """Adds each row to the session that it makes with what its window [start, end) touches.

        A row is late, and left out, if that session's last millisecond is at or before `late_limit`. As in Flink this
        is decided row after row: a row is not saved by one that comes after it.

        Args:
            keys: the key columns; None: one key for all.
        Returns:
            The sessions that rows were added to, and which rows are late.
        """
        key_ids = self.numbered(keys, batch.num_rows)
        self._by_key.grow(max(1, len(self._keys)))
        is_late = np.zeros(batch.num_rows, np.bool_)
        touched = self._add(batch, _RowWindows(key_ids, starts, ends), late_limit, is_late)
        sessions = touched[0] if len(touched) == 1 else distinct(np.concatenate(touched))
        return sessions[self._table.is_open[sessions]], is_late

    def numbered(self, keys: pa.RecordBatch | None, rows: int) -> Ids:
        """The number of each row's key."""
        return np.zeros(rows, np.int64) if keys is None else self._keys.ids(keys)

    def _add(self, batch: Batch, rows: _RowWindows, late_limit: int, is_late: Flags) -> list[SessionIds]:
        intervals = merge_touching(rows.key_ids, rows.starts, rows.ends)
        near = self._by_key.near(intervals)
        merged, merged_of_open, merged_of_row = self._merged(intervals, near.sessions)
        is_late_alone = rows.ends - 1 <= late_limit
        if is_late_alone.any():
            np.less_equal(merged.ends[merged_of_row] - 1, late_limit, out=is_late)
            if self._depends_on_order(rows, is_late_alone & ~is_late, near.sessions):
                # The rows before a row decide. Halves of a batch leave fewer such rows, and a single row none.
                half = batch.num_rows // 2
                first, second = slice(0, half), slice(half, None)
                touched = self._add(batch.slice(0, half), rows.slice(first), late_limit, is_late[first])
                return touched + self._add(batch.slice(half), rows.slice(second), late_limit, is_late[second])
        sessions = self._extend(merged, near, merged_of_open, merged_of_row, late_limit)
        sessions_of_rows = sessions[merged_of_row]
        if is_late.any():
            not_late = np.flatnonzero(~is_late)
            batch, sessions_of_rows = batch.take(from_numpy(not_late)), sessions_of_rows[not_late]
        if len(sessions_of_rows):
            self._contents.add(batch, sessions_of_rows, self._next_position)
            self._next_position += len(sessions_of_rows)
        touched_sessions = distinct(sessions_of_rows)
        self._table.has_fired[touched_sessions] = False
        return [touched_sessions]

    def _merged(
        self, intervals: MergedIntervals, open_sessions: SessionIds
    ) -> tuple[MergedIntervals, Indices, Indices]:
        """Merges the intervals with the open sessions.

        Returns:
            The merged intervals; and of which of these each open session, and each row of the intervals, is part.
        """
        if not len(open_sessions):
            return intervals, NO_SESSIONS, intervals.merged_of
        merged = merge_touching(
            np.concatenate([intervals.key_ids, self._table.key_ids[open_sessions]]),
            np.concatenate([intervals.starts, self._table.starts[open_sessions]]),
            np.concatenate([intervals.ends, self._table.ends[open_sessions]]),
        )
        return merged, merged.merged_of[len(intervals) :], merged.merged_of[intervals.merged_of]

    def _depends_on_order(self, rows: _RowWindows, is_saved: Flags, open_sessions: SessionIds) -> bool:
        """Whether a row that is late alone is saved only by other rows of the batch, which may come after it."""
        if not is_saved.any():
            return False
        if not len(open_sessions):
            return True
        sessions = merge_touching(
            self._table.key_ids[open_sessions], self._table.starts[open_sessions], self._table.ends[open_sessions]
        )
        return not touch_any(rows.key_ids[is_saved], rows.starts[is_saved], rows.ends[is_saved], sessions).all()

    def _extend(
        self,
        merged: MergedIntervals,
        near: NearSessions,
        merged_of_open: Indices,
        merged_of_row: Indices,
        late_limit: int,
    ) -> SessionIds:
        """Extends the open sessions to what they and the rows merge to; new sessions are made where there is none.

        Returns:
            The session of each merged interval, NO_SESSION if it is late.
        """
        sessions, first_new = self._sessions_of(merged, near.sessions, merged_of_open, merged_of_row, late_limit)
        not_late = np.flatnonzero(sessions != NO_SESSION)
        table, starts, ends, accepted = self._table, merged.starts[not_late], merged.ends[not_late], sessions[not_late]
        is_new = accepted >= first_new
        starts_earlier, ends_later = (
            is_new | (table.starts[accepted] != starts),
            is_new | (table.ends[accepted] != ends),
        )
        table.key_ids[accepted], table.starts[accepted], table.ends[accepted] = (
            merged.key_ids[not_late],
            starts,
            ends,
        )
        self._waiting.add(ends[ends_later] - 1, accepted[ends_later])
        self._absorb(near.sessions, sessions[merged_of_open])
        rest = near.rest[np.cumsum(differs_from_previous(merged.key_ids)) - 1]
        self._by_key.add(accepted, is_new, starts_earlier, rest[not_late])
        return sessions

    def _sessions_of(
        self,
        merged: MergedIntervals,
        open_sessions: SessionIds,
        merged_of_open: Indices,
        merged_of_row: Indices,
        late_limit: int,
    ) -> tuple[SessionIds, int]:
        """The session of each merged interval: the oldest of those that merge, or a new one; and the first new one."""
        sessions = np.full(len(merged), np.iinfo(np.int64).max)
        np.minimum.at(sessions, merged_of_open, open_sessions)
        is_new = sessions == np.iinfo(np.int64).max
        is_late = is_new & (merged.ends - 1 <= late_limit)
        sessions[is_late] = NO_SESSION
        new = np.flatnonzero(is_new & ~is_late)
        first_row = np.empty(len(merged), np.int64)
        first_row[merged_of_row[::-1]] = np.arange(len(merged_of_row))[::-1]  # the last write wins
        first_new = self._table.count
        sessions[new[order_by(first_row[new])]] = self._new(len(new))
        return sessions, first_new

    def _new(self, count: int) -> SessionIds:
        sessions = self._table.add(count)
        self._contents.grow(self._table.count)
        return sessions

    def _absorb(self, sessions: SessionIds, targets: SessionIds) -> None:
        is_absorbed = sessions != targets
        if is_absorbed.any():
            absorbed, into = sessions[is_absorbed], targets[is_absorbed]
            self._contents.merge(absorbed, into)
            self._table.close(absorbed)
            self._by_key.absorb(absorbed, into)

    # -- firing

    def due(self, watermark: int) -> SessionIds:
        """The sessions whose last millisecond the watermark has reached now, by end, then start, then arrival."""
        lasts, sessions = self._waiting.pop(watermark)
        is_present = self._table.is_open[sessions] & (self._table.ends[sessions] - 1 == lasts)
        lasts, sessions = lasts[is_present], sessions[is_present]
        self._reached.add(lasts, sessions)
        return self.in_order(sessions[~self._table.has_fired[sessions]])

    def in_order(self, sessions: SessionIds) -> SessionIds:
        """Sorts sessions by end, then start, then arrival."""
        return sessions[order_by(self._table.ends[sessions], self._table.starts[sessions], sessions)]

    def fired(self, sessions: SessionIds) -> None:
        """Says that these sessions have fired: they do so again only after another row."""
        self._table.has_fired[sessions] = True

    def has_due(self, watermark: int) -> bool:
        """Whether any session is to fire whose last millisecond is at or before this."""
        sessions = self._table.open()
        return bool((self.is_reached(sessions, watermark) & ~self._table.has_fired[sessions]).any())

    def earliest_end(self) -> int | None:
        """A time before which no session is due; None: no session waits."""
        last = self._waiting.earliest()
        return None if last is None else last + 1

    def over(self, late_limit: int) -> SessionIds:
        """The sessions whose last millisecond is at or before this, to be released. To be called after `due`."""
        lasts, sessions = self._reached.pop(late_limit)
        current: SessionIds = sessions[self._table.is_open[sessions] & (self._table.ends[sessions] - 1 == lasts)]
        return current

    def release(self, sessions: SessionIds) -> None:
        """Releases these sessions: all that `over` gave."""
        self._contents.drop(sessions)
        self._table.close(sessions)
        self._by_key.over(sessions)
        if is_mostly_released(self._table.closed_count, self.session_count, _FEWEST_COMPACTED):
            self._compact()

    # -- reading

    def windows(self, sessions: SessionIds) -> tuple[Times, Times]:
        """The starts and the ends of these sessions."""
        return self._table.starts[sessions], self._table.ends[sessions]

    def is_reached(self, sessions: SessionIds, watermark: int) -> Flags:
        """Whether the watermark is at or after the session's last millisecond."""
        return self._table.ends[sessions] - 1 <= watermark

    def keys(self, sessions: SessionIds) -> Columns | None:
        """The key columns of these sessions, one row for each; None: there is one key for all."""
        return self._keys.take(self._table.key_ids[sessions]) if len(self._keys) else None

    # -- letting go

    def _compact(self) -> None:
        live = self._table.open()
        numbers, count = np.arange(len(live)), len(live)
        new_ids = np.full(self._table.count + 1, NO_SESSION, np.int64)  # at the end that of NO_SESSION
        new_ids[live] = numbers
        key_ids = self._table.key_ids
        live_keys = distinct(key_ids[live])  # ascending: they keep their order of arrival
        if len(live_keys) < len(self._keys) // 2:
            key_ids[live] = np.searchsorted(live_keys, key_ids[live])
            self._by_key.retain(live_keys)
            self._keys.retain(live_keys)
        self._table.compact(live)
        self._by_key.renumber(live, new_ids)
        self._contents.renumber(live, numbers, count)
        self._waiting.renumber(new_ids)
        self._reached.renumber(new_ids)

    def _append(self, key_ids: Ids, starts: Times, ends: Times, has_fired: Flags) -> SessionIds:
        """Makes new sessions of keys that have no open session."""
        sessions, table = self._new(len(key_ids)), self._table
        self._by_key.grow(max(1, len(self._keys)))
        table.key_ids[sessions], table.starts[sessions], table.ends[sessions], table.has_fired[sessions] = (
            key_ids,
            starts,
            ends,
            has_fired,
        )
        every = np.ones(len(sessions), np.bool_)
        self._by_key.add(sessions[order_by(key_ids, starts)], every, every, np.full(len(sessions), NO_SESSION))
        # Sessions that the watermark has reached have fired, and go over to the others with the next watermark.
        self._waiting.add(ends - 1, sessions)
        return sessions

    # -- snapshots

    def capture(self) -> CapturedSessions:
        """All sessions as they are now. Quick: arrays are copied, everything else is immutable."""
        table, count = self._table, self._table.count
        return CapturedSessions(
            self._keys.key_columns(),
            table.open(),
            table.key_ids[:count].copy(),
            table.starts[:count].copy(),
            table.ends[:count].copy(),
            table.has_fired[:count].copy(),
            self._contents.freeze(count),
        )

    def restore(self, parts: Iterable[StateRows], next_position: int) -> None:
        """Adds the sessions of snapshots to a store without any.

        Args:
            next_position: above the positions of all parts.
        """
        self._next_position = max(self._next_position, next_position)
        ordered = [part.take(order_by(as_numpy(part.columns[_CELL]))) for part in parts]
        if not ordered:
            return
        key_ids = np.concatenate(
            [
                np.zeros(part.num_rows, np.int64) if part.keys is None else self._keys.restored_ids(part.keys)
                for part in ordered
            ]
        )
        starts, ends, has_fired = (
            np.concatenate([as_numpy(part.columns[name]) for part in ordered]) for name in (_START, _END, _HAS_FIRED)
        )
        sessions = self._append(key_ids, starts, ends, has_fired)
        first = 0
        for part in ordered:
            targets = sessions[first : first + part.num_rows]
            self._contents.restore(part, targets)
            first += part.num_rows

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        live = self._table.open()
        assert len(live) == self.session_count, "every cell that was let go of is counted"
        self._by_key.check()
        queued = {*self._waiting.content(), *self._reached.content()}
        ends = zip((self._table.ends[live] - 1).tolist(), live.tolist(), strict=True)
        assert queued.issuperset(ends), "every open session will end"


class CapturedSessions(Struct, frozen=True):
    """The content of a SessionStore at a barrier; any thread may read it."""

    keys: Columns | None
    sessions: SessionIds
    key_ids: Ids
    starts: Times
    ends: Times
    has_fired: Flags
    contents: FrozenContents

    def table(self, tables: KeyedTables) -> KeyedTable:
        """A row per open session, in the order of their sessions."""
        sessions = self.sessions
        columns: Mapping[str, pa.Array] = {
            _CELL: from_numpy(sessions),
            _START: from_numpy(self.starts[sessions]),
            _END: from_numpy(self.ends[sessions]),
            _HAS_FIRED: from_numpy(self.has_fired[sessions]),
            **self.contents.columns(sessions),
        }
        return tables.make(self.keys, self.key_ids[sessions], columns, self.contents.metadata())
