"""Rows by key and slot, against lists of Python's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.tables.rows import row_store
from actors.operators.tables.rows.row_store import Numbers, RowStore
from flinkray.batches.numpy_arrays import from_numpy

SCHEMA = pa.schema({"n": pa.int64(), "text": pa.string()})


def rows_of(numbers: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), pa.array(map(str, numbers))], schema=SCHEMA)


@pytest.mark.parametrize("seed", range(12))
def test_a_key_has_the_rows_that_were_added_and_not_removed_in_their_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_store, "_FEWEST_DEAD", 20)  # so that it is compacted often
    random = np.random.default_rng(seed)
    store = RowStore(SCHEMA, {"count": Numbers(np.int64, 7)})
    model: dict[int, list[tuple[int, int]]] = {}
    added = 0
    for _ in range(60):
        keys = random.integers(0, random.integers(1, 40), random.integers(1, 30))
        new = list(range(added, added + len(keys)))
        added += len(keys)
        if random.random() < 0.5:
            slots = store.add(keys, rows_of(new), count=np.array(new) % 3)
            counts = [number % 3 for number in new]
        else:
            slots = store.add(keys, rows_of(new))
            counts = [7] * len(new)
        assert store.keys_of(slots).tolist() == keys.tolist()
        for key, number, count in zip(keys.tolist(), new, counts, strict=True):
            model.setdefault(key, []).append((number, count))
        asked = np.append(np.unique(random.integers(0, 60, 20)), 1000)
        places, slots = store.of_keys(asked)
        found = zip(places.tolist(), store.take(slots, [0]).column(0).to_pylist(), strict=True)
        counts = store.numbers("count")[slots].tolist()
        assert [(asked[place], number, count) for (place, number), count in zip(found, counts, strict=True)] == [
            (key, *row) for key in asked.tolist() for row in model.get(key, [])
        ]
        removed = slots[random.random(len(slots)) < 0.6]
        gone = set(store.take(removed).column("n").to_pylist())
        store.remove(removed)
        model = {key: [row for row in rows if row[0] not in gone] for key, rows in model.items()}
        store.compact()
        if random.random() < 0.1:
            new_ids = random.permutation(60)
            store.renumber_keys(new_ids)
            model = {int(new_ids[key]): rows for key, rows in model.items()}
        assert len(store) == sum(map(len, model.values())) == len(store.live_keys())


def test_rows_are_swept_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "_SWEPT_AT_ONCE", 4)
    store = RowStore(SCHEMA, {"used": Numbers(np.int64)})
    store.add(np.arange(10), rows_of(list(range(10))), used=np.array([5, 1, 5, 5, 1, 5, 5, 5, 1, 5]))
    swept = [store.sweep("used", 3).tolist() for _ in range(4)]
    assert swept == [[1], [4], [8], [1]]  # what is found is there until it is removed
    store.remove(np.array([1]))
    assert [store.sweep("used", 3).tolist() for _ in range(3)] == [[4], [8], []]


def test_a_capture_shows_the_rows_as_they_were() -> None:
    store = RowStore(SCHEMA, {"count": Numbers(np.int32)})
    slots = store.add(np.array([3, 1, 3]), rows_of([0, 1, 2]), count=np.array([4, 5, 6], np.int32))
    store.remove(slots[:1])
    captured = store.capture()
    store.remove(slots[1:2])
    store.numbers("count")[slots] = 0
    store.add(np.array([9]), rows_of([9]))
    columns = captured.columns()
    assert captured.keys.tolist() == [1, 3]
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "row:0": [1, 2],
        "row:1": ["1", "2"],
        "number:count": [5, 6],
    }


def test_many_small_batches_are_few_chunks() -> None:
    store = RowStore(SCHEMA)
    for number in range(1000):
        store.add(np.array([number]), rows_of([number]))
    assert len(store._columns.chunks) < 20
    assert store.take(np.arange(1000)).column("n").equals(from_numpy(np.arange(1000)))


def test_no_rows_may_be_added_and_taken_any_number_of_times() -> None:
    store = RowStore(SCHEMA)
    for _ in range(2):
        store.add(np.zeros(0, np.int64), rows_of([]))
    assert store.take(np.zeros(0, np.int64)).num_rows == 0


def test_who_holds_slots_is_told_which_rows_are_left_when_slots_become_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "_FEWEST_DEAD", 1)
    left: list[list[int]] = []
    store = RowStore(SCHEMA, on_retain=lambda slots: left.append(slots.tolist()))
    store.add(np.zeros(4, np.int64), rows_of([1, 2, 3, 4]))
    store.remove(np.array([0, 2, 3]))
    store.compact()
    store.renumber_keys(np.array([0]))
    assert left == [[1], [0]]
    assert store.live_slots().tolist() == [0]
