"""Columns of numbers as numpy sees them and as Arrow does: as their own conversions give them, wherever they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkray.batches.numpy_arrays import INT64, as_numpy, fixed_width, from_numpy


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


COLUMNS = {
    "integers": np.arange(-20, 20),
    "bytes": np.arange(40).astype(np.uint8),
    "floats": np.array([0.5, -0.0, np.nan, np.inf] * 10),
    "half floats": np.arange(40).astype(np.float16),
    "flags": np.arange(40) % 3 == 0,
    "every other one": np.arange(80)[::2],
    "days": np.arange(40).astype("datetime64[D]"),
    "objects": np.array(["a", None] * 20, object),
}


@pytest.mark.parametrize("window", [(0, 40), (3, 5), (17, 23)])
@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_columns_go_to_arrow_and_back_as_by_its_own_conversions(
    values: np.ndarray[Any, Any], window: tuple[int, int]
) -> None:
    expected = pa.array(values).slice(*window)
    for array in (from_numpy(values).slice(*window), from_numpy(values[window[0] :][: window[1]])):
        array.validate(full=True)
        assert array.type == expected.type
        assert repr(array.to_pylist()) == repr(expected.to_pylist())
        back = as_numpy(array)
        assert back.dtype == expected.to_numpy(zero_copy_only=False).dtype
        assert repr(back.tolist()) == repr(expected.to_numpy(zero_copy_only=False).tolist())


@pytest.mark.parametrize("kind", ["integers", "flags", "objects"])
def test_what_is_null_in_arrow_is_what_to_numpy_makes_of_it(kind: str) -> None:
    is_null = np.arange(40) % 7 == 0
    expected = pa.array(COLUMNS[kind], mask=is_null)
    array = from_numpy(COLUMNS[kind], is_null)
    assert array.equals(expected)
    assert array.null_count == expected.null_count
    assert repr(as_numpy(array[3:])) == repr(expected[3:].to_numpy(zero_copy_only=False))
    assert from_numpy(COLUMNS["flags"], np.zeros(40, np.bool_)).null_count == 0


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float32])
def test_columns_may_be_empty(dtype: Any) -> None:
    array = from_numpy(np.empty(0, dtype))
    assert array.equals(pa.array(np.empty(0, dtype)))
    assert as_numpy(array).dtype == as_numpy(pa.array([], array.type)).dtype == dtype
    assert not len(as_numpy(array[3:]))


def test_only_columns_are_columns() -> None:
    with pytest.raises(pa.ArrowInvalid, match="1-dimensional"):
        from_numpy(np.zeros((2, 2)))
    with pytest.raises(pa.ArrowNotImplementedError, match="Byte-swapped"):
        from_numpy(np.arange(3).astype(">i8"))
    masked = np.ma.MaskedArray([1, 2], [True, False])  # type: ignore[no-untyped-call]
    assert from_numpy(masked).to_pylist() == [None, 2]
