"""Functions give the types and values that Flink gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from actors.operators.calc.calculation import KERNELS, calculate
from actors.operators.calc.values.evaluation import EvaluationContext
from flinkray.errors import RecordError, SqlError
from flinkray.tables.binding.binder import bind_expression
from flinkray.tables.catalog import Catalog
from flinkray.tables.functions.registry import FUNCTIONS, FunctionCallError
from flinkray.tables.functions.signatures import FunctionKind
from flinkray.tables.plans.expressions import BoundExpression
from flinkray.tables.types.arrow import to_arrow
from flinkray.tables.types.logical import ROW, STRING, RowType
from tests.support.flink_functions import COLUMNS, MORE_COLUMNS, answers
from tests.support.sql_expressions import bind, bound_call, read_type

FILES = ("types", "numbers_and_logic", "texts_and_json", "casts_and_collections", "times")
DIFFERENT = {
    # Flink folds a cast of a cast of a constant as if it were exact; of a column it gives this as well.
    "CAST(CAST(0.1 AS FLOAT) AS DOUBLE)": "0.10000000149011612",
    "CAST(CAST(0.1 AS FLOAT) AS DECIMAL(20,18))": "0.100000001490116120",
    # Flink folds this into 0.0, though the text is no number.
    "TRY_CAST('x' AS DECIMAL(5,1))": None,
    # Flink's parts of times before 1970 are of a day that goes backwards.
    "EXTRACT(HOUR FROM TIMESTAMP '1969-12-31 23:59:59.5')": "23",
    "EXTRACT(SECOND FROM TIMESTAMP '1969-12-31 23:59:59.5')": "59",
}
"""Where Flink is not followed: what is given instead."""


def written(sql: str, row: RowType) -> BoundExpression:
    """The expression as statements have it."""
    return bind_expression(Catalog(), sql, row)


def texts_of(
    sql: str,
    row: RowType,
    columns: list[pa.Array],
    rows: int,
    read: Callable[[str, RowType], BoundExpression] = bind,
) -> list[Any]:
    texts = bound_call("CAST", read(sql, row), target=STRING)
    found: list[Any] = calculate(texts, columns, rows, EvaluationContext()).to_pylist()
    return found


def is_same(ours: str | None, flinks: str | None) -> bool:
    """Doubles may differ in the last digit: Java has functions of its own."""
    if ours == flinks:
        return True
    try:
        return math.isclose(float(str(ours)), float(str(flinks)), rel_tol=1e-15) and "." in str(flinks)
    except ValueError:
        return False


def difference(
    answer: dict[str, Any],
    row: RowType,
    columns: list[pa.Array],
    rows: int,
    read: Callable[[str, RowType], BoundExpression] = bind,
) -> str | None:
    """What is not as Flink has it, in a sentence."""
    sql = answer["sql"]
    try:
        kind = str(read(sql, row).type)
    except (FunctionCallError, SqlError, AssertionError) as error:
        return None if answer.get("invalid") else f"{sql}: {error}"
    if answer.get("invalid"):
        return f"{sql}: is taken, as {kind}"
    try:
        values = texts_of(sql, row, columns, rows, read)
    except RecordError as error:
        return None if answer.get("error") else f"{sql}: {error}"
    if answer.get("error"):
        return f"{sql}: gives {values}"
    wanted = answer["value"] if isinstance(answer["value"], list) else [answer["value"]]
    if kind != answer["type"]:
        return f"{sql}: is of type {kind}, and not {answer['type']}"
    if not all(map(is_same, values, wanted)):
        return f"{sql}: gives {values}, and not {wanted}"
    return None


@pytest.mark.parametrize("name", FILES)
def test_constants_have_the_types_and_values_that_flink_gives(name: str) -> None:
    found = [difference(answer, ROW(), [], 1) for answer in answers(name)]
    assert [sentence for sentence in found if sentence] == []


def test_columns_with_nulls_have_the_types_and_values_that_flink_gives() -> None:
    row = ROW(*((name, read_type(kind)) for name, (kind, _) in COLUMNS.items()))
    columns = [pa.array(values, to_arrow(kind)) for kind, (_, values) in zip(row.types, COLUMNS.values(), strict=True)]
    found = [difference(answer, row, columns, 4) for answer in answers("columns")]
    assert [sentence for sentence in found if sentence] == []


def test_what_is_written_in_a_statement_has_the_types_and_values_that_flink_gives() -> None:
    found = [difference(answer, ROW(), [], 1, written) for answer in answers("written")]
    row = ROW(*((name, read_type(kind)) for name, (kind, _) in MORE_COLUMNS.items()))
    columns = [
        pa.array(values, to_arrow(kind)) for kind, (_, values) in zip(row.types, MORE_COLUMNS.values(), strict=True)
    ]
    found += [difference(answer, row, columns, 6, written) for answer in answers("more_columns")]
    assert [sentence for sentence in found if sentence] == []


@pytest.mark.parametrize("sql", DIFFERENT)
def test_what_is_not_as_flink_has_it_is_as_it_is_said(sql: str) -> None:
    assert texts_of(sql, ROW(), [], 1) == [DIFFERENT[sql]]


def test_each_scalar_function_has_a_kernel_and_each_kernel_a_function() -> None:
    assert {f.name for f in FUNCTIONS.values() if f.kind is FunctionKind.SCALAR} == set(KERNELS)
