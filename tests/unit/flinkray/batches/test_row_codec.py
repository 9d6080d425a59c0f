"""Rows of Python values to batches: the types that the encoder finds, and what its errors name."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flinkray.batches import row_codec
from flinkray.batches.row_codec import RowEncoder, as_row, decode
from flinkray.errors import TypeMismatchError
from flinkray.functions.type_hints import record_type
from flinkray.types import value_types
from flinkray.types.rows import Row
from flinkray.types.value_types import field_getter


def encoder(declared: Any = None) -> RowEncoder:
    return RowEncoder("op", "1/1", None if declared is None else record_type(declared))


@pytest.mark.parametrize("batches", [[[1, "x"]], [[1], ["x"]]], ids=["in one batch", "in two"])
def test_an_error_names_a_field_called_value(batches: list[list[Any]]) -> None:
    rows = encoder()
    *before, last = [[{"value": value} for value in batch] for batch in batches]
    for batch in before:
        rows.encode(batch, None)
    with pytest.raises(TypeMismatchError, match="field 'value': value 'x'"):
        rows.encode(last, None)


def test_an_error_of_a_bare_value_names_no_field() -> None:
    with pytest.raises(TypeMismatchError, match=r"\(subtask 1/1\): value 'x'"):
        encoder().encode([1, "x"], None)


def test_a_field_widens_to_nanoseconds_when_a_value_needs_them() -> None:
    rows = encoder()
    rows.encode([{"t": pd.Timestamp(0), "d": pd.Timedelta(0)}], None)
    values = {"t": pd.Timestamp(1, unit="ns"), "d": pd.Timedelta(1, unit="ns")}
    (row,) = decode(rows.encode([values], None))
    assert row.as_dict() == values
    assert rows.record_type is not None
    assert rows.record_type.schema.types == [pa.timestamp("ns"), pa.duration("ns")]


def test_a_list_of_the_wrong_length_is_refused_by_operator_and_field() -> None:
    with pytest.raises(TypeMismatchError, match=r"operator 'op' .*field 'e': value \[1.0\]"):
        encoder({"e": pa.list_(pa.float32(), 2)}).encode([{"e": [1.0, 2.0]}, {"e": [1.0]}], None)


def test_the_columns_of_dicts_are_looked_for_once_per_set_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, find = 0, RowEncoder._field_names

    def counted(rows: RowEncoder, value: Any) -> Any:
        nonlocal looks
        looks += 1
        return find(rows, value)

    monkeypatch.setattr(RowEncoder, "_field_names", counted)
    batch = encoder().encode([{"a": number} if number % 2 else {"b": number, "a": 0} for number in range(100)], None)
    assert batch.data.schema.names == ["b", "a"]
    assert looks == 2


def test_a_dict_of_plain_values_is_a_row_without_a_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_codec, "decoded_form", None)
    row = as_row({"a": 1, "b": "x", "c": None, "d": 0.5})
    assert (type(row), row) == (type(Row(a=1, b="x", c=None, d=0.5)), Row(a=1, b="x", c=None, d=0.5))


def test_a_row_says_itself_where_a_column_is(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row(**{f"c{number}": number for number in range(50)})
    monkeypatch.setattr(value_types, "named_fields", None)  # looking for each of many names takes as long as the names
    assert [field_getter(type(row), f"c{number}")(row) for number in range(50)] == list(range(50))
