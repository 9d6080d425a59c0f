"""Joins and co-groups of streams in whole jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from flinkray import (
    CoGroupFunction,
    DataStream,
    JoinFunction,
    KeySelectorFunction,
    OutputTag,
    Row,
    RuntimeContext,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
)
from flinkray.functions import ProcessContext
from tests.support.jobs import environment
from tests.support.whole_jobs import ONE_ROW_BATCHES, rows, rows_of, timed

TEN = TumblingEventTimeWindows.of(10)
ORDERS = [(1, "tea", 1), (2, "milk", 3), (1, "jam", 8), (1, "rye", 12), (3, "salt", 25)]
PAYMENTS = [(1, 30, 5), (2, 11, 4), (2, 12, 14), (1, 40, 9)]


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return environment()


def orders(env: StreamExecutionEnvironment) -> DataStream:
    return timed(env, *ORDERS, names=("customer", "item", "at"))


def payments(env: StreamExecutionEnvironment) -> DataStream:
    return timed(env, *PAYMENTS, names=("payer", "amount", "at"))


def pairs(size: int = 10, slide: int = 10) -> list[tuple[str, int]]:
    """Items and amounts of a customer that meet, once per window in which they do."""
    return sorted(
        (item, amount)
        for customer, item, at in ORDERS
        for payer, amount, paid in PAYMENTS
        for start in range(-size, 40, slide)
        if customer == payer and start <= at < start + size and start <= paid < start + size
    )


class Pairs(JoinFunction):
    def join(self, first: Row, second: Row) -> tuple[str, int]:
        return first.item, second.amount


@pytest.mark.parametrize("function", [Pairs(), lambda first, second: (first.item, second.amount)])
@pytest.mark.parametrize(("size", "slide"), [(10, 10), (10, 5)])
def test_join_with_a_function(env: StreamExecutionEnvironment, function: Any, size: int, slide: int) -> None:
    windows = SlidingEventTimeWindows.of(size, slide) if slide < size else TumblingEventTimeWindows.of(size)
    joined = orders(env).join(payments(env)).where("customer").equal_to("payer").window(windows).apply(function)
    assert sorted(rows(joined)) == pairs(size, slide)


def test_join_without_a_function_gives_the_columns_of_both(env: StreamExecutionEnvironment) -> None:
    joined = orders(env).join(payments(env)).where("customer").equal_to("payer").window(TEN).apply()
    assert joined.record_type is not None
    assert joined.record_type.schema.names == ["customer", "item", "at", "amount", "at_right"]
    table = joined.to_arrow()
    assert table.column_names == ["customer", "item", "at", "amount", "at_right"]
    assert sorted(zip(table["item"].to_pylist(), table["amount"].to_pylist(), strict=True)) == pairs()


class Payer(KeySelectorFunction):
    def get_key(self, value: Row) -> int:
        return int(value.payer)


def test_join_by_functions(env: StreamExecutionEnvironment) -> None:
    joined = (
        orders(env)
        .join(payments(env))
        .where(lambda row: row.customer, key_type=Types.LONG())
        .equal_to(Payer(), key_type=Types.LONG())
        .window(TEN)
        .apply(Pairs(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
    )
    assert rows(joined) == pairs()


def test_join_by_two_columns(env: StreamExecutionEnvironment) -> None:
    joined = orders(env).join(payments(env)).where("customer", "at").equal_to("payer", "at").window(TEN).apply(Pairs())
    assert rows(joined) == []
    same = orders(env).join(orders(env)).where("customer", "item").equal_to("customer", "item").window(TEN)
    assert len(rows(same.apply())) == len(ORDERS)


def test_a_stream_joined_with_itself(env: StreamExecutionEnvironment) -> None:
    stream = orders(env)
    joined = stream.join(stream).where("customer").equal_to("customer").window(TEN)
    assert sorted(rows(joined.apply(lambda a, b: (a.item, b.item)))) == sorted(
        (a[1], b[1]) for a in ORDERS for b in ORDERS if a[0] == b[0] and a[2] // 10 == b[2] // 10
    )


def test_a_joined_pair_has_the_last_moment_of_its_window_as_event_time(env: StreamExecutionEnvironment) -> None:
    def timestamp(_value: Any, ctx: ProcessContext) -> Iterator[int | None]:
        yield ctx.timestamp()

    for function in (None, Pairs()):
        joined = orders(env).join(payments(env)).where("customer").equal_to("payer").window(TEN).apply(function)
        assert rows(joined.process(timestamp)) == [9] * len(pairs())


class Outer(CoGroupFunction):
    """Items and amounts of a customer and window, also where there are none."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.is_open = True

    def co_group(self, first: Iterable[Row], second: Iterable[Row]) -> Iterator[tuple[list[str], list[int]]]:
        assert self.is_open
        yield sorted(row.item for row in first), sorted(row.amount for row in second)


def outer(first: Iterable[Row], second: Iterable[Row]) -> list[tuple[list[str], list[int]]]:
    return [(sorted(row.item for row in first), sorted(row.amount for row in second))]


@pytest.mark.parametrize("function", [Outer(), outer])
def test_co_group_calls_once_per_key_and_window(env: StreamExecutionEnvironment, function: Any) -> None:
    grouped = orders(env).co_group(payments(env)).where("customer").equal_to("payer").window(TEN).apply(function)
    assert sorted(rows(grouped)) == [
        ([], [12]),
        (["jam", "tea"], [30, 40]),
        (["milk"], [11]),
        (["rye"], []),
        (["salt"], []),
    ]


# -- late rows

LATE = OutputTag("late")


def test_a_late_row_joins_where_lateness_allows_it() -> None:
    env = environment(ONE_ROW_BATCHES, parallelism=1)
    stream = timed(env, (1, 10, 1), (1, 20, 40), (1, 30, 2), names=("key", "value", "at"))
    joined = stream.join(stream).where("key").equal_to("key").window(TEN).allowed_lateness("1 min")
    found = rows(joined.apply(lambda a, b: (a.value, b.value)))
    assert set(found) == {(10, 10), (10, 30), (20, 20), (30, 10), (30, 30)}


@pytest.mark.parametrize("kind", ["join", "co_group"])
def test_late_rows_of_both_streams_go_to_one_side_output(kind: str) -> None:
    env = environment(ONE_ROW_BATCHES, parallelism=1)
    stream = timed(env, (1, 10, 1), (1, 20, 40), (1, 30, 2), names=("key", "value", "at"))
    if kind == "join":
        paired = stream.join(stream).where("key").equal_to("key").window(TEN).side_output_late_data(LATE)
        results = paired.apply(lambda a, b: (a.value, b.value))
    else:
        grouped = stream.co_group(stream).where("key").equal_to("key").window(TEN).side_output_late_data(LATE)
        results = grouped.apply(lambda a, b: [(next(iter(a)).value, next(iter(b)).value)])
    found = rows_of(env, {"results": results, "late": results.get_side_output(LATE)})
    assert found["results"] == [(10, 10), (20, 20)]
    assert [tuple(row) for row in found["late"]] == [(1, 30, 2), (1, 30, 2)]
