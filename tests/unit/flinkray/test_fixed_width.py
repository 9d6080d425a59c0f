"""Columns of numbers as numpy sees them: as `to_numpy` gives them, wherever they lie."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flinkray.fixed_width import INT64, fixed_width


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("window", [(0, 10), (3, 5), (10, 0)])
def test_it_gives_what_to_numpy_gives(dtype: str, window: tuple[int, int]) -> None:
    array = pa.array(np.arange(10).astype(dtype)).slice(*window)
    values = fixed_width(array, np.dtype(dtype))
    assert values.dtype == dtype
    assert values.tolist() == array.to_numpy().tolist()
    assert not values.flags.writeable


def test_beside_nulls_values_are_where_they_belong() -> None:
    array = pa.array([None, 7, None, 9], pa.int64()).slice(1)
    assert fixed_width(array, INT64)[[0, 2]].tolist() == [7, 9]


@pytest.mark.parametrize("array", [pa.array([], pa.int64()), pa.nulls(3).cast(pa.int64())], ids=["empty", "nulls"])
def test_there_may_be_no_value_at_all(array: pa.Array) -> None:
    assert len(fixed_width(array, INT64)) == len(array)
