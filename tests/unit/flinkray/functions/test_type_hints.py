"""Record types from what users write."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple, Optional, TypedDict

import numpy as np
import pyarrow as pa
import pytest

from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import FlatMapFunction, MapFunction
from flinkray.functions.type_hints import arrow_type, from_annotation, record_type, scalar_type
from flinkray.types.object_type import PICKLED
from flinkray.types.records import Kind, OutputTag, RecordType
from flinkray.types.type_info import OBJECT_TYPE, Types


@dataclasses.dataclass
class Point:
    x: int
    y: float | None = None


class Trade(NamedTuple):
    symbol: str
    at: datetime.datetime


class Named(TypedDict):
    name: str


@dataclasses.dataclass
class Node:
    value: int
    kids: list[Node]


class Inner(NamedTuple):
    outer: Outer | None


@dataclasses.dataclass
class Outer:
    inner: dict[str, tuple[int, Inner]]


@dataclasses.dataclass
class Line:
    start: Point
    end: Point


def rows(**fields: pa.DataType) -> RecordType:
    return RecordType(Kind.ROW, pa.schema(list(fields.items())))


def tuples(*fields: pa.DataType) -> RecordType:
    return RecordType(Kind.TUPLE, pa.schema([(f"f{i}", field) for i, field in enumerate(fields)]))


POINT = rows(x=pa.int64(), y=pa.float64())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (POINT, POINT),
        (POINT.schema, POINT),
        (Point, POINT),
        (Trade, rows(symbol=pa.string(), at=pa.timestamp("us"))),
        (Named, rows(name=pa.string())),
        ({"a": int, "b": pa.int8()}, rows(a=pa.int64(), b=pa.int8())),
        ([int, str], tuples(pa.int64(), pa.string())),
        ((pa.int8(), Types.STRING()), tuples(pa.int8(), pa.string())),
        (tuple[int, Point], tuples(pa.int64(), pa.struct(list(POINT.schema)))),
        (int, scalar_type(pa.int64())),
        (bool, scalar_type(pa.bool_())),
        (bytes, scalar_type(pa.binary())),
        (datetime.date, scalar_type(pa.date32())),
        (datetime.timedelta, scalar_type(pa.duration("us"))),
        (decimal.Decimal, scalar_type(pa.decimal128(38, 18))),
        (uuid.UUID, scalar_type(pa.uuid())),
        (Optional[int], scalar_type(pa.int64())),  # noqa: UP045
        (list[int | None], scalar_type(pa.list_(pa.int64()))),
        (dict[str, list[float]], scalar_type(pa.map_(pa.string(), pa.list_(pa.float64())))),
        (np.int16, scalar_type(pa.int16())),
        (np.dtype("float32"), scalar_type(pa.float32())),
        (pa.struct([("a", pa.int8())]), scalar_type(pa.struct([("a", pa.int8())]))),
        (object, OBJECT_TYPE),
        (Any, OBJECT_TYPE),
        (Types.LONG(), scalar_type(pa.int64())),
        (Types.TUPLE([Types.STRING(), Types.INT()]), tuples(pa.string(), pa.int32())),
        (Types.ROW([Types.BOOLEAN()]), rows(f0=pa.bool_())),
        (Types.ROW_NAMED(["a"], [Types.LIST(Types.LONG())]), rows(a=pa.list_(pa.int64()))),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), scalar_type(pa.map_(pa.string(), pa.float64()))),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), scalar_type(pa.binary())),
        (Types.PICKLED_BYTE_ARRAY(), OBJECT_TYPE),
        (Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()]), tuples(pa.string(), PICKLED)),
        ([Types.STRING(), Types.PICKLED_BYTE_ARRAY()], tuples(pa.string(), PICKLED)),
    ],
)
def test_every_way_to_write_a_type(spec: Any, expected: RecordType) -> None:
    assert record_type(spec) == expected


@pytest.mark.parametrize("spec", [Callable, 7, "int", int | str, tuple[int, ...], list, [list], set[int]])
def test_what_is_no_record_type_is_refused(spec: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"no type of records"):
        record_type(spec)


def test_named_rows_need_a_type_per_name() -> None:
    with pytest.raises(ValueError, match="1 names and 2 types"):
        Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()])


def test_a_field_type_may_be_nested() -> None:
    assert arrow_type(list[Point]) == pa.list_(pa.struct(list(POINT.schema)))
    assert arrow_type(tuple[int, ...]) == pa.list_(pa.int64())
    with pytest.raises(InvalidProgramError, match="column can have"):
        arrow_type(Callable)


@pytest.mark.parametrize(
    ("spec", "name"),
    [(Node, "Node"), (Outer, "Outer"), (Inner, "Inner"), (list[Node], "Node"), ({"a": int, "b": Node}, "Node")],
)
def test_a_type_that_contains_itself_is_refused_by_name(spec: Any, name: str) -> None:
    for make in (record_type, arrow_type):
        with pytest.raises(InvalidProgramError, match=f"cannot contain itself, as {name} does"):
            make(spec)


def test_a_type_may_contain_another_twice() -> None:
    point = pa.struct(list(POINT.schema))
    assert record_type(Line) == rows(start=point, end=point)


def returns_node(_value: Any) -> Node: ...


def test_an_annotation_of_a_type_that_contains_itself_says_nothing() -> None:
    assert from_annotation(Node) is None
    assert from_annotation(returns_node) is None


def returns_int(_value: Any) -> int:
    return 1


def returns_any(_value: Any) -> Any: ...


def returns_none(_value: Any) -> None: ...


def returns_dict(_value: Any) -> dict[str, int]: ...


def returns_unknown_name(_value: Any) -> DoesNotExist:  # type: ignore[name-defined]  # noqa: F821
    ...


class Callee:
    def __call__(self, value: Any) -> str:
        return str(value)


class ToPoint(MapFunction):
    def map(self, value: Any) -> Point:
        return Point(value)


class Untyped(MapFunction):
    def map(self, value):  # type: ignore[no-untyped-def]
        return value


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (returns_int, scalar_type(pa.int64())),
        (functools.partial(returns_int), scalar_type(pa.int64())),
        (Callee(), scalar_type(pa.string())),
        (ToPoint(), POINT),
        (Point, POINT),
        (str, scalar_type(pa.string())),
        (Untyped(), None),
        (lambda value: value, None),
        (returns_any, None),
        (returns_none, None),
        (returns_dict, None),
        (returns_unknown_name, None),
        (len, None),
    ],
)
def test_a_return_annotation_is_a_type_where_it_names_one(function: Any, expected: RecordType | None) -> None:
    assert from_annotation(function) == expected


def yields_words(_line: str) -> Iterator[str]:
    yield ""


def generates(_line: str) -> Generator[tuple[str, int], None, None]:
    yield "", 1


def perhaps_list(_line: str) -> list[int] | None: ...


def yields_sides(_line: str) -> Iterator[int | tuple[OutputTag, str]]:
    yield 1


def yields_only_sides(_line: str) -> Iterator[tuple[OutputTag, str]]: ...


def yields_dicts(_line: str) -> Iterator[dict[str, int]]: ...


def returns_text(_line: str) -> str: ...


class Split(FlatMapFunction):
    def flat_map(self, value: str) -> Iterable[str]:
        return value.split()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (yields_words, scalar_type(pa.string())),
        (generates, tuples(pa.string(), pa.int64())),
        (perhaps_list, scalar_type(pa.int64())),
        (yields_sides, scalar_type(pa.int64())),
        (yields_only_sides, None),
        (yields_dicts, None),
        (returns_text, None),
        (Split(), scalar_type(pa.string())),
        (str.split, None),
    ],
)
def test_the_items_of_a_return_annotation(function: Any, expected: RecordType | None) -> None:
    assert from_annotation(function, of_items=True) == expected


def test_types_that_arrow_cannot_compute_with_mean_those_that_hold_the_same() -> None:
    found = record_type({"name": pa.string_view(), "price": pa.decimal64(10, 2), "n": int})
    assert found.schema.types == [pa.large_string(), pa.decimal128(10, 2), pa.int64()]
