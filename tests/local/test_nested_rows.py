"""What is nested in a row has attributes as the row itself has, whatever made it, and is a key."""

from __future__ import annotations

import copy
import decimal
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from flinkray import (
    Count,
    DataStream,
    JobExecutionError,
    KeyedProcessFunction,
    Row,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.persistence import dumps, loads
from flinkray.types.structs import Struct
from tests.support.whole_jobs import rows


@dataclass
class Place:
    x: int
    name: str = "q"


@dataclass
class Order:
    n: int
    p: Place


class Named(NamedTuple):
    n: int
    p: Place


MADE_OF = {
    "dataclass": [Order(1, Place(2))],
    "named tuple": [Named(1, Place(2))],
    "dict": [{"n": 1, "p": {"x": 2, "name": "q"}}],
    "row": [Row(n=1, p=Row(x=2, name="q"))],
}


def orders(env: StreamExecutionEnvironment, made_of: str) -> DataStream:
    if made_of == "columns":
        place = pa.struct(
            [("x", pa.int64()), ("name", pa.string())]
        )  # Arrow once had the fields in the order of letters
        return env.from_arrow(pa.table({"n": [1], "p": pa.array([{"x": 2, "name": "q"}], place)}))
    return env.from_collection(MADE_OF[made_of])


WAYS = pytest.mark.parametrize("made_of", [*MADE_OF, "columns"])


@WAYS
def test_fields_of_what_is_nested_are_attributes_and_items(env: StreamExecutionEnvironment, made_of: str) -> None:
    stream = orders(env, made_of).map(lambda order: [order.p.x, order.p["x"], list(order.p.keys()), order.p.name])
    assert rows(stream) == [[2, 2, ["x", "name"], "q"]]
    assert rows(orders(env, made_of).map(lambda order: {"p": order.p}).map(lambda row: row.p.x)) == [2]
    assert rows(orders(env, made_of).map(lambda order: {"l": [order.p]}).rebalance().map(lambda r: r.l[0].x)) == [2]
    assert rows(orders(env, made_of).map(lambda order: order.p)) == [Row(x=2, name="q")]


class OfKey(KeyedProcessFunction):
    """Gives the attribute of its key, a hash of which must be there, as it is a key of state."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[Any, ...]]:
        yield ctx.get_current_key().x, {ctx.get_current_key(): 1} == {Row(x=2, name="q"): 1}


@WAYS
@pytest.mark.parametrize("by", ["column", "function"])
def test_what_is_nested_is_a_key(env: StreamExecutionEnvironment, made_of: str, by: str) -> None:
    env.set_parallelism(2)
    keyed = orders(env, made_of).key_by("p" if by == "column" else lambda order: order.p)
    assert rows(keyed.process(OfKey())) == [(2, True)]
    assert [row.n for row in rows(keyed.aggregate(n=Count(), s=Sum("n")))] == [1]
    timed = orders(env, made_of).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("n")
    )
    windowed = timed.key_by("p").window(TumblingEventTimeWindows.of(10))
    assert rows(windowed.process(lambda key, *_: [key.x])) == [2]


def test_a_struct_is_a_dict_that_names_the_fields_it_has() -> None:
    struct = Struct(x=1, items=2)
    assert struct == {"x": 1, "items": 2}
    assert list(struct.items()) == [("x", 1), ("items", 2)]
    struct.x = 3
    assert struct["x"] == 3
    with pytest.raises(AttributeError, match=r"has no field 'y'.*fields: x, items"):
        _ = struct.y
    with pytest.raises(AttributeError, match=r"set the field as struct\['items'\]"):
        struct.items = 1  # type: ignore[method-assign,assignment]
    for same in (copy.copy(struct), copy.deepcopy(struct), pickle.loads(pickle.dumps(struct)), loads(dumps(struct))):
        assert (type(same), same) == (Struct, struct)


def as_decimal(text: str) -> decimal.Decimal:
    return decimal.Decimal(text)


@dataclass
class Price:
    value: decimal.Decimal


def as_price(text: str) -> Price:
    return Price(decimal.Decimal(text))


@pytest.mark.parametrize("text", ["1.5", "1e-25", "12345678901234567890123"])
def test_decimals_that_an_annotation_names_have_the_digits_that_the_function_gives(
    env: StreamExecutionEnvironment, text: str
) -> None:
    (value,) = rows(env.from_collection([text]).map(as_decimal))
    (price,) = rows(env.from_collection([text]).map(as_price))
    assert str(value) == str(price.value) == str(decimal.Decimal(text))


def as_any(n: int) -> Any:
    return {"n": n}


def test_any_says_nothing_about_the_type(env: StreamExecutionEnvironment) -> None:
    assert rows(env.from_collection([1]).map(as_any).key_by("n").aggregate(count=Count())) == [Row(n=1, count=1)]


@pytest.mark.parametrize("row", [{"n": 1}, Row(n=1), (1, 2), Order(1, Place(2))], ids=lambda row: type(row).__name__)
@pytest.mark.parametrize("first", ["row", "none"])
@pytest.mark.parametrize("operation", ["map", "flat_map"])
@pytest.mark.parametrize("is_fused", [True, False], ids=["fused", "apart"])
def test_a_function_that_gives_none_beside_rows_is_told_whether_it_is_fused_or_not(
    env: StreamExecutionEnvironment, row: Any, first: str, operation: str, is_fused: bool
) -> None:
    numbers = env.set_parallelism(1).from_collection([0, 1] if first == "row" else [1, 0])
    if operation == "map":
        given = numbers.map(lambda n: None if n else row)
    else:
        given = numbers.flat_map(lambda n: [None if n else row])
    seen = (given if is_fused else given.rebalance()).map(lambda value: value is None)
    with pytest.raises(JobExecutionError, match=r"value None does not fit a .*leave such rows out, with flat_map"):
        rows(seen)


@pytest.mark.parametrize("is_fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("value", [1, "x", [1], decimal.Decimal(1)], ids=str)
def test_none_beside_bare_values_is_null(env: StreamExecutionEnvironment, value: Any, is_fused: bool) -> None:
    given = env.from_collection([0, 1, 0]).map(lambda n: None if n else value)
    assert rows((given if is_fused else given.rebalance()).map(lambda each: each is None)) == [False, False, True]
