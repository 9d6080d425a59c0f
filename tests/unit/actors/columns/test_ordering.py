"""Integers in order, as numpy would have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actors.columns.ordering import differs_from_previous, distinct, order_below, order_by, partners_of

TYPES = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)
SIZES = (0, 1, 2, 1023, 1024, 5000)


def columns(dtype: Any, size: int) -> list[np.ndarray[Any, Any]]:
    """Of many values and few, low, high and as far apart as the type allows; ascending and not."""
    chance, limits = np.random.default_rng(size), np.iinfo(dtype)
    spans = [(limits.min, limits.max), (limits.min, limits.min + 3), (limits.max - 3, limits.max), (0, 100)]
    made = [chance.integers(*span, size, dtype=dtype, endpoint=True) for span in spans]
    return [*made, np.sort(made[0])]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", TYPES)
def test_integers_of_any_type_and_span_are_ordered_stably(dtype: Any, size: int) -> None:
    for values in columns(dtype, size):
        assert order_by(values).tolist() == np.argsort(values, kind="stable").tolist()


@pytest.mark.parametrize("size", SIZES)
def test_further_columns_decide_where_the_ones_before_are_equal(size: int) -> None:
    chance = np.random.default_rng(size)
    first, second, third = (chance.integers(0, bound, size) for bound in (3, 1 << 40, 5))
    assert order_by(first, second).tolist() == np.lexsort((second, first)).tolist()
    assert order_by(first, third, second).tolist() == np.lexsort((second, third, first)).tolist()


@pytest.mark.parametrize("bound", [1, 2, 1 << 8, (1 << 8) + 1, 1 << 16, (1 << 16) + 1, 1 << 32, (1 << 32) + 1, 1 << 63])
def test_numbers_below_a_bound_are_ordered_whatever_the_bound(bound: int) -> None:
    numbers = np.random.default_rng(bound).integers(0, bound, 3000)
    numbers[[5, 7]] = bound - 1
    assert order_below(numbers, bound).tolist() == np.argsort(numbers, kind="stable").tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", TYPES)
def test_distinct_values_ascend_and_keep_their_type(dtype: Any, size: int) -> None:
    for values in columns(dtype, size):
        found = distinct(values)
        assert found.dtype == values.dtype
        assert found.tolist() == sorted(set(values.tolist()))


def test_the_first_of_several_equal_ones_is_other_than_the_one_before() -> None:
    assert differs_from_previous(np.array([3, 3, 1, 1, 1, 3])).tolist() == [True, False, True, False, False, True]
    assert differs_from_previous(np.empty(0)).tolist() == []


@pytest.mark.parametrize("bound", [1, 20, 100_000])
def test_partners_are_all_that_have_the_same_number_in_their_order(bound: int) -> None:
    chance = np.random.default_rng(bound)
    first, second = chance.integers(0, bound, 50), chance.integers(0, bound, 80)
    second[:10] = first[:10]
    order, begins, counts = partners_of(first, second, bound)
    for number, begin, count in zip(first, begins, counts, strict=True):
        assert order[begin : begin + count].tolist() == np.flatnonzero(second == number).tolist()
