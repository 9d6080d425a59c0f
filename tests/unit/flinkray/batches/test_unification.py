"""Batches whose column types differ become one table, in types that hold all values, or the error says which column."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import pytest

from flinkray.batches.unification import cast_to_unified, concat_unified
from flinkray.errors import TypeMismatchError
from flinkray.types.type_unification import unify_types

D = decimal.Decimal
UTC, BERLIN = pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")


def together(*columns: Any) -> pa.ChunkedArray:
    return concat_unified([pa.table({"x": column}) for column in columns], "the test").column("x")


@pytest.mark.parametrize(
    ("columns", "arrow_type", "values"),
    [
        ([pa.array(["a"]), pa.array(["b"]).dictionary_encode()], pa.string(), ["a", "b"]),
        ([pa.array(["b"]).dictionary_encode(), pa.array(["a"], pa.large_string())], pa.large_string(), ["b", "a"]),
        ([pa.array([D("1.25")], pa.decimal128(5, 2)).dictionary_encode(), pa.array([7])], None, [D("1.25"), D("7.00")]),
        ([pa.nulls(1), pa.array(["b"]).dictionary_encode()], pa.dictionary(pa.int32(), pa.string()), [None, "b"]),
        ([pa.array([D("1.25")], pa.decimal128(5, 2)), pa.array([7])], pa.decimal128(21, 2), [D("1.25"), D("7.00")]),
        (
            [pa.array([D(1)], pa.decimal128(38, 0)), pa.array([D("1.123")], pa.decimal128(38, 3))],
            pa.decimal128(38, 3),
            [D("1.000"), D("1.123")],
        ),
        (
            [pa.array([D(1)], pa.decimal128(38, 0)), pa.array([D("1e-20")], pa.decimal128(38, 20))],
            pa.decimal128(38, 20),
            [D(1), D("1e-20")],
        ),
        ([pa.array([1]), pa.array([0.5])], pa.float64(), [1.0, 0.5]),
        ([pa.array([b"a"]), pa.array([b"b"], pa.large_binary())], pa.large_binary(), [b"a", b"b"]),
        (
            [pa.array([[1]]), pa.array([None, [D("0.5")]], pa.list_(pa.decimal128(38, 20)))],
            pa.list_(pa.decimal128(38, 20)),
            [[D(1)], None, [D("0.5")]],
        ),
        (
            [pa.array([{"a": 1}, None]), pa.array([{"b": "x"}])],
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
            [{"a": 1, "b": None}, None, {"a": None, "b": "x"}],
        ),
        (
            [pa.array([{}, None], pa.struct([])), pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64()))],
            pa.map_(pa.int64(), pa.int64()),
            [[], None, [(1, 2)]],
        ),
    ],
)
def test_columns_of_several_types_become_one_that_holds_all_values(
    columns: list[Any], arrow_type: pa.DataType | None, values: list[Any]
) -> None:
    merged = together(*columns)
    merged.validate(full=True)
    assert arrow_type in (None, merged.type)
    assert merged.to_pylist() == values


def test_times_of_two_zones_take_the_first_ones_zone() -> None:
    merged = together(pa.array([1], UTC), pa.array([2], BERLIN))
    assert merged.type == UTC
    assert merged.cast(pa.int64()).to_pylist() == [1, 2]


def test_a_column_that_some_tables_lack_is_null_there() -> None:
    tables = [pa.table({"x": [1]}), pa.table({"y": ["a"], "x": [2]})]
    assert concat_unified(tables, "the test").to_pylist() == [{"x": 1, "y": None}, {"x": 2, "y": "a"}]


def test_slices_of_nested_columns_are_cast_without_what_is_around_them() -> None:
    too_large = 2**62
    lists = pa.array([[too_large], [1, 2], None, [too_large]]).slice(1, 2)
    assert cast_to_unified(lists, pa.list_(pa.decimal128(38, 20))).to_pylist() == [[D(1), D(2)], None]
    maps = pa.array([[(1, too_large)], None, [(2, 3)]], pa.map_(pa.int64(), pa.int64())).slice(1)
    assert cast_to_unified(maps, pa.map_(pa.float64(), pa.decimal128(38, 20))).to_pylist() == [None, [(2.0, D(3))]]


def test_types_that_do_not_go_together_are_an_error_that_says_where_and_which_column() -> None:
    with pytest.raises(TypeMismatchError, match="the test: column 'x' is int64 in some batches and string in others"):
        together([1], ["a"])


def test_a_value_that_does_not_fit_the_merged_type_is_an_error_that_names_the_column() -> None:
    with pytest.raises(TypeMismatchError, match=r"the test: column 'x' is int64 .* fits decimal128\(38, 20\)"):
        together([2**62], pa.array([D("1e-20")], pa.decimal128(38, 20)))


def test_no_type_holds_text_and_numbers_whether_they_are_dictionaries_or_not() -> None:
    assert unify_types(pa.dictionary(pa.int32(), pa.string()), pa.int64()) is None


def test_the_columns_of_a_table_are_listed_once_however_many_there_are() -> None:
    class Listed:
        listings = 0

        def __init__(self, table: pa.Table) -> None:
            self._table = table

        @property
        def column_names(self) -> list[str]:
            Listed.listings += 1
            return list(self._table.column_names)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._table, name)

    names = [f"c{number}" for number in range(100)]
    tables: list[Any] = [Listed(pa.table({name: [value] for name in names})) for value in (1, 1.5)]
    assert concat_unified(tables, "the test").num_rows == 2
    assert Listed.listings == 2
