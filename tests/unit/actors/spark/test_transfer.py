"""How rows of blocks become a DataFrame's, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from actors.spark.spill import SpillBlockStore
from actors.spark.transfer import _one_value, _reader


def test_columns_of_blocks_are_matched_by_name_and_missing_ones_are_null(tmp_path: Path) -> None:
    """Blocks of one stream differ where its type is inferred: dicts with other orders of keys, or without some."""
    blocks = [
        pa.record_batch({"low": [1], "high": [101]}),
        pa.record_batch({"high": [102], "low": [2]}),
        pa.record_batch({"low": pa.array([3], pa.int32()), "note": pa.array([["x"]])}),
    ]
    schema = pa.unify_schemas([block.schema for block in blocks], promote_options="permissive")
    store = SpillBlockStore.create(str(tmp_path))
    names = [str(number) for number in range(len(blocks))]
    for name, block in zip(names, blocks, strict=True):
        store.put(name, block)
    numbers = pa.record_batch({"id": list(range(len(blocks)))})
    found = pa.Table.from_batches(_reader(store, names, schema)([numbers]))
    assert found.schema == schema
    assert found.to_pylist() == [
        {"low": 1, "high": 101, "note": None},
        {"low": 2, "high": 102, "note": None},
        {"low": 3, "high": None, "note": ["x"]},
    ]
    store.close()


def test_one_value_makes_a_column() -> None:
    for value in (0, 2**40, -1, "", "block é"):
        column = _one_value(value)
        column.validate(full=True)
        assert column.equals(pa.array([value]))
