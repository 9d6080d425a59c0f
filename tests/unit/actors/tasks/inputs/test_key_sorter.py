"""Sorting by key against a plain model: whole keys, each key's rows by event time and arrival, whatever spills."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from actors.tasks.inputs.key_sorter import KeySorter
from flinkray.batches.batch import Batch
from flinkray.errors import FlinkrayError
from flinkray.types.keys import ColumnKey, KeySelector
from flinkray.types.records import Kind

KEY = ColumnKey(("key",))


def sorter(memory_bytes: int, inputs: int = 1, batch_rows: int = 16, directory: str = "") -> KeySorter:
    selectors: list[KeySelector | None] = [KEY] * inputs
    return KeySorter(
        selectors,
        "test (1/1)",
        memory_bytes=memory_bytes,
        directory=directory,
        batch_rows=batch_rows,
        batch_bytes=1 << 20,
    )


def batch(rows: list[tuple[Any, int, int | None]], value_type: pa.DataType) -> Batch:
    """Rows are (key, value, event time)."""
    data = pa.RecordBatch.from_arrays(
        [pa.array([key for key, _, _ in rows], pa.string()), pa.array([value for _, value, _ in rows], value_type)],
        names=["key", "value"],
    )
    times = None if rows[0][2] is None else pa.array([time for _, _, time in rows], pa.int64())
    return Batch(data, Kind.ROW, times)


def test_keys_come_whole_and_their_rows_by_time_then_arrival_whatever_spills() -> None:
    for seed in range(25):
        chance = random.Random(seed)
        inputs, has_times = chance.randint(1, 3), chance.random() < 0.7
        memory, rows_of_batch = chance.choice([1, 500, 1 << 20]), chance.choice([1, 3, 16, 1000])
        sorted_by_key = sorter(memory, inputs, rows_of_batch)
        arrived: dict[str | None, list[tuple[int, int, int]]] = {}
        number = 0
        for _ in range(chance.randint(0, 25)):
            input_index, value_type = chance.randrange(inputs), chance.choice([pa.int64(), pa.float64()])
            rows = []
            for _ in range(chance.randint(1, 12)):
                key, time = chance.choice([None, "a", "b", "c", "d", "e" * 300]), chance.randint(0, 5)
                rows.append((key, number, time if has_times else None))
                arrived.setdefault(key, []).append((time if has_times else 0, number, input_index))
                number += 1
            sorted_by_key.add(batch(rows, value_type), input_index)
        if memory < 1000 and number > 100:
            assert sorted_by_key.spilled_bytes, f"seed {seed}: nothing was spilled"
        _check(seed, sorted_by_key, arrived)
        sorted_by_key.close()


def _check(seed: int, sorted_by_key: KeySorter, arrived: dict[Any, list[tuple[int, int, int]]]) -> None:
    got: dict[Any, list[tuple[int, int]]] = {}
    complete: set[Any] = set()
    since: set[Any] = set()
    for rows in sorted_by_key.sorted_rows():
        for input_index, part in rows.batches:
            for row in part.data.to_pylist():
                assert row["key"] not in complete, f"seed {seed}: {row['key']} came after its end"
                got.setdefault(row["key"], []).append((int(row["value"]), input_index))
                since.add(row["key"])
        if rows.ends_keys:
            complete |= since
    assert complete == set(arrived), f"seed {seed}: keys that did not end"
    expected = {key: [(number, index) for _, number, index in sorted(rows)] for key, rows in arrived.items()}
    assert got == expected, f"seed {seed}"


def test_inputs_take_turns_for_all_keys_at_once() -> None:
    both = sorter(1 << 20, inputs=2, batch_rows=1000)
    keys = [f"k{index}" for index in range(100)]
    for input_index in (1, 0, 1):
        both.add(batch([(key, input_index, None) for key in keys], pa.int64()), input_index)
    (rows,) = both.sorted_rows()
    # Of each key: the first row of input 1, the row of input 0, the second row of input 1.
    assert [(input_index, part.num_rows) for input_index, part in rows.batches] == [(1, 100), (0, 100), (1, 100)]
    both.close()


def test_a_key_with_more_rows_than_memory_comes_in_parts_and_ends_once() -> None:
    one = sorter(1000, batch_rows=10)
    for start in range(0, 1000, 10):
        one.add(batch([("only", start + index, 0) for index in range(10)], pa.int64()), 0)
    parts = list(one.sorted_rows())
    assert [part.ends_keys for part in parts] == [False] * (len(parts) - 1) + [True]
    assert max(part.num_rows for rows in parts for _, part in rows.batches) <= 200
    values = [value for rows in parts for _, part in rows.batches for value in part.data.column("value").to_pylist()]
    assert values == list(range(1000))
    one.close()


def test_a_directory_that_is_not_there_is_named_with_the_option(tmp_path: Any) -> None:
    lost = sorter(1, directory=str(tmp_path / "gone"))
    with pytest.raises(FlinkrayError, match=r"rows to be sorted could not be written in .*gone.*io\.tmp\.dirs"):
        lost.add(batch([("a", 1, 1)], pa.int64()), 0)
