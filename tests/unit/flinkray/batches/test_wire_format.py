"""Batches between processes: what arrives is what was sent, without a copy where that can be."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

from flinkray.batches.batch import Batch
from flinkray.types.records import Kind

MAKERS: list[Any] = [
    lambda chance, n: pa.array([chance.randrange(-(2**63), 2**63) for _ in range(n)], pa.int64()),
    lambda chance, n: pa.array([chance.random() for _ in range(n)], pa.float32()),
    lambda chance, n: pa.array([chance.randrange(2**40) for _ in range(n)], pa.timestamp("us", "Europe/Paris")),
    lambda chance, n: pa.array([chance.choice([None, 1, 2]) for _ in range(n)], pa.int16()),
    lambda chance, n: pa.array([chance.choice([True, False, None]) for _ in range(n)]),
    lambda chance, n: pa.array([chance.choice(["", "a", "longer", None]) for _ in range(n)], pa.string()),
    lambda chance, n: pa.array([chance.choice(["x", "y"]) for _ in range(n)]).dictionary_encode(),
    lambda _, n: pa.array([[1, 2]] * n, pa.list_(pa.int64())),
    lambda _, n: pa.nulls(n),
    lambda _, n: pa.array([b"123"] * n, pa.binary(3)),
]


def random_batch(chance: random.Random) -> Batch:
    rows = chance.choice([0, 1, 2, 50])
    columns = [chance.choice(MAKERS)(chance, rows + 3) for _ in range(chance.randint(1, 6))]
    columns.append(columns[0])
    names = [f"c{index}" for index in range(len(columns))]
    data = pa.RecordBatch.from_arrays(columns, names=names).replace_schema_metadata(chance.choice([None, {"a": "b"}]))
    timestamps = chance.choice([None, pa.array(range(rows + 3), pa.int64())])
    keys = chance.choice([None, data.select(["c0"]).replace_schema_metadata(None)])
    return Batch(data, Kind.ROW, timestamps, keys).slice(chance.randint(0, 3), rows)


def sent(batch: Batch) -> tuple[Batch, list[memoryview]]:
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(batch, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    copies = [bytes(view) for view in views]
    received: Batch = pickle.loads(pickled, buffers=copies)
    return received, views


def check(received: Batch, batch: Batch) -> None:
    assert received.data.equals(batch.data, check_metadata=True)
    assert received.timestamps == batch.timestamps
    assert received.keys == batch.keys
    received.data.validate(full=True)


@pytest.mark.parametrize("seed", range(60))
def test_any_slice_of_any_columns_arrives_as_it_was(seed: int) -> None:
    batch = random_batch(random.Random(seed))
    check(sent(batch)[0], batch)
    for protocol in (2, 4, 5):
        check(pickle.loads(pickle.dumps(batch, protocol=protocol)), batch)


def test_plain_columns_travel_in_place_and_only_their_own_rows() -> None:
    column = pa.array(range(1_000), pa.int64())
    batch = Batch(pa.RecordBatch.from_arrays([column], names=["x"])).slice(10, 20)
    _, (view,) = sent(batch)
    assert len(view) == 20 * 8
    start = pa.py_buffer(view).address
    assert start == column.buffers()[1].address + 10 * 8


def test_event_time_that_is_a_column_of_the_rows_is_sent_once() -> None:
    times = pa.array(range(100), pa.int64())
    batch = Batch(pa.RecordBatch.from_arrays([times], names=["ts"]), times=times).slice(50)
    received, views = sent(batch)
    assert [len(view) for view in views] == [50 * 8]
    check(received, batch)


def test_fields_that_differ_in_metadata_only_are_not_taken_for_each_other() -> None:
    """Equality and hash of a pa.Schema leave the metadata of fields out, so it is no key of a cache."""

    def struct_of(metadata: dict[str, str] | None) -> Batch:
        field = pa.field("x", pa.int64(), metadata=metadata)
        return Batch(pa.record_batch({"plain": [1], "v": pa.StructArray.from_arrays([pa.array([1])], fields=[field])}))

    def plain(metadata: dict[str, str] | None) -> Batch:
        schema = pa.schema([pa.field("x", pa.int64(), metadata=metadata)])
        return Batch(pa.RecordBatch.from_arrays([pa.array([1])], schema=schema))

    for metadata in ({"flinkray": "row"}, None, {"flinkray": "other"}, None):
        for batch in (struct_of(metadata), plain(metadata)):
            received, _ = sent(batch)
            check(received, batch)
            assert received.data.schema.equals(batch.data.schema, check_metadata=True)
        assert sent(struct_of(metadata))[0].data.schema.field("v").type.field(0).metadata == (
            None if metadata is None else {b"flinkray": metadata["flinkray"].encode()}
        )
