"""Fused row functions do what the functions do one after the other, and errors know whose they are."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import actors
from actors.operators.contract.cancellation import TaskCanceled
from actors.operators.registry import create_operator
from flinkray.batches.batch import Batch
from flinkray.errors import InvalidProgramError, TypeMismatchError, UserFunctionError
from flinkray.functions.interfaces import (
    CheckpointedFunction,
    FilterFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    MapFunction,
    RuntimeContext,
)
from flinkray.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from flinkray.transformations.operator_factories import FilterFactory, FlatMapFactory, MapFactory, OperatorFactory
from flinkray.types.records import Kind, RecordType
from flinkray.types.rows import Row
from tests.support.operators import FakeContext, OperatorHarness, RecordedOutput, code, scalar
from tests.support.state import restored_from


def fused(*factories: OperatorFactory, names: str = "abcdef", **settings: Any) -> OperatorHarness:
    operator = create_operator([code(factory) for factory in factories], list(names[: len(factories)]))
    return OperatorHarness(operator, **settings)


MAPS: list[Callable[[int], Any]] = [lambda v: v + 1, lambda v: v * 2, lambda v: -v]
FILTERS: list[Callable[[int], bool]] = [lambda v: v % 2 == 0, lambda v: v > 0, lambda v: v % 3 != 1]
FLAT_MAPS: list[Callable[[int], Any]] = [
    lambda v: [v, v + 100],
    lambda v: None if v % 2 else range(v % 4),
    lambda v: (v for _ in range(2)),
    lambda _: [],
]
steps = st.one_of(
    st.tuples(st.just(MapFactory), st.sampled_from(MAPS)),
    st.tuples(st.just(FilterFactory), st.sampled_from(FILTERS)),
    st.tuples(st.just(FlatMapFactory), st.sampled_from(FLAT_MAPS)),
)


def model(chain: list[tuple[Any, Any]], rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(value, event time) after the chain, function by function."""
    for factory, function in chain:
        if factory is MapFactory:
            rows = [(function(value), time) for value, time in rows]
        elif factory is FilterFactory:
            rows = [(value, time) for value, time in rows if function(value)]
        else:
            rows = [(result, time) for value, time in rows for result in function(value) or ()]
    return rows


@given(
    st.lists(steps, min_size=1, max_size=5),
    st.lists(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 99)), min_size=1, max_size=12), max_size=3),
    st.booleans(),
    st.integers(1, 5),
)
@settings(max_examples=200, deadline=None)
def test_a_fused_chain_gives_what_its_functions_give(
    chain: list[tuple[Any, Any]], batches: list[list[tuple[int, int]]], has_times: bool, batch_rows: int
) -> None:
    driven = fused(*(factory(function) for factory, function in chain), batch_rows=batch_rows)
    for rows in batches:
        driven.push([value for value, _ in rows], [time for _, time in rows] if has_times else None)
    expected = model(chain, [row for rows in batches for row in rows])
    assert driven.output.rows == [value for value, _ in expected]
    assert driven.output.timestamps == [time if has_times else None for _, time in expected]
    assert all(batch.num_rows <= 4 * batch_rows for batch in driven.output.batches)


def test_an_exploding_flat_map_is_cut_while_it_runs() -> None:
    made = 0

    def many(value: int) -> Iterator[int]:
        nonlocal made
        for made in range(1_000):  # noqa: B007  (counts for the test)
            yield value

    class Watching(RecordedOutput):
        def emit(self, batch: Batch) -> None:
            ahead.append(made)
            super().emit(batch)

    ahead: list[int] = []
    driven = fused(FlatMapFactory(many), MapFactory(str), batch_rows=100, output=Watching())
    driven.push([1])
    assert [batch.num_rows for batch in driven.output.batches] == [64, *[100] * 9, 36]
    assert ahead[0] == 63, "the first batch left before more than it was made"


def test_lists_tuples_iterators_and_none_of_a_flat_map_count_alike() -> None:
    def some(value: int) -> Any:
        made = list(range(10 * value, 10 * value + value))
        return (made, tuple(made), iter(made), None, [], set(made))[value % 6]

    rows = list(range(40))
    expected = model([(FlatMapFactory, some)], [(row, row) for row in rows])
    for declared in (None, scalar(pa.int64())):
        for has_times in (True, False):
            driven = fused(FlatMapFactory(some, declared), batch_rows=7)
            for start in (0, 20):
                driven.push(rows[start : start + 20], rows[start : start + 20] if has_times else None)
            assert driven.output.rows == [value for value, _ in expected]
            assert driven.output.timestamps == [time if has_times else None for _, time in expected]
            assert all(batch.num_rows <= 14 for batch in driven.output.batches)


