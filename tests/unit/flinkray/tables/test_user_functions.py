"""What functions of the user's give, as columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray.errors import InvalidProgramError, TypeMismatchError
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.tables.api.data_types import DataTypes
from flinkray.tables.api.user_functions import udtf
from flinkray.tables.user_functions import column_of

ROW = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1.0, None], pa.int32(), [1, None]),
        ([Decimal("1.005"), 2**40], pa.decimal128(20, 2), [Decimal("1.00"), Decimal(2**40)]),
        ([(1.0, "x"), {"b": "y", "a": 2}], ROW, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
        ([[1.0]], pa.list_(pa.int8()), [[1]]),
    ],
)
def test_values_become_those_of_the_result_type(values: list[Any], kind: pa.DataType, expected: list[Any]) -> None:
    assert column_of(values, kind).to_pylist() == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (10**30, pa.int64()),
        (300, pa.int8()),
        ("x", pa.int32()),
        (3, pa.string()),
        ("a\ud800", pa.string()),
        ((1, "x", 3), ROW),
        (5, ROW),
        (5, pa.list_(pa.int32())),
        ([1, "x"], pa.list_(pa.int32())),
        ({"a": "b"}, pa.map_(pa.string(), pa.int32())),
        (Decimal("1E+30"), pa.decimal128(10, 2)),
    ],
)
def test_a_value_that_its_type_does_not_hold_is_named(value: Any, kind: pa.DataType) -> None:
    with pytest.raises(TypeMismatchError) as raised:
        column_of([None, value], kind)
    assert f"a function gave {value!r} ({type(value).__name__}), which its result type {kind} does" in str(raised.value)


@pytest.mark.parametrize("value", [10**30, object(), Decimal("NaN")])
@pytest.mark.parametrize("schema", [None, ["a", "b"]])
def test_elements_that_no_type_of_sql_holds_are_refused(value: Any, schema: Any) -> None:
    tables = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    with pytest.raises(InvalidProgramError, match="no type of SQL holds all values"):
        tables.from_elements([(1, value)], schema)


@pytest.mark.parametrize(
    ("result_types", "expected"),
    [
        (DataTypes.ROW([DataTypes.FIELD("a", "INT"), DataTypes.FIELD("b", "STRING")]), ["f0 INT", "f1 STRING"]),
        ("ROW<a INT, b STRING>", ["a INT", "b STRING"]),
        (pa.struct([("a", pa.int32())]), ["a INT"]),
        (["INT", DataTypes.STRING()], ["f0 INT", "f1 STRING"]),
        ([DataTypes.ROW([DataTypes.FIELD("a", "INT")])], ["f0 ROW<`a` INT>"]),
        ("INT", ["f0 INT"]),
    ],
)
def test_columns_of_a_table_function_have_the_names_that_flink_gives_them(result_types: Any, expected: Any) -> None:
    rows = udtf(lambda n: [n], result_types=result_types).described("f").result
    assert [f"{field.name} {field.type}" for field in rows.fields] == expected
