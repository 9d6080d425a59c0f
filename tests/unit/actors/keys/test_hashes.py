"""Key hashes are part of the state format; key columns and values are what operators and the user see."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.keys.hashes import hashable_keys, key_columns, key_groups, key_hashes, key_values
from flinkray.batches.batch import Batch
from flinkray.errors import TypeMismatchError, UnknownColumnError, UserFunctionError
from flinkray.functions.type_hints import record_type
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.records import Kind, RecordType
from flinkray.types.rows import Row

ONE = 0xE5FDC025E13EEED5
ZERO = 0x9CA066F1A4AB2EEA
NULL = 0x6E756C6C6B657921
DECIMAL = decimal.Decimal


def record_batch(*columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), names=[f"c{index}" for index in range(len(columns))])


def hashes(*columns: pa.Array) -> list[int]:
    return key_hashes(record_batch(*columns)).tolist()


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (
            pa.array([1, 0, -1, 2**40, None]),
            [ONE, ZERO, 0x25B775FAECA8F520, 0x5118EDFC86DA5D9F, NULL],
        ),
        (pa.array([True, False]), [ONE, ZERO]),
        (
            pa.array([1.0, -0.0, 2.5, float("nan"), float("inf")]),
            [ONE, ZERO, 0x5CDE430938423832, 0xCA444EE883B278F5, 0xBC29350261488D43],
        ),
        (
            pa.array(["", "a", "flinkray", "a longer string with words", "x" * 300, None]),
            [ZERO, 0x0BCE8CA4D2FA0C95, 0xB04B836C21DB4881, 0xCF3BC76CF5A1D9EB, 0x936F6647B531D22D, NULL],
        ),
        (
            pa.array([DECIMAL("1.00"), DECIMAL("2.50"), DECIMAL("-3"), None]),
            [ONE, 0x39C704903A33AAD8, 0x2D540BE834875D2F, NULL],
        ),
        (pa.array([datetime.date(2024, 1, 1)]), [0x78023D2858F8E670]),
        (pa.array([[1, 2], [], None, [3]]), [0x00B20DA31080C77E, ZERO, NULL, 0x9485615D5A406334]),
        (pa.array([{"a": 1, "b": "x"}, None]), [0x6D75C153DF1918BE, NULL]),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), [0x81ECDD4C989B6774]),
        (pa.nulls(2), [NULL, NULL]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_hash_of_a_value_never_changes(array: pa.Array, expected: list[int]) -> None:
    assert hashes(array) == expected


def test_hash_of_several_columns_never_changes_and_depends_on_their_order() -> None:
    numbers, words = pa.array([1, 2]), pa.array(["x", "y"])
    assert hashes(numbers, words)[0] == 0x6D75C153DF1918BE
    assert hashes(numbers, words) != hashes(words, numbers)


@pytest.mark.parametrize(
    "arrow_type", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()]
)
def test_equal_numbers_hash_equal_whatever_holds_them(arrow_type: pa.DataType) -> None:
    assert hashes(pa.array([0, 1, 100, None], arrow_type)) == hashes(pa.array([0, 1, 100, None], pa.int64()))
    if not pa.types.is_unsigned_integer(arrow_type):
        assert hashes(pa.array([-5], arrow_type)) == hashes(pa.array([-5]))


@pytest.mark.parametrize(
    ("seconds", "others"),
    [
        (pa.timestamp("s"), [pa.timestamp("ms"), pa.timestamp("us", "UTC"), pa.timestamp("ns")]),
        (pa.duration("s"), [pa.duration("ms"), pa.duration("us"), pa.duration("ns")]),
        (pa.time32("s"), [pa.time32("ms"), pa.time64("us"), pa.time64("ns")]),
        (pa.date32(), [pa.date64()]),
    ],
    ids=str,
)
def test_times_hash_equal_in_any_unit(seconds: pa.DataType, others: list[pa.DataType]) -> None:
    is_time_of_day = pa.types.is_time32(seconds)
    times = pa.array([0, 1, 50_000] if is_time_of_day else [0, 1, -1, 50_000, None], pa.int32())
    times = times.cast(seconds if seconds.bit_width == 32 else pa.int64()).cast(seconds)
    for other in others:
        assert hashes(times.cast(other)) == hashes(times)
    assert len(set(hashes(times))) == len(times)


def test_times_that_nanoseconds_do_not_reach_have_a_hash_in_any_unit_too() -> None:
    late = pa.array([datetime.datetime(9999, 12, 31, 23, 59, 59)], pa.timestamp("us"))
    assert hashes(late) == hashes(late.cast(pa.timestamp("s")))


def test_decimals_hash_by_value_not_by_scale() -> None:
    assert hashes(pa.array([DECIMAL("2.5")])) == hashes(pa.array([DECIMAL("2.5000")]))
    assert hashes(pa.array([DECIMAL("7.00")])) == hashes(pa.array([7]))
    assert hashes(pa.array([DECIMAL("2.5")])) != hashes(pa.array([DECIMAL("25")]))


@pytest.mark.parametrize(
    "arrow_type",
    [pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int8(), pa.string())],
)
def test_text_hashes_equal_whatever_holds_it(arrow_type: pa.DataType) -> None:
    words = ["", "a", "12345678", "123456789", "ä" * 200, "a\0", None]
    assert hashes(pa.array(words, pa.string()).cast(arrow_type)) == hashes(pa.array(words))
    assert len(set(hashes(pa.array(words)))) == len(words)


def test_fixed_size_binary_hashes_as_binary() -> None:
    assert hashes(pa.array([b"ab", None], pa.binary(2))) == hashes(pa.array([b"ab", None]))


def test_minus_zero_equals_zero_and_every_nan_is_one_key() -> None:
    odd_nan = np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64)
    assert hashes(pa.array([-0.0])) == hashes(pa.array([0.0]))
    assert hashes(pa.array(odd_nan)) == hashes(pa.array([float("nan")]))


VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "integers": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "floats": (pa.float64(), st.floats()),
    "text": (pa.string(), st.text(max_size=400)),
    "bytes": (pa.binary(), st.binary(max_size=40)),
    "decimals": (pa.decimal128(20, 4), st.decimals(-(10**9), 10**9, places=4)),
    "lists": (pa.list_(pa.string()), st.lists(st.text(max_size=9), max_size=3)),
    "pairs": (pa.list_(pa.int16(), 2), st.lists(st.integers(-9, 9), min_size=2, max_size=2)),
    "booleans": (pa.bool_(), st.booleans()),
}


@pytest.mark.parametrize("name", VALUES)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_hash_of_a_row_does_not_depend_on_the_batch_around_it(name: str, data: st.DataObject) -> None:
    arrow_type, strategy = VALUES[name]
    array = pa.array(data.draw(st.lists(st.none() | strategy, min_size=1, max_size=20)), arrow_type)
    cut = data.draw(st.integers(0, len(array) - 1))
    alone = [hashes(pa.array([value.as_py()], arrow_type))[0] for value in array]
    assert hashes(array) == alone
    assert hashes(array.slice(cut)) == alone[cut:]


def test_a_type_without_a_stable_hash_is_refused_by_name() -> None:
    interval = pa.array([pa.MonthDayNano([1, 2, 3])])
    with pytest.raises(TypeMismatchError, match=r"column 'c0' of type month_day_nano_interval cannot be a key"):
        hashes(interval)


def test_key_groups_lie_below_max_parallelism_and_spread_evenly() -> None:
    groups = key_groups(record_batch(pa.array(range(100_000))), 128)
    counts = np.bincount(groups, minlength=128)
    assert groups.dtype == np.int32
    assert len(counts) == 128
    assert counts.min() > 650
    assert counts.max() < 920


def test_a_column_key_is_its_columns() -> None:
    batch = Batch(record_batch(pa.array([1, 2]), pa.array(["x", "y"]), pa.array([0.5, 1.5])))
    one = key_columns(batch, ColumnKey(("c1",)), "map (1/2)")
    two = key_columns(batch, ColumnKey(("c2", "c0")), "map (1/2)")
    assert key_values(one) == ["x", "y"]
    assert key_values(two) == [(0.5, 1), (1.5, 2)]


def test_nulls_are_key_values_too() -> None:
    assert key_values(record_batch(pa.array([1, None]))) == [1, None]


def test_an_unknown_key_column_names_the_nearest() -> None:
    batch = Batch(pa.RecordBatch.from_pydict({"origin": ["JFK"]}))
    with pytest.raises(UnknownColumnError, match=r"map \(1/2\): no column 'orign'; did you mean 'origin'"):
        key_columns(batch, ColumnKey(("orign",)), "map (1/2)")


def test_a_key_column_of_which_there_are_two_is_refused_as_such() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    with pytest.raises(UnknownColumnError, match=r"map \(1/2\): several columns are called 'n'; rename .*: n, n"):
        key_columns(Batch(twice), ColumnKey(("n",)), "map (1/2)")


def scalars(*values: object) -> Batch:
    return Batch(pa.RecordBatch.from_pydict({"value": list(values)}), Kind.SCALAR)


def test_a_function_key_is_computed_per_row() -> None:
    columns = key_columns(scalars(1, 2, 3), FunctionKey(lambda value: value % 2), "map (1/2)")
    assert columns.schema.names == ["key"]
    assert key_values(columns) == [1, 0, 1]


def test_a_function_key_of_tuples_has_a_column_per_field() -> None:
    columns = key_columns(scalars(1, 2), FunctionKey(lambda value: (value, str(value))), "map (1/2)")
    assert columns.schema.names == ["key_0", "key_1"]
    assert key_values(columns) == [(1, "1"), (2, "2")]


def test_keys_that_came_with_the_batch_are_not_computed_again() -> None:
    keys = pa.RecordBatch.from_pydict({"key": [7]})
    batch = Batch(pa.RecordBatch.from_pydict({"value": [1]}), Kind.SCALAR, keys=keys)
    assert key_columns(batch, FunctionKey(pytest.fail), "map (1/2)") is keys


def test_a_declared_key_type_is_used() -> None:
    key_type = RecordType(Kind.SCALAR, pa.schema([("value", pa.int32())]))
    columns = key_columns(scalars(1, 2), FunctionKey(lambda value: value, key_type), "map (1/2)")
    assert columns.schema.types == [pa.int32()]


def test_an_error_of_the_key_function_names_operator_function_and_value() -> None:
    def broken(value: int) -> int:
        return 1 // (value - 2)

    with pytest.raises(UserFunctionError, match=r"'map \(1/2\), key function broken'.*Zero.*was 2"):
        key_columns(scalars(1, 2, 3), FunctionKey(broken), "map (1/2)")


@pytest.mark.parametrize("error", [SystemExit("no"), asyncio.CancelledError("no")])
def test_a_key_function_that_ends_its_thread_is_an_error_of_its_own(error: BaseException) -> None:
    def stop(_value: int) -> int:
        raise error

    with pytest.raises(
        UserFunctionError, match=rf"function stop.*{type(error).__name__}: no; the value was 1"
    ) as raised:
        key_columns(scalars(1, 2, 3), FunctionKey(stop), "map (1/2)")
    assert "in stop" in raised.value.cause_traceback


def test_what_does_not_come_of_the_key_function_passes_as_it_is() -> None:
    def interrupt(_value: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        key_columns(scalars(1), FunctionKey(interrupt), "map (1/2)")


@dataclass(frozen=True)
class Place:
    row: int
    name: str


@dataclass(frozen=True)
class Trip:
    start: Place
    end: Place | None


@pytest.mark.parametrize("key_type", [None, uuid.UUID])
def test_uuids_are_keys(key_type: Any) -> None:
    declared = None if key_type is None else record_type(key_type)
    columns = key_columns(scalars(0, 1), FunctionKey(lambda v: uuid.UUID(int=v) if v else None, declared), "x")
    assert columns.schema.types == [pa.uuid()]
    assert key_values(columns) == [None, uuid.UUID(int=1)]
    columns = key_columns(scalars(1), FunctionKey(lambda v: (uuid.UUID(int=v), v)), "x")
    assert key_values(columns) == [(uuid.UUID(int=1), 1)]
    assert key_hashes(columns.select([0])).tolist() == [8313885514073090187]


@pytest.mark.parametrize("declared", [None, Trip])
def test_a_dataclass_as_a_key_comes_back_as_a_row(declared: Any) -> None:
    def trip(value: int) -> Trip:
        return Trip(Place(value, "x"), None if value else Place(1, "y"))

    columns = key_columns(scalars(0, 1), FunctionKey(trip, declared and record_type(declared)), "x")
    assert columns.schema.names == ["key"]
    keys = hashable_keys(columns, "x")
    first, second = Row(row=0, name="x"), Row(row=1, name="x")
    assert keys == [Row(start=first, end=Row(row=1, name="y")), Row(start=second, end=None)]
    assert keys[0].start.name == "x"
    assert hashable_keys(key_columns(scalars(1), FunctionKey(lambda v: (Place(v, "a"), v)), "x"), "x") == [
        (Row(row=1, name="a"), 1)
    ]


@pytest.mark.parametrize("key", [Row(row=1, name="x"), (1, "x")])
def test_a_row_or_tuple_of_a_declared_type_is_a_key_of_several_columns(key: tuple[Any, ...]) -> None:
    columns = key_columns(scalars(1), FunctionKey(lambda _: key, record_type(Place)), "x")
    assert columns.schema.names == ["key_0", "key_1"]
    assert key_values(columns) == [(1, "x")]


def test_an_enum_as_a_key_is_refused_with_the_way_out() -> None:
    class Color(enum.Enum):
        RED = 1

    with pytest.raises(TypeMismatchError, match=r"cannot hold <Color.RED: 1> \(Color\); return its \.name"):
        key_columns(scalars(1), FunctionKey(lambda _: Color.RED), "x")


def test_keys_of_mixed_types_are_refused_with_the_way_out() -> None:
    with pytest.raises(TypeMismatchError, match=r"map \(1/2\): the keys that .* one Arrow type.*key_type"):
        key_columns(scalars(1, 2), FunctionKey(lambda value: value if value == 1 else "two"), "map (1/2)")


def test_tuples_of_different_width_are_refused() -> None:
    with pytest.raises(TypeMismatchError, match=r"tuple of 1 values for every row, not \(2, 2\)"):
        key_columns(scalars(1, 2), FunctionKey(lambda value: (value,) * value), "map (1/2)")


def test_a_text_hashes_the_same_whatever_rows_are_beside_it() -> None:
    texts = pa.array([None if row % 7 == 6 else "ä" * (row % 23) + str(row) * (row % 5) for row in range(30_000)])
    together = hashes(texts)
    assert together[:500] == [hashes(texts.slice(row, 1))[0] for row in range(500)]
    assert together == [each for row in range(0, 30_000, 700) for each in hashes(texts.slice(row, 700))]
