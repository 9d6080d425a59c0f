"""Accumulators of slices in runs, against a dict; random steps, with seeds."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from actors.operators.aggregates.accumulators import Accumulators
from actors.operators.windows.aligned import accumulator_runs
from actors.operators.windows.aligned.accumulator_runs import AccumulatorRun, AccumulatorsBySlice


def nothing(_: AccumulatorRun) -> Accumulators:
    return np.empty(0, np.int64)


def all_but_the_first_of_ten(run: AccumulatorRun) -> Accumulators:
    """Of the accumulators of a slice that have the same last digit."""
    seen: set[tuple[int, int]] = set()
    places = []
    for place, (which, accumulator) in enumerate(
        zip(run.slice_indices.tolist(), run.accumulators.tolist(), strict=True)
    ):
        if (which, accumulator % 10) in seen:
            places.append(place)
        seen.add((which, accumulator % 10))
    return np.array(places, np.int64)


def by_slice(run: AccumulatorRun) -> dict[int, list[int]]:
    return {
        start: accumulators.tolist()
        for start, accumulators in zip(run.starts.tolist(), np.split(run.accumulators, run.ends[:-1]), strict=False)
    }


class CheckedRuns:
    def __init__(self) -> None:
        self.runs = AccumulatorsBySlice()
        self.model: dict[int, list[int]] = defaultdict(list)
        self.next_accumulator = 0

    def add(self, slices: list[int]) -> None:
        accumulators = np.arange(self.next_accumulator, self.next_accumulator + len(slices))
        self.next_accumulator += len(slices)
        starts, which = np.unique(np.array(slices), return_inverse=True)
        self.runs.add(accumulators, starts.tolist(), None if len(starts) == 1 else which)
        for start, accumulator in zip(slices, accumulators.tolist(), strict=True):
            self.model[start].append(accumulator)

    def read(self, wanted: list[int]) -> None:
        found = by_slice(self.runs.read(np.array(sorted(wanted), np.int64), all_but_the_first_of_ten))
        there = sorted(set(wanted) & set(self.model))
        for start in there:
            first = {accumulator % 10: accumulator for accumulator in reversed(self.model[start])}
            self.model[start] = sorted(first.values())
        assert found == {start: self.model[start] for start in there}
        assert list(found) == there

    def release(self, wanted: list[int]) -> None:
        sizes = self.runs.release(np.array(sorted(wanted), np.int64))
        assert sizes.tolist() == [len(self.model.pop(start, [])) for start in sorted(wanted)]

    def check(self) -> None:
        assert self.runs.starts().tolist() == sorted(self.model)
        assert by_slice(self.runs.all_accumulators()) == {start: self.model[start] for start in sorted(self.model)}
        wanted = np.array(sorted({-1, *self.model, 10_000}), np.int64)
        assert self.runs.sizes(wanted).tolist() == [len(self.model.get(start, [])) for start in wanted.tolist()]


@pytest.mark.parametrize("seed", range(30))
def test_each_slice_has_the_accumulators_that_came_for_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, checked = random.Random(seed), CheckedRuns()
    monkeypatch.setattr(accumulator_runs, "_SMALL", chance.choice((1, 20, 4096)))
    first = 0
    for _ in range(80):
        match chance.choice(("add", "add", "read", "release", "go on")):
            case "add":
                span = chance.choice((1, 3, 40))
                checked.add([10 * (first + chance.randrange(span)) for _ in range(chance.choice((1, 5, 60)))])
            case "read":
                checked.read([10 * (first + number) for number in range(50) if chance.random() < chance.random()])
            case "release":
                checked.release([start for start in checked.model if start < 10 * first or chance.random() < 0.2])
            case _:
                first += chance.choice((1, 10))
        if chance.random() < 0.3:
            checked.check()
    checked.check()


def test_accumulators_that_were_released_take_no_memory_beside_one_that_stays() -> None:
    runs = AccumulatorsBySlice()
    for number in range(200):
        runs.add(np.arange(1000) + 1000 * number, [number, 10**9], np.arange(1000) // 999)
        runs.release(np.array([number]))
    assert sum(len(run.accumulators) for run in runs._runs) <= 2 * 200
    assert runs.starts().tolist() == [10**9]


def test_few_accumulators_at_a_time_make_few_runs() -> None:
    runs = AccumulatorsBySlice()
    for number in range(5000):
        runs.add(np.array([number]), [number], None)
        assert len(runs._runs) <= 16


def test_slices_that_have_not_changed_are_not_looked_through_again() -> None:
    runs, asked = AccumulatorsBySlice(), list[Accumulators]()

    def find_repeats(run: AccumulatorRun) -> Accumulators:
        asked.append(run.starts)
        return nothing(run)

    runs.add(np.arange(100), list(range(100)), np.arange(100))
    everything = np.arange(100)
    for wanted in (everything, everything, everything[10:20], everything[[3, 50]]):
        assert runs.read(wanted, find_repeats).starts.tolist() == wanted.tolist()
    assert len(asked) == 1
    assert runs.are_merged
    runs.add(np.array([100]), [7], None)
    assert not runs.are_merged
    assert runs.read(everything[7:8], find_repeats).accumulators.tolist() == [7, 100]
    assert [starts.tolist() for starts in asked[1:]] == [[7]]
    assert runs.are_merged


def test_nothing_is_found_where_nothing_is() -> None:
    runs = AccumulatorsBySlice()
    runs.add(np.arange(3), [10, 20, 30], np.arange(3))
    for wanted in ([], [5], [15, 25], [40]):
        assert not len(runs.read(np.array(wanted, np.int64), nothing).accumulators)
        assert runs.release(np.array(wanted, np.int64)).tolist() == [0] * len(wanted)
    assert runs.starts().tolist() == [10, 20, 30]


def test_slices_that_are_read_one_by_one_make_few_runs_and_stay_read() -> None:
    runs, starts = AccumulatorsBySlice(), np.arange(500)
    runs.add(np.arange(500), starts.tolist(), np.arange(500))
    assert runs.changed(starts).tolist() == starts.tolist()
    for start in starts[:400]:
        assert runs.read(np.array([start]), nothing).accumulators.tolist() == [start]
        assert len(runs._runs) <= 16
    assert runs.changed(starts).tolist() == starts[400:].tolist()
    runs.read(runs.changed(starts), nothing)
    assert runs.are_merged
    runs.add(np.array([500, 501]), [7, 900], np.arange(2))
    assert runs.changed(starts).tolist() == [7]
