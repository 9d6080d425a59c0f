"""What the task's thread does for a snapshot does not grow with the number of keys, but for copies of whole arrays."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from actors.operators.contract.operator import Operator
from actors.operators.functions.shared_values import SharedValues
from actors.operators.joins.window_operator import create_co_group_operator
from actors.operators.registry import create_operator
from actors.operators.windows.choice import create_window_operator
from flinkray.functions.interfaces import AggregateFunction
from flinkray.transformations.operator_factories import (
    ReduceFactory,
    RunningAggregateFactory,
    RunningColumnFactory,
    WindowCoGroupFactory,
    WindowFactory,
)
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.windows.aggregates import ArgMax, Avg, CollectList, Count, CountDistinct, First, Last, Max, Min, Sum, TopN
from flinkray.windows.assigners import CountSlidingWindowAssigner, SlidingEventTimeWindows
from tests.support.operators import OperatorHarness, code
from tests.support.state import restored_from, write_snapshot

KEY = ColumnKey(("key",))
COLUMNS = (Count, Min, Max, First, Last, CountDistinct, CollectList)
EVERYTHING = (
    *((f"{aggregate} of {column}", aggregate(column)) for aggregate in COLUMNS for column in ("value", "text")),
    ("sum", Sum("value")),
    ("mean", Avg("value")),
    ("top", TopN("text", 2)),
    ("at", ArgMax("text", by="value")),
)
SLIDING = SlidingEventTimeWindows.of(20, 10)
COUNTED = CountSlidingWindowAssigner.of(5, 3)


class Listing(AggregateFunction):
    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value.value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator


OPERATORS: dict[str, Callable[[], Operator]] = {
    "running aggregates": lambda: create_operator([code(RunningAggregateFactory(EVERYTHING))], ["op"]),
    "running column": lambda: create_operator([code(RunningColumnFactory("max_by", "value"))], ["op"]),
    "running sum": lambda: create_operator([code(RunningColumnFactory("sum", "value"))], ["op"]),
    "reduce": lambda: create_operator([code(ReduceFactory(lambda _, right: right))], ["op"]),
    "columnar windows": lambda: create_window_operator(code(WindowFactory(SLIDING, aggregates=EVERYTHING))),
    "count windows": lambda: create_window_operator(code(WindowFactory(COUNTED, aggregates=EVERYTHING))),
    "windows of lists": lambda: create_window_operator(code(WindowFactory(SLIDING, process=lambda *_: []))),
    "windows of accumulators": lambda: create_window_operator(code(WindowFactory(SLIDING, aggregate=Listing()))),
    "joins": lambda: create_co_group_operator(code(WindowCoGroupFactory(SLIDING, True, None))),
}


def harness_with(name: str, keys: int) -> OperatorHarness:
    harness = OperatorHarness(OPERATORS[name](), keys=[KEY, KEY])
    for time in (1, 12):
        for index in range(harness.operator.number_of_inputs):
            numbers = list(range(keys))
            batch = {"key": numbers, "value": numbers, "text": [f"text {number}" for number in numbers]}
            harness.push(batch, [time] * keys, index)
    return harness


def calls_of(action: Callable[[], object]) -> Counter[str]:
    """How often it calls what: of Python and of compiled code."""
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls[argument.__qualname__ if event == "c_call" else frame.f_code.co_qualname] += 1

    gc.disable()  # a collection calls what others have registered for it
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


@pytest.mark.parametrize("name", OPERATORS)
def test_the_synchronous_part_makes_as_many_calls_for_many_keys_as_for_few(name: str) -> None:
    _, few, many = (calls_of(harness_with(name, keys).snapshot) for keys in (1, 10, 1500))  # the first fills caches
    assert few == many


@pytest.mark.parametrize("name", OPERATORS)
def test_the_synchronous_part_neither_sorts_nor_hashes_nor_pickles_nor_makes_arrow_columns(name: str) -> None:
    calls = calls_of(harness_with(name, 200).snapshot)
    forbidden = ("argsort", "unique", "key_groups", "key_hashes", "dumps", "to_array", "_reduce", "take", "array")
    # The list of per-subtask facts has one item, and that is pickled.
    assert calls["dumps"] <= 1
    assert not [call for call in calls if call.split(".")[-1] in forbidden and call.split(".")[-1] != "dumps"]


@pytest.mark.parametrize("name", OPERATORS)
def test_what_comes_after_the_barrier_does_not_show_in_a_snapshot_that_is_written_later(name: str) -> None:
    at_once, later = harness_with(name, 50), harness_with(name, 50)
    expected = write_snapshot(at_once.snapshot())
    snapshot = later.snapshot()
    for time in (3, 13, 14):
        for index in range(later.operator.number_of_inputs):
            numbers = list(range(20, 70))
            batch = {"key": numbers, "value": [number + 0.5 for number in numbers], "text": ["changed"] * 50}
            later.push(batch, [time] * 50, index)
    for index in range(later.operator.number_of_inputs):
        later.watermark(1000, index)
    written = write_snapshot(snapshot)
    for ours, theirs in zip(written.parts, expected.parts, strict=True):
        assert (ours.name, ours.items) == (theirs.name, theirs.items)
        assert ours.data == theirs.data


def test_values_are_copied_while_a_snapshot_shares_them_and_not_afterwards() -> None:
    class Bag:
        def __init__(self, number: int) -> None:
            self.numbers = {number}

    given: list[Bag] = []

    def extend(left: Bag, right: Bag) -> Bag:
        given.append(left)
        left.numbers |= right.numbers
        return left

    key = FunctionKey(lambda _: 0)
    factory = ReduceFactory(extend)
    harness = OperatorHarness(create_operator([code(factory)], ["op"]), keys=[key])
    for number in range(3):
        harness.push([Bag(number)])
    assert given[0] is given[1]
    snapshot = harness.snapshot()
    harness.push([Bag(3)])
    assert given[2] is not given[1]
    harness.push([Bag(4)])
    assert given[3] is given[2], "copied once"
    assert snapshot is not None
    discarded = harness.snapshot()
    assert discarded is not None
    discarded.discard()
    harness.push([Bag(5)])
    assert given[4] is given[3]
    restored = restored_from([snapshot], range(128))
    after = OperatorHarness(create_operator([code(factory)], ["op"]), keys=[key], restored=restored)
    after.push([Bag(9)])
    assert [bag.numbers for bag in after.output.rows] == [{0, 1, 2, 9}]


def test_a_value_is_shared_until_all_snapshots_that_hold_it_are_written_in_whatever_order() -> None:
    shared: SharedValues[list[Any]] = SharedValues()
    values = [object()]
    first = shared.freeze(values)
    second = shared.freeze(values)
    assert shared.current() == [values, values]
    del second
    assert shared.current() == [values]
    del first
    assert shared.current() == []


@pytest.mark.parametrize("waits", [False, True])
def test_a_windows_function_that_changes_its_rows_changes_no_snapshot(waits: bool) -> None:
    def spoil(_key: Any, _context: Any, elements: list[Any]) -> list[str]:
        shown = repr([element["seen"] for element in elements])
        for element in elements:
            element["seen"].append("spoiled")
        return [shown]

    def operator() -> Operator:
        return create_window_operator(code(WindowFactory(SLIDING, process=spoil)))

    key = FunctionKey(lambda _: 0)
    before = OperatorHarness(operator(), keys=[key])
    before.push([{"seen": [], "odd": {1}}], [15])
    snapshot = before.snapshot()
    if not waits:
        write_snapshot(snapshot)
    before.watermark(19)
    assert before.output.rows == ["[[]]"]
    after = OperatorHarness(operator(), keys=[key], restored=restored_from([snapshot], range(128)))
    after.watermark(19)
    assert after.output.rows == ["[[]]"]
