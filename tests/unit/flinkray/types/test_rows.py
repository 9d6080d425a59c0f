"""Rows: access, equality, pickling, and PyFlink's constructors."""

from __future__ import annotations

import copy
import pickle

import pytest

from flinkray.types.rows import Row, row_class


def test_a_value_is_read_by_attribute_name_and_position() -> None:
    row = Row(name="Ann", count=3)
    assert (row.name, row["name"], row[0], row.count, row[-1], row[0:1]) == ("Ann", "Ann", "Ann", 3, 3, ("Ann",))
    assert row._fields == ("name", "count")
    assert list(row) == ["Ann", 3]


def test_a_column_whose_name_is_no_identifier_is_read_by_item() -> None:
    row = row_class(("a b", "class", "as_dict"))(1, 2, 3)
    assert (row["a b"], row["class"], row["as_dict"]) == (1, 2, 3)
    assert row.as_dict() == {"a b": 1, "class": 2, "as_dict": 3}


def test_rows_are_equal_exactly_when_names_and_values_are() -> None:
    assert Row(a=1, b=2) == row_class(("a", "b"))(1, 2)
    assert hash(Row(a=1)) == hash(Row(a=1))
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(a=2)
    assert Row(1) != Row(f0=1)
    assert Row(1, 2) != (1, 2)
    assert not Row(1, 2) == (1, 2)  # noqa: SIM201


def test_the_same_names_give_the_same_class() -> None:
    assert row_class(("a", "b")) is row_class(("a", "b"))
    assert row_class(("a", "b")) is not row_class(("b", "a"))


@pytest.mark.parametrize("row", [Row(a=1, b=[2]), Row(1, "x"), Row(), Row(**{"not an identifier": 1})])
def test_a_row_survives_pickling_and_copying(row: Row) -> None:
    for other in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert other == row
        assert type(other) is type(row)


def test_a_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert person("Ann", 30) == Row(name="Ann", age=30)
    with pytest.raises(TypeError, match="column names"):
        Row(1, 2)("Ann", 30)


def test_a_row_takes_values_or_names_but_not_both() -> None:
    with pytest.raises(ValueError, match="not both"):
        Row(1, b=2)


def test_a_row_class_wants_exactly_its_columns() -> None:
    point = row_class(("x", "y"))
    assert point(1, y=2) == point(1, 2)
    for values, columns in (((1,), {}), ((1, 2, 3), {}), ((1,), {"z": 2})):
        with pytest.raises(TypeError, match="x, y"):
            point(*values, **columns)


def test_rows_are_made_from_columns() -> None:
    rows = list(row_class(("x", "y"))._from_columns([[1, 2], ["a", "b"]]))
    assert rows == [Row(x=1, y="a"), Row(x=2, y="b")]


def test_a_missing_column_names_the_nearest() -> None:
    row = Row(price=1)
    with pytest.raises(AttributeError, match="did you mean 'price'"):
        row.prize  # noqa: B018
    with pytest.raises(KeyError, match="did you mean 'price'"):
        row["prize"]
    with pytest.raises(ValueError, match="did you mean 'price'"):
        row._replace(prize=2)


def test_replace_changes_a_copy() -> None:
    row = Row(a=1, b=2)
    assert row._replace(b=3) == Row(a=1, b=3)
    assert row == Row(a=1, b=2)


def test_as_dict_goes_down_when_asked() -> None:
    row = Row(a=Row(b=1), c=[Row(d=2)])
    assert row.as_dict()["a"] == Row(b=1)
    assert row.as_dict(recursive=True) == {"a": {"b": 1}, "c": [{"d": 2}]}


def test_a_row_is_made_a_dict_as_a_mapping_is() -> None:
    row = Row(name="Ann", age=30)
    assert {**row, "age": 31} == {"name": "Ann", "age": 31}
    assert dict(row) == {"name": "Ann", "age": 30}
    assert row_class(("keys", "count"))(1, 2).keys == 1, "a column comes first"


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two columns named 'a'"):
        row_class(("a", "b", "a"))
