"""Accumulators of keys and slices, of all kinds, against a dict; random steps, with seeds."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.columns.take import contiguous
from actors.keys.state_tables import KeyedTables, StateRows, state_rows
from actors.operators.aggregates.accumulators import numbers_in, selection_size
from actors.operators.windows.aligned import accumulator_runs, dense_index, sparse_index
from actors.operators.windows.aligned.dense_index import DenseIndex
from actors.operators.windows.aligned.slice_store import SliceStore
from actors.operators.windows.aligned.sparse_index import AppendIndex, LookupIndex
from flinkray.windows.aggregates import Aggregate, Count, First, Max, Sum

AGGREGATES = (
    ("count", Count()),
    ("sum", Sum("v")),
    ("max", Max("v")),
    ("first", First("v")),
    ("largest_text", Max("t")),
)

Values = dict[int, list[tuple[int, str]]]
"""By key: (number, text) in order of arrival."""


def batch(keys: list[int], values: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": keys, "v": values, "t": [f"{value:06}" for value in values]})


def expected(values: list[tuple[int, str]]) -> dict[str, Any]:
    numbers = [number for number, _ in values]
    return {
        "count": len(numbers),
        "sum": sum(numbers),
        "max": max(numbers),
        "first": numbers[0],
        "largest_text": max(text for _, text in values),
    }


class CheckedStore:
    """A store, and what it should hold."""

    def __init__(self, aggregates: Sequence[tuple[str, Aggregate]] = AGGREGATES) -> None:
        self.renumbered = 0
        self.aggregates = aggregates
        self.names = [name for name, _ in aggregates]
        self.store = SliceStore(aggregates, "window (1/1)", self._count)
        self.model: dict[int, Values] = defaultdict(lambda: defaultdict(list))

    def _count(self) -> None:
        self.renumbered += 1

    def add(self, slices: list[int], keys: list[int], values: list[int]) -> None:
        rows = batch(keys, values)
        starts, which = np.unique(np.array(slices), return_inverse=True)
        only_one = len(starts) == 1
        accumulators = self.store.add(rows, rows.select(["k"]), starts.tolist(), None if only_one else which)
        found = self.store.key_columns(self.store.key_ids(accumulators))
        assert found[0].to_pylist() == keys
        for start, key, value in zip(slices, keys, values, strict=True):
            self.model[start][key].append((value, f"{value:06}"))

    def release(self, *starts: int, clears: bool = False) -> None:
        cleared = [start for start in starts if clears and self.store.clear(self.store.accumulators_of(start))]
        self.store.release(starts, cleared)
        for start in starts:
            self.model.pop(start, None)

    def snapshot(self, watermark: int) -> StateRows:
        """What is restored of one that is taken now, which has a row per group."""
        table = self.store.capture(watermark).table(KeyedTables(128, range(128), "window (1/1)"), {})
        (rows,) = state_rows([table.data])
        assert rows.num_rows == sum(map(len, self.model.values()))
        return rows

    def restored(self) -> CheckedStore:
        """The same in another store."""
        other = CheckedStore(self.aggregates)
        if self.model:
            other.store.restore([self.snapshot(0)], self.store.next_position, 0)
        other.model, other.renumbered = self.model, self.renumbered
        return other

    def check(self) -> None:
        self.store.check()
        assert self.store.slice_starts() == sorted(self.model)
        for start, values in self.model.items():
            accumulators = self.store.accumulators_of(start)
            keys = self.store.key_columns(self.store.key_ids(accumulators))[0].to_pylist()
            rows = pa.table(dict(zip(self.names, self.store.results(accumulators), strict=True))).to_pylist()
            known = {key: expected(some) for key, some in values.items()}
            wanted = {key: {name: results[name] for name in self.names} for key, results in known.items()}
            assert dict(zip(keys, rows, strict=True)) == wanted
        some = np.array([start for start in sorted(self.model) if start % 20], np.int64)
        assert (self.store.sizes(some) >= [len(self.model[start]) for start in some.tolist()]).all()
        run = self.store.read(some)
        assert run.starts.tolist() == some.tolist()
        for start, accumulators in zip(some.tolist(), np.split(run.accumulators, run.ends[:-1]), strict=False):
            assert accumulators.tolist() == numbers_in(self.store.accumulators_of(start)).tolist()
        if self.model:
            accumulators = np.sort(
                np.concatenate([numbers_in(self.store.accumulators_of(start)) for start in self.model])
            )
            keys = self.store.key_columns(self.store.key_ids(accumulators))[0]
            assert self.store.key_columns_of(contiguous(accumulators))[0].equals(keys)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accumulators are numbered anew after few rows."""
    monkeypatch.setattr(sparse_index, "_FEWEST_COMPACTED", 3)
    monkeypatch.setattr(sparse_index, "_FEWEST_JUDGED", 3)
    monkeypatch.setattr(dense_index, "_FEWEST_BITS", 2)
    monkeypatch.setattr(sparse_index, "_LARGE_SLICE", 20)
    monkeypatch.setattr(accumulator_runs, "_SMALL", 50)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("aggregates", [AGGREGATES, AGGREGATES[1:]], ids=["counted", "not counted"])
