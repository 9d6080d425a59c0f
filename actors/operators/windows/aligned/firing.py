"""Which accumulators windows have that are due: for as many windows as there are, in as many steps as one takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.columns.ranges import places_of_runs
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators
from actors.operators.windows.aligned.slice_runs import Counts, Starts
from actors.operators.windows.aligned.slice_store import SliceStore
from actors.operators.windows.base.times import PendingWindows, WindowTimes

_PAIRS_AT_ONCE = 1 << 22
"""Of windows and rows that are late for them, so that these take little memory."""


class WindowKeys(Struct, frozen=True):
    """Some keys of some windows: pairs, which may repeat."""

    starts: Starts
    """Of the windows."""
    key_ids: Ids

    def among(self, starts: Starts, which: npt.NDArray[np.int64], key_ids: Ids) -> npt.NDArray[np.bool_]:
        """Whether the pairs of window `starts[which[i]]` and key `key_ids[i]` are among these; `starts` ascend."""
        places = np.minimum(starts.searchsorted(self.starts), len(starts) - 1)
        is_asked = starts[places] == self.starts
        own_which, own_keys = places[is_asked], self.key_ids[is_asked]
        keys = 1 + max(int(key_ids.max(initial=0)), int(own_keys.max(initial=0)))
        return np.isin(which * keys + key_ids, own_which * keys + own_keys)


class SliceKeys(Struct, frozen=True):
    """The keys of some rows, by slice.

    Attributes:
        starts: of the slices, ascending.
        counts: how many rows each has.
        key_ids: of the rows, slice by slice.
    """

    starts: Starts
    counts: Counts
    key_ids: Ids

    def keys_of_windows(self, times: WindowTimes, after: int, until: int) -> Iterator[WindowKeys]:
        """The keys that rows have in windows that start after the one time and not after the other one: of neighbouring
        windows at a time, so many that there are not too many pairs."""
        if after >= until:
            return
        windows = 1 + min(times.size, until - after) // times.slide
        if until - after > times.slide and windows * len(self.key_ids) > _PAIRS_AT_ONCE:
            middle = (after + until) // 2
            yield from self.keys_of_windows(times, after, middle)
            yield from self.keys_of_windows(times, middle, until)
            return
        starts, slices = times.windows_of_slices(self.starts, after, until)
        if len(starts):
            begins, counts = np.cumsum(self.counts) - self.counts, self.counts[slices]
            rows = places_of_runs(begins[slices], counts)
            yield WindowKeys(np.repeat(starts, counts), self.key_ids[rows])


class WindowAccumulators:
    """
    Args:
        slices: those that have rows.
    """

    def __init__(self, store: SliceStore, times: WindowTimes, slices: PendingWindows) -> None:
        self._store = store
        self._times = times
        self._slices = slices

    def sizes(self, starts: Starts) -> Counts:
        """How many accumulators each of these windows, which ascend, has at most."""
        if not self._times.is_sliced:
            return self._store.sizes(starts)
        slices = self._slices_under(starts)
        ends = np.cumsum(np.append(0, self._store.sizes(slices)))
        sizes: Counts = ends[slices.searchsorted(starts + self._times.size)] - ends[slices.searchsorted(starts)]
        return sizes

    def of(self, starts: Starts) -> tuple[npt.NDArray[np.int64], Accumulators]:
        """The accumulators of these windows, which ascend: window by window, in each slice by slice; and for each of
        them the index of its window."""
        if not self._times.is_sliced:
            run = self._store.read(starts)
            return np.repeat(starts.searchsorted(run.starts), run.counts), run.accumulators
        run = self._store.read(self._slices_under(starts))
        ends = np.append(0, run.ends)
        begins = ends[run.starts.searchsorted(starts)]
        counts = ends[run.starts.searchsorted(starts + self._times.size)] - begins
        return np.repeat(np.arange(len(starts)), counts), run.accumulators[places_of_runs(begins, counts)]

    def read_changed(self, starts: Starts) -> None:
        """To be called before the slices of these windows, which ascend, are read one by one."""
        self._store.read_changed(self._slices_under(starts))

    def _slices_under(self, starts: Starts) -> Starts:
        first, last = int(starts[0]), int(starts[-1])
        return np.array(self._slices.between(first, last + self._times.size), np.int64)


def grouped(starts: Starts, sizes: Counts, most: int) -> Iterator[Starts]:
    """Neighbouring windows, so many that they are of this size at most together, or one."""
    ends = np.cumsum(sizes)
    first, before = 0, 0
    while first < len(starts):
        last = max(first + 1, int(ends.searchsorted(before + most, "right")))
        yield starts[first:last]
        first, before = last, int(ends[last - 1])
