"""Python values to one Arrow column and back, without loss."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flinkray.batches import value_columns
from flinkray.batches.value_columns import decoded_form, to_array, to_values
from flinkray.errors import TypeMismatchError
from flinkray.types import value_types
from flinkray.types.rows import Row
from flinkray.types.type_info import Types
from flinkray.types.type_unification import unify_types
from flinkray.types.value_types import Misfit, Unholdable, infer_type
from tests.support.versions import without_unit

MICROS = datetime.datetime(2020, 1, 1, 0, 0, 0, 999999)
NANOS = pd.Timestamp("2020-01-01 00:00:00.000000001")
BERLIN = NANOS.tz_localize("Europe/Berlin")
ONE_NANO = pd.Timedelta(1, unit="ns")
NP_NANOS = np.datetime64("2020-01-01T00:00:00.000000001", "ns")


# -- nanoseconds and units ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([MICROS, None], pa.timestamp("us")),
        ([pd.Timestamp(MICROS)], pa.timestamp("us")),
        ([MICROS, NANOS], pa.timestamp("ns")),
        ([BERLIN], pa.timestamp("ns", "Europe/Berlin")),
        ([[NANOS]], pa.list_(pa.timestamp("ns"))),
        ([NP_NANOS, None], pa.timestamp("ns")),
        ([np.datetime64("2020", "s")], pa.timestamp("s")),
        ([np.datetime64("2020", "s"), np.datetime64("2020", "ms")], pa.timestamp("ms")),
        ([np.datetime64("2020", "s"), MICROS], pa.timestamp("us")),
        ([without_unit(np.datetime64), np.datetime64("2020", "s")], pa.timestamp("s")),
        ([datetime.timedelta(1)], pa.duration("us")),
        ([pd.Timedelta(1, unit="s")], pa.duration("us")),
        ([datetime.timedelta(1), ONE_NANO], pa.duration("ns")),
        ([-ONE_NANO], pa.duration("ns")),
        ([np.timedelta64(1, "D"), np.timedelta64(2000, "ns")], pa.duration("us")),
        ([np.timedelta64(1, "D"), np.timedelta64(1, "ns")], pa.duration("ns")),
        ([without_unit(np.timedelta64)], pa.duration("us")),
    ],
    ids=str,
)
def test_times_with_nanoseconds_are_held_in_nanoseconds(values: list[Any], expected: pa.DataType) -> None:
    inferred = infer_type(values)
    assert inferred == expected
    missing = [value is None or (not isinstance(value, list) and pd.isna(value)) for value in values]
    back = to_values(to_array(values, inferred))
    assert [value is None for value in back] == missing
    assert all(left == _of_pandas(right) for left, right, none in zip(back, values, missing, strict=True) if not none)


def _of_pandas(value: Any) -> Any:
    """A comparison of Python's timedelta with numpy's nanoseconds is always false."""
    return pd.Timedelta(value) if isinstance(value, np.timedelta64) else value


def test_units_of_times_merge_to_the_finer() -> None:
    assert unify_types(pa.duration("us"), pa.duration("ns")) == pa.duration("ns")
    assert unify_types(pa.duration("ms"), pa.duration("s")) == pa.duration("ms")
    assert unify_types(pa.timestamp("us"), pa.timestamp("ns")) == pa.timestamp("ns")
    assert unify_types(pa.duration("us"), pa.timestamp("us")) is None


@pytest.mark.parametrize(
    ("value", "target"),
    [
        (MICROS, pa.timestamp("s")),
        (MICROS, pa.timestamp("ms")),
        (MICROS.replace(tzinfo=datetime.UTC), pa.timestamp("ms", "UTC")),
        (NANOS, pa.timestamp("us")),
        (BERLIN, pa.timestamp("us", "UTC")),
        (NP_NANOS, pa.timestamp("us")),
        (np.datetime64("9999-01-01", "s"), pa.timestamp("ns")),
        (datetime.datetime(3020, 1, 1), pa.timestamp("ns")),
        (datetime.timedelta(microseconds=1), pa.duration("ms")),
        (ONE_NANO, pa.duration("us")),
        (np.timedelta64(1, "ns"), pa.duration("us")),
        (np.timedelta64(1, "Y"), pa.duration("us")),
        (without_unit(np.timedelta64, 1), pa.duration("us")),
        (np.datetime64("2020-01-01", "s"), pa.date32()),
        (datetime.time(0, 0, 0, 1), pa.time32("ms")),
    ],
    ids=str,
)
def test_a_time_that_the_unit_cannot_hold_is_refused(value: Any, target: pa.DataType) -> None:
    for values in ([value], [None, value]):
        with pytest.raises(Misfit) as caught:
            to_array(values, target)
        assert caught.value.value is value
        assert caught.value.expected == str(target)


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (MICROS.replace(microsecond=0), pa.timestamp("s"), MICROS.replace(microsecond=0)),
        (np.datetime64("2020-01-01", "s"), pa.timestamp("us"), datetime.datetime(2020, 1, 1)),
        (np.datetime64("2020-01-01", "ns"), pa.timestamp("s"), datetime.datetime(2020, 1, 1)),
        (np.datetime64("2020-01-01"), pa.timestamp("us"), datetime.datetime(2020, 1, 1)),
        (np.datetime64("2020-01-01"), pa.date32(), datetime.date(2020, 1, 1)),
        (np.datetime64("NaT", "D"), pa.date32(), None),
        (without_unit(np.datetime64), pa.timestamp("us"), None),
        (without_unit(np.timedelta64), pa.duration("s"), None),
        *(
            (np.timedelta64(86400 * 10**power, unit), pa.duration("s"), datetime.timedelta(1))
            for unit, power in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9))
        ),
        (np.timedelta64(1, "D"), pa.duration("us"), datetime.timedelta(1)),
        (np.timedelta64(1, "W"), pa.duration("ns"), datetime.timedelta(7)),
    ],
    ids=str,
)
def test_a_time_of_any_unit_is_taken_where_it_is_exact(value: Any, target: pa.DataType, expected: Any) -> None:
    assert to_values(to_array([value, None], target)) == [expected, None]


def test_times_of_numpy_and_of_python_share_a_column() -> None:
    values = [MICROS, None, np.datetime64("2020-01-01", "s")]
    assert to_values(to_array(values, pa.timestamp("us"))) == [MICROS, None, datetime.datetime(2020, 1, 1)]
    with pytest.raises(Misfit) as caught:
        to_array(values, pa.timestamp("s"))
    assert caught.value.value is MICROS


def test_times_without_a_zone_beside_times_with_one_are_refused() -> None:
    aware = MICROS.replace(tzinfo=datetime.UTC)
    for values in ([NP_NANOS, aware], [aware, NP_NANOS], [aware, BERLIN, MICROS]):
        with pytest.raises(Misfit, match="all have a zone") as caught:
            infer_type(values)
        assert caught.value.value is values[-1]


def test_days_of_numpy_have_no_type_of_their_own() -> None:
    with pytest.raises(Unholdable):
        infer_type([np.datetime64("2020-01-01")])


# -- records within values ---------------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: int
    second: str


@dataclass
class Point:
    x: int
    y: int


TUPLE = Types.TUPLE([Types.LONG(), Types.STRING()]).arrow_type
ROW = Types.ROW([Types.LONG(), Types.STRING()]).arrow_type
NAMED_ROW = Types.ROW_NAMED(["first", "second"], [Types.LONG(), Types.STRING()]).arrow_type


@pytest.mark.parametrize("value", [(1, "a"), Pair(1, "a"), Row(1, "a"), Row(first=1, second="a")])
def test_records_within_values_become_tuples_by_position_and_rows_by_name(value: Any) -> None:
    assert to_values(to_array([value, None], TUPLE)) == [(1, "a"), None]
    assert to_values(to_array([value, None], NAMED_ROW)) == [Row(first=1, second="a"), None]


@pytest.mark.parametrize(
    ("value", "arrow_type"),
    [
        (Pair(1, "a"), ROW),
        (Row(x=1, y="a"), ROW),
        (Row(x=1, y="a"), NAMED_ROW),
        (Row(first=1, third="a"), NAMED_ROW),
        (Row(1, "a", 2), NAMED_ROW),
        ((1, "a", 2), TUPLE),
        (Row(1, "a", 2), TUPLE),
        (Row(x=1, y="a", z=2), TUPLE),
        (Point(1, 2), TUPLE),
        (Point(1, 2), NAMED_ROW),
    ],
)
def test_a_record_of_other_fields_than_the_declared_ones_is_refused(value: Any, arrow_type: pa.DataType) -> None:
    with pytest.raises(Misfit) as caught:
        to_array([[(1, "b"), value]], pa.list_(arrow_type))
    assert caught.value.value == value


# -- slices ------------------------------------------------------------------------------------------------------

PAIR = pa.struct([("f0", pa.int64()), ("f1", pa.string())])


@pytest.mark.parametrize(
    ("arrow_type", "rows"),
    [
        (pa.list_(PAIR), [[(1, "a")], None, [], [(2, "b"), None], [(3, "c")]]),
        (pa.large_list(PAIR), [[(1, "a")], None, [], [(2, "b"), None], [(3, "c")]]),
        (pa.map_(pa.int64(), PAIR), [{1: (1, "a"), 2: None}, None, {}, {3: (2, "b")}, {4: (3, "c")}]),
        (pa.list_(pa.map_(pa.string(), pa.list_(PAIR))), [[{"a": [(1, "b")]}], None, [None, {}], [{"c": None}], []]),
        (pa.list_(PAIR, 2), [[(1, "a"), (2, "b")], None, [None, (3, "c")]]),
        (pa.list_(pa.list_(PAIR, 1), 2), [[[(1, "a")], [(2, "b")]], [None, [None]], None]),
        (pa.map_(PAIR, pa.int64()), [{(1, "a"): 1}, None, {}, {(2, "b"): None}]),
        (pa.map_(pa.list_(PAIR), pa.int64()), [{((1, "a"), (2, "b")): 1}, {(): 2}]),
        (pa.map_(pa.struct([("x", PAIR)]), pa.int64()), [{Row(x=(1, "a")): 1}]),
        (pa.list_(pa.map_(pa.string(), PAIR), 1), [[{"a": (1, "b")}], [{}], [None]]),
        (pa.struct([("a", pa.list_(PAIR))]), [{"a": [(1, "b")]}, None, {"a": None}, {"a": []}, {"a": [None]}]),
    ],
    ids=str,
)
def test_every_slice_of_nested_values_comes_back(arrow_type: pa.DataType, rows: list[Any]) -> None:
    array = to_array(rows, arrow_type)
    for start in range(len(rows) + 1):
        for stop in range(start, len(rows) + 1):
            part = array[start:stop]
            assert to_values(part) == rows[start:stop]
            assert to_values(part[1:]) == rows[start:stop][1:]


@pytest.mark.parametrize(
    "arrow_type", [pa.list_(PAIR), pa.large_list(PAIR), pa.list_(PAIR, 2), pa.map_(pa.int64(), PAIR)], ids=str
)
def test_a_slice_decodes_its_own_values_only(arrow_type: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    row: Any = {1: (1, "a"), 2: (2, "b")} if pa.types.is_map(arrow_type) else [(1, "a"), (2, "b")]
    array = to_array([row] * 100, arrow_type)
    decoded = []

    def watched(part: pa.Array) -> list[Any]:
        decoded.append(len(part))
        return to_values(part)

    monkeypatch.setattr(value_columns, "to_values", watched)
    assert value_columns._nested_values(array[50:53]) == [row] * 3
    assert max(decoded) == 6


# -- dictionaries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "value_type"),
    [
        (["a", "b", None, "a"], pa.string()),
        ([1, 2, None, 1], pa.int64()),
        ([1.5, None], pa.float64()),
        ([MICROS, None, MICROS], pa.timestamp("us")),
        ([decimal.Decimal("1.5"), None], pa.decimal128(10, 2)),
        ([True, None, False], pa.bool_()),
        ([None, None], pa.int64()),
        ([], pa.int64()),
    ],
    ids=str,
)
@pytest.mark.parametrize("index_type", [pa.int8(), pa.int32(), pa.int64()], ids=str)
def test_a_dictionary_holds_values_of_any_type(values: list[Any], value_type: Any, index_type: Any) -> None:
    for is_ordered in (False, True):
        target = pa.dictionary(index_type, value_type, is_ordered)
        array = to_array(values, target)
        array.validate(full=True)
        assert array.type.equals(target)
        assert array.to_pylist() == values


def test_a_dictionary_refuses_what_its_values_type_does_not_hold() -> None:
    target = pa.dictionary(pa.int8(), pa.int64())
    for values, culprit in (([1, "x"], "x"), ([1, 2.5], 2.5), (list(range(200)), 0)):
        with pytest.raises(Misfit) as caught:
            to_array(values, target)  # type: ignore[arg-type]
        assert (caught.value.value, caught.value.expected) == (culprit, str(target))


# -- values that do not travel -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        NP_NANOS,
        np.datetime64("2020-01-01", "ns"),
        np.datetime64("2020-01-01", "s"),
        np.timedelta64(1, "ns"),
        np.timedelta64(1000, "ns"),
        np.timedelta64(1, "D"),
        without_unit(np.timedelta64),
        [NP_NANOS],
        {"a": (np.timedelta64(1, "ns"),)},
    ],
    ids=repr,
)
def test_a_time_of_numpy_is_decoded_as_a_column_would_give_it_back(value: Any) -> None:
    (expected,) = to_values(to_array([value], infer_type([value])))
    decoded = decoded_form(value)
    assert decoded == expected
    assert type(decoded) is type(expected)


@pytest.mark.parametrize("value", [np.datetime64("2020-01-01"), np.timedelta64(1, "Y")], ids=repr)
def test_a_time_of_numpy_that_has_no_type_stays_as_it_is(value: Any) -> None:
    assert decoded_form(value) is value


# -- lists of a fixed length -------------------------------------------------------------------------------------


def test_a_list_of_another_length_than_the_types_is_refused() -> None:
    pair = pa.list_(pa.float32(), 2)
    assert to_array([[1.0, 2.0], None], pair).to_pylist() == [[1.0, 2.0], None]
    for values in ([[1.0]], [[1.0, 2.0], None, [1.0]]):
        with pytest.raises(Misfit) as caught:
            to_array(values, pair)
        assert (caught.value.value, caught.value.expected) == ([1.0], str(pair))
    with pytest.raises(Misfit) as caught:
        to_array([{"a": [[1.0]]}], pa.struct([("a", pa.list_(pair))]))
    assert (caught.value.value, caught.value.field) == ([1.0], ".a[]")


# -- arrays of numpy ---------------------------------------------------------------------------------------------

SHAPES = [[(3,)], [(2, 3), None, (4, 1)], [None, (2, 3, 4), (1, 0, 4), (3, 2, 1), None], [(2, 0, 3), (1, 1, 1)]]
NUMBERS = ["bool", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8"]


def arrays(shapes: list[Any], dtype: str) -> list[Any]:
    return [None if shape is None else np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape in shapes]


def as_lists(values: list[Any]) -> list[Any]:
    return [None if value is None else value.tolist() for value in values]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_arrays_of_numpy_become_what_lists_of_their_numbers_do(shapes: list[Any], dtype: str) -> None:
    values = arrays(shapes, dtype)
    expected = infer_type(as_lists(values))
    assert infer_type(values) == expected
    array = to_array(values, expected)
    array.validate(full=True)
    assert array.equals(to_array(as_lists(values), expected))


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (2, 0, 3)], ids=str)
def test_arrays_without_a_number_have_the_type_of_empty_lists(shape: tuple[int, ...]) -> None:
    values = [np.zeros(shape)]
    assert infer_type(values) == infer_type(as_lists(values))
    assert to_array(values, infer_type(values)).to_pylist() == as_lists(values)


def test_large_unsigned_numbers_of_arrays_are_unholdable() -> None:
    assert infer_type([np.array([2**63 - 1], np.uint64)]) == pa.list_(pa.int64())
    with pytest.raises(Unholdable):
        infer_type([np.array([2**63], np.uint64)])


@pytest.mark.parametrize(
    "values",
    [
        [np.array([1, 2]), np.array([1.5])],
        [np.array([1, 2]), [3]],
        [np.array([1, 2], ">i4")],
        [np.asfortranarray(np.arange(6).reshape(2, 3)), np.arange(12).reshape(3, 4)[::2, ::-1]],
        [np.array(["a", "b"])],
        [np.array([[1], [2, 3]], object)],
    ],
    ids=str,
)
def test_arrays_of_any_layout_come_back_as_lists(values: list[Any]) -> None:
    lists = [np.asarray(value).tolist() for value in values]
    assert to_values(to_array(values, infer_type(values))) == lists


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ([np.arange(6).reshape(2, 3), None], pa.list_(pa.list_(pa.float32(), 3))),
        ([np.arange(2.0), None], pa.list_(pa.float16(), 2)),
        ([np.arange(2.0), None], pa.large_list(pa.int8())),
        ([np.arange(2), None], pa.list_(pa.field("element", pa.uint8(), nullable=False))),
    ],
    ids=str,
)
def test_arrays_of_numpy_fill_a_declared_type(values: list[Any], target: pa.DataType) -> None:
    array = to_array(values, target)
    assert array.type == target
    assert array.to_pylist() == as_lists(values)


@pytest.mark.parametrize(
    ("bad", "target", "culprit", "field"),
    [
        (np.array([300]), pa.list_(pa.int8()), 300, "[]"),
        (np.array([[1.5]]), pa.list_(pa.list_(pa.int64())), 1.5, "[][]"),
        (np.array([True]), pa.list_(pa.int64()), True, "[]"),
        (np.array([1]), pa.list_(pa.bool_()), 1, "[]"),
        (np.array([2**60]), pa.list_(pa.float64()), 2**60, "[]"),
        (np.array([1]), pa.list_(pa.list_(pa.int64())), 1, "[]"),
        (np.array([[1]]), pa.list_(pa.int64()), np.array([1]), "[]"),
        (np.array([1]), pa.list_(pa.int64(), 2), np.array([1]), ""),
    ],
    ids=str,
)
def test_an_array_that_does_not_fit_is_refused_by_its_number(bad: Any, target: Any, culprit: Any, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        to_array([None, bad], target)
    assert caught.value.value == culprit
    assert caught.value.field == field


@pytest.mark.parametrize("dtype", NUMBERS)
def test_arrays_of_numpy_are_never_taken_apart(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = arrays([(2, 3), None], dtype)
    expected = infer_type(values)
    for module in (value_types, value_columns):
        monkeypatch.setattr(module, "itertools", None)  # what takes lists apart
    assert infer_type(values) == expected
    assert to_array(values, expected).to_pylist() == as_lists(values)


def test_arrays_of_more_numbers_than_a_column_counts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_columns, "_MOST_ITEMS", 5)
    assert len(to_array([np.arange(2), np.arange(3)], pa.list_(pa.int64()))) == 2
    with pytest.raises(Misfit, match="5 items at most"):
        to_array([np.arange(3), np.arange(3)], pa.list_(pa.int64()))


@pytest.mark.parametrize("value", [np.zeros((2, 3), np.uint8), np.array([True]), np.zeros((0, 3))], ids=str)
def test_an_array_of_numpy_is_decoded_to_lists(value: Any) -> None:
    assert repr(decoded_form(value)) == repr(value.tolist())  # which tells numpy's numbers from Python's


def test_plain_values_within_a_value_are_not_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded, decode = [], value_columns._decoded_form

    def counted(value: Any) -> Any:
        decoded.append(value)
        return decode(value)

    monkeypatch.setattr(value_columns, "_decoded_form", counted)
    value = (list(range(100)), dict.fromkeys("abc", 1), (1, "x"), np.int64(1))
    assert decoded_form(value) == value
    assert len(decoded) == 1 + len(value)


def test_a_decoded_list_or_dict_is_a_new_one() -> None:
    value: tuple[Any, ...] = ([1, 2], {"a": 1})
    form = decoded_form(value)
    assert form == value
    assert all(new is not old for new, old in zip(form, value, strict=True))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_with_a_zone_come_back_as_arrow_gives_them(zone: str, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = np.datetime64("2020-10-25T00:00:00", unit)  # when an hour comes twice in Berlin
    numbers = (start + np.arange(6).astype("timedelta64[s]") * 1800).astype(f"datetime64[{unit}]")
    times = pa.array(numbers).cast(pa.timestamp(unit, zone)).slice(1)
    converted, convert = [], value_columns._in_zone

    def counted(*arguments: Any) -> list[Any]:
        converted.append(arguments)
        return convert(*arguments)

    monkeypatch.setattr(value_columns, "_in_zone", counted)
    found = to_values(times)
    assert len(converted) == 1
    assert found == times.to_pylist()
    assert [(time.tzinfo, time.fold, str(time)) for time in found] == [
        (time.tzinfo, time.fold, str(time)) for time in times.to_pylist()
    ]
    assert to_values(pa.array([None, found[0]], times.type)) == [None, found[0]]
    with pytest.raises(TypeMismatchError, match="the years 1 to 9999"):
        to_values(pa.array([2**60], pa.int64()).cast(pa.timestamp("s", zone)))


@pytest.mark.parametrize("zone", ["UTC", "+01:00"])
def test_a_time_is_the_same_also_where_its_zone_is_off_by_a_fraction_of_a_second(zone: str) -> None:
    offsets = [datetime.timedelta(hours=1, microseconds=500_001), -datetime.timedelta(microseconds=1)]
    times = [datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(each)) for each in offsets]
    values = [*times, None, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)]
    assert to_values(to_array(values, pa.timestamp("us", zone))) == values
    assert to_values(to_array(times[:1], infer_type(times[:1]))) == times[:1]
    with pytest.raises(Misfit):
        to_array(times, pa.timestamp("s", zone))
