"""Rows: access, equality, pickling, and PyFlink's constructors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from flinkray.batches.row_codec import RowEncoder, decode, snapshot
from flinkray.types.rows import Row, RowKind, changelog_text, row_class
from flinkray.types.type_info import Types


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


# -- kinds ---------------------------------------------------------------------------------------------------------


def test_kinds_have_the_names_values_and_short_strings_of_flink() -> None:
    assert [(kind.name, kind.value, str(kind)) for kind in RowKind] == [
        ("INSERT", 0, "+I"),
        ("UPDATE_BEFORE", 1, "-U"),
        ("UPDATE_AFTER", 2, "+U"),
        ("DELETE", 3, "-D"),
    ]


@pytest.mark.parametrize("kind", RowKind)
@pytest.mark.parametrize("row", [Row(a=1, count=2), Row(1, "x"), Row()])
def test_a_row_of_a_kind_has_all_else_of_a_row_and_survives_pickling_and_copying(row: Row, kind: RowKind) -> None:
    change = Row.of_kind(kind, *(() if row._is_named else row), **(row.as_dict() if row._is_named else {}))
    assert change.get_row_kind() is kind
    assert (tuple(change), change.as_dict(), hash(change)) == (tuple(row), row.as_dict(), hash(row))
    for other in (pickle.loads(pickle.dumps(change)), copy.copy(change), copy.deepcopy(change)):
        assert (other, type(other)) == (change, type(change))
    if row._is_named:
        assert (change.a, change["a"], change.count) == (1, 1, 2)
        assert change._replace(a=5) == Row.of_kind(kind, a=5, count=2)


def test_rows_of_different_kinds_are_not_equal() -> None:
    assert Row.of_kind(RowKind.DELETE, a=1) == Row.of_kind(RowKind.DELETE, a=1)
    assert Row.of_kind(RowKind.DELETE, a=1) != Row(a=1)
    assert Row.of_kind(RowKind.INSERT, a=1) == Row(a=1)


def test_the_kind_of_a_row_can_be_set() -> None:
    row = Row(a=1)
    assert row.get_row_kind() is RowKind.INSERT
    row.set_row_kind(RowKind.UPDATE_BEFORE)
    assert row == Row.of_kind(RowKind.UPDATE_BEFORE, a=1)
    row.set_row_kind(RowKind.INSERT)
    assert row == Row(a=1)
    with pytest.raises(TypeError, match="'-D'"):
        row.set_row_kind("-D")  # type: ignore[arg-type]


def test_a_row_that_makes_rows_makes_them_of_its_own_kind() -> None:
    deleted = Row.of_kind(RowKind.DELETE, "name", "age")
    assert deleted("Ann", 30) == Row.of_kind(RowKind.DELETE, name="Ann", age=30)


def test_inserts_are_pickled_as_before_there_were_kinds() -> None:
    assert Row(a=1).__reduce__()[1] == (("a",), (1,))
    assert Row(1).__reduce__()[1] == (None, (1,))


@pytest.mark.parametrize(
    ("value", "text"),
    [(Row(a=1, b="x"), "-U(a=1, b='x')"), (Row(1, "x"), "-U(1, 'x')"), ((1, "x"), "-U(1, 'x')"), ("x", "-U('x')")],
)
def test_values_of_a_changelog_are_shown_with_their_kind(value: object, text: str) -> None:
    assert changelog_text(RowKind.UPDATE_BEFORE, value) == text
    if isinstance(value, Row):
        value.set_row_kind(RowKind.UPDATE_BEFORE)
        assert repr(value) == text
        value.set_row_kind(RowKind.INSERT)  # rows of parameters are shared


# -- rows that are changed


def test_a_row_is_changed_by_name_position_and_slice() -> None:
    row = Row(a=1, b=2, c=3)
    row["a"], row[1], row[-1] = "x", [2], None
    assert (row.a, row["b"], row[2], list(row), tuple(row)) == ("x", [2], None, ["x", [2], None], ("x", [2], None))
    row[0:2] = (5, 6)
    assert row == Row(a=5, b=6, c=None)
    assert Row(a=5, b=6, c=None) == row
    assert hash(row) == hash(Row(a=5, b=6, c=None))
    assert row != Row(a=1, b=2, c=3)
    assert row != (5, 6, None)
    assert row.as_dict() == {**row} == {"a": 5, "b": 6, "c": None}
    assert (row[0:2], row.__add__((7,)), row.count(5), row.index(6)) == ((5, 6), (5, 6, None, 7), 1, 1)
    assert repr(row) == "Row(a=5, b=6, c=None)"
    assert row._replace(a=0) == Row(a=0, b=6, c=None)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda row: pickle.loads(pickle.dumps(row))])
def test_a_copy_of_a_changed_row_is_a_row_of_its_own(copied: Any) -> None:
    row = Row("a", 1)
    row[0] = "b"
    other = copied(row)
    row[0] = "c"
    assert other == Row("b", 1)
    assert type(other) is type(Row("x", 2))


def test_a_row_keeps_its_columns_when_it_is_changed() -> None:
    row = Row(a=1)
    with pytest.raises(KeyError, match="no column 'b'"):
        row["b"] = 1
    with pytest.raises(IndexError):
        row[1] = 1
    with pytest.raises(ValueError, match="1 values cannot become 2"):
        row[:] = (1, 2)
    with pytest.raises(AttributeError, match="columns are set by item"):
        row.a = 2
    assert row == Row(a=1)


def test_a_row_gets_other_names() -> None:
    row = Row("a", 1)
    row.set_field_names(["name", "n"])
    assert row == Row(name="a", n=1)
    row["n"] = 2
    row.set_field_names(["name", "count"])
    assert (row.count, row == Row(name="a", count=2)) == (2, True)
    with pytest.raises(ValueError, match="2 values cannot have 1 names"):
        row.set_field_names(["only"])


def test_a_row_with_names_has_its_columns_and_its_values() -> None:
    row = Row(a=1)
    assert "a" in row
    assert 1 in row
    assert "b" not in row
    assert "f0" not in Row(1)


@pytest.mark.parametrize("declared", [Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]).record_type, None])
def test_a_row_that_is_given_again_and_again_is_as_it_was_each_time(declared: Any) -> None:
    encoder = RowEncoder("op", "1 of 1", declared)
    if declared is None:
        encoder.encode([Row(a=0, b="")], None)  # which tells the columns
    values: list[Any] = []
    append = encoder.appender(values)
    row = Row(a=1, b="x")
    append(row)
    row["a"] = 2
    append(row)
    row["b"] = "y"
    append(row)
    append(Row(b="z", a=3))
    assert decode(encoder.encode(values, None)) == [Row(a=1, b="x"), Row(a=2, b="x"), Row(a=2, b="y"), Row(a=3, b="z")]


def test_rows_that_were_changed_are_encoded_as_they_are() -> None:
    row = Row(a=1, b="x")
    row["a"] = 2
    assert decode(RowEncoder("op", "1 of 1", None).encode([row, Row(a=3, b="y")], None)) == [row, Row(a=3, b="y")]
    nested = [(row, [row])]
    assert decode(RowEncoder("op", "1 of 1", None).encode(nested, None)) == [({"a": 2, "b": "x"}, [{"a": 2, "b": "x"}])]
    assert snapshot([row])[0] == row
    assert snapshot([row])[0] is not row


def test_a_changed_row_has_a_kind_and_keeps_it() -> None:
    row = Row.of_kind(RowKind.DELETE, a=1)
    row["a"] = 2
    assert row == Row.of_kind(RowKind.DELETE, a=2)
    assert row != Row(a=2)
    row.set_row_kind(RowKind.UPDATE_AFTER)
    row["a"] = 3
    row.set_field_names(["b"])
    assert (row, repr(row), row.get_row_kind()) == (
        Row.of_kind(RowKind.UPDATE_AFTER, b=3),
        "+U(b=3)",
        RowKind.UPDATE_AFTER,
    )
    assert pickle.loads(pickle.dumps(row)) == row
