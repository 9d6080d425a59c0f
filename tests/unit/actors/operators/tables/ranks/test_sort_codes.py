"""Columns of every type as integers, against Python's order."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.columns.ordering import order_by
from actors.operators.tables.ranks.sort_codes import is_less, sort_codes, starts_of_ties
from flinkray.tables.plans.expressions import SortKey

DAY = datetime.datetime(2024, 2, 29)
ASCENDING = [
    pa.array([-(2**63), -1, 0, 2**63 - 1]),
    pa.array([-128, 127], pa.int8()),
    pa.array([float("-inf"), -1.5, -0.0, 1e-300, float("inf"), float("nan")]),
    pa.array([-1.5, 2.0], pa.float32()),
    pa.array([False, True]),
    pa.array(["", "B", "a", "ä", "日"]),
    pa.array([b"", b"\x00", b"\xff"]),
    # Whether a text is a word of eight bytes or a longer one, whether it is negative as a number, and from a slice.
    pa.array(["aaaaaaaa", "aaaaaaab", "b"], pa.large_string()),
    pa.array(["aaaaaaaa", "aaaaaaaab", "b", "bbbbbbbbb"]),
    pa.array([b"\x7f\xff", b"\x80", b"\xff\x01"], pa.large_binary()),
    pa.array(["too long to be a word", "a", "b", "b\x01"]).slice(1),
    pa.array([Decimal("-10.00"), Decimal("9.99"), Decimal("12345678901234567890.00")], pa.decimal128(38, 2)),
    pa.array([datetime.date(1969, 1, 1), datetime.date(2024, 2, 29)]),
    pa.array([datetime.time(1), datetime.time(2)], pa.time32("ms")),
    pa.array([datetime.time(1), datetime.time(2)], pa.time64("ns")),
    pa.array([DAY, DAY + datetime.timedelta(milliseconds=1)], pa.timestamp("ms")),
    pa.array([DAY, DAY + datetime.timedelta(microseconds=1)], pa.timestamp("us", "UTC")),
    pa.array([-1, 1], pa.duration("ms")),
    pa.array(["a", None, "b"]).slice(2),
    pa.array([[], [None], [None, 3], [1], [1, None], [1, 2], [2]], pa.list_(pa.int32())),
    pa.array([[{"a": None}], [{"a": 1}], [{"a": 1}, None], [{"a": 2}]], pa.list_(pa.struct([("a", pa.int8())]))),
    pa.array(
        [{"a": None, "b": ["z"]}, {"a": 1, "b": None}, {"a": 1, "b": []}, {"a": 1, "b": ["x"]}, {"a": 2, "b": []}]
    ),
]


@pytest.mark.parametrize("column", ASCENDING, ids=lambda column: str(column.type))
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_codes_ascend_as_values_do_and_nulls_are_at_either_end(
    column: pa.Array, descending: bool, nulls_first: bool
) -> None:
    shuffled = np.random.default_rng(5).permutation(2 * len(column) + 2)
    values = pa.concat_arrays([column, column, pa.nulls(2, column.type)]).take(pa.array(shuffled))
    order = order_by(*sort_codes([values], [SortKey(0, descending, nulls_first)]))
    ordered = column[::-1] if descending else column
    twice = ordered.take(pa.array(np.repeat(np.arange(len(column)), 2)))
    nulls = pa.nulls(2, column.type)
    expected = pa.concat_arrays([nulls, twice] if nulls_first else [twice, nulls])
    assert str(values.take(pa.array(order)).to_pylist()).replace("-0.0", "0.0") == str(expected.to_pylist()).replace(
        "-0.0", "0.0"
    )


def test_zeros_are_equal_and_so_is_what_is_not_a_number() -> None:
    (codes,) = sort_codes([pa.array([0.0, -0.0, float("nan"), -float("nan")])], [SortKey(0)])
    assert len(set(codes.tolist())) == 2


def test_rows_are_compared_by_the_first_code_in_which_they_differ() -> None:
    rows: list[tuple[Any, Any]] = [(1, "a"), (1, None), (None, "b"), (1, "a"), (2, "a")]
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    codes = sort_codes(columns, [SortKey(0), SortKey(1, descending=True, nulls_first=False)])
    order = order_by(*codes)
    assert [rows[each] for each in order] == [(None, "b"), (1, "a"), (1, "a"), (1, None), (2, "a")]
    assert starts_of_ties(codes, order).tolist() == [True, True, False, True, True]
    assert is_less(codes, order[:-1], order[1:]).tolist() == [True, False, True, True]
    assert starts_of_ties([], np.arange(3)).tolist() == [True, False, False]
