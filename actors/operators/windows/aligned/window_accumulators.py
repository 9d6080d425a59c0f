"""The accumulators of windows that are due: of as many windows as there are, in as many steps as for one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.columns.ranges import indices_of_ranges
from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators
from actors.operators.windows.aligned.accumulator_runs import Counts, Starts
from actors.operators.windows.aligned.slice_store import SliceStore
from actors.operators.windows.base.times import AlignedWindowTimes, PendingStarts


class WindowKeys(Struct, frozen=True):
    """Some keys of some windows: pairs, which may repeat.

    Attributes:
        starts: the start of the window of each pair.
        key_ids: the key of each pair.
    """

    starts: Starts
    key_ids: Ids

    def among(self, starts: Starts, window_indices: npt.NDArray[np.int64], key_ids: Ids) -> npt.NDArray[np.bool_]:
        """Whether the pair of window `starts[window_indices[i]]` and key `key_ids[i]` is among these; `starts`
        ascend."""
        indices = np.minimum(starts.searchsorted(self.starts), len(starts) - 1)
        is_here = starts[indices] == self.starts
        own_windows, own_keys = indices[is_here], self.key_ids[is_here]
        keys = 1 + max(int(key_ids.max(initial=0)), int(own_keys.max(initial=0)))
        return np.isin(window_indices * keys + key_ids, own_windows * keys + own_keys)


class WindowAccumulators:
    """Finds the accumulators of windows.

    Args:
        slices: the starts of the slices that have rows.
    """

    def __init__(self, store: SliceStore, times: AlignedWindowTimes, slices: PendingStarts) -> None:
        self._store = store
        self._times = times
        self._slices = slices

    def sizes(self, starts: Starts) -> Counts:
        """How many accumulators each of these windows, which ascend, has at most."""
        if not self._times.is_sliced:
            return self._store.sizes(starts)
        slices = self._slices_under(starts)
        ends = np.cumsum(np.append(0, self._store.sizes(slices)))
        begins = slices.searchsorted(self._times.begins(starts))
        sizes: Counts = ends[slices.searchsorted(starts + self._times.size)] - ends[begins]
        return sizes

    def of(self, starts: Starts) -> tuple[npt.NDArray[np.int64], Accumulators]:
        """The accumulators of these windows, which ascend: window by window, in each slice by slice; and for each of
        them the index of its window."""
        if not self._times.is_sliced:
            run = self._store.read(starts)
            return np.repeat(starts.searchsorted(run.starts), run.counts), run.accumulators
        run = self._store.read(self._slices_under(starts))
        ends = np.append(0, run.ends)
        begins = ends[run.starts.searchsorted(self._times.begins(starts))]
        counts = ends[run.starts.searchsorted(starts + self._times.size)] - begins
        return np.repeat(np.arange(len(starts)), counts), run.accumulators[indices_of_ranges(begins, counts)]

    def read_changed(self, starts: Starts) -> None:
        """Reads those slices of these windows, which ascend, that have changed: to be called before slices are read one
        by one."""
        self._store.read_changed(self._slices_under(starts))

    def _slices_under(self, starts: Starts) -> Starts:
        first, last = int(starts[0]), int(starts[-1])
        return np.array(self._slices.between(first, last + self._times.size), np.int64)


def batches_of_windows(starts: Starts, sizes: Counts, most: int) -> Iterator[Starts]:
    """Neighbouring windows in batches that have this many accumulators at most, or one window."""
    ends = np.cumsum(sizes)
    first, before = 0, 0
    while first < len(starts):
        last = max(first + 1, int(ends.searchsorted(before + most, "right")))
        yield starts[first:last]
        first, before = last, int(ends[last - 1])
