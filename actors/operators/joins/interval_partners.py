"""The buffer of one input of an interval join, and the search for partners: rows of the same key in a range of time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from actors.columns.large_columns import Columns
from actors.columns.ordering import order_by
from actors.columns.row_sizes import Sizes, row_sizes
from actors.keys.index import Ids
from actors.keys.state_tables import KeyedTables, StateRows
from actors.operators.windows.base.compaction import are_due_to_merge
from actors.operators.windows.base.times import Times
from actors.operators.windows.buffers.buffered_rows import BufferedRows, concat_rows, restored_rows, rows_table
from actors.state.snapshots.snapshot import KeyedTable
from flinkray.batches.numpy_arrays import as_numpy, from_numpy
from flinkray.types.records import MAX_TIMESTAMP, MIN_TIMESTAMP

_TIME = "time"

# So many sorted runs of about as many rows become one.
_FAN_IN = 2

# Codes of (key, time) are int64.
_MOST_CODES = 2**62


def shifted(times: Times, by: int) -> Times:
    """The times plus `by`, held within what int64 has."""
    if by >= 0:
        return np.minimum(times, MAX_TIMESTAMP - by) + by
    return np.maximum(times, MIN_TIMESTAMP - by) + by


class KeyTimeRun:
    """A sorted run: rows in order of arrival, with an index by (key, time, arrival).

    Rows up to the time `over_until` are over: they match nothing, and leave when the run is rewritten.
    """

    def __init__(self, rows: BufferedRows, times: Times, over_until: int = MIN_TIMESTAMP) -> None:
        self.rows = rows
        self.times = times
        self.over_until = over_until
        self.earliest = int(times.min())
        self.latest = int(times.max())
        self._highest_key = int(rows.key_ids.max())
        # A time's distance from the earliest one is its rank, unless that would make codes too large.
        span = self.latest - self.earliest + 2
        self._is_dense = (self._highest_key + 2) * span < _MOST_CODES
        self._width = span if self._is_dense else len(times) + 1
        """A number above all ranks."""

    def __len__(self) -> int:
        return len(self.times)

    def find_partners(self, key_ids: Ids, lowest: Times, highest: Times) -> tuple[Ids, Ids]:
        """Finds partners: for each key the rows of the times `lowest` to `highest`, both included.

        Returns:
            For each key where its rows begin in `order`, and how many they are.
        """
        bases = np.minimum(key_ids, self._highest_key + 1) * self._width
        if self.over_until >= self.earliest:
            lowest = np.maximum(lowest, self.over_until + 1)
        begins = np.searchsorted(self._codes, bases + self._first_at(lowest), "left")
        ends = np.searchsorted(self._codes, bases + self._first_after(highest), "left")
        return begins, np.maximum(ends - begins, 0)

    @cached_property
    def row_sizes(self) -> Sizes:
        return row_sizes(self.rows.data)

    @cached_property
    def order(self) -> Ids:
        """The indices of the rows by key, then time, then arrival."""
        return order_by(self._unsorted_codes())

    @cached_property
    def _codes(self) -> Ids:
        return self._unsorted_codes()[self.order]

    def _unsorted_codes(self) -> Ids:
        """One number for key and time of each row."""
        codes: Ids = self.rows.key_ids * self._width + self._first_at(self.times)
        return codes

    def _first_at(self, times: Times) -> Ids:
        """The lowest rank of a row at each time or later."""
        if self._is_dense:
            return np.clip(times, self.earliest, min(self.latest + 1, MAX_TIMESTAMP)) - self.earliest
        return np.searchsorted(self._sorted_times, times, "left")

    def _first_after(self, times: Times) -> Ids:
        """The lowest rank of a row later than each time."""
        if self._is_dense:
            return np.clip(times, self.earliest - 1, self.latest) - (self.earliest - 1)
        return np.searchsorted(self._sorted_times, times, "right")

    @cached_property
    def _sorted_times(self) -> Times:
        return self.times.take(order_by(self.times))

    def count_live(self) -> int:
        if self.over_until < self.earliest:
            return len(self.times)
        return len(self.times) - int(np.searchsorted(self._sorted_times, self.over_until, "right"))

    def captured(self) -> CapturedRows:
        """The rows as they are now; nothing of them changes any more."""
        return CapturedRows(self.rows, self.times, self.over_until)

    def live(self) -> LiveRows:
        """The rows that are not over."""
        return self.captured().live()


class LiveRows(NamedTuple):
    rows: BufferedRows
    times: Times


class CapturedRows(NamedTuple):
    rows: BufferedRows
    times: Times
    over_until: int

    def live(self) -> LiveRows:
        """The rows that were not over."""
        if self.over_until < int(self.times.min()):
            return LiveRows(self.rows, self.times)
        live = np.flatnonzero(self.times > self.over_until)
        return LiveRows(self.rows.take(live), self.times[live])


class IntervalBuffer:
    """The rows of one input that may still find partners.

    Args:
        where: names the operator in errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._runs: list[KeyTimeRun] = []

    def add(self, rows: BufferedRows, times: Times) -> None:
        """Adds rows that hold no received batch alive."""
        self._runs.append(KeyTimeRun(rows, times))
        while are_due_to_merge(self._runs, _FAN_IN):
            last = self._runs.pop()
            self._runs[-1] = _merged([self._runs[-1].live(), last.live()], self._where)

    def runs_between(self, earliest: int, latest: int) -> Iterator[KeyTimeRun]:
        """The runs that may have rows of these times, in order of arrival."""
        for run in self._runs:
            if run.earliest <= latest and run.latest >= earliest:
                yield run

    def end_until(self, over_until: int) -> None:
        """Ends the rows up to that time. Rows of such times that come later are not over, until the next call."""
        live_runs = []
        for run in self._runs:
            if run.latest > over_until:
                run.over_until = over_until
                live_runs.append(run if 2 * run.count_live() >= len(run.times) else KeyTimeRun(*run.live()))
        self._runs = live_runs

    def live_keys(self) -> Iterator[Ids]:
        """The key numbers of all buffered rows."""
        for run in self._runs:
            yield run.rows.key_ids

    def renumber_keys(self, new_ids: Ids) -> None:
        """Gives key n the number `new_ids[n]`."""
        for index, run in enumerate(self._runs):
            renumbered = replace(run.rows, key_ids=new_ids[run.rows.key_ids])
            self._runs[index] = KeyTimeRun(renumbered, run.times, run.over_until)

    # -- snapshots

    def capture(self) -> list[CapturedRows]:
        """All rows as they are now, a part for each run."""
        return [run.captured() for run in self._runs]

    def restore(self, part: StateRows, key_ids: Ids) -> None:
        """Adds rows of a snapshot."""
        rows, times = restored_rows(part, key_ids), as_numpy(part.columns[_TIME])
        order = order_by(rows.positions)
        self.add(rows.take(order), times[order])


def buffer_table(captured: list[CapturedRows], keys: Columns, tables: KeyedTables, where: str) -> KeyedTable:
    """The rows of a buffer as they were at a barrier, as a table; any thread may call it.

    Args:
        where: names the operator in errors.
    """
    run = _merged([part.live() for part in captured], where)
    return rows_table(run.rows, {_TIME: from_numpy(run.times)}, keys, tables, {})


def _merged(parts: list[LiveRows], where: str) -> KeyTimeRun:
    return KeyTimeRun(concat_rows([part.rows for part in parts], where), np.concatenate([part.times for part in parts]))
