"""A batch on its way between processes."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from actors.columns.take import take_rows
from flinkray.batches.batch import Batch, concat, is_same_layout
from flinkray.batches.wire_format import rows_without_columns
from flinkray.types.records import Kind


def batch_of(data: pa.RecordBatch) -> Batch:
    return Batch(data, Kind.ROW, pa.array(np.arange(data.num_rows)), data.select([data.schema.names[0]]))


COLUMNS = {
    "numbers": pa.array(np.arange(100_000)),
    "words": pa.array(["x", "yy"] * 50_000),
    "codes": pa.array(["x", "yy"] * 50_000).dictionary_encode(),
    "nulls": pa.nulls(100_000),
    "lists": pa.array([[1, 2], None] * 50_000),
}


@pytest.mark.parametrize("names", [["numbers"], ["words", "nulls"], ["numbers", "codes"], list(COLUMNS)])
@pytest.mark.parametrize("protocol", [4, 5])
def test_a_slice_is_pickled_without_the_rows_of_its_neighbours(names: list[str], protocol: int) -> None:
    whole = batch_of(pa.RecordBatch.from_arrays([COLUMNS[name] for name in names], names=names))
    part = whole.slice(5, 10)
    pickled = pickle.dumps(part, protocol=protocol)
    again = pickle.loads(pickled)
    assert len(pickled) < 4_000
    assert again.kind is part.kind
    assert again.data.equals(part.data)
    assert again.timestamps.equals(part.timestamps)
    assert again.keys.equals(part.keys)


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("times", [None, 7, pa.array([1, 2, 3])])
def test_rows_without_columns_still_count(times: pa.Array | int | None, protocol: int) -> None:
    batch = Batch(rows_without_columns(3), Kind.TUPLE, times)
    again = pickle.loads(pickle.dumps(batch, protocol=protocol))
    assert (again.num_rows, again.data.num_columns, again.times) == (3, 0, times)


def test_rows_travel_out_of_band_where_the_pickler_takes_buffers() -> None:
    batch = Batch(pa.RecordBatch.from_arrays([COLUMNS["numbers"]], names=["numbers"]))
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(batch, protocol=5, buffer_callback=buffers.append)
    assert len(pickled) < 1_000
    assert len(buffers) == 1
    assert pickle.loads(pickled, buffers=buffers).data.equals(batch.data)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_without_event_time_or_keys_stays_without(rows: int) -> None:
    again = pickle.loads(pickle.dumps(Batch(pa.RecordBatch.from_pydict({"x": pa.array(range(rows), pa.int64())}))))
    assert again.timestamps is None
    assert again.keys is None
    assert again.num_rows == rows


def at_one_time(rows: int, time: int) -> Batch:
    return Batch(pa.record_batch({"x": pa.array(range(rows))}), Kind.ROW, time)


def test_rows_at_one_time_are_like_others_of_that_time() -> None:
    batch = at_one_time(5, 7)
    assert batch.timestamps.equals(pa.array([7] * 5))
    assert batch.timestamps is batch.timestamps
    assert batch.time_bounds == (7, 7)
    assert batch.nbytes == 5 * 8
    parts = [
        batch.slice(1, 2),
        batch.take(pa.array([0, 3])),
        batch.filter(pa.array([True, False, False, False, True])),
        batch.with_times(pa.array(range(5))).with_times(7).slice(3),
        take_rows(batch, np.array([4, 1])),
    ]
    for part in parts:
        assert part.times == 7
        assert part.timestamps.to_pylist() == [7, 7]
        assert part.nbytes == 2 * 8
    assert batch.with_times(None).timestamps is None


@pytest.mark.parametrize("protocol", [4, 5])
def test_one_time_stays_one_in_a_pickle(protocol: int) -> None:
    again = pickle.loads(pickle.dumps(at_one_time(5, -3), protocol=protocol))
    assert again.times == -3
    assert again.timestamps.to_pylist() == [-3] * 5


def test_rows_of_several_times_are_put_together() -> None:
    per_row = at_one_time(2, 0).with_times(pa.array([8, 9]))
    assert concat([at_one_time(1, 7), at_one_time(2, 7)]).times == 7
    assert concat([at_one_time(1, 7), at_one_time(2, 6)]).timestamps.to_pylist() == [7, 6, 6]
    assert concat([at_one_time(1, 7), per_row]).timestamps.to_pylist() == [7, 8, 9]
    assert concat([per_row, at_one_time(1, 7)]).timestamps.to_pylist() == [8, 9, 7]
    assert is_same_layout(per_row, at_one_time(1, 7))
    assert not is_same_layout(per_row, per_row.with_times(None))


def test_batches_whose_structs_are_decoded_differently_are_not_put_together() -> None:
    def struct_of(metadata: dict[str, str] | None) -> Batch:
        field = pa.field("x", pa.int64(), metadata=metadata)
        return batch_of(pa.record_batch({"v": pa.StructArray.from_arrays([pa.array([1])], fields=[field])}))

    rows, dicts = struct_of({"flinkray": "row"}), struct_of(None)
    assert is_same_layout(rows, rows)
    assert is_same_layout(dicts, dicts)
    assert not is_same_layout(rows, dicts)
