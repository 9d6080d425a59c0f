"""Open sessions of keys that have many, by key and time."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from actors.columns.ordering import distinct, is_other_than_before, order_by
from actors.columns.ranges import places_of_runs
from actors.keys.index import Ids
from actors.operators.aggregates.base import Cells, grown
from actors.operators.windows.base.times import Times
from actors.operators.windows.sessions.session_table import NO_CELL, NO_CELLS, Flags, SessionCells

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

    def places(self, times: Times) -> Cells:
        """The number of each time; of one that has none, that of the last time before it, -1 where there is none."""
        return np.where(times < self.first, -1, np.minimum(times, self.last) - self.first)


class _SomeTimes(Struct, frozen=True):
    """Numbers times that ascend."""

    times: Times

    @property
    def count(self) -> int:
        return len(self.times)

    def places(self, times: Times) -> Cells:
        """As `_AllTimes.places`."""
        return np.searchsorted(self.times, times, "right") - 1


class _Run(Struct, frozen=True):
    """Starts of sessions, sorted by key, then time.

    Attributes:
        numbers: of the times.
        keys: all are below.
        codes: of key and time in one number: the key, times how many times have numbers, plus the time's number.
        cells: the session of each entry, each once, when the run was made.
    """

    numbers: _AllTimes | _SomeTimes
    keys: int
    codes: Ids
    cells: Cells

    def __len__(self) -> int:
        return len(self.cells)

    @classmethod
    def of(cls, key_ids: Ids, times: Times, cells: Cells) -> _Run:
        """Sessions that are open, with their starts; at least one. Any may be there several times."""
        numbers: _AllTimes | _SomeTimes = _AllTimes(int(times.min()), int(times.max()))
        keys = int(key_ids.max()) + 1
        if (keys + 1) * numbers.count > _MOST_CODES:
            numbers = _SomeTimes(distinct(times))
        codes = key_ids * numbers.count + numbers.places(times)
        order = np.argsort(codes, kind="stable")  # which finds that it is in order, or consists of parts that are
        codes, cells = codes[order], cells[order]
        is_other = is_other_than_before(codes)
        return cls(numbers, keys, codes[is_other], cells[is_other])

    def until(self, key_ids: Ids, times: Times) -> Cells:
        """How many entries are at or before that time of the key, or of a lower key."""
        codes = np.minimum(key_ids, self.keys) * self.numbers.count + self.numbers.places(times)
        return np.searchsorted(self.codes, codes, "right")


class SessionIndex:
    """Finds sessions near some times without a look at the others of their keys.

    An entry is a session and the start that it had. Sessions only grow until they are over, so it stays true where its
    session becomes part of another one; which that is by now is followed from cell to cell.

    All sessions of a run were open, and apart, when it was made; and of two sessions the earlier one is over first. So
    nothing that is over is between a session's entry and its end, and the last entry at or before a time is of the
    session that has this time, if that one's start is in the run.

    Entries are in sorted runs, of which some of about the same length become one, whereby those are left out that say
    nothing new. So a row costs some searches, and its entry as many sorts, as the logarithm of how many there are.
    """

    def __init__(self, cells: SessionCells) -> None:
        self._cells = cells
        self._runs: list[_Run] = []
        self._into: Cells = np.empty(0, np.int64)
        """By cell: that of the session which it became part of; NO_CELL, or not there: of none."""
        self._joined_count = 0
        """Sessions that have become part of others since the runs were last made one."""

    def __len__(self) -> int:
        """The number of entries."""
        return sum(map(len, self._runs))

    def clear(self) -> None:
        self._runs, self._into, self._joined_count = [], np.empty(0, np.int64), 0

    def add(self, cells: Cells) -> None:
        """These distinct sessions are new here, or start earlier than they did."""
        if not len(cells):
            return
        self._runs.append(self._run(cells))
        while len(self._runs) >= _RUNS and len(self._runs[-_RUNS]) <= _RUNS * len(self._runs[-1]):
            self._make_one(_RUNS)

    def join(self, cells: Cells, targets: Cells) -> None:
        """The sessions have become part of those others."""
        self._into = grown(self._into, self._cells.count, NO_CELL)
        self._into[cells] = targets
        self._joined_count += len(cells)
        if self._joined_count > max(_JOINED_BEFORE_TIDYING, len(self) // 2):
            self._make_one(len(self._runs))
            self._joined_count = 0

    def touching(self, key_ids: Ids, starts: Times, ends: Times) -> Cells:
        """The open sessions that touch one of these intervals [start, end): of each key the latest first."""
        found = [NO_CELLS]
        for run in self._runs:
            # From the last one at or before the start on.
            first = np.maximum(run.until(key_ids, starts) - 1, 0)
            counts = run.until(key_ids, ends) - first
            which = np.repeat(np.arange(len(counts)), counts)
            cells = self._current(run.cells[places_of_runs(first, counts)])
            found.append(cells[self._touches(cells, key_ids[which], starts[which], ends[which])])
        cells = distinct(np.concatenate(found))
        return cells[order_by(self._cells.key_ids[cells], self._cells.starts[cells])[::-1]]

    def _touches(self, cells: Cells, key_ids: Ids, starts: Times, ends: Times) -> Flags:
        of = self._cells
        is_near: Flags = (of.starts[cells] <= ends) & (of.ends[cells] >= starts)
        is_near &= (of.key_ids[cells] == key_ids) & of.is_open[cells]
        return is_near

    def _make_one(self, count: int) -> None:
        """Of the last runs."""
        cells = self._current(np.concatenate([run.cells for run in self._runs[-count:]]))
        cells = cells[self._cells.is_open[cells]]
        self._runs[-count:] = [self._run(cells)] if len(cells) else []

    def _run(self, cells: Cells) -> _Run:
        return _Run.of(self._cells.key_ids[cells], self._cells.starts[cells], cells)

    def _current(self, cells: Cells) -> Cells:
        """The cells of the sessions that these are, or are part of, now."""
        if not len(self._into):
            return cells
        self._into = grown(self._into, self._cells.count, NO_CELL)
        passed: list[Cells] = []
        current = cells
        while True:
            into = self._into[current]
            is_part = into != NO_CELL
            if not is_part.any():
                break
            passed.append(current)
            current = np.where(is_part, into, current)
        for former in passed[:-1]:  # they need not be followed again
            is_former = former != current
            self._into[former[is_former]] = current[is_former]
        return current

    def check(self, indexed: Cells) -> None:
        """Raises AssertionError where one of these open sessions is not found."""
        of = self._cells
        found = self.touching(of.key_ids[indexed], of.starts[indexed], of.starts[indexed])
        assert set(found.tolist()) == set(indexed.tolist()), "every session of a key with many is found"
