"""Ranges of columns, against loops."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.operators.tables.over.reductions import reduced

NAN = float("nan")
COLUMNS = {
    "whole": pa.array([3, None, -(2**62), 2**62, 1, None, None, 5] * 3),
    "doubles": pa.array([1e16, None, 1.0, NAN, float("inf"), None, None, 0.5] * 3),
    "decimals": pa.array([Decimal("1.50"), None, Decimal(f"-{10**30}.25"), Decimal(0)] * 6, pa.decimal128(38, 2)),
    "texts": pa.array(["b", None, "a", "c", None, None, "ab", ""] * 3),
}
HOW = {"sum": sum, "min": min, "max": max, "first": lambda values: values[0], "last": lambda values: values[-1]}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", COLUMNS)
def test_each_range_comes_to_what_its_values_do(how: str, name: str) -> None:
    if (how, name) == ("sum", "texts"):
        return
    column = COLUMNS[name]
    random = np.random.default_rng(7)
    begin = random.integers(0, len(column) + 1, 60)
    end = np.minimum(len(column), begin + random.integers(0, 6, 60))
    values, expected = column.to_pylist(), []
    with localcontext() as context:
        context.prec = 60
        for first, last in zip(begin.tolist(), end.tolist(), strict=True):
            own: list[Any] = [each for each in values[first:last] if each is not None]
            if how in ("min", "max"):  # NaN is larger than all other numbers
                own.sort(key=lambda each: (each != each, 0 if each != each else each))
                expected.append(own[0 if how == "min" else -1] if own else None)
            else:
                expected.append(HOW[how](own) if own else None)
    assert str(reduced(how, column, begin, end).to_pylist()) == str(expected)


def test_sums_of_decimals_with_too_many_digits_are_null() -> None:
    most, least = Decimal("9" * 38), Decimal("-" + "9" * 38)
    column = pa.array([most, Decimal(1), least, Decimal(-1), most], pa.decimal128(38, 0))
    begin, end = np.array([0, 0, 2, 2, 0]), np.array([1, 2, 3, 4, 3])
    assert reduced("sum", column, begin, end).to_pylist() == [most, None, least, None, Decimal(1)]
