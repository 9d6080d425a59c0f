"""Arithmetic and comparisons of numbers that no type of Arrow holds both of; literals that Arrow would cut."""

from __future__ import annotations

import math
import operator
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.operators.expressions.column_operators import evaluate
from flinkray.errors import RecordError
from flinkray.expressions.tree import Expression, col, lit

a, b = col("a"), col("b")
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
BEYOND = 2**53 + 1
"""The first integer that no double holds."""


def values(expression: Expression, **columns: Any) -> list[Any]:
    array = evaluate(expression, pa.RecordBatch.from_pydict(columns), "operator 'x'")
    array.validate(full=True)
    found: list[Any] = array.to_pylist()
    return found


def decimals(*texts: str | None, scale: int = 2, precision: int = 38) -> pa.Array:
    """As they come of Python: of 38 digits."""
    return pa.array([None if text is None else Decimal(text) for text in texts], pa.decimal128(precision, scale))


# -- arithmetic of decimals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected", "scale"),
    [
        (a + 1, "2.50", 2),
        (1 - a, "-0.50", 2),
        (a * 2, "3.00", 2),
        (a + b, "3.75", 2),
        (a - b, "-0.75", 2),
        (a * b, "3.3750", 4),
        (a * b * a, "5.062500", 6),
        (a + Decimal("0.001"), "1.501", 3),
        (lit(Decimal("1.5")) * a, "2.250", 3),
        (a + col("i"), "8.50", 2),
        (-a, "-1.50", 2),
        (a // 1, "1", 0),
        (-a // 1, "-1", 0),
        (a % 1, "0.50", 2),
        (-a % 1, "-0.50", 2),
        (b % -a, "0.75", 2),
        (7 // a, "4", 0),
        (Decimal("7.001") % a, "1.001", 3),
        (a // col("i"), "0", 0),
    ],
    ids=repr,
)
def test_arithmetic_of_decimals_of_38_digits_is_exact(expression: Expression, expected: str, scale: int) -> None:
    data = pa.RecordBatch.from_pydict({"a": decimals("1.50", None), "b": decimals("2.25", "1"), "i": [7, 8]})
    result = evaluate(expression, data, "operator 'x'")
    assert result.type == pa.decimal128(38, scale)
    assert result.to_pylist() == [Decimal(expected), None]


def test_decimals_beside_floats_are_doubles() -> None:
    assert values(a * 0.5, a=decimals("1.50")) == values(a / 2, a=decimals("1.50")) == [0.75]
    assert values(a // 0.7, a=decimals("1.50")) == [2.0]
    assert values(-a % 1.0, a=decimals("1.75")) == [0.25]


@st.composite
def divisions(draw: st.DrawFn) -> tuple[int, int, list[tuple[Decimal | None, Decimal | None]]]:
    """Scales of both sides, and rows whose digits fit into 38 of the finer scale."""
    first, second = draw(st.integers(0, 38)), draw(st.integers(0, 38))
    finest = max(first, second)

    def numbers(scale: int) -> st.SearchStrategy[Decimal | None]:
        largest = 10 ** (38 - finest + scale) - 1
        digits = st.integers(-largest, largest) | st.integers(-min(largest, 99), min(largest, 99))
        return digits.map(lambda number: EXACT.scaleb(Decimal(number), -scale)) | st.none()

    rows = st.lists(st.tuples(numbers(first), numbers(second).filter(lambda number: number != 0)), min_size=1)
    return first, second, draw(rows)


EXACT = Context(prec=100)


@settings(max_examples=100, deadline=None)
@given(divisions())
def test_quotients_and_remainders_of_decimals_are_pythons(
    division: tuple[int, int, list[tuple[Decimal | None, Decimal | None]]],
) -> None:
    first, second, rows = division
    lefts, rights = zip(*rows, strict=True)
    columns = {"a": pa.array(lefts, pa.decimal128(38, first)), "b": pa.array(rights, pa.decimal128(38, second))}
    pairs = [None if left is None or right is None else (left, right) for left, right in rows]
    with localcontext(EXACT):
        assert values(a // b, **columns) == [pair and pair[0] // pair[1] for pair in pairs]
        assert values(a % b, **columns) == [pair and pair[0] % pair[1] for pair in pairs]


def test_quotients_of_decimals_fail_by_zero_and_beyond_38_digits() -> None:
    for expression in (a // b, a % b, a // 0):
        with pytest.raises(RecordError, match="by zero"):
            values(expression, a=decimals("1.50"), b=decimals("0"))
    assert values(a // b, a=decimals(None), b=decimals("0")) == [None]
    for expression in (a // Decimal("0.001"), a % Decimal("0.001")):
        with pytest.raises(RecordError, match=r"more than 38 digits, .* cast to fewer decimal places"):
            values(expression, a=decimals("9" * 36))


def test_decimals_beside_untyped_nulls_give_untyped_nulls() -> None:
    for expression in (a + None, None * a, a - b, a // b, b % a):
        data = pa.RecordBatch.from_pydict({"a": decimals("1.50"), "b": pa.nulls(1)})
        assert pa.types.is_null(evaluate(expression, data, "x").type)


def test_fewer_digits_keep_the_type_that_arrow_gives() -> None:
    data = pa.RecordBatch.from_pydict({"a": decimals("1.50", precision=10), "b": decimals("2.25", precision=10)})
    assert evaluate(a + b, data, "x").type == pa.decimal128(11, 2)
    assert evaluate(a * b, data, "x").type == pa.decimal128(21, 4)


def test_results_of_38_digits_fit_and_longer_ones_are_an_error_with_a_way_out() -> None:
    longest = decimals("9" * 38, scale=0)
    assert values(a * b, a=longest, b=decimals("-1", scale=0)) == [Decimal("-" + "9" * 38)]
    assert values(a - b, a=longest, b=longest) == [0]
    for expression in (a + 1, a * b, a - Decimal("0.5")):
        with pytest.raises(RecordError, match=r"operator 'x': col\('a'\) . .*more than 38 digits.*cast to fewer"):
            values(expression, a=longest, b=longest)


def test_products_of_many_decimal_places_keep_as_many_as_the_longer_one_has() -> None:
    assert values(a * b, a=decimals("1.5", scale=20), b=decimals("1.5", scale=25)) == [Decimal("2.25")]
    with pytest.raises(RecordError, match="more than 38 digits"):
        values(a * a, a=decimals("1." + "0" * 19 + "1", scale=20))


_PLACES = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-1000, 1000)


@settings(max_examples=200, deadline=None)
@given(_PLACES, st.integers(0, 38), _PLACES, st.integers(0, 38))
def test_decimals_are_computed_and_compared_exactly(left: int, left_scale: int, right: int, right_scale: int) -> None:
    with localcontext(prec=200):
        x, y = Decimal(left).scaleb(-left_scale), Decimal(right).scaleb(-right_scale)
        columns = {
            "a": pa.array([x], pa.decimal128(38, left_scale)),
            "b": pa.array([y], pa.decimal128(38, right_scale)),
        }
        for function in (operator.add, operator.sub, operator.mul):
            try:
                computed = values(function(a, b), **columns)
            except RecordError:
                continue
            assert computed == [function(x, y)]
        for function in COMPARISONS:
            assert values(function(a, b), **columns) == values(function(a, y), **columns) == [function(x, y)]
        assert values(a.is_in([y, None]), **columns) == [x == y]


# -- comparisons -------------------------------------------------------------------------------------------------

_WHOLE = st.sampled_from([0, -1, 2**53, BEYOND, -BEYOND, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
_FLOATS = st.sampled_from([0.5, 2.0**53, 2.0**63, -(2.0**63), math.inf, -math.inf, math.nan, -0.0]) | st.floats()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | _WHOLE, min_size=1, max_size=5), _FLOATS)
def test_integers_are_compared_with_a_float_as_python_does(wholes: list[int | None], number: float) -> None:
    column = pa.array(wholes, pa.int64())
    for function in COMPARISONS:
        expected = [None if whole is None else function(whole, number) for whole in wholes]
        assert values(function(a, number), a=column) == expected
        swapped = [None if whole is None else function(number, whole) for whole in wholes]
        assert values(function(lit(number), a), a=column) == swapped
    assert values(a.is_in([number]), a=column) == [whole == number for whole in wholes]


@pytest.mark.parametrize("function", COMPARISONS)
def test_unsigned_integers_are_compared_with_signed_ones_exactly(function: Any) -> None:
    column, others = pa.array([0, 2**64 - 1], pa.uint64()), pa.array([-1, 2**63 - 1], pa.int64())
    for number in (-1, 0, 2**63, 2**64 - 1):
        assert values(function(a, number), a=column) == [function(0, number), function(2**64 - 1, number)]
    assert values(function(a, b), a=column, b=others) == [function(0, -1), function(2**64 - 1, 2**63 - 1)]
    assert values(function(b, 2**63), b=others) == [function(-1, 2**63), function(2**63 - 1, 2**63)]
    assert values(a.is_in([-1, 2**64 - 1]), a=column) == [False, True]


def test_a_column_of_integers_beside_floats_is_compared_as_doubles() -> None:
    columns = {"a": [BEYOND, None, 1], "b": [0.5, 0.5, 2.5]}
    assert values(a > b, **columns) == [True, None, False]
    assert values(b == BEYOND, **columns) == [False, False, False]
    assert values(lit(BEYOND) == 0.5, **columns) == [False] * 3
    assert values(a < lit(None).cast("float64"), **columns) == [None] * 3


def test_is_in_finds_numbers_by_their_value() -> None:
    assert values(a.is_in([0.5, float(2**53), None]), a=[BEYOND, 2**53, None]) == [False, True, True]
    assert values(a.is_in([BEYOND, 1]), a=[float(2**53), 1.0, math.nan]) == [False, True, False]
    assert values(a.is_in([300, np.int64(7), 1e400]), a=pa.array([7, 44], pa.int8())) == [True, False]


# -- literals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_literals_keep_nanoseconds(zone: str | None) -> None:
    early = pd.Timestamp("2020-01-01 00:00:00.000000001", tz=zone)
    late = early + pd.Timedelta(1, "ns")
    times = pa.array([early, late], pa.timestamp("ns", zone))
    assert values(a == early, a=times) == values(a.is_in([early, None]), a=times) == [True, False]
    assert values(a > early, a=times) == values(a == late, a=times) == [False, True]
    gaps = pa.array([1, 1001], pa.duration("ns"))
    assert values(a == pd.Timedelta(1, "ns"), a=gaps) == values(a.is_in([pd.Timedelta(1, "ns")]), a=gaps)
    assert values(a == pd.Timedelta(1001, "ns"), a=gaps) == values(a == np.timedelta64(1001, "ns"), a=gaps)
    assert values(a == np.timedelta64(1001, "ns"), a=gaps) == [False, True]


def test_numpy_times_of_nanoseconds_are_literals() -> None:
    value = np.datetime64("2020-01-01T00:00:00.000000001")
    assert values(a == value, a=pa.array([value])) == [True]


def test_whole_pandas_times_are_compared_with_years_that_nanoseconds_do_not_reach() -> None:
    distant = pa.array([pd.Timestamp("2020-01-01").to_pydatetime().replace(year=9999)], pa.timestamp("us"))
    assert values(a > pd.Timestamp("2020-01-01"), a=distant) == [True]


def test_integers_of_64_bits_without_sign_are_literals() -> None:
    assert values(lit(2**64 - 1), a=[1]) == [2**64 - 1]
    assert values(a < 2**63, a=[2**63 - 1]) == [True]


# -- text --------------------------------------------------------------------------------------------------------

_TEXTS = ["", " ", " a  b ", "a", "\t\na\u2003b\x1cc ", "  x"]


def test_a_split_without_separator_is_pythons() -> None:
    assert values(a.str.split(), a=[*_TEXTS, None]) == [*map(str.split, _TEXTS), None]
    assert values(a.str.split(), a=pa.array(_TEXTS, pa.large_string())) == [*map(str.split, _TEXTS)]
    assert values(lit("").str.split(), a=[1]) == [[]]
    assert values(lit(" a b").str.split(), a=[1]) == [["a", "b"]]
