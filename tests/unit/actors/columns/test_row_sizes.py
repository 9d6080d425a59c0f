"""What rows weigh, each by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from actors.columns.row_sizes import row_sizes

COLUMNS = {
    "number": pa.array([1, None, 3]),
    "flag": pa.array([True, False, None]),
    "nothing": pa.nulls(3),
    "text": pa.array(["a", None, "abc"]),
    "large": pa.array([b"a", None, b"abc"], pa.large_binary()),
    "list": pa.array([[1, 2], None, [3]]),
    "coded": pa.array(["x" * 1000, "y", None]).dictionary_encode(),
    "struct": pa.array([{"n": 1, "text": "ab"}, None, {"n": 2, "text": ""}]),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
}


def test_what_varies_is_told_for_each_row() -> None:
    sizes = {name: row_sizes(pa.record_batch({name: column})) for name, column in COLUMNS.items()}
    told = {name: size if isinstance(size, int) else size.tolist() for name, size in sizes.items()}
    assert told.pop("map") in range(5, 20)
    assert told == {
        "number": 9,
        "flag": 1,
        "nothing": 0,
        "text": [5, 4, 7],
        "large": [5, 4, 7],
        "list": [20, 4, 12],
        "coded": 5,
        "struct": [15, 13, 13],
    }


@pytest.mark.parametrize("names", [["number", "coded"], list(COLUMNS)])
def test_parts_and_chunks_weigh_as_much_as_the_whole(names: list[str]) -> None:
    batch = pa.record_batch({name: COLUMNS[name] for name in names})
    whole = np.broadcast_to(row_sizes(batch), 3)
    chunked = pa.Table.from_batches([batch, batch.slice(0, 0), batch])
    assert np.abs(np.broadcast_to(row_sizes(chunked), 6) - np.tile(whole, 2)).max() <= 8
    assert np.abs(np.broadcast_to(row_sizes(batch.slice(1)), 2) - whole[1:]).max() <= 8
    assert np.broadcast_to(row_sizes(batch.slice(3)), 0).tolist() == []
