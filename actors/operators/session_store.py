"""The state of columnar sessions: aggregates per key and session, in arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from actors.large_columns import Column, Columns
from actors.operators.accumulator_base import Cells, grown, moved
from actors.operators.accumulators import AggregateColumns
from actors.operators.keyed_tables import KeyedTables, StateRows
from actors.operators.session_intervals import EndQueue, Flags, Rows, Runs, merge_touching, touch_any
from actors.operators.window_times import Times
from actors.ordering import distinct, is_other_than_before, order_by
from actors.state.key_index import Ids, KeyIndex
from actors.state.snapshot import KeyedTable
from flinkray.aggregates import Aggregate
from flinkray.fixed_width import as_numpy, from_numpy

_NONE = -1
_NO_CELLS: Cells = np.empty(0, np.int64)

# Columns of snapshots beside the key and the aggregates.
_CELL = "cell"
_START = "start"
_END = "end"
_HAS_FIRED = "has_fired"

# Released cells are squeezed out when there are more of them than live ones, and at least this many.
_RELEASED_BEFORE_COMPACTING = 4096


class _Rows(Struct, frozen=True):
    """What is known of a batch's rows beside their columns."""

    key_ids: Ids
    starts: Times
    ends: Times

    def slice(self, rows: slice) -> _Rows:
        return _Rows(self.key_ids[rows], self.starts[rows], self.ends[rows])


