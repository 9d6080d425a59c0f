"""The row codec: what goes in comes out, or an error names it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import pickle
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray.batches.batch import concat
from flinkray.batches.row_codec import RowEncoder, as_row, decode
from flinkray.errors import TypeMismatchError
from flinkray.types.records import Kind, RecordType
from flinkray.types.rows import Row, row_class

UTC = dt.UTC


def encoder(declared: RecordType | None = None) -> RowEncoder:
    return RowEncoder("fares", "1 of 2", declared)


def round_trip(values: list[Any]) -> list[Any]:
    return decode(encoder().encode(values, None))


def declared(kind: Kind, **columns: pa.DataType) -> RecordType:
    return RecordType(kind, pa.schema(list(columns.items())))


@dataclasses.dataclass
class Fare:
    zone: str
    price: float


class Point(NamedTuple):
    x: int
    y: int


leaves: list[st.SearchStrategy[Any]] = [
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.booleans(),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-1000, max_value=1000),
    st.datetimes(),
    st.dates(),
    st.times(),
    st.timedeltas(dt.timedelta(days=-9999), dt.timedelta(days=9999)),
]


def nested(element: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Any]]:
    return [
        st.lists(element, max_size=3),
        st.tuples(element, st.integers(0, 9)),
        st.fixed_dictionaries({"a": element, "b": st.text(max_size=2)}),
        st.dictionaries(st.integers(0, 5), element, max_size=3),
    ]


def plain(value: Any) -> Any:
    return value.as_dict() if isinstance(value, Row) else value


kinds = st.sampled_from(leaves).flatmap(lambda leaf: st.sampled_from([leaf, *nested(leaf), *nested(st.lists(leaf))]))


@given(kinds.flatmap(lambda one: st.lists(st.none() | one, max_size=8)))
@settings(max_examples=200, deadline=None)
def test_values_come_back_as_they_went_in(values: list[Any]) -> None:
    expected = values
    dicts = [value for value in values if isinstance(value, dict)]
    if dicts and all(isinstance(key, str) for value in dicts for key in value):
        # At the top a dict makes a row, and None is no row.
        expected = [value for value in values if value is not None]
        assert list(map(plain, round_trip(expected))) == expected
        return
    if any(isinstance(value, tuple | dict) for value in values):
        expected = [value for value in values if value is not None]
    assert round_trip(expected) == expected
    assert list(map(type, round_trip(expected))) == list(map(type, expected))


def test_the_kind_follows_from_what_a_function_returns() -> None:
    assert encoder().encode([1], None).kind is Kind.SCALAR
    assert encoder().encode([(1, "a")], None).kind is Kind.TUPLE
    assert encoder().encode([Row(a=1)], None).kind is Kind.ROW
    assert encoder().encode([{"a": 1}], None).kind is Kind.ROW
    assert encoder().encode([Fare("x", 1.0)], None).kind is Kind.ROW
    assert encoder().encode([Point(1, 2)], None).kind is Kind.ROW


def test_rows_dicts_records_and_named_tuples_may_be_mixed_and_missing_columns_are_null() -> None:
    rows = round_trip([Fare("x", 1.5), {"zone": "y", "tip": 2}, Row(price=2.5), None][:3])
    assert rows == [
        Row(zone="x", price=1.5, tip=None),
        Row(zone="y", price=None, tip=2),
        Row(zone=None, price=2.5, tip=None),
    ]


def test_a_later_batch_may_bring_a_further_column() -> None:
    codec = encoder()
    codec.encode([{"a": 1}], None)
    batch = codec.encode([{"b": "x"}, {"a": 2}], None)
    assert batch.data.to_pylist() == [{"a": None, "b": "x"}, {"a": 2, "b": None}]


@pytest.mark.parametrize("name", ["count", "index", "as_dict", "get_row_kind"])
def test_a_column_that_a_row_lacks_is_null_whatever_methods_rows_have(name: str) -> None:
    lacking: list[Any] = [Row(n=1), Point(1, 2), Fare("x", 1.0)]
    having = Row(**{"n": 2, name: 5})
    for row in lacking:
        assert [each[name] for each in round_trip([row, having])] == [None, 5]
        codec = encoder()
        codec.encode([having], None)
        assert codec.encode([row], None).data.column(name).to_pylist() == [None]
        assert codec.encode([row, having], None).data.column(name).to_pylist() == [None, 5]
    assert [each[0][name] for each in round_trip([(Row(n=1),), (having,)])] == [None, 5]
    within = declared(Kind.TUPLE, f0=pa.struct([("n", pa.int64()), (name, pa.int64())]))
    batch = encoder(within).encode([(Row(n=1),), (None,), (having,)], None)
    assert batch.data.to_pylist() == [{"f0": {"n": 1, name: None}}, {"f0": None}, {"f0": {"n": 2, name: 5}}]


def test_a_column_may_have_the_name_of_a_method_of_rows() -> None:
    row = Row(as_dict=1, count=np.int64(2))
    assert round_trip([row]) == [row]
    assert [each["as_dict"] for each in round_trip([row, {"as_dict": 3}])] == [1, 3]
    assert as_row(row) == Row(as_dict=1, count=2)
    assert as_row(("k", row)) == round_trip([("k", row)])[0] == ("k", {"as_dict": 1, "count": 2})


def test_nulls_alone_settle_nothing() -> None:
    codec = encoder()
    assert codec.encode([None, None], None).data.schema.types == [pa.null()]
    assert codec.record_type is None
    assert codec.encode([(1, None)], None).kind is Kind.TUPLE
    assert codec.encode([(None, "a")], None).data.schema.types == [pa.int64(), pa.string()]


def test_int64_widens_to_double_when_every_number_is_exact() -> None:
    codec = encoder()
    assert codec.encode([1], None).data.schema.types == [pa.int64()]
    assert decode(codec.encode([2.5, 3], None)) == [2.5, 3.0]
    assert decode(codec.encode([4], None)) == [4.0]
    with pytest.raises(TypeMismatchError, match="value 9007199254740993"):
        codec.encode([2**53 + 1], None)


def test_decimals_take_the_largest_scale() -> None:
    codec = encoder()
    codec.encode([Decimal("1.5")], None)
    assert decode(codec.encode([Decimal("2.25"), 3], None)) == [Decimal("2.25"), Decimal(3)]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1], ["x"], r"operator 'fares' \(subtask 1 of 2\): value 'x' \(str\) does not fit int64.*set output_type="),
        ([("a", 1)], [("b", "c")], "field 'f1': value 'c'"),
        ([{"price": 1.0}], [{"price": "dear"}], "field 'price': value 'dear'"),
        ([(1, 2)], [(1, 2, 3)], "a tuple of 2"),
        ([(1, 2)], [7], "value 7 .int. does not fit a tuple"),
        ([{"a": 1}], [7], "a Row, dict, NamedTuple or dataclass"),
        ([True], [1], "does not fit bool"),
        ([dt.date(2020, 1, 1)], [dt.datetime(2020, 1, 1)], "does not fit date32"),
        ([dt.datetime(2020, 1, 1)], [dt.datetime(2020, 1, 1, tzinfo=UTC)], "does not fit timestamp"),
        ([[1]], [["x"]], "does not fit list"),
        ([1], [{1, 2}], "a value that Arrow can hold"),
    ],
)
def test_what_does_not_fit_is_named(first: list[Any], second: list[Any], message: str) -> None:
    codec = encoder()
    codec.encode(first, None)
    with pytest.raises(TypeMismatchError, match=message):
        codec.encode(second, None)


@pytest.mark.parametrize(
    "values", [[1, "x"], [(1,), 2], [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=UTC)]]
)
def test_values_of_two_types_are_refused_in_one_batch_too(values: list[Any]) -> None:
    with pytest.raises(TypeMismatchError):
        encoder().encode(values, None)


def test_values_that_arrow_cannot_hold_travel_pickled_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    codec = encoder()
    values = [{1, 2}, 2**70, lambda: 5]
    batch = codec.encode(values, None)
    codec.encode([frozenset()], None)
    assert batch.kind is Kind.OBJECT
    back = decode(batch)
    assert back[:2] == values[:2]
    assert back[2]() == 5
    assert len(caplog.records) == 1
    assert "fares" in caplog.text


def test_a_value_with_mixed_types_inside_travels_pickled() -> None:
    for value in ([1, "x"], (1, [2, "y"]), {"a": {1: "x", 2: 3}}):
        batch = encoder().encode([value], None)
        assert batch.kind is Kind.OBJECT
        assert decode(batch) == [value]


def test_a_value_that_cannot_be_pickled_is_named() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeMismatchError, match=r"generator.*does not fit a value that can be pickled"):
        encoder().encode([numbers()], None)


def test_declared_types_hold_from_the_first_batch() -> None:
    codec = encoder(declared(Kind.TUPLE, f0=pa.float64(), f1=pa.int32()))
    assert decode(codec.encode([(1, 2), (None, None)], None)) == [(1.0, 2), (None, None)]
    with pytest.raises(TypeMismatchError, match=r"field 'f1': value 2147483648 \(int\) does not fit int32"):
        codec.encode([(1.0, 5), (1.0, 2**31)], None)


@pytest.mark.parametrize(
    ("arrow_type", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), True),
        (pa.int64(), Decimal("1.5")),
        (pa.date32(), dt.datetime(2020, 1, 1)),
        (pa.timestamp("us"), 5),
        (pa.timestamp("us"), dt.datetime(2020, 1, 1, tzinfo=UTC)),
        (pa.string(), b"x"),
        (pa.binary(), "x"),
        (pa.duration("s"), dt.timedelta(microseconds=5)),
        (pa.time32("s"), dt.time(1, 2, 3, 4)),
        (pa.float64(), 2**53 + 1),
        (pa.decimal128(4, 2), Decimal("1.234")),
        (pa.bool_(), 1),
        (pa.list_(pa.int64()), [1.5]),
        (pa.list_(pa.int64()), np.array(5)),
        (pa.time64("us"), dt.time(1, 2, tzinfo=UTC)),
        (pa.map_(pa.int64(), pa.int64()), {None: 1}),
    ],
)
def test_no_value_is_changed_to_fit_a_declared_type(arrow_type: pa.DataType, value: Any) -> None:
    with pytest.raises(TypeMismatchError, match="does not fit"):
        encoder(declared(Kind.SCALAR, value=arrow_type)).encode([None, value], None)


def test_whole_floats_fit_a_declared_integer() -> None:
    assert decode(encoder(declared(Kind.SCALAR, value=pa.int64())).encode([2.0, 3], None)) == [2, 3]


def test_a_declared_row_takes_dicts_by_name_and_unnamed_rows_and_tuples_by_position() -> None:
    codec = encoder(declared(Kind.ROW, name=pa.string(), age=pa.int64()))
    expected = [Row(name="Ann", age=30)]
    for value in ({"age": 30, "name": "Ann"}, Row("Ann", 30), ("Ann", 30), Row(age=30, name="Ann")):
        assert decode(codec.encode([value], None)) == expected
    with pytest.raises(TypeMismatchError, match="declared columns name, age"):
        codec.encode([{"name": "Bob", "height": 2}], None)


def test_special_floats_and_slices_and_dictionaries_decode() -> None:
    floats = decode(encoder().encode([math.nan, math.inf, -0.0], None))
    assert math.isnan(floats[0])
    assert floats[1:] == [math.inf, 0.0]
    batch = encoder().encode([(i, (i, [i] * i)) for i in range(5)], None)
    assert decode(batch.slice(2, 2)) == [(2, (2, [2, 2])), (3, (3, [3, 3, 3]))]
    encoded = pa.RecordBatch.from_arrays([pa.array(["a", "b", "a"]).dictionary_encode()], names=["value"])
    assert decode(dataclasses.replace(batch, data=encoded, kind=Kind.SCALAR)) == ["a", "b", "a"]


def test_rows_without_columns_still_count() -> None:
    assert round_trip([(), ()]) == [(), ()]


def test_rows_without_columns_survive_the_way_to_another_process() -> None:
    collections: list[list[Any]] = [[(), ()], [{}, {}]]
    for values in collections:
        assert decode(pickle.loads(pickle.dumps(encoder().encode(values, None)))) == values


@pytest.mark.parametrize(
    "values",
    [
        [{"a": {}}, {"a": {}}],
        [{"id": 1, "a": {}}, {"id": 2, "a": {}}],
        [({},), ({},)],
        [({},), (None,)],
        [("k", {}), ("l", {})],
        [[{}], [{}, {}], [], [None]],
        [({1: {}},), ({2: {}},)],
        [({"a": {}},), ({"a": {}},)],
        [(({}, 1),), (({}, 2),)],
    ],
    ids=repr,
)
def test_empty_dicts_are_held_in_columns_and_none_is_lost(values: list[Any]) -> None:
    batch = encoder().encode(values, None)
    assert batch.kind is not Kind.OBJECT
    backwards = pa.array(range(len(values))[::-1])
    for same in (batch, pickle.loads(pickle.dumps(batch)), batch.take(backwards).take(backwards)):
        assert list(map(plain, decode(same))) == values
    assert list(map(plain, decode(concat([batch.slice(1), batch.slice(0, 1)])))) == [*values[1:], values[0]]


@pytest.mark.parametrize(
    "values",
    [
        [("k", ())],
        [((),)],
        [{"a": ()}, {"a": ()}],
        [[()], [(), ()]],
        [({None: 1},)],
        [({1: 2, None: 3},)],
        [("k", {"f0": 1, "f1": 2})],
        [{"k": {"f0": 1}}],
        [("k", {"f0": 1}), ("k", {"f1": 1})],
        [OrderedDict(f0=1)],
        [dt.time(1, 2, tzinfo=UTC), dt.time(1, 2)],
        [("k", [dt.time(1, 2, tzinfo=UTC)])],
        [np.datetime64("2020-01-01")],
        [("k", np.datetime64("2020-01-01"))],
        [np.array(5)],
    ],
    ids=repr,
)
def test_what_would_come_back_changed_travels_pickled(values: list[Any]) -> None:
    batch = encoder().encode(values, None)
    assert batch.kind is Kind.OBJECT
    back = decode(batch)
    assert back == values
    assert repr(back) == repr(values)


def test_as_row_leaves_what_travels_pickled() -> None:
    for value in ({}, Row(), {"a": ()}, {"a": [{1}]}, {"k": {"f0": 1}}, ("k", dt.time(1, tzinfo=UTC)), np.array(5)):
        assert as_row(value) is value
        assert repr(round_trip([value])[0]) == repr(value)


@pytest.mark.parametrize("first", [{}, {1: 2}])
@pytest.mark.parametrize("around", [lambda value: (value,), lambda value: [value], lambda value: {"a": [value]}])
def test_an_empty_dict_is_an_empty_map_too(first: dict[int, int], around: Callable[[Any], Any]) -> None:
    codec = encoder()
    for value in (first, {}, {1: 2}, {}, {3: 4}):
        assert plain(decode(codec.encode([around(value)], None))[0]) == around(value)


def test_after_an_empty_dict_may_come_one_with_text_keys() -> None:
    codec = encoder()
    for value in ({}, {"a": 1}):
        assert decode(codec.encode([("k", value)], None)) == [("k", value)]
    assert decode(codec.encode([("k", {})], None)) == [("k", {"a": None})]
    with pytest.raises(TypeMismatchError, match="does not fit struct<a: int64>"):
        codec.encode([("k", {1: 2})], None)


def test_numpy_values_become_pythons() -> None:
    values = round_trip([(np.int32(1), np.float32(0.5), np.bool_(True), np.array([1, 2]))])
    assert values == [(1, 0.5, True, [1, 2])]
    assert [type(value) for value in values[0]] == [int, float, bool, list]


def test_as_row_gives_what_a_batch_of_that_one_value_would() -> None:
    for value in ([(1, 2)], (np.int64(1), [np.float64(2)]), {"a": 1, "b": (1, 2)}, Fare("x", 2.0), Point(1, 2),
                  ("k", Fare("x", 1.0)), Row(a=[1]), np.int64(5), bytearray(b"x"), ({1: "a"},)):  # fmt: skip
        assert as_row(value) == round_trip([value])[0]
        assert type(as_row(value)) is type(round_trip([value])[0])
    unchanged = ("k", {1, 2})
    assert as_row(unchanged) is unchanged


def test_uuids_travel_as_columns_also_within_values() -> None:
    ids = [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]
    for values in (ids, [(ids[0], 1), (None, 2)], [{"id": ids[0], "all": ids}], [({ids[0]: "a"},)], [((ids[1], 1),)]):
        batch = encoder().encode(values, None)
        assert batch.kind is not Kind.OBJECT
        assert list(map(plain, decode(batch))) == values
        assert plain(as_row(values[0])) == values[0]
    assert encoder().encode(ids, None).data.schema.types == [pa.uuid()]


def test_arrows_data_are_collected_without_a_copy() -> None:
    table = pa.table({"a": [1]})
    values: list[Any] = []
    encoder().appender(values)(table)
    assert values[0] is table


def test_row_classes_are_shared() -> None:
    assert type(round_trip([{"a": 1}])[0]) is row_class(("a",))
