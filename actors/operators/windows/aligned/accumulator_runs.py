"""The accumulators of each slice, for any number of slices: in sorted runs, so that no slice takes an object of its
own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.columns.ordering import differs_from_previous, distinct, order_below, order_by
from actors.columns.ranges import indices_of_ranges
from actors.operators.aggregates.accumulators import Accumulators

Starts = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]

# Runs of fewer accumulators are joined to the ones before them, so that there are few of them.
_SMALL = 4096

_NO_ACCUMULATORS: Accumulators = np.empty(0, np.int64)


class AccumulatorRun(Struct):
    """A sorted run: the accumulators of some slices, by slice.

    Attributes:
        starts: the starts of the slices, ascending.
        ends: for each slice the index in `accumulators` at which its own end.
        accumulators: those of each slice together, ascending.
        is_merged: each key has one accumulator in a slice, and no other run has accumulators of these slices.
        gone: which of the slices have been removed; None: no slice has.
        gone_accumulators: how many accumulators these slices have.
    """

    starts: Starts
    ends: Counts
    accumulators: Accumulators
    is_merged: bool = False
    gone: npt.NDArray[np.bool_] | None = None
    gone_accumulators: int = 0

    @property
    def counts(self) -> Counts:
        """How many accumulators each slice has."""
        counts = self.ends.copy()
        counts[1:] -= self.ends[:-1]
        return counts

    @property
    def slice_indices(self) -> npt.NDArray[np.int64]:
        """The index in `starts` of the slice of each accumulator."""
        return np.repeat(np.arange(len(self.starts)), self.counts)

    def indices(self, wanted: Starts) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The index of each of these slices, which ascend, in `starts`, and whether it is here at all."""
        if np.array_equal(wanted, self.starts):
            indices, is_here = np.arange(len(wanted)), np.ones(len(wanted), np.bool_)
        else:
            indices = np.minimum(self.starts.searchsorted(wanted), len(self.starts) - 1)
            is_here = self.starts[indices] == wanted
        if self.gone is not None:
            is_here &= ~self.gone[indices]
        return indices, is_here

    def is_near(self, wanted: Starts) -> bool:
        """Whether one of these slices, which ascend, may be here."""
        return len(wanted) > 0 and bool(wanted[0] <= self.starts[-1] and self.starts[0] <= wanted[-1])

    def counts_of(self, wanted: Starts) -> Counts:
        """How many accumulators each of these slices has here."""
        indices, is_here = self.indices(wanted)
        return np.where(is_here, self._counts_at(indices), 0)

    def _counts_at(self, indices: npt.NDArray[np.int64]) -> Counts:
        return self.ends[indices] - np.where(indices > 0, self.ends[indices - 1], 0)

    def part(self, indices: npt.NDArray[np.int64]) -> AccumulatorRun:
        """The run of the slices with these indices, which ascend."""
        if len(indices) == len(self.starts):
            return self
        begin, end = int(indices[0]), int(indices[-1]) + 1
        if end - begin == len(indices):
            first = int(self.ends[begin - 1]) if begin else 0
            accumulators = self.accumulators[first : int(self.ends[end - 1])]
            return AccumulatorRun(self.starts[begin:end], self.ends[begin:end] - first, accumulators, self.is_merged)
        counts = self._counts_at(indices)
        accumulators = self.accumulators[indices_of_ranges(self.ends[indices] - counts, counts)]
        return AccumulatorRun(self.starts[indices], np.cumsum(counts), accumulators, self.is_merged)

    @property
    def is_here(self) -> bool:
        return self.gone_accumulators < len(self.accumulators)

    @property
    def is_mostly_here(self) -> bool:
        """Whether more than half of its accumulators are of slices that are here."""
        return 2 * self.gone_accumulators < len(self.accumulators)

    def remaining(self) -> AccumulatorRun:
        """The run without the slices that were removed from it."""
        return self if self.gone is None else self.part(np.flatnonzero(~self.gone))


FindRepeats = Callable[[AccumulatorRun], npt.NDArray[np.int64]]

_EMPTY_RUN = AccumulatorRun(_NO_ACCUMULATORS, _NO_ACCUMULATORS, _NO_ACCUMULATORS, True)


