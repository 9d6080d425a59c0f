"""Running aggregates and reduce go on from their snapshots, on any number of subtasks, as if nothing had happened."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from actors.operators.contract.operator import Operator
from actors.operators.registry import create_operator
from flinkray.errors import CheckpointError
from flinkray.transformations.operator_factories import (
    OperatorFactory,
    ReduceFactory,
    RunningAggregateFactory,
    RunningColumnFactory,
)
from flinkray.types.keys import ColumnKey, FunctionKey, KeySelector
from flinkray.windows.aggregates import (
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sum,
    TopN,
)
from tests.support.operators import OperatorHarness, code
from tests.support.rescaling import Subtasks
from tests.support.state import write_snapshot
from tests.support.versions import arrow_array

KEY = ColumnKey(("k",))
ORDER = {"first": First("v"), "last": Last("v"), "low": Min("v"), "high": Max("v"), "distinct": CountDistinct("v")}
ORDER |= {"all": CollectList("v"), "top": TopN("v", 2), "at_low": ArgMin("n", by="v"), "at_high": ArgMax("v", by="n")}
ORDER |= {"at_top": TopN("n", 2, by="v")}
COUNTS = {"rows": Count(), "values": Count("v")}
SUMS = {"sum": Sum("v"), "mean": Avg("v")}
AGGREGATES = RunningAggregateFactory(tuple((ORDER | COUNTS | SUMS).items()))
WITHOUT_SUMS = RunningAggregateFactory(tuple((ORDER | COUNTS).items()))
WITH_DECIMALS = RunningAggregateFactory(tuple((ORDER | COUNTS | {"sum": Sum("v")}).items()))

KEYS: dict[str, tuple[KeySelector, list[Any], pa.DataType]] = {
    "text": (KEY, ["a", "bb", "", None, *(f"key {n}" for n in range(12))], pa.string()),
    "numbers": (KEY, [None, *range(-8, 8)], pa.int64()),
    "floats": (KEY, [0.0, -0.0, float("nan"), 0.5, 7.0, None, 1e300], pa.float64()),
    "two columns": (ColumnKey(("k", "g")), [None, *range(5)], pa.int32()),
    "a function": (FunctionKey(lambda row: (row.k, row.g)), list(range(6)), pa.int64()),
}
VALUES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any], OperatorFactory]] = {
    "integers": (pa.int64(), lambda chance: chance.randrange(-9, 9), AGGREGATES),
    "doubles": (pa.float64(), lambda chance: chance.randrange(-9, 9) / 7, AGGREGATES),
    "text": (pa.string(), lambda chance: chance.choice("abcd"), WITHOUT_SUMS),
    "decimals": (pa.decimal128(9, 2), lambda chance: Decimal(chance.randrange(-900, 900)) / 100, WITH_DECIMALS),
    "dates": (pa.date32(), lambda chance: chance.randrange(20), WITHOUT_SUMS),
    "times": (pa.timestamp("s"), lambda chance: chance.randrange(20), WITHOUT_SUMS),
    "booleans": (pa.bool_(), lambda chance: chance.random() < 0.5, AGGREGATES),
    "ids": (pa.uuid(), lambda chance: UUID(int=chance.randrange(9)), WITHOUT_SUMS),
}


def random_batch(chance: random.Random, keys: str, values: str) -> pa.RecordBatch:
    _, pool, key_type = KEYS[keys]
    value_type, value, _ = VALUES[values]
    size = chance.randint(1, 30)
    drawn = [None if chance.random() < 0.2 else value(chance) for _ in range(size)]
    columns = {
        "k": pa.array([chance.choice(pool) for _ in range(size)], key_type),
        "g": pa.array([chance.randrange(3) for _ in range(size)], pa.int8()),
        "v": arrow_array(drawn, value_type),
        "n": pa.array([chance.randrange(5) for _ in range(size)], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def counted(rows: list[Any]) -> Counter[str]:
    return Counter(map(repr, rows))


def check_chain(make: Callable[[], Operator], key: KeySelector, batches: list[Any], chance: random.Random) -> None:
    """Four restores at random places, from and to random parallelisms; what comes after each barrier is done twice."""
    undisturbed, moved = Subtasks(make, [key]), Subtasks(make, [key], chance.randint(1, 4))
    barriers = {chance.randrange(len(batches)) for _ in range(4)}
    for number, batch in enumerate(batches):
        if number in barriers:
            moved = moved.rescaled(chance.randint(1, 4), lambda former: former.push(batch))  # noqa: B023
        undisturbed.push(batch)
        moved.push(batch)
        assert counted(moved.take()) == counted(undisturbed.take())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("values", VALUES)
def test_aggregates_go_on_at_any_parallelism(values: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", (1 << 30, 3)[seed % 2])
    chance = random.Random(f"{values} {seed}")
    keys = chance.choice(list(KEYS))
    batches = [random_batch(chance, keys, values) for _ in range(10)]
    check_chain(lambda: create_operator([code(VALUES[values][2])], ["op"]), KEYS[keys][0], batches, chance)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", ["sum", "min", "max", "min_by", "max_by"])
def test_rows_with_a_running_column_go_on_at_any_parallelism(
    mode: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", (1 << 30, 3)[seed % 2])
    chance = random.Random(f"{mode} {seed}")
    keys = chance.choice(list(KEYS))
    values = chance.choice([*VALUES] if mode != "sum" else ["integers", "doubles", "booleans"])
    batches = [random_batch(chance, keys, values) for _ in range(10)]
    factory = RunningColumnFactory(mode, "v")
    check_chain(lambda: create_operator([code(factory)], ["op"]), KEYS[keys][0], batches, chance)


class RunningTotal:
    """Changes and returns what it got first."""

    def __init__(self, key: Any, values: list[Any]) -> None:
        self.key = key
        self.values = values

    def __repr__(self) -> str:
        return f"RunningTotal({self.key!r}, {self.values!r})"


def extend(left: RunningTotal, right: RunningTotal) -> RunningTotal:
    left.values += right.values
    return left


@pytest.mark.parametrize("seed", range(2))
def test_reduce_goes_on_at_any_parallelism_also_with_values_that_the_function_changes(seed: int) -> None:
    chance = random.Random(seed)
    batches = [[RunningTotal(chance.choice("abcdefgh"), [chance.randrange(9)]) for _ in range(20)] for _ in range(10)]
    key = FunctionKey(lambda value: value.key)
    check_chain(lambda: create_operator([code(ReduceFactory(extend))], ["op"]), key, batches, chance)


@pytest.mark.parametrize("seed", range(2))
def test_reduce_of_rows_goes_on_at_any_parallelism(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.columns.large_columns._MOST_BYTES", (1 << 30, 3)[seed % 2])
    chance = random.Random(seed)
    keys = chance.choice(list(KEYS))
    batches = [random_batch(chance, keys, chance.choice(["text", "doubles"])) for _ in range(10)]
    factory = ReduceFactory(lambda left, right: {"k": right.k, "g": right.g, "n": left.n + right.n})
    batches = [batch.select(["k", "g", "n"]) for batch in batches]
    check_chain(lambda: create_operator([code(factory)], ["op"]), KEYS[keys][0], batches, chance)


def aggregates(**named: Any) -> Callable[[], Operator]:
    return lambda: create_operator([code(RunningAggregateFactory(tuple(named.items())))], ["op"])


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_column_that_was_widened_in_one_subtask_only_is_widened_in_all(parallelism: int) -> None:
    everything = aggregates(**{name: each for name, each in (ORDER | SUMS).items() if not name.startswith("at")})
    undisturbed, moved = Subtasks(everything, [KEY]), Subtasks(everything, [KEY], 4)
    first = {"k": list(range(40)), "v": pa.array(range(40), pa.int64())}
    second = {"k": [3], "v": pa.array([0.5], pa.float64())}
    for batch in (first, second):
        undisturbed.push(batch)
        moved.push(batch)
    undisturbed.take()
    moved = moved.rescaled(parallelism)
    last = {"k": list(range(50)), "v": pa.array([value / 4 for value in range(50)], pa.float64())}
    undisturbed.push(last)
    moved.push(last)
    assert counted(moved.take()) == counted(undisturbed.take())


def test_keys_whose_column_was_widened_are_found_where_the_network_sends_them() -> None:
    make = aggregates(rows=Count())
    moved = Subtasks(make, [KEY], 2)
    moved.push({"k": pa.array(range(50), pa.int16()), "v": range(50)})
    moved.push({"k": pa.array([0.5, 7.0], pa.float64()), "v": [0, 0]})
    moved = moved.rescaled(4)
    moved.take()
    moved.push({"k": pa.array(range(50), pa.uint64()), "v": range(50)})
    assert {row.rows for row, _ in moved.take() if row.k != 7} == {2}


def test_a_key_whose_new_type_puts_it_into_another_subtasks_group_is_an_error_and_not_lost() -> None:
    harness = OperatorHarness(aggregates(rows=Count())(), keys=[KEY], subtask_index=0, parallelism=2)
    seconds = list(range(40))
    harness.push({"k": pa.array(seconds, pa.timestamp("s")), "v": seconds})
    harness.push({"k": pa.array([5], pa.timestamp("ms")), "v": [1]})
    snapshot = harness.snapshot()
    with pytest.raises(CheckpointError, match=r"'op' \(subtask 1 of 2\).*changed its type.*cast the column"):
        write_snapshot(snapshot)


def test_names_of_columns_and_aggregates_may_be_any_text() -> None:
    names = ["key", "key:k", "c0", "count", "a:count", "key columns", "types"]
    selector = ColumnKey(("__key_group", "k:count"))
    make = aggregates(**{name: Count() for name in names}, a=Sum("v"))
    moved = Subtasks(make, [selector], 2)
    batch = {"__key_group": [1, 1, 2], "k:count": ["x", "x", "y"], "v": [1, 2, 3]}
    for _ in range(2):
        moved.push(batch)
        moved = moved.rescaled(3)
    moved.push(batch)
    results = [row.as_dict() for row, _ in moved.take() if row.a == 9]
    assert results[-1] == {"__key_group": 2, "k:count": "y", **dict.fromkeys(names, 3), "a": 9}


def test_an_operator_that_saw_no_row_has_no_state_and_starts_from_none() -> None:
    for make in (
        aggregates(a=Count()),
        lambda: create_operator([code(ReduceFactory(max))], ["op"]),
        lambda: create_operator([code(RunningColumnFactory("sum", 0))], ["op"]),
    ):
        moved = Subtasks(make, [FunctionKey(lambda value: value)], 2).rescaled(3).rescaled(1)
        assert all(not write_snapshot(snapshot).parts for snapshot in moved.snapshots())


def test_a_reduced_value_that_cannot_be_pickled_is_an_error_that_names_its_key() -> None:
    class Unwilling(dict[str, int]):
        def __reduce__(self) -> Any:
            raise TypeError("not me")

    harness = OperatorHarness(create_operator([code(ReduceFactory(max))], ["op"]), keys=[FunctionKey(lambda _: 1)])
    harness.push([1])
    harness.operator._reduced[0] = Unwilling()  # type: ignore[attr-defined]
    snapshot = harness.snapshot()
    with pytest.raises(CheckpointError, match=r"'op'.*key \{'key': 1\} cannot be pickled"):
        write_snapshot(snapshot)
