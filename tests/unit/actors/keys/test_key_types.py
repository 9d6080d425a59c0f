"""Whether keys are of too many types is one answer, wherever the rows of a stream were cut into batches."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from actors.keys.hashes import key_columns
from actors.keys.key_types import KeyTypes
from flinkray import (
    CountTrigger,
    DataStream,
    EventTimeSessionWindows,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    Sum,
    TumblingEventTimeWindows,
)
from flinkray.batches.batch import Batch
from flinkray.errors import TypeMismatchError
from flinkray.testing import KeyedTwoInputHarness, OneInputHarness
from flinkray.types.keys import FunctionKey
from flinkray.types.records import Kind

UTC = datetime.UTC
VALUES: dict[str, Any] = {
    "none": None,
    "bool": True,
    "int": 7,
    "float": 2.5,
    "decimal": decimal.Decimal("1.25"),
    "str": "x",
    "bytes": b"x",
    "date": datetime.date(2026, 1, 2),
    "time": datetime.time(1, 2),
    "naive": datetime.datetime(2026, 1, 2),
    "aware": datetime.datetime(2026, 1, 2, tzinfo=UTC),
    "timedelta": datetime.timedelta(1),
    "uuid": uuid.UUID(int=1),
    "pair": (1, "a"),
    "other pair": ("a", 1),
    "triple": (1, "a", 2),
}


def verdict(*batches: list[Any]) -> bool:
    """Whether rows with these keys, cut into these batches, are refused."""
    types, selector = KeyTypes(), FunctionKey(lambda index: keys[index])
    keys = [key for batch in batches for key in batch]
    numbers = iter(range(len(keys)))
    try:
        for batch in batches:
            rows = pa.record_batch({"value": [next(numbers) for _ in batch]})
            types.add(key_columns(Batch(rows, Kind.SCALAR), selector, "map (1/1)"), "map (1/1)")
    except TypeMismatchError:
        return True
    return False


@pytest.mark.parametrize("first", VALUES)
@pytest.mark.parametrize("second", VALUES)
def test_two_keys_are_refused_in_two_batches_if_they_are_in_one(first: str, second: str) -> None:
    one, other = VALUES[first], VALUES[second]
    assert verdict([one, other]) == verdict([one], [other]) == verdict([one, one], [other, other])
    if first == second:
        assert not verdict([one], [other])


def columns(*arrays: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(arrays), names=["k", "l"][: len(arrays)])


def test_the_error_names_column_types_and_a_key() -> None:
    types = KeyTypes()
    types.add(columns(pa.array([1]), pa.array(["a"])), "map (1/2)")
    with pytest.raises(TypeMismatchError, match=r"map \(1/2\): key column 'l' was string and is int64 now, such as 5:"):
        types.add(columns(pa.array([1, 2]), pa.array([None, 5])), "map (1/2)")
    with pytest.raises(TypeMismatchError, match=r"the key \(3,\) has 1 columns, and earlier keys had 2"):
        types.add(columns(pa.array([3])), "map (1/2)")


def test_a_dictionary_is_its_values_and_no_rows_have_no_type() -> None:
    types = KeyTypes()
    types.add(columns(pa.array([], pa.int64())), "map (1/1)")
    types.add(columns(pa.array(["a"]).dictionary_encode()), "map (1/1)")
    types.add(columns(pa.array(["b"], pa.large_string())), "map (1/1)")
    with pytest.raises(TypeMismatchError):
        types.add(columns(pa.array([1])), "map (1/1)")


class Echo(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        yield repr(ctx.get_current_key())


def first(left: Any, _right: Any) -> Any:
    return left


def keys_of_windows(key: Any, _context: Any, _rows: Any) -> list[Any]:
    return [key]


GAP = EventTimeSessionWindows.with_gap(5)
WINDOW = TumblingEventTimeWindows.of(10)
CONSUMERS: dict[str, Callable[[DataStream], DataStream]] = {
    "process": lambda rows: rows.key_by("k").process(Echo()),
    "reduce": lambda rows: rows.key_by("k").reduce(first),
    "running": lambda rows: rows.key_by("k").aggregate(total=Sum("v")),
    "window": lambda rows: rows.key_by("k").window(WINDOW).aggregate(total=Sum("v")),
    "window of a function": lambda rows: rows.key_by("k").window(WINDOW).reduce(first),
    "window of rows": lambda rows: rows.key_by("k").window(WINDOW).process(keys_of_windows),
    "session of a function": lambda rows: rows.key_by("k").window(GAP).reduce(first),
    "count window of a function": lambda rows: rows.key_by("k").count_window(2).reduce(first),
    "session": lambda rows: rows.key_by("k").window(GAP).aggregate(total=Sum("v")),
    "count window": lambda rows: rows.key_by("k").count_window(2).aggregate(total=Sum("v")),
    "trigger": lambda rows: rows.key_by("k").window(WINDOW).trigger(CountTrigger.of(1)).aggregate(total=Sum("v")),
}


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_every_keyed_operator_refuses_a_key_of_another_type_from_another_producer(consumer: str) -> None:
    with OneInputHarness.of(CONSUMERS[consumer]) as harness:
        harness.process_batch(pa.record_batch({"k": [1], "v": [1]}), [1])
        with pytest.raises(TypeMismatchError, match="key column 'k' was int64 and is string now, such as 'x'"):
            harness.process_batch(pa.record_batch({"k": ["x"], "v": [1]}), [2])


class Both(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterable[str]:
        yield repr(ctx.get_current_key())

    process_element2 = process_element1


def test_two_inputs_of_one_function_have_keys_of_one_type() -> None:
    with KeyedTwoInputHarness(Both(), key1="a", key2="b") as harness:
        harness.first.process({"a": 1}, timestamp=1)
        with pytest.raises(TypeMismatchError, match="key column 'b' was int64 and is string now"):
            harness.second.process({"b": "1"}, timestamp=1)