def test_a_list_that_its_function_gives_again_counts_as_it_was_each_time() -> None:
    same: list[int] = []

    def growing(value: int) -> list[int]:
        same.append(value)
        return same

    driven = fused(FlatMapFactory(growing, scalar(pa.int64())))
    driven.push([1, 2, 3])
    assert driven.output.rows == [1, 1, 2, 1, 2, 3]


def test_a_value_in_a_list_that_does_not_fit_is_named() -> None:
    for odd in (2**63, "text", 1.5, True, [1]):
        driven = fused(FlatMapFactory(lambda value, odd=odd: [value, odd], scalar(pa.int64())), names="x")
        with pytest.raises(TypeMismatchError, match=re.escape(f"operator 'x' (subtask 1 of 1): value {odd!r}")):
            driven.push([1, 2])


@pytest.mark.parametrize("odd", [2**63, -(2**63) - 1, True, 1.5, None, np.int64(7), 2**63 - 1, -(2**63)])
def test_an_odd_value_between_functions_is_what_a_batch_makes_of_it(odd: Any) -> None:
    def shown(chain: Callable[[], list[Any]]) -> Any:
        try:
            return [(type(row), row) for row in chain()]
        except TypeMismatchError as error:
            return str(error)

    for declared in (scalar(pa.int64()), scalar(pa.float64())):
        make = MapFactory(lambda value: odd if value == 2 else value * 3, declared)
        seen: list[Any] = []
        look = MapFactory(lambda value, seen=seen: seen.append(value))

        def together(make: Any = make, look: Any = look, seen: Any = seen) -> list[Any]:
            seen.clear()
            fused(make, look).push([1, 2, 3])
            return list(seen)

        def apart(make: Any = make, look: Any = look, seen: Any = seen) -> list[Any]:
            seen.clear()
            first, second = fused(make), fused(look)
            first.push([1, 2, 3])
            second.push(first.output.batches[0])
            return list(seen)

        assert shown(together) == shown(apart)


@pytest.mark.parametrize("inside", [(1, 2), (1, [2]), (None, "x", b"y", 1.5, True), ((1, 2), 3), ()])
def test_a_tuple_reaches_the_next_function_as_a_batch_would_give_it(inside: tuple[Any, ...]) -> None:
    seen: list[Any] = []
    fused(MapFactory(lambda _: inside), MapFactory(seen.append)).push([1, 1])
    first, apart = fused(MapFactory(lambda _: inside)), list[Any]()
    first.push([1, 1])
    fused(MapFactory(apart.append)).push(first.output.batches[0])
    assert seen == apart


def test_no_function_is_called_twice_for_a_row_also_when_one_fails() -> None:
    calls: list[tuple[str, int]] = []

    def noting(name: str) -> Callable[[int], int]:
        def function(value: int) -> int:
            calls.append((name, value))
            return 1 // (5 - value) or 1 if name == "fails" else value

        return function

    driven = fused(MapFactory(noting("first"), scalar(pa.int64())), FilterFactory(noting("fails")))
    with pytest.raises(UserFunctionError, match=r"operator 'b'.*the value was 5"):
        driven.push(list(range(1, 9)))
    assert calls == [(name, value) for value in range(1, 6) for name in ("first", "fails")]


def test_large_rows_are_cut_by_bytes() -> None:
    driven = fused(MapFactory(lambda _: "x" * 1_000), batch_bytes=10_000)
    driven.push(list(range(200)))
    assert len(driven.output.rows) == 200
    assert max(batch.nbytes for batch in driven.output.batches) <= 4 * 10_000
    exploding = fused(FlatMapFactory(lambda _: ["y" * 1_000] * 300), batch_bytes=10_000, batch_rows=1_000)
    exploding.push([1, 2, 3])
    assert len(exploding.output.rows) == 900
    assert max(batch.nbytes for batch in exploding.output.batches) <= 4 * 10_000


