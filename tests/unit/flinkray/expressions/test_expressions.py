"""Expressions as trees: what they read, how they print, and what they refuse before they meet rows."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from flinkray.errors import InvalidProgramError
from flinkray.expressions.combinations import coalesce, if_else, when
from flinkray.expressions.tree import Expression, Literal, col, lit

price, name, at = col("price"), col("name"), col("at")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (price * 0.9 + 1, "(col('price') * 0.9) + 1"),
        (1 - price, "1 - col('price')"),
        (-price // 2 % 3, "((-col('price')) // 2) % 3"),
        ((price > 1) & ~(name == "x"), "(col('price') > 1) & (~(col('name') == 'x'))"),
        (name.str.lower().str.slice(0, 2), "col('name').str.lower().str.slice(0, 2)"),
        (at.dt.floor("15 min"), "col('at').dt.floor(900000)"),
        (when(price > 1).then("a").otherwise(None), "if_else(col('price') > 1, 'a', None)"),
        (coalesce(price, 0).alias("p"), "coalesce(col('price'), 0).alias('p')"),
        (price.cast("int32"), "col('price').cast(int32)"),
        (lit(np.int64(5)), "lit(5)"),
    ],
)
def test_an_expression_prints_as_it_was_written_and_survives_pickling(expression: Expression, text: str) -> None:
    assert repr(expression) == text
    copy = pickle.loads(pickle.dumps(expression))
    assert copy.is_same(expression)
    assert hash(copy) == hash(expression)


def test_an_expression_knows_the_columns_it_reads_and_the_name_it_makes() -> None:
    expression = if_else(price > col("limit"), price, name.str.length())
    assert expression.columns() == {"price", "limit", "name"}
    assert expression.output_name is None
    assert price.output_name == "price"
    assert (price + 1).alias("more").output_name == "more"


@pytest.mark.parametrize("use", [lambda e: bool(e), lambda e: e and True, lambda e: 1 < e < 2, lambda e: e in [name]])
def test_an_expression_has_no_truth_value(use: object) -> None:
    with pytest.raises(InvalidProgramError, match=r"use & \| ~"):
        use(price > 1)  # type: ignore[operator]


def test_what_is_no_expression_is_refused_at_once() -> None:
    with pytest.raises(InvalidProgramError, match="lit cannot take"):
        price + object()
    with pytest.raises(InvalidProgramError, match="collection of values"):
        name.is_in("abc")
    with pytest.raises(InvalidProgramError, match="no type 'int46'; did you mean 'int64'"):
        price.cast("int46")
    with pytest.raises(InvalidProgramError, match="name of a column"):
        col("")
    with pytest.raises(InvalidProgramError, match="condition"):
        when(True)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="positive duration"):
        at.dt.floor(0)
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(price)
    assert price.cast(pa.int8()).columns() == {"price"}


def test_a_literal_that_no_column_can_hold_is_refused_when_it_is_written() -> None:
    for integer in (2**64, -(2**63) - 1):
        with pytest.raises(InvalidProgramError, match="integers of 64 bits"):
            lit(integer)
    with pytest.raises(InvalidProgramError, match="which no column of decimals can hold"):
        lit(Decimal("NaN"))
    with pytest.raises(InvalidProgramError, match="half of a surrogate pair"):
        lit("a\ud800")
    with pytest.raises(InvalidProgramError, match=r"lit cannot take (np|numpy)\.timedelta64"):
        at + np.timedelta64(1, "M")


def test_a_literal_of_numpy_keeps_its_nanoseconds() -> None:
    value = np.datetime64("2020-01-01T00:00:00.000000001")
    expression = pickle.loads(pickle.dumps(lit(value)))
    assert isinstance(expression, Literal)
    assert expression.value.equals(pa.scalar(value))
