"""Finds the rows of many windows at once in the runs of a buffer, and orders them by window and arrival."""

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
from actors.operators.windows.buffers.buffered_rows import BufferedRows, concat_rows, decoded, follow_each_other
from actors.operators.windows.buffers.row_buffer import RowBuffer
from actors.operators.windows.buffers.sliced_runs import SlicedRun
from flinkray.types.records import MIN_TIMESTAMP


class WindowedRows(Struct, frozen=True):
    """Rows of windows that are numbered 0, 1, ...: by window, then by arrival."""

    rows: BufferedRows
    """The rows, each once, in any order."""
    indices: Ids
    """For each window the indices of its rows among these; a row that is in several windows is there as often."""
    windows: Ids
    """The number of the window of each of them."""
    ids: Ids
    """The pair of window and key of each of them, as window number * number of keys + key number."""

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        return self.rows.positions[self.indices]

    def only(self, which: npt.NDArray[np.bool_]) -> WindowedRows:
        """The rows where this is true."""
        return WindowedRows(self.rows, self.indices[which], self.windows[which], self.ids[which])

    def not_fired(self, ends: Times) -> Ids:
        """The pairs of window and key with a row with which the window has not fired, given where each window ends."""
        if self.rows.fired_until is None:
            return self.ids
        return self.ids[self.rows.fired_until[self.indices] < ends[self.windows] - 1]

    def data(self) -> Columns:
        """The columns of the rows, in their order."""
        where = contiguous(self.indices)
        if isinstance(where, slice):
            return as_columns(self.rows.slice(where.start, where.stop).data)
        return take_repeated_rows(as_columns(self.rows.data), self.indices)

    def values(self) -> list[Any]:
        """The rows as user functions see them; each is an object of its own."""
        return decoded(self.data(), self.rows.kind)


class WindowRanges(Struct, frozen=True):
    """Ranges of a run's rows: window `first + i` has those from `begins[i]` to before `ends[i]`."""

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

    def of(self, begin: int, end: int) -> WindowRanges | None:
        """The ranges of the windows from `begin` to before `end`, which are numbered 0, 1, ... then; None: there are no
        rows."""
        some = slice(max(begin - self.first, 0), max(end - self.first, 0))
        begins, ends = self.begins[some], self.ends[some]
        if not (begins < ends).any():
            return None
        return WindowRanges(self.run, max(self.first - begin, 0), begins, ends)

    def without_dictionaries(self) -> WindowRanges:
        run = replace(self.run, rows=self.run.rows.without_dictionaries())
        return replace(self, run=run)

    def fired_until(self) -> Ids | None:
        """The `fired_until` of each of the windows' rows; None: the run has none."""
        fired_until = self.run.rows.fired_until
        return None if fired_until is None else fired_until[indices_of_ranges(self.begins, self.counts)]

    def ids(self, keys: int) -> Ids:
        """The pair of window and key of each of the windows' rows, as in `WindowedRows.ids`."""
        return self.row_windows() * keys + self.run.rows.key_ids[indices_of_ranges(self.begins, self.counts)]

    def row_windows(self) -> Ids:
        """The window of each of the windows' rows."""
        return np.repeat(np.arange(self.first, self.first + len(self.begins)), self.counts)

    def rows(self) -> BufferedRows:
        """The rows that are in a window, each once."""
        new_begins = self._new_begins()
        if (new_begins[1:] == self.ends[:-1]).all():
            return self.run.rows.slice(int(self.begins[0]), int(self.ends[-1]))
        return self.run.rows.take(indices_of_ranges(new_begins, self.ends - new_begins))

    def indices(self) -> Ids:
        """The index among `rows` of each of the windows' rows."""
        left_out = np.cumsum(self._new_begins() - np.append(0, self.ends[:-1]))
        return indices_of_ranges(self.begins - left_out, self.counts)

    def _new_begins(self) -> Ids:
        """The index of the first row of each window that is in none before it: windows may overlap."""
        new_begins = self.begins.copy()
        np.maximum(new_begins[1:], self.ends[:-1], out=new_begins[1:])
        return new_begins


def ranges_in(run: SlicedRun, windows: Times, size: int) -> WindowRanges | None:
    """The ranges that the run has of these windows, which ascend, of `size` ms; None: it has no rows of them."""
    begin = int(windows.searchsorted(max(run.earliest - size, MIN_TIMESTAMP), "right"))
    end = int(windows.searchsorted(run.latest, "right"))
    if begin == end:
        return None
    some = windows[begin:end]
    bounds = run.bounds
    ranges = WindowRanges(
        run, begin, bounds[run.starts.searchsorted(some)], bounds[run.starts.searchsorted(some + size)]
    )
    return ranges.of(0, len(windows))


def ranges_in_buffer(buffer: RowBuffer, windows: Times, size: int) -> list[list[WindowRanges]]:
    """The ranges that the buffer's runs have of these windows, by layout."""
    by_layout = [[ranges_in(run, windows, size) for run in layout.runs] for layout in buffer.layouts]
    return [[each for each in ranges if each is not None] for ranges in by_layout]


def ordered_by_window(ranges: Sequence[WindowRanges], keys: int, is_sliced: bool, where: str) -> WindowedRows | None:
    """All rows of the windows; None: there are none.

    Args:
        keys: how many keys have numbers.
        is_sliced: a window may consist of several slices.
        where: names the operator in errors.
    """
    if not ranges:
        return None
    parts = [each.rows() for each in ranges]
    rows = concat_rows(parts, where)
    is_one = all(each.windows.stop == 1 for each in ranges)
    windows = _zeros(ranges) if is_one else np.concatenate([each.row_windows() for each in ranges])
    if is_sliced:
        offsets = np.cumsum([0, *(part.num_rows for part in parts[:-1])])
        indices = np.concatenate([each.indices() + offset for each, offset in zip(ranges, offsets, strict=True)])
        order = order_by(windows, rows.positions[indices])
        indices, windows = indices[order], windows[order]
        return WindowedRows(rows, indices, windows, windows * keys + rows.key_ids[indices])
    # Each row is in one window, and those that a part has of it are in order of arrival.
    ids = rows.key_ids if is_one else windows * keys + rows.key_ids
    are_by_arrival = len(parts) == 1 or follow_each_other(parts)
    if are_by_arrival and (is_one or len(parts) == 1):
        return WindowedRows(rows, np.arange(rows.num_rows), windows, ids)
    order = order_by(windows) if are_by_arrival else order_by(windows, rows.positions)
    return WindowedRows(rows, order, windows[order], ids[order])


def _zeros(ranges: Sequence[WindowRanges]) -> Ids:
    """The window of each row where that is number 0: memory that nothing is written to takes no room."""
    return np.zeros(sum(int(each.counts[0]) for each in ranges), np.int64)
