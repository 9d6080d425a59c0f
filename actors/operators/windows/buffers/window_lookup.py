"""The rows of many windows at once, found in the runs of a buffer and put in order of window and arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from actors.columns.large_columns import Columns, as_columns, take_repeated_rows
from actors.columns.ordering import order_by
from actors.columns.ranges import indices_of_ranges
from actors.columns.take import contiguous
from actors.keys.index import Ids
from actors.operators.windows.base.times import Times
from actors.operators.windows.buffers.buffered_rows import KeyedRows, concat_rows, decoded, follow_each_other
from actors.operators.windows.buffers.row_buffer import RowBuffer
from actors.operators.windows.buffers.sliced_runs import SlicedRun
from flinkray.types.records import MIN_TIMESTAMP


class WindowedRows(Struct, frozen=True):
    """Rows of windows that are numbered 0, 1, ...: by window, then by arrival."""

    rows: KeyedRows
    """Each once, in any order."""
    places: Ids
    """Where among these each row is; one that is in several windows is there as often."""
    windows: Ids
    """The number of each one's window."""
    ids: Ids
    """The number of each one's window and key: window number * number of keys + key number."""

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        return self.rows.positions[self.places]

    def only(self, which: npt.NDArray[np.bool_]) -> WindowedRows:
        """The rows of which this is true."""
        return WindowedRows(self.rows, self.places[which], self.windows[which], self.ids[which])

    def not_fired(self, ends: Times) -> Ids:
        """Windows and keys with a row with which the window has not fired, given where each window ends."""
        if self.rows.fired_until is None:
            return self.ids
        return self.ids[self.rows.fired_until[self.places] < ends[self.windows] - 1]

    def data(self) -> Columns:
        """The columns of the rows, in their order."""
        where = contiguous(self.places)
        if isinstance(where, slice):
            return as_columns(self.rows.slice(where.start, where.stop).data)
        return take_repeated_rows(as_columns(self.rows.data), self.places)

    def values(self) -> list[Any]:
        """As user functions see them; each is an object of its own."""
        return decoded(self.data(), self.rows.kind)


class Found(Struct, frozen=True):
    """The rows that a run has of windows `first`, `first + 1`, ...: those from `begins[i]` to before `ends[i]`."""

    run: SlicedRun
    first: int
    begins: Ids
    ends: Ids

    @property
    def windows(self) -> slice:
        return slice(self.first, self.first + len(self.begins))

    @property
    def counts(self) -> Ids:
        return self.ends - self.begins

    def of(self, begin: int, end: int) -> Found | None:
        """Of the windows from `begin` to before `end`, which are numbers 0, 1, ... then; None: there is nothing."""
        some = slice(max(begin - self.first, 0), max(end - self.first, 0))
        begins, ends = self.begins[some], self.ends[some]
        if not (begins < ends).any():
            return None
        return Found(self.run, max(self.first - begin, 0), begins, ends)

    def without_dictionaries(self) -> Found:
        run = replace(self.run, rows=self.run.rows.without_dictionaries())
        return replace(self, run=run)

    def fired_until(self) -> Ids | None:
        """Of each of the windows' rows, as `KeyedRows` has it."""
        fired_until = self.run.rows.fired_until
        return None if fired_until is None else fired_until[indices_of_ranges(self.begins, self.counts)]

    def ids(self, keys: int) -> Ids:
        """The window and key of each of the windows' rows, as WindowedRows numbers them."""
        return self.row_windows() * keys + self.run.rows.key_ids[indices_of_ranges(self.begins, self.counts)]

    def row_windows(self) -> Ids:
        """The window of each of the windows' rows."""
        return np.repeat(np.arange(self.first, self.first + len(self.begins)), self.counts)

    def rows(self) -> KeyedRows:
        """The rows that are in a window, each once."""
        fresh = self._fresh()
        if (fresh[1:] == self.ends[:-1]).all():
            return self.run.rows.slice(int(self.begins[0]), int(self.ends[-1]))
        return self.run.rows.take(indices_of_ranges(fresh, self.ends - fresh))

    def places(self) -> Ids:
        """Where among `rows` each of the windows' rows is."""
        left_out = np.cumsum(self._fresh() - np.append(0, self.ends[:-1]))
        return indices_of_ranges(self.begins - left_out, self.counts)

    def _fresh(self) -> Ids:
        """Where the rows of each window begin that are in none before it: windows may overlap."""
        fresh = self.begins.copy()
        np.maximum(fresh[1:], self.ends[:-1], out=fresh[1:])
        return fresh


def found_in(run: SlicedRun, windows: Times, size: int) -> Found | None:
    """What the run has of these windows, which ascend, of `size` ms; None: nothing."""
    begin = int(windows.searchsorted(max(run.earliest - size, MIN_TIMESTAMP), "right"))
    end = int(windows.searchsorted(run.latest, "right"))
    if begin == end:
        return None
    some = windows[begin:end]
    bounds = run.bounds
    found = Found(run, begin, bounds[run.starts.searchsorted(some)], bounds[run.starts.searchsorted(some + size)])
    return found.of(0, len(windows))


def found_in_buffer(buffer: RowBuffer, windows: Times, size: int) -> list[list[Found]]:
    """What its runs have of these windows, by layout."""
    by_layout = [[found_in(run, windows, size) for run in layout.runs] for layout in buffer.layouts]
    return [[each for each in found if each is not None] for found in by_layout]


def put_in_order(found: Sequence[Found], keys: int, is_sliced: bool, where: str) -> WindowedRows | None:
    """All rows of the windows; None: there are none.

    Args:
        keys: how many keys have numbers.
        is_sliced: a window may consist of several slices.
        where: names the operator in errors.
    """
    if not found:
        return None
    parts = [each.rows() for each in found]
    rows = concat_rows(parts, where)
    is_one = all(each.windows.stop == 1 for each in found)
    windows = _zeros(found) if is_one else np.concatenate([each.row_windows() for each in found])
    if is_sliced:
        offsets = np.cumsum([0, *(part.num_rows for part in parts[:-1])])
        places = np.concatenate([each.places() + offset for each, offset in zip(found, offsets, strict=True)])
        order = order_by(windows, rows.positions[places])
        places, windows = places[order], windows[order]
        return WindowedRows(rows, places, windows, windows * keys + rows.key_ids[places])
    # Each row is in one window, and those that a part has of it are in order of arrival.
    ids = rows.key_ids if is_one else windows * keys + rows.key_ids
    are_by_arrival = len(parts) == 1 or follow_each_other(parts)
    if are_by_arrival and (is_one or len(parts) == 1):
        return WindowedRows(rows, np.arange(rows.num_rows), windows, ids)
    order = order_by(windows) if are_by_arrival else order_by(windows, rows.positions)
    return WindowedRows(rows, order, windows[order], ids[order])


def _zeros(found: Sequence[Found]) -> Ids:
    """The window of each row where that is number 0: memory that nothing is written to takes no room."""
    return np.zeros(sum(int(each.counts[0]) for each in found), np.int64)
