"""Which of equal rows are left, against a list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.tables.ranks.retractions import are_left


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_as_many_of_equal_rows_are_left_as_were_not_taken_back(seed: int, newest: bool) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 4, 40)
    weights = np.where(random.random(40) < 0.5, 1, -1).astype(np.int8)
    counts = dict.fromkeys(range(4), 0)
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        counts[value] = max(0, counts[value] + weight)  # what is not there cannot be taken back
    columns = [pa.array([None if value == 3 else [value] for value in values.tolist()]), pa.array([float("nan")] * 40)]
    rows = pa.RecordBatch.from_arrays(columns, names=["list", "nan"])
    left = are_left(rows, weights, newest=newest)
    expected = []
    for value, count in counts.items():
        added = np.flatnonzero((values == value) & (weights > 0)).tolist()
        expected += added[len(added) - count :] if newest else added[:count]
    assert np.flatnonzero(left).tolist() == sorted(expected)


def test_rows_without_columns_are_all_equal() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    assert are_left(rows, np.array([1, 1, -1], np.int8), newest=False).tolist() == [True, False, False]