def test_filters_keep_the_columns_as_they_are() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.large_string()), ("c", pa.float32())])
    data = pa.RecordBatch.from_pylist([{"a": i, "b": str(i), "c": i / 3} for i in range(6)], schema)
    driven = fused(FilterFactory(lambda row: row.a % 2 == 0), FilterFactory(lambda row: row["b"] != "2"))
    driven.push(data, [10, 11, 12, 13, 14, 15])
    assert driven.output.batches[0].data.equals(data.take(pa.array([0, 4])))
    assert driven.output.timestamps == [10, 14]
    kept = fused(FilterFactory(lambda _: True))
    kept.push(data)
    assert kept.output.batches[0].data is data


def test_a_filter_that_drops_all_emits_nothing() -> None:
    driven = fused(FilterFactory(lambda _: False))
    driven.push([1, 2])
    assert driven.output.elements == []


@dataclasses.dataclass
class Person:
    name: str
    age: int


@pytest.mark.parametrize(
    "value",
    [{"name": "Ann", "age": 3}, Person("Ann", 3), Row(name="Ann", age=3), ("Ann", 3, [1, (2,)]), np.int64(5), [1, 2]],
)
def test_the_next_function_sees_the_same_value_fused_or_behind_a_batch(value: Any) -> None:
    seen: list[Any] = []

    def look(got: Any) -> int:
        seen.append(got)
        return 0

    fused(MapFactory(lambda _: value), MapFactory(look)).push([1])
    first = fused(MapFactory(lambda _: value))
    first.push([1])
    alone = fused(MapFactory(look))
    alone.push(first.output.batches[0])
    assert seen[0] == seen[1]
    assert type(seen[0]) is type(seen[1])


def test_a_declared_type_between_fused_functions_holds() -> None:
    row = RecordType(Kind.ROW, pa.schema([("name", pa.string()), ("age", pa.float64())]))
    for declared, given_value, expected in (
        (scalar(pa.float64()), 3, 3.0),
        (row, {"age": 3, "name": "Ann"}, Row(name="Ann", age=3.0)),
        (RecordType(Kind.TUPLE, pa.schema([("f0", pa.int32()), ("f1", pa.string())])), (1, None), (1, None)),
        (scalar(pa.list_(pa.float64())), [1, 2], [1.0, 2.0]),
    ):
        seen: list[Any] = []
        chain = fused(MapFactory(lambda _, v=given_value: v, declared), MapFactory(lambda got, s=seen: s.append(got)))
        chain.push([1, 2], [10, 20])
        assert seen == [expected] * 2
        assert list(map(type, seen)) == [type(expected)] * 2


@pytest.mark.parametrize("arrow_type", [pa.int32(), pa.list_(pa.int64())])
def test_a_value_outside_its_declared_type_names_the_function_that_made_it(arrow_type: pa.DataType) -> None:
    driven = fused(MapFactory(lambda _: 2**31, scalar(arrow_type)), MapFactory(str), names="xy")
    with pytest.raises(TypeMismatchError, match=r"operator 'x'.*value 2147483648"):
        driven.push([1])


def fail_on_three(value: int) -> int:
    if value == 3:
        raise ValueError("three is bad")
    return value


def generate_until_three(value: int) -> Iterator[int]:
    yield value
    fail_on_three(value)


@pytest.mark.parametrize(
    ("position", "factory"),
    list(
        itertools.product(
            range(3),
            [
                MapFactory(fail_on_three),
                FlatMapFactory(generate_until_three),
                FilterFactory(lambda v: fail_on_three(v) + 1),
            ],
        )
    ),
)
def test_an_error_names_the_operator_the_value_and_only_the_users_lines(position: int, factory: Any) -> None:
    harmless = [
        MapFactory(lambda value: value),
        FilterFactory(lambda _: True),
        FlatMapFactory(lambda value: [value]),
    ]
    chain = [*harmless[:position], factory, *harmless[position:]]
    driven = fused(*chain, names=["p", "q", "r", "s"])
    with pytest.raises(UserFunctionError) as caught:
        driven.push([1, 2, 3, 4], [1, 2, 3, 4])
    error = caught.value
    assert (error.operator, error.subtask, error.value) == ("pqrs"[position], "1 of 1", "3")
    assert error.message == "ValueError: three is bad"
    assert "fail_on_three" in error.cause_traceback
    assert actors.__path__[0] not in error.cause_traceback
    assert isinstance(error.__cause__, ValueError)


