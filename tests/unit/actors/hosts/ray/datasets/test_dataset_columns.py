"""Ray Data's columns as columns of streams."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from actors.hosts.ray.datasets.dataset_columns import plain_schema, with_schema
from flinkray.errors import InvalidProgramError

MATRICES = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.int32).reshape(2, 2, 3))
PLAIN_MATRIX = pa.list_(pa.list_(pa.int32(), 3), 2)


def test_tensors_of_one_shape_are_nested_lists_of_fixed_length() -> None:
    table = pa.table({"m": MATRICES}, metadata={"pandas": "x"})
    schema = plain_schema(table.schema)
    assert schema.equals(pa.schema([("m", PLAIN_MATRIX)]), check_metadata=True)
    assert with_schema(table, schema)["m"].to_pylist() == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


def test_part_of_a_table_of_tensors_is_that_part() -> None:
    table = pa.table({"m": MATRICES}).slice(1, 1)
    assert with_schema(table, plain_schema(table.schema))["m"].to_pylist() == [[[6, 7, 8], [9, 10, 11]]]


def test_other_extension_types_are_what_they_are_made_of() -> None:
    ids = pa.array([b"0123456789abcdef"], pa.binary(16)).cast(pa.uuid())
    table = pa.table({"id": ids})
    assert with_schema(table, plain_schema(table.schema)).equals(pa.table({"id": ids.storage}))


def test_columns_that_a_block_lacks_are_null_and_narrower_ones_are_widened() -> None:
    table = pa.table({"a": pa.array([1], pa.int32())})
    schema = pa.schema([("b", pa.string()), ("a", pa.int64())])
    assert with_schema(table, schema).equals(pa.table({"b": pa.nulls(1, pa.string()), "a": [1]}))


def test_a_null_tensor_is_named() -> None:
    table = pa.table({"m": pa.concat_arrays([MATRICES, pa.nulls(1, MATRICES.type)])})
    with pytest.raises(InvalidProgramError, match="tensor column 'm' holds nulls"):
        with_schema(table, plain_schema(table.schema))
