"""Which accumulators a slice has, for any number of slices: in arrays, so that no slice takes an object of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from actors.columns.ordering import distinct, is_other_than_before, order_below, order_by
from actors.columns.ranges import places_of_runs
from actors.operators.aggregates.accumulators import Accumulators

Starts = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]

# Runs of fewer accumulators are put together with the ones before them, so that there are few of them.
_SMALL = 4096

_NO_ACCUMULATORS: Accumulators = np.empty(0, np.int64)


class AccumulatorRun(Struct):
    """Accumulators of some slices, by slice.

    Attributes:
        starts: of the slices, ascending.
        ends: where in `accumulators` each slice's end.
        accumulators: each slice's together, ascending.
        is_merged: each key has one accumulator in a slice, and no other run has accumulators of these slices.
        gone: which of the slices are no longer here; None: all are.
        gone_cells: how many accumulators they have.
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
    def which(self) -> npt.NDArray[np.int64]:
        """For each accumulator the index of its slice in `starts`."""
        return np.repeat(np.arange(len(self.starts)), self.counts)

    def places(self, wanted: Starts) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Where each of these slices, which ascend, is, and whether it is here at all."""
        if np.array_equal(wanted, self.starts):
            places, is_here = np.arange(len(wanted)), np.ones(len(wanted), np.bool_)
        else:
            places = np.minimum(self.starts.searchsorted(wanted), len(self.starts) - 1)
            is_here = self.starts[places] == wanted
        if self.gone is not None:
            is_here &= ~self.gone[places]
        return places, is_here

    def is_near(self, wanted: Starts) -> bool:
        """Whether one of these slices, which ascend, may be here."""
        return len(wanted) > 0 and bool(wanted[0] <= self.starts[-1] and self.starts[0] <= wanted[-1])

    def counts_of(self, wanted: Starts) -> Counts:
        """How many accumulators each of these slices has here."""
        places, is_here = self.places(wanted)
        return np.where(is_here, self._counts_at(places), 0)

    def _counts_at(self, places: npt.NDArray[np.int64]) -> Counts:
        return self.ends[places] - np.where(places > 0, self.ends[places - 1], 0)

    def part(self, places: npt.NDArray[np.int64]) -> AccumulatorRun:
        """The slices at these places, which ascend."""
        if len(places) == len(self.starts):
            return self
        begin, end = int(places[0]), int(places[-1]) + 1
        if end - begin == len(places):
            first = int(self.ends[begin - 1]) if begin else 0
            accumulators = self.accumulators[first : int(self.ends[end - 1])]
            return AccumulatorRun(self.starts[begin:end], self.ends[begin:end] - first, accumulators, self.is_merged)
        counts = self._counts_at(places)
        accumulators = self.accumulators[places_of_runs(self.ends[places] - counts, counts)]
        return AccumulatorRun(self.starts[places], np.cumsum(counts), accumulators, self.is_merged)

    @property
    def is_here(self) -> bool:
        return self.gone_accumulators < len(self.accumulators)

    @property
    def is_mostly_here(self) -> bool:
        """Whether more than half of its accumulators are of slices that are here."""
        return 2 * self.gone_accumulators < len(self.accumulators)

    def present(self) -> AccumulatorRun:
        """Without what is gone."""
        return self if self.gone is None else self.part(np.flatnonzero(~self.gone))


LeftOut = Callable[[AccumulatorRun], npt.NDArray[np.int64]]

_NOTHING = AccumulatorRun(_NO_ACCUMULATORS, _NO_ACCUMULATORS, _NO_ACCUMULATORS, True)


class AccumulatorsBySlice:
    """The accumulators of each slice. What is asked of many slices takes as many steps as what is asked of one; there
    are few runs beside those of many accumulators."""

    def __init__(self) -> None:
        self._runs: list[AccumulatorRun] = []

    @property
    def are_merged(self) -> bool:
        """Whether no key is known to have several accumulators in a slice."""
        return all(run.is_merged for run in self._runs)

    def add(self, accumulators: Accumulators, starts: Sequence[int], which: npt.NDArray[Any] | None) -> None:
        """New accumulators, which ascend and come after all others.

        Args:
            starts: of some slices, ascending.
            which: for each accumulator the index of its slice; None: there is only one slice.
        """
        if not len(accumulators):
            return
        slices = np.array(starts, np.int64)
        if which is None:
            self._append(AccumulatorRun(slices, np.array([len(accumulators)]), accumulators))
        else:
            counts = np.bincount(which, minlength=len(slices))
            used = counts > 0
            self._append(
                AccumulatorRun(slices[used], np.cumsum(counts[used]), accumulators[order_below(which, len(slices))])
            )

    def starts(self) -> Starts:
        """Of all slices, ascending."""
        return distinct(np.concatenate([_NO_ACCUMULATORS, *(run.present().starts for run in self._runs)]))

    def sizes(self, wanted: Starts) -> Counts:
        """How many accumulators each of these slices has, several of a key counted as often as they are."""
        sizes = np.zeros(len(wanted), np.int64)
        small: list[AccumulatorRun] = []
        for run in self._near(wanted):
            if len(run.starts) > len(wanted):
                sizes += run.counts_of(wanted)
            else:
                small.append(run.present())
        if small:  # of which there may be many: all at once
            starts = np.concatenate([run.starts for run in small])
            counts = np.concatenate([run.counts for run in small])
            places = np.minimum(wanted.searchsorted(starts), len(wanted) - 1)
            is_wanted = wanted[places] == starts
            np.add.at(sizes, places[is_wanted], counts[is_wanted])
        return sizes

    def read(self, wanted: Starts, left_out: LeftOut) -> AccumulatorRun:
        """Those of these slices that there are, with the accumulators that are to stay.

        Args:
            wanted: ascending.
            left_out: where the accumulators of a run are that are to go, ascending; a slice keeps one at least. Asked
                only about what has changed.
        """
        found = [(run, *run.places(wanted)) for run in self._near(wanted)]
        found = [each for each in found if each[2].any()]
        if not found:
            return _NOTHING
        if len(found) == 1 and found[0][0].is_merged:
            run, places, is_here = found[0]
            return run.part(places[is_here])
        merged = _merged(_joined([_cut(run, places[is_here]) for run, places, is_here in found]), left_out)
        self._tidy()
        self._append(merged)
        return merged

    def changed(self, wanted: Starts) -> Starts:
        """Those of these slices, which ascend, that have got accumulators since they were read."""
        is_changed = np.zeros(len(wanted), np.bool_)
        for run in self._near(wanted):
            if not run.is_merged:
                is_changed |= run.places(wanted)[1]
        return wanted[is_changed]

    def everything(self) -> AccumulatorRun:
        """All accumulators; a key may have several of a slice. Changes nothing."""
        return _joined([run.present() for run in self._runs]) if self._runs else _NOTHING

    def release(self, wanted: Starts) -> Counts:
        """Forgets these slices, and gives how many accumulators each had."""
        sizes = self.sizes(wanted)
        for run in self._near(wanted):
            places, is_here = run.places(wanted)
            if is_here.any():
                _cut(run, places[is_here])
        self._tidy()
        return sizes

    def _append(self, run: AccumulatorRun) -> None:
        self._runs.append(run)
        while len(self._runs) > 1 and _are_alike(*self._runs[-2:]):
            self._runs[-2:] = [_joined(self._runs[-2:])]

    def _near(self, wanted: Starts) -> list[AccumulatorRun]:
        return [run for run in self._runs if run.is_near(wanted)]

    def _tidy(self) -> None:
        """Lets go of what is gone, where that is at least half of a run."""
        self._runs = [run if run.is_mostly_here else run.present() for run in self._runs if run.is_here]


def _cut(run: AccumulatorRun, places: npt.NDArray[np.int64]) -> AccumulatorRun:
    """The slices at these places, which are gone from the run then."""
    part = run.part(places)
    if run.gone is None:
        run.gone = np.zeros(len(run.starts), np.bool_)
        if part is run:
            part = AccumulatorRun(run.starts, run.ends, run.accumulators, run.is_merged)
    run.gone[places] = True
    run.gone_accumulators += len(part.accumulators)
    return part


def _merged(run: AccumulatorRun, left_out: LeftOut) -> AccumulatorRun:
    places = left_out(run)
    if not len(places):
        return AccumulatorRun(run.starts, run.ends, run.accumulators, True)
    return AccumulatorRun(
        run.starts, run.ends - places.searchsorted(run.ends), np.delete(run.accumulators, places), True
    )


def _are_alike(older: AccumulatorRun, newer: AccumulatorRun) -> bool:
    """Whether to put them together: each accumulator is moved a few times at most, and none is looked through again."""
    are_small = len(older.accumulators) < _SMALL and len(older.accumulators) <= 2 * len(newer.accumulators)
    return are_small and older.is_merged == newer.is_merged


def _joined(runs: Sequence[AccumulatorRun]) -> AccumulatorRun:
    """All of them as one; the accumulators of a slice in the order of the runs."""
    if len(runs) == 1:
        return runs[0]
    runs = [run.present() for run in runs]
    starts = np.concatenate([run.starts for run in runs])
    counts = np.concatenate([run.counts for run in runs])
    accumulators = np.concatenate([run.accumulators for run in runs])
    if not (starts[1:] >= starts[:-1]).all():
        order = order_by(starts)
        begins = np.cumsum(counts) - counts
        starts, counts = starts[order], counts[order]
        accumulators = accumulators[places_of_runs(begins[order], counts)]
    is_first = is_other_than_before(starts)
    last = np.append(np.flatnonzero(is_first)[1:], len(starts)) - 1
    are_merged = all(run.is_merged for run in runs) and bool(is_first.all())
    return AccumulatorRun(starts[is_first], np.cumsum(counts)[last], accumulators, are_merged)
