"""Rows taken by their places are those that Arrow's own, checked `take` gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from actors.columns.take import take_rows
from flinkray.batches.batch import Batch
from flinkray.types.records import Kind

ROWS = 3000
PLACES = np.random.default_rng(7).permutation(ROWS)[:2000]


def batch(times: pa.Array | None, ts: pa.Array) -> Batch:
    data = pa.record_batch({"k": pa.array([f"key {row % 9}" for row in range(ROWS)]), "n": pa.nulls(ROWS), "ts": ts})
    return Batch(data, Kind.ROW, times, data.select(["k"]))


def address(column: pa.Array) -> int:
    return int(column.buffers()[1].address)


@pytest.mark.parametrize("offset", [0, 1])
def test_rows_at_places_are_those_of_arrows_own_take(offset: int) -> None:
    whole = pa.array(np.arange(ROWS + 1) * 7)
    # Event time one row off from the column in the same memory is another column.
    taken = take_rows(batch(whole.slice(offset, ROWS), whole.slice(0, ROWS)), PLACES)
    expected = batch(whole.slice(offset, ROWS), whole.slice(0, ROWS)).take(pa.array(PLACES))
    assert taken == expected
    assert taken.timestamps is not None
    assert (address(taken.timestamps) == address(taken.data.column("ts"))) == (offset == 0)


def test_a_column_with_nulls_is_not_taken_for_event_time() -> None:
    times = pa.array(np.arange(ROWS))
    nulls = pa.py_buffer(bytes([0xFE]) + b"\xff" * (ROWS // 8))
    with_nulls = pa.Array.from_buffers(pa.int64(), ROWS, [nulls, times.buffers()[1]])
    taken = take_rows(batch(times, with_nulls), PLACES)
    assert taken.timestamps is not None
    assert taken.timestamps.to_pylist() == PLACES.tolist()
    assert taken.data.column("ts").null_count == 1 or 0 not in PLACES


@pytest.mark.parametrize("rows", [[], [2, 0, 2]])
def test_few_rows_and_none_are_taken_as_well(rows: list[int]) -> None:
    places = np.array(rows, np.int64)
    assert take_rows(batch(None, pa.array(range(ROWS))), places).data.column("ts").to_pylist() == rows