class AccumulatorsBySlice:
    """The accumulators of each slice, in sorted runs.

    What is asked of many slices takes as many steps as what is asked of one; there are few runs beside those of many
    accumulators.
    """

    def __init__(self) -> None:
        self._runs: list[AccumulatorRun] = []

    @property
    def are_merged(self) -> bool:
        """Whether no key is known to have several accumulators in a slice."""
        return all(run.is_merged for run in self._runs)

    def add(self, accumulators: Accumulators, starts: Sequence[int], slice_indices: npt.NDArray[Any] | None) -> None:
        """Adds new accumulators, which ascend and come after all others.

        Args:
            starts: of some slices, ascending.
            slice_indices: for each accumulator the index of its slice; None: there is only one slice.
        """
        if not len(accumulators):
            return
        slices = np.array(starts, np.int64)
        if slice_indices is None:
            self._append(AccumulatorRun(slices, np.array([len(accumulators)]), accumulators))
        else:
            counts = np.bincount(slice_indices, minlength=len(slices))
            used = counts > 0
            self._append(
                AccumulatorRun(
                    slices[used], np.cumsum(counts[used]), accumulators[order_below(slice_indices, len(slices))]
                )
            )

    def starts(self) -> Starts:
        """The starts of all slices, ascending."""
        return distinct(np.concatenate([_NO_ACCUMULATORS, *(run.remaining().starts for run in self._runs)]))

    def sizes(self, wanted: Starts) -> Counts:
        """How many accumulators each of these slices has; several of one key count as often as they are there."""
        sizes = np.zeros(len(wanted), np.int64)
        small: list[AccumulatorRun] = []
        for run in self._near(wanted):
            if len(run.starts) > len(wanted):
                sizes += run.counts_of(wanted)
            else:
                small.append(run.remaining())
        if small:  # of which there may be many: all at once
            starts = np.concatenate([run.starts for run in small])
            counts = np.concatenate([run.counts for run in small])
            indices = np.minimum(wanted.searchsorted(starts), len(wanted) - 1)
            is_wanted = wanted[indices] == starts
            np.add.at(sizes, indices[is_wanted], counts[is_wanted])
        return sizes

    def read(self, wanted: Starts, find_repeats: FindRepeats) -> AccumulatorRun:
        """Reads those of these slices that there are, with the accumulators that are to stay.

        Args:
            wanted: the starts of the slices, ascending.
            find_repeats: gives the indices of the accumulators of a run that are to go, ascending; a slice keeps one at
                least. Asked only about what has changed.
        """
        found = [(run, *run.indices(wanted)) for run in self._near(wanted)]
        found = [each for each in found if each[2].any()]
        if not found:
            return _EMPTY_RUN
        if len(found) == 1 and found[0][0].is_merged:
            run, indices, is_here = found[0]
            return run.part(indices[is_here])
        merged = _without_repeats(
            _concatenated([_remove(run, indices[is_here]) for run, indices, is_here in found]), find_repeats
        )
        self._drop_gone()
        self._append(merged)
        return merged

    def changed(self, wanted: Starts) -> Starts:
        """The slices among these, which ascend, that have got accumulators since they were read."""
        is_changed = np.zeros(len(wanted), np.bool_)
        for run in self._near(wanted):
            if not run.is_merged:
                is_changed |= run.indices(wanted)[1]
        return wanted[is_changed]

    def all_accumulators(self) -> AccumulatorRun:
        """All accumulators, by slice; a key may have several in one. Changes nothing."""
        return _concatenated([run.remaining() for run in self._runs]) if self._runs else _EMPTY_RUN

    def release(self, wanted: Starts) -> Counts:
        """Forgets these slices, and gives how many accumulators each had."""
        sizes = self.sizes(wanted)
        for run in self._near(wanted):
            indices, is_here = run.indices(wanted)
            if is_here.any():
                _remove(run, indices[is_here])
        self._drop_gone()
        return sizes

    def _append(self, run: AccumulatorRun) -> None:
        self._runs.append(run)
        while len(self._runs) > 1 and _are_to_be_joined(*self._runs[-2:]):
            self._runs[-2:] = [_concatenated(self._runs[-2:])]

    def _near(self, wanted: Starts) -> list[AccumulatorRun]:
        return [run for run in self._runs if run.is_near(wanted)]

    def _drop_gone(self) -> None:
        """Lets go of removed slices, where they are at least half of a run."""
        self._runs = [run if run.is_mostly_here else run.remaining() for run in self._runs if run.is_here]


def _remove(run: AccumulatorRun, indices: npt.NDArray[np.int64]) -> AccumulatorRun:
    """Removes the slices with these indices from the run, and gives them as a run of their own."""
    part = run.part(indices)
    if run.gone is None:
        run.gone = np.zeros(len(run.starts), np.bool_)
        if part is run:
            part = AccumulatorRun(run.starts, run.ends, run.accumulators, run.is_merged)
    run.gone[indices] = True
    run.gone_accumulators += len(part.accumulators)
    return part


def _without_repeats(run: AccumulatorRun, find_repeats: FindRepeats) -> AccumulatorRun:
    repeats = find_repeats(run)
    if not len(repeats):
        return AccumulatorRun(run.starts, run.ends, run.accumulators, True)
    return AccumulatorRun(
        run.starts, run.ends - repeats.searchsorted(run.ends), np.delete(run.accumulators, repeats), True
    )


def _are_to_be_joined(older: AccumulatorRun, newer: AccumulatorRun) -> bool:
    """Whether to join two runs: each accumulator is moved a few times at most, and none is looked through again."""
    are_small = len(older.accumulators) < _SMALL and len(older.accumulators) <= 2 * len(newer.accumulators)
    return are_small and older.is_merged == newer.is_merged


def _concatenated(runs: Sequence[AccumulatorRun]) -> AccumulatorRun:
    """All of them as one run; the accumulators of a slice are in the order of the runs."""
    if len(runs) == 1:
        return runs[0]
    runs = [run.remaining() for run in runs]
    starts = np.concatenate([run.starts for run in runs])
    counts = np.concatenate([run.counts for run in runs])
    accumulators = np.concatenate([run.accumulators for run in runs])
    if not (starts[1:] >= starts[:-1]).all():
        order = order_by(starts)
        begins = np.cumsum(counts) - counts
        starts, counts = starts[order], counts[order]
        accumulators = accumulators[indices_of_ranges(begins[order], counts)]
    is_first = differs_from_previous(starts)
    last = np.append(np.flatnonzero(is_first)[1:], len(starts)) - 1
    are_merged = all(run.is_merged for run in runs) and bool(is_first.all())
    return AccumulatorRun(starts[is_first], np.cumsum(counts)[last], accumulators, are_merged)
