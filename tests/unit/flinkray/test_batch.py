"""A batch on its way between processes."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from flinkray.batch import Batch, is_same_layout
from flinkray.types import Kind


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


def test_batches_whose_structs_are_decoded_differently_are_not_put_together() -> None:
    def struct_of(metadata: dict[str, str] | None) -> Batch:
        field = pa.field("x", pa.int64(), metadata=metadata)
        return batch_of(pa.record_batch({"v": pa.StructArray.from_arrays([pa.array([1])], fields=[field])}))

    rows, dicts = struct_of({"flinkray": "row"}), struct_of(None)
    assert is_same_layout(rows, rows)
    assert is_same_layout(dicts, dicts)
    assert not is_same_layout(rows, dicts)