def test_an_error_of_a_later_operator_is_not_this_ones() -> None:
    class Failing(RecordedOutput):
        def emit(self, batch: Batch) -> None:
            raise KeyError("downstream")

    for factory in (MapFactory(str), FlatMapFactory(lambda value: [value]), FilterFactory(bool)):
        with pytest.raises(KeyError, match="downstream"):
            fused(factory, output=Failing(), batch_rows=1).push([1, 2])


@pytest.mark.parametrize("make", [list, lambda seen: (1, seen), lambda seen: {"seen": seen}, set])
def test_a_function_that_gives_the_same_object_again_gives_what_it_was_each_time(make: Callable[[Any], Any]) -> None:
    seen: list[int] = []
    same: Any = make(seen)

    def remember(value: int) -> Any:
        (same.add if isinstance(same, set) else seen.append)(value)
        return same if isinstance(same, set | tuple | dict) else seen

    harness = fused(MapFactory(remember))
    harness.push([1, 2])
    harness.push([3])
    sizes = [len(row if isinstance(row, set | list) else row[-1]) for row in harness.output.rows]
    assert sizes == [1, 2, 3]


def test_an_empty_next_in_a_function_is_an_error_not_the_end() -> None:
    driven = fused(MapFactory(lambda _: next(iter(()))))
    with pytest.raises(UserFunctionError, match=r"operator 'a'.*the value was 1"):
        driven.push([1])


def test_a_flat_map_that_returns_no_iterable_is_the_functions_error() -> None:
    with pytest.raises(UserFunctionError, match="'int' object is not iterable"):
        fused(FlatMapFactory(lambda value: value)).push([1])


class Recording(MapFunction, FilterFunction, FlatMapFunction):
    """Notes its life cycle."""

    def __init__(self, log: list[str], name: str, fails: bool = False) -> None:
        self.log, self.name, self.fails = log, name, fails

    def open(self, runtime_context: RuntimeContext) -> None:
        self.log.append(f"open {self.name} as {runtime_context.get_task_name()}")
        if self.fails:
            raise RuntimeError("no open")

    def close(self) -> None:
        self.log.append(f"close {self.name}")

    def map(self, value: Any) -> Any:
        return value

    def filter(self, value: Any) -> bool:
        return True

    def flat_map(self, value: Any) -> Any:
        return [value]


def test_functions_are_opened_from_the_tail_and_each_closed_once() -> None:
    log: list[str] = []
    chain = [MapFactory(Recording(log, "1")), FilterFactory(Recording(log, "2")), FlatMapFactory(Recording(log, "3"))]
    with fused(*chain) as driven:
        driven.push([1])
        assert log == ["open 3 as c", "open 2 as b", "open 1 as a"]
        driven.operator.close()
    assert sorted(log[3:]) == ["close 1", "close 2", "close 3"]


def test_a_failing_open_names_its_operator_and_what_was_opened_is_closed() -> None:
    log: list[str] = []
    chain = [MapFactory(Recording(log, "1", fails=True)), MapFactory(Recording(log, "2"))]
    operator = create_operator([code(factory) for factory in chain], ["first", "second"])
    with pytest.raises(UserFunctionError, match=r"operator 'first'.*RuntimeError: no open"):
        OperatorHarness(operator)
    operator.close()
    assert "close 2" in log


def test_keyed_state_outside_a_keyed_function_is_refused_with_the_way_out() -> None:
    class Stateful(Recording):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("seen"))

    with pytest.raises(InvalidProgramError, match=r"state 'seen'.*key_by"):
        fused(MapFactory(Stateful([], "s")))


def test_runtime_context_says_where_the_function_runs() -> None:
    seen: dict[str, Any] = {}

    class Asking(Recording):
        def open(self, runtime_context: RuntimeContext) -> None:
            seen["name"] = runtime_context.get_task_name_with_subtasks()
            seen["index"] = runtime_context.get_index_of_this_subtask()
            runtime_context.add_accumulator("n").add(2)

    driven = fused(MapFactory(Asking([], "s")), subtask_index=1, parallelism=3)
    assert seen == {"name": "a (2/3)", "index": 1}
    assert driven.context.accumulators["n"].value == 2


# -- state of the functions


