"""The name that a type is printed with is one by which it is found again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flinkray.errors import InvalidProgramError
from flinkray.types.type_names import type_of_name

PRINTED = [
    pa.null(),
    pa.bool_(),
    pa.uint64(),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(7),
    pa.date32(),
    pa.date64(),
    pa.time32("ms"),
    pa.time64("ns"),
    pa.timestamp("s"),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.timestamp("us", "+01:00"),
    pa.duration("ms"),
    pa.decimal32(5, 1),
    pa.decimal128(38, -2),
    pa.decimal256(70, 2),
    pa.month_day_nano_interval(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int8(), pa.decimal128(3, 1), ordered=True),
    pa.large_list(pa.list_(pa.int8())),
    pa.list_(pa.int32(), 3),
    pa.list_(pa.field("x", pa.int8(), nullable=False)),
    pa.struct([]),
    pa.struct([pa.field("a b", pa.int8(), nullable=False), ("c.d", pa.list_(pa.string()))]),
    pa.map_(pa.string(), pa.struct([("a", pa.int8())])),
    pa.uuid(),
]


@pytest.mark.parametrize("arrow_type", PRINTED, ids=str)
def test_a_type_is_found_by_what_is_printed_for_it(arrow_type: pa.DataType) -> None:
    assert type_of_name(str(arrow_type)).equals(arrow_type)


@pytest.mark.parametrize(
    ("name", "arrow_type"),
    [("double", pa.float64()), ("date32", pa.date32()), ("decimal(9,2)", pa.decimal128(9, 2)), ("i1", pa.int8())],
)
def test_short_names_do_as_well(name: str, arrow_type: pa.DataType) -> None:
    assert type_of_name(name).equals(arrow_type)


@pytest.mark.parametrize(
    "name", ["", "in64", "list<item: int64", "list<>", "struct<a int64>", "timestamp[us, tz=UTC]x", "foo<a: int64>"]
)
def test_what_is_no_type_is_an_error_that_repeats_it(name: str) -> None:
    with pytest.raises(InvalidProgramError, match="no type"):
        type_of_name(name)


def test_the_error_offers_a_type_of_a_similar_name() -> None:
    with pytest.raises(InvalidProgramError, match="no type 'in64'; did you mean 'int64'"):
        type_of_name("in64")


def test_digits_that_no_decimal_has_are_an_error_that_says_how_many_it_has() -> None:
    with pytest.raises(InvalidProgramError, match=r"no type 'decimal128\(40, 2\)': .*38"):
        type_of_name("decimal128(40, 2)")