class SessionStore:
    """A *cell* holds one open session of one key; cells are numbered in order of arrival, and never reused.

    A key's sessions are chained from the newest to older ones, and neither overlap nor touch. What is asked for most,
    the newest sessions of the keys of a batch, is thus found by a gather or two. Belongs to one thread.
    """

    def __init__(self, aggregates: Sequence[tuple[str, Aggregate]], where: str) -> None:
        self._keys = KeyIndex()
        self._aggregates = AggregateColumns(aggregates, where)
        self._next_position = 0
        self._cell_count = 0
        self._released_count = 0
        self._key_ids: Ids = _NO_CELLS
        self._starts: Times = _NO_CELLS
        self._ends: Times = _NO_CELLS
        self._older: Cells = _NO_CELLS
        self._is_open: Flags = np.empty(0, np.bool_)
        self._has_fired: Flags = np.empty(0, np.bool_)
        self._newest: Cells = _NO_CELLS
        """By key."""
        self._waiting = EndQueue()
        """Sessions that the watermark has not reached, by end; and as they were before they grew."""
        self._reached = EndQueue()
        """Those that it has reached, which the allowed lateness keeps."""

    @property
    def session_count(self) -> int:
        """Open sessions."""
        return self._cell_count - self._released_count

    @property
    def next_position(self) -> int:
        """Above the positions of all rows so far."""
        return self._next_position

    # -- adding

    def add(
        self, data: pa.RecordBatch, keys: pa.RecordBatch | None, starts: Times, ends: Times, late_limit: int
    ) -> tuple[Cells, Flags]:
        """Adds each row to the session that it makes with what its window [start, end) touches.

        A row is late, and left out, if that session's last millisecond is at or before `late_limit`. As in Flink this
        is decided row after row: a row is not kept by one that comes after it.

        Args:
            keys: the key columns; None: one key for all.
        Returns:
            The sessions that rows were added to, and which rows are late.
        """
        key_ids = np.zeros(data.num_rows, np.int64) if keys is None else self._keys.ids(keys)
        self._newest = grown(self._newest, max(1, len(self._keys)), _NONE)
        is_late = np.zeros(data.num_rows, np.bool_)
        touched = self._add(data, _Rows(key_ids, starts, ends), late_limit, is_late)
        cells = touched[0] if len(touched) == 1 else distinct(np.concatenate(touched))
        return cells[self._is_open[cells]], is_late

    def _add(self, data: pa.RecordBatch, rows: _Rows, late_limit: int, is_late: Flags) -> list[Cells]:
        runs = merge_touching(rows.key_ids, rows.starts, rows.ends)
        near = self._open_sessions(runs)
        merged, session_of_open, session_of_row = self._merged(runs, near.cells)
        is_late_alone = rows.ends - 1 <= late_limit
        if is_late_alone.any():
            np.less_equal(merged.ends[session_of_row] - 1, late_limit, out=is_late)
            if self._depends_on_order(rows, is_late_alone & ~is_late, near.cells):
                # The rows before a row decide. Halves of a batch leave fewer such rows, and a single row none.
                half = data.num_rows // 2
                first, second = slice(0, half), slice(half, None)
                touched = self._add(data.slice(0, half), rows.slice(first), late_limit, is_late[first])
                return touched + self._add(data.slice(half), rows.slice(second), late_limit, is_late[second])
        cells = self._take_in(merged, near, session_of_open, session_of_row, late_limit)
        row_cells = cells[session_of_row]
        if is_late.any():
            kept = np.flatnonzero(~is_late)
            data, row_cells = data.take(from_numpy(kept)), row_cells[kept]
        if len(row_cells):
            self._aggregates.add(data, row_cells, self._next_position)
            self._next_position += len(row_cells)
        touched_cells = distinct(row_cells)
        self._has_fired[touched_cells] = False
        return [touched_cells]

    def _merged(self, runs: Runs, open_cells: Cells) -> tuple[Runs, Rows, Rows]:
        """The runs and open sessions merged; and what each open session, and each row of the runs, is part of then."""
        if not len(open_cells):
            return runs, _NO_CELLS, runs.run_of
        merged = merge_touching(
            np.concatenate([runs.key_ids, self._key_ids[open_cells]]),
            np.concatenate([runs.starts, self._starts[open_cells]]),
            np.concatenate([runs.ends, self._ends[open_cells]]),
        )
        return merged, merged.run_of[len(runs) :], merged.run_of[runs.run_of]

    def _depends_on_order(self, rows: _Rows, is_saved: Flags, open_cells: Cells) -> bool:
        """Whether a row that is late alone is saved only by other rows of the batch, which may come after it."""
        if not is_saved.any():
            return False
        if not len(open_cells):
            return True
        sessions = merge_touching(self._key_ids[open_cells], self._starts[open_cells], self._ends[open_cells])
        return not touch_any(rows.key_ids[is_saved], rows.starts[is_saved], rows.ends[is_saved], sessions).all()

    def _open_sessions(self, runs: Runs) -> _Near:
        """The open sessions that may touch the runs of their keys."""
        is_first = is_other_than_before(runs.key_ids)
        key_ids, earliest = runs.key_ids[is_first], runs.starts[is_first]
        rest = np.full(len(key_ids), _NONE, np.int64)
        at, which = self._newest[key_ids], np.arange(len(key_ids))
        found = [_NO_CELLS]
        while True:
            # The older ones in the chain of a session that is over are over too.
            is_open = at != _NONE
            is_open[is_open] = self._is_open[at[is_open]]
            at, which = at[is_open], which[is_open]
            is_near = self._ends[at] >= earliest[which]
            rest[which[~is_near]] = at[~is_near]
            at, which = at[is_near], which[is_near]
            if not len(at):
                return _Near(np.concatenate(found), rest)
            found.append(at)
            at = self._older[at]

    def _take_in(
        self, merged: Runs, near: _Near, session_of_open: Rows, session_of_row: Rows, late_limit: int
    ) -> Cells:
        """Makes the open sessions those that they merge to with the rows; gives the cell of each, _NONE if late."""
        cells, first_new = self._cells_of(merged, near.cells, session_of_open, session_of_row, late_limit)
        kept = np.flatnonzero(cells != _NONE)
        key_ids, ends, kept_cells = merged.key_ids[kept], merged.ends[kept], cells[kept]
        is_later = (kept_cells >= first_new) | (self._ends[kept_cells] != ends)
        self._key_ids[kept_cells], self._starts[kept_cells] = key_ids, merged.starts[kept]
        self._ends[kept_cells] = ends
        self._waiting.add(ends[is_later] - 1, kept_cells[is_later])
        self._absorb(near.cells, cells[session_of_open])
        rest = near.rest[np.cumsum(is_other_than_before(merged.key_ids)) - 1]
        self._link(key_ids, kept_cells, rest[kept])
        return cells

    def _cells_of(
        self, merged: Runs, open_cells: Cells, session_of_open: Rows, session_of_row: Rows, late_limit: int
    ) -> tuple[Cells, int]:
        """The cell of each session: the oldest of those that merge, or a new one; and the first new one."""
        cells = np.full(len(merged), np.iinfo(np.int64).max)
        np.minimum.at(cells, session_of_open, open_cells)
        is_new = cells == np.iinfo(np.int64).max
        is_late = is_new & (merged.ends - 1 <= late_limit)
        cells[is_late] = _NONE
        new = np.flatnonzero(is_new & ~is_late)
        first_row = np.empty(len(merged), np.int64)
        first_row[session_of_row[::-1]] = np.arange(len(session_of_row))[::-1]  # the last write wins
        first_new, count = self._cell_count, self._cell_count + len(new)
        cells[new[order_by(first_row[new])]] = np.arange(first_new, count)
        self._grow(count)
        return cells, first_new

    def _grow(self, count: int) -> None:
        self._key_ids = grown(self._key_ids, count, 0)
        self._starts = grown(self._starts, count, 0)
        self._ends = grown(self._ends, count, 0)
        self._older = grown(self._older, count, _NONE)
        self._is_open = grown(self._is_open, count, True)
        self._has_fired = grown(self._has_fired, count, False)
        self._aggregates.grow(count)
        self._cell_count = count

    def _absorb(self, cells: Cells, targets: Cells) -> None:
        is_absorbed = cells != targets
        if is_absorbed.any():
            absorbed = cells[is_absorbed]
            self._aggregates.merge(self._aggregates, absorbed, targets[is_absorbed])
            self._close(absorbed)

    def _link(self, key_ids: Ids, cells: Cells, rest: Cells) -> None:
        """Chains these sessions, which are sorted by key and start, before the rest of their keys'."""
        if not len(cells):
            return
        is_first = is_other_than_before(key_ids)
        older = np.empty(len(cells), np.int64)
        older[1:] = cells[:-1]
        older[is_first] = rest[is_first]
        self._older[cells] = older
        is_last = np.append(is_first[1:], True)
        self._newest[key_ids[is_last]] = cells[is_last]

    # -- firing

    def due(self, watermark: int) -> Cells:
        """The sessions whose last millisecond the watermark has reached now, by end, then start, then arrival."""
        lasts, cells = self._waiting.pop(watermark)
        is_present = self._is_open[cells] & (self._ends[cells] - 1 == lasts)
        lasts, cells = lasts[is_present], cells[is_present]
        self._reached.add(lasts, cells)
        return self.in_order(cells[~self._has_fired[cells]])

    def in_order(self, cells: Cells) -> Cells:
        """By end, then start, then arrival."""
        return cells[order_by(self._ends[cells], self._starts[cells], cells)]

    def fired(self, cells: Cells) -> None:
        """They have given their results: they do so again only after another row."""
        self._has_fired[cells] = True

    def earliest_end(self) -> int | None:
        """No session is due before this."""
        last = self._waiting.earliest()
        return None if last is None else last + 1

    def release(self, late_limit: int) -> None:
        """Sessions whose last millisecond is at or before this are over. Call it after `due`."""
        lasts, cells = self._reached.pop(late_limit)
        self._close(cells[self._is_open[cells] & (self._ends[cells] - 1 == lasts)])
        if self._released_count > max(_RELEASED_BEFORE_COMPACTING, self.session_count):
            self._compact()

    def _close(self, cells: Cells) -> None:
        self._is_open[cells] = False
        self._released_count += len(cells)

    # -- reading

    def windows(self, cells: Cells) -> tuple[Times, Times]:
        """Starts and ends."""
        return self._starts[cells], self._ends[cells]

    def is_reached(self, cells: Cells, watermark: int) -> Flags:
        """Whether the watermark is at or after the session's last millisecond."""
        return self._ends[cells] - 1 <= watermark

    def results(self, cells: Cells) -> list[Column]:
        """One column per aggregate."""
        return self._aggregates.results(cells)

    def key_columns(self, cells: Cells) -> list[tuple[str, Column]]:
        """The key columns of these sessions, one row for each."""
        if not len(self._keys):
            return []
        keys = self._keys.take(self._key_ids[cells])
        return list(zip(keys.schema.names, keys.columns, strict=True))

    # -- letting go

    def _compact(self) -> None:
        live = np.flatnonzero(self._is_open[: self._cell_count])
        places, count = np.arange(len(live)), len(live)
        place = np.full(self._cell_count + 1, _NONE, np.int64)  # at the end that of _NONE
        place[live] = places
        live_keys = distinct(self._key_ids[live])  # ascending: they keep their order of arrival
        if len(live_keys) < len(self._keys) // 2:
            self._key_ids[live] = np.searchsorted(live_keys, self._key_ids[live])
            self._newest = self._newest[live_keys]
            self._keys.retain(live_keys)
        self._newest, self._older[live] = place[self._newest], place[self._older[live]]
        self._key_ids = moved(self._key_ids, live, places, count, 0)
        self._starts = moved(self._starts, live, places, count, 0)
        self._ends = moved(self._ends, live, places, count, 0)
        self._older = moved(self._older, live, places, count, _NONE)
        self._has_fired = moved(self._has_fired, live, places, count, False)
        self._is_open = np.ones(len(self._has_fired), np.bool_)
        self._aggregates.move(live, places, count)
        self._waiting.renumber(place)
        self._reached.renumber(place)
        self._cell_count, self._released_count = count, 0

    def _append(self, key_ids: Ids, starts: Times, ends: Times, has_fired: Flags) -> Cells:
        """New cells for sessions that are of no key of the present ones, whose chains are made here."""
        first = self._cell_count
        self._grow(first + len(key_ids))
        self._newest = grown(self._newest, max(1, len(self._keys)), _NONE)
        cells = np.arange(first, self._cell_count)
        self._key_ids[cells], self._starts[cells], self._ends[cells] = key_ids, starts, ends
        self._has_fired[cells] = has_fired
        order = order_by(key_ids, starts)
        self._link(key_ids[order], cells[order], np.full(len(cells), _NONE))
        # Those that the watermark has reached have fired, and go over to the others with the next one.
        self._waiting.add(ends - 1, cells)
        return cells

    # -- snapshots

    def capture(self) -> CapturedSessions:
        """All sessions as they are now. Quick: arrays are copied, everything else is immutable."""
        count = self._cell_count
        return CapturedSessions(
            self._keys.key_columns(),
            np.flatnonzero(self._is_open[:count]),
            self._key_ids[:count].copy(),
            self._starts[:count].copy(),
            self._ends[:count].copy(),
            self._has_fired[:count].copy(),
            self._aggregates.copy(count),
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
            [np.zeros(part.num_rows, np.int64) if part.keys is None else self._keys.ids(part.keys) for part in ordered]
        )
        starts, ends, has_fired = (
            np.concatenate([as_numpy(part.columns[name]) for part in ordered]) for name in (_START, _END, _HAS_FIRED)
        )
        cells = self._append(key_ids, starts, ends, has_fired)
        first = 0
        for part in ordered:
            targets = cells[first : first + part.num_rows]
            self._aggregates.merge(self._aggregates.loaded(part), np.arange(part.num_rows), targets)
            first += part.num_rows

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        live = np.flatnonzero(self._is_open[: self._cell_count])
        assert len(live) == self.session_count, "every cell that was let go of is counted"
        chained: set[int] = set()
        for key, cell in enumerate(self._newest.tolist()):
            newer = None
            while cell != _NONE and self._is_open[cell]:
                assert self._key_ids[cell] == key, "a session is in its own key's chain"
                assert cell not in chained, "a session is in a chain once"
                assert newer is None or self._ends[cell] < self._starts[newer], "sessions of a key do not touch"
                chained.add(cell)
                newer, cell = cell, int(self._older[cell])
        assert chained == set(live.tolist()), "every open session is in a chain"
        queued = {*self._waiting.content(), *self._reached.content()}
        assert queued >= {(int(self._ends[cell]) - 1, cell) for cell in live.tolist()}, "every open session will end"


class _Near(Struct, frozen=True):
    """Open sessions of some keys.

    Attributes:
        cells: sessions that may touch what has come, newest first.
        rest: for each key that has come, ascending, the newest of its other sessions, or _NONE.
    """

    cells: Cells
    rest: Cells


class CapturedSessions(Struct, frozen=True):
    """The content of a SessionStore at a barrier; any thread may read it."""

    keys: Columns | None
    cells: Cells
    key_ids: Ids
    starts: Times
    ends: Times
    has_fired: Flags
    aggregates: AggregateColumns

    def table(self, tables: KeyedTables) -> KeyedTable:
        """A row per open session, in the order of their cells."""
        cells = self.cells
        columns: Mapping[str, pa.Array] = {
            _CELL: from_numpy(cells),
            _START: from_numpy(self.starts[cells]),
            _END: from_numpy(self.ends[cells]),
            _HAS_FIRED: from_numpy(self.has_fired[cells]),
            **self.aggregates.columns(cells),
        }
        return tables.make(self.keys, self.key_ids[cells], columns, self.aggregates.metadata())