@pytest.mark.seeds(4)
def test_accumulators_hold_what_was_added_however_dense_slices_are(
    seed: int, aggregates: Sequence[tuple[str, Aggregate]]
) -> None:
    chance, checked = random.Random(seed), CheckedStore(aggregates)
    first, layouts = 0, set()
    for _ in range(60):
        key_count, low = chance.choice([(4, 0), (30, 0), (30, 500), (300, 0)]), 0
        keys_below, low = key_count
        rows = chance.choice([1, 10, 100, 400])
        open_slices = list(range(first, first + chance.choice([1, 1, 2, 6])))
        slices = [10 * chance.choice(open_slices) for _ in range(rows)]
        keys = [low + chance.randrange(keys_below) for _ in range(rows)]
        checked.add(slices, keys, [chance.randrange(1000) for _ in range(rows)])
        layouts.add(type(checked.store._index))
        if chance.random() < 0.5:
            first += chance.choice([0, 1, 2])
            over = [start for start in checked.store.slice_starts() if start < 10 * first]
            checked.release(*over, clears=chance.random() < 0.5)
            checked.store.compact()
        if chance.random() < 0.1:
            checked = checked.restored()
        if chance.random() < 0.5:  # what is said of accumulators in use need not be asked after each batch
            checked.check()
    checked.check()
    assert checked.renumbered
    assert layouts == {AppendIndex, LookupIndex, DenseIndex}


def run_windows(checked: CheckedStore, count: int, keys: int, rows: int) -> None:
    """That many windows one after the other, with two open at a time."""
    for window in range(count):
        checked.add([10 * window] * rows, [row % keys for row in range(rows)], list(range(rows)))
        if window:
            checked.release(10 * (window - 1))
            checked.store.compact()


def test_slices_with_rows_of_most_keys_are_not_looked_up_and_memory_stays() -> None:
    checked = CheckedStore()
    run_windows(checked, 20, 3000, 3000)
    assert isinstance(checked.store._index, DenseIndex)
    assert checked.store._index.size <= 3 * 4096
    checked.check()


def test_slices_with_rows_of_few_keys_do_not_take_a_place_per_key_any_more() -> None:
    checked = CheckedStore()
    run_windows(checked, 5, 3000, 3000)
    assert isinstance(checked.store._index, DenseIndex)
    for window in range(5, 10):
        checked.add([10 * window] * 20, list(range(20)), list(range(20)))
        checked.release(10 * (window - 1))
        checked.store.compact()
    assert isinstance(checked.store._index, AppendIndex)
    assert len(checked.store._keys) <= 40
    checked.check()


