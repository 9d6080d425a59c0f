"""The rows of many windows at once, found in the runs of a buffer and put in order of window and arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.large_columns import repeated_rows, whole
from actors.operators.join_buffer import JoinBuffer
from actors.operators.keyed_rows import KeyedRows, concat_rows, decoded
from actors.operators.sliced_run import SlicedRun
from actors.operators.window_times import Times
from actors.ordering import order_by
from actors.state.key_index import Ids
from flinkray.types import MIN_TIMESTAMP


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

    def values(self) -> list[Any]:
        """As user functions see them; each is an object of its own."""
        return decoded(repeated_rows(whole(self.rows.data), self.places), self.rows.kind)


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

    def ids(self, keys: int) -> Ids:
        """The window and key of each of the windows' rows, as WindowedRows numbers them."""
        places = _ranges(self.begins, self.counts)
        return self._row_windows() * keys + self.run.rows.key_ids[places]

    def _row_windows(self) -> Ids:
        return np.repeat(np.arange(self.first, self.first + len(self.begins)), self.counts)

    def listed(self) -> tuple[KeyedRows, Ids, Ids]:
        """The rows that are in a window, each once; where among these the rows of the windows are; the windows."""
        # Windows may overlap, or leave rows between them out.
        begins, ends, windows = self.begins, self.ends, self._row_windows()
        fresh = begins.copy()  # where the rows begin that are in no window before
        np.maximum(begins[1:], ends[:-1], out=fresh[1:])
        left_out = np.cumsum(fresh - np.append(0, ends[:-1]))
        places = _ranges(begins - left_out, self.counts)
        if left_out[-1] == begins[0]:
            return self.run.rows.slice(int(begins[0]), int(ends[-1])), places, windows
        return self.run.rows.take(_ranges(fresh, ends - fresh)), places, windows


def _ranges(begins: Ids, counts: Ids) -> Ids:
    """Each of the numbers `begins[i] ... begins[i] + counts[i] - 1`."""
    ends = np.cumsum(counts)
    numbers: Ids = np.arange(ends[-1]) + np.repeat(begins - (ends - counts), counts)
    return numbers


def found_in(run: SlicedRun, windows: Times, size: int) -> Found | None:
    """What the run has of these windows, which ascend, of `size` ms; None: nothing."""
    begin = int(windows.searchsorted(max(run.earliest - size, MIN_TIMESTAMP), "right"))
    end = int(windows.searchsorted(run.latest, "right"))
    if begin == end:
        return None
    some = windows[begin:end]
    bounds = run.bounds
    return Found(run, begin, bounds[run.starts.searchsorted(some)], bounds[run.starts.searchsorted(some + size)])


def found_in_buffer(buffer: JoinBuffer, windows: Times, size: int) -> list[list[Found]]:
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
    parts, places, windows = zip(*(each.listed() for each in found), strict=True)
    rows = concat_rows(list(parts), where)
    offsets = np.cumsum([0, *(part.num_rows for part in parts[:-1])])
    at = np.concatenate([some + offset for some, offset in zip(places, offsets, strict=True)])
    numbers = np.concatenate(windows)
    if is_sliced or len(parts) > 1:
        order = order_by(numbers, rows.positions[at])
        at, numbers = at[order], numbers[order]
    return WindowedRows(rows, at, numbers, numbers * keys + rows.key_ids[at])