class Numbering(MapFunction, CheckpointedFunction):
    """Numbers its rows, and goes on where a snapshot left off."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_list_state(ListStateDescriptor("next"))
        self.next = sum(self.state.get())

    def map(self, value: Any) -> Any:
        self.next += 1
        return (*value, self.next)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.next])


def test_a_function_goes_on_with_the_state_that_it_had() -> None:
    def chain() -> OperatorHarness:
        return fused(MapFactory(Numbering(), None), MapFactory(lambda value: (*value, "x"), None), restored=restored)

    restored: Any = None
    first = chain()
    first.push([(0,), (0,)])
    restored = restored_from([first.snapshot()], range(128))
    second = chain()
    second.push([(0,)])
    assert second.output.rows == [(0, 3, "x")]


def stop(value: int) -> Any:
    raise {7: SystemExit(3), 9: GeneratorExit("end")}.get(value) or asyncio.CancelledError(f"for {value}")


@pytest.mark.parametrize(
    ("factory", "value", "message"),
    [
        (MapFactory(stop), 7, "SystemExit: 3; the value was 7"),
        (MapFactory(stop), 8, "CancelledError: for 8; the value was 8"),
        (FilterFactory(stop), 7, "SystemExit: 3; the value was 7"),
        (FlatMapFactory(lambda value: (stop(value) for _ in "a")), 8, "CancelledError: for 8; the value was 8"),
        (MapFactory(stop), 9, "GeneratorExit: end; the value was 9"),
        (FlatMapFactory(lambda value: (stop(value) for _ in "a")), 9, "GeneratorExit: end; the value was 9"),
    ],
)
def test_a_function_that_ends_its_thread_is_an_error_of_its_own(
    factory: OperatorFactory, value: int, message: str
) -> None:
    with pytest.raises(UserFunctionError, match=f"operator 'b'.*{message}") as raised:
        fused(MapFactory(lambda v: v), factory).push([value])
    assert "in stop" in raised.value.cause_traceback


class Stopping(MapFunction):
    def __init__(self, where: str) -> None:
        self._where = where

    def open(self, runtime_context: RuntimeContext) -> None:
        if self._where == "open":
            raise SystemExit("no")

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        if self._where == "close":
            raise SystemExit("no")


@pytest.mark.parametrize("where", ["open", "close"])
def test_ending_the_thread_in_open_or_close_is_an_error_too(where: str) -> None:
    with pytest.raises(UserFunctionError, match=r"operator 'a'.*SystemExit: no"):  # noqa: SIM117
        with fused(MapFactory(Stopping(where))) as driven:
            driven.push([1])


def test_what_does_not_come_of_the_function_passes_as_it_is() -> None:
    def interrupt(_value: int) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fused(MapFactory(interrupt)).push([1])


def test_an_error_that_cannot_tell_its_message_is_reported_by_its_type() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise KeyError("text")

    def fail(_value: int) -> Any:
        raise Silent

    with pytest.raises(UserFunctionError, match=r"operator 'a'.*Silent: \(.*__str__ raised KeyError\); the value"):
        fused(MapFactory(fail)).push([1])


FRUITLESS: list[list[OperatorFactory]] = [
    [FilterFactory(lambda _: False)],
    [MapFactory(lambda v: v), FilterFactory(lambda _: False), MapFactory(lambda v: v)],
    [FlatMapFactory(lambda _: [])],
    [FlatMapFactory(lambda _: None), MapFactory(lambda v: v)],
    # Cut in two loops: only Arrow brings a list into its declared type.
    [
        MapFactory(lambda v: [v], RecordType(Kind.SCALAR, pa.schema([("value", pa.list_(pa.int64()))]))),
        FilterFactory(lambda _: False),
    ],
]


@pytest.mark.parametrize("behind", FRUITLESS)
@pytest.mark.parametrize("timestamps", [None, [5]])
def test_a_flat_map_of_which_nothing_stays_ends_when_its_task_is_cancelled(
    behind: list[OperatorFactory], timestamps: list[int] | None
) -> None:
    context = FakeContext(batch_rows=100)

    def count(_value: int) -> Iterator[int]:
        yield from range(1000)
        context.cancellation.set()
        yield from range(1000)
        raise AssertionError("nobody looked")

    with pytest.raises(TaskCanceled):
        fused(FlatMapFactory(count), *behind, context=context).push([0], timestamps)