def sparse() -> CheckedStore:
    """Twenty slices, each with a thousand of twenty thousand keys."""
    checked = CheckedStore()
    keys = list(range(20_000))
    checked.add([10 * (key // 1000) for key in keys], keys, keys)
    assert isinstance(checked.store._index, AppendIndex), "nothing is known of what comes"
    return checked


def test_rows_of_groups_that_have_an_accumulator_are_looked_up_while_they_are_many() -> None:
    checked, keys = sparse(), list(range(1000))
    accumulators: list[type] = []
    for start in range(200, 2200, 10):
        for _ in range(3 if start < 1200 else 1):
            checked.add([start] * 1000, keys, keys)
            accumulators.append(type(checked.store._index))
        assert selection_size(checked.store.accumulators_of(start - 10)) == 1000
        checked.release(start - 10)
        checked.store.compact()
    switches = [accumulator for accumulator, after in pairwise(accumulators) if accumulator is not after]
    assert [*switches, accumulators[-1]] == [AppendIndex, LookupIndex, AppendIndex]
    checked.check()


def test_rows_that_repeat_take_no_memory_before_a_slice_is_read() -> None:
    checked, keys = sparse(), list(range(1000))
    for number in range(100):
        checked.add([200] * 1000 + [210], [*keys, number], [*keys, number])
    assert isinstance(checked.store._index, LookupIndex)
    assert checked.store._index.size == 21_100
    assert len(checked.store._index._slices._runs) <= 8
    checked.check()


def test_accumulators_that_were_numbered_anew_are_not_looked_at_before_they_have_doubled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked, keys = sparse(), list(range(1000))
    checked.store._rebuild([], 0)
    looks: list[int] = []
    monkeypatch.setattr(AppendIndex, "merge_repeated", lambda accumulators: looks.append(accumulators.count))
    for start in range(200, 450, 10):
        checked.add([start] * 1000, keys, keys)
    assert looks == [40_000]


def test_a_group_that_gets_a_row_has_not_fired_ahead_any_more() -> None:
    before, checked = CheckedStore(), CheckedStore()
    before.add([0] * 3, [1, 2, 3], [1, 2, 3])
    checked.store.restore([before.snapshot(100)], 3, 0)
    checked.model = before.model
    checked.add([0] * 2, [2, 2], [4, 5])
    for _ in range(2):
        rows = checked.snapshot(0)
        assert rows.keys is not None
        fired_until = dict(zip(rows.keys["k"].to_pylist(), rows.columns["fired_until"].to_pylist(), strict=True))
        assert fired_until == {1: 100, 2: 0, 3: 100}
        checked.check()


def test_many_slices_of_few_rows_do_not_take_a_place_per_key_each() -> None:
    checked = CheckedStore()
    run_windows(checked, 5, 3000, 3000)
    assert isinstance(checked.store._index, DenseIndex)
    rows = 500
    checked.add([10 * (5 + row) for row in range(rows)], [row % 3000 for row in range(rows)], list(range(rows)))
    assert isinstance(checked.store._index, AppendIndex)
    checked.check()


def test_blocks_that_are_not_needed_any_more_are_given_back() -> None:
    checked = CheckedStore()
    run_windows(checked, 5, 3000, 3000)
    for window in range(5, 45):
        checked.add([10 * window] * 3000, list(range(3000)), list(range(3000)))
    assert isinstance(checked.store._index, DenseIndex)
    assert checked.store._index.size >= 40 * 4096
    for window in range(4, 44):
        checked.release(10 * window)
        checked.store.compact()
    for window in range(45, 75):
        checked.add([10 * window] * 3000, list(range(3000)), list(range(3000)))
        checked.release(10 * (window - 1))
        checked.store.compact()
    assert checked.store._index.size <= 12 * 4096
    checked.check()


def restored_with(aggregates: Sequence[tuple[str, Aggregate]], kept: int) -> CheckedStore:
    """Places of 3000 keys in a slice that was restored, as a store of these aggregates, which the snapshot had from
    `kept` on, and in two slices that came then."""
    before = CheckedStore(aggregates[kept:])
    run_windows(before, 3, 3000, 3000)
    captured = before.store.capture(0)
    columns = {
        "slice": pa.array(captured.slices.starts[captured.slices.slice_indices]),
        "cell": pa.array(captured.accumulators),
        "fired_until": pa.array(captured.fired_until),
        **captured.aggregates.columns(captured.accumulators),
    }
    assert captured.keys is not None
    keys = captured.keys.take(pa.array(captured.key_ids))
    checked = CheckedStore(
        [(name, each.from_now_on() if place < kept else each) for place, (name, each) in enumerate(aggregates)]
    )
    part = StateRows(keys, columns, captured.aggregates.metadata(), len(captured.accumulators))
    checked.store.restore([part], before.store.next_position, 0)
    checked.model = before.model
    first = next(iter(checked.model))
    for start in (first + 10, first + 20):
        checked.add([start] * 3000, list(range(3000)), list(range(3000)))
    assert isinstance(checked.store._index, DenseIndex)
    return checked


def test_accumulators_of_a_snapshot_without_a_count_are_in_use_all_the_same() -> None:
    """A count that is new does not know of them."""
    checked = restored_with(AGGREGATES, 1)
    first = next(iter(checked.model))
    accumulators = numbers_in(checked.store.accumulators_of(first))
    assert len(accumulators) == 3000
    assert checked.store.results(accumulators)[0].to_pylist() == [0] * 3000
    checked.add([first] * 10, list(range(10)), [1] * 10)
    assert len(numbers_in(checked.store.accumulators_of(first))) == 3000


def test_what_was_counted_before_a_snapshot_is_in_use_after_it() -> None:
    restored_with(AGGREGATES, 0).check()


def test_a_count_of_values_says_nothing_of_rows_that_have_none() -> None:
    store, keys = SliceStore([("values", Count("v"))], "window (1/1)"), list(range(5000))
    for start in (0, 10, 20):
        has_all = start < 20  # when places begin to be computed, each accumulator has a value
        rows = pa.RecordBatch.from_pydict({"k": keys, "v": [key if has_all or key % 2 == 0 else None for key in keys]})
        store.add(rows, rows.select(["k"]), [start], None)
    assert isinstance(store._index, DenseIndex)
    assert store.results(store.accumulators_of(20))[0].to_pylist() == [1 - key % 2 for key in keys]
