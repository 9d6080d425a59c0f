"""Joins and co-groups of streams in whole jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from flinkray import (
    CoGroupFunction,
    CountEvictor,
    CountTrigger,
    DataStream,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    InvalidProgramError,
    JoinFunction,
    KeySelectorFunction,
    OutputTag,
    PurgingTrigger,
    Row,
    RuntimeContext,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
)
from flinkray.functions.interfaces import ProcessContext
from tests.support.jobs import environment
from tests.support.whole_jobs import ONE_ROW_BATCHES, rows, rows_of, timed

TEN = TumblingEventTimeWindows.of(10)
ORDERS = [(1, "tea", 1), (2, "milk", 3), (1, "jam", 8), (1, "rye", 12), (3, "salt", 25)]
PAYMENTS = [(1, 30, 5), (2, 11, 4), (2, 12, 14), (1, 40, 9)]


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


# -- windows of other kinds


def sessions(gap: int) -> list[tuple[list[str], list[int]]]:
    """Items and amounts of a customer, together where no more than the gap is between one and the next."""
    groups: list[tuple[list[str], list[int]]] = []
    for customer in (1, 2, 3):
        events = [(at, item, None) for who, item, at in ORDERS if who == customer]
        events += [(at, None, amount) for who, amount, at in PAYMENTS if who == customer]
        last = None
        for at, item, amount in sorted(events, key=lambda event: event[0]):
            if last is None or at - last > gap:
                groups.append(([], []))
            last = at
            if item is not None:
                groups[-1][0].append(item)
            else:
                groups[-1][1].append(amount)
    return sorted((sorted(items), sorted(amounts)) for items, amounts in groups)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_sessions_of_both_streams(parallelism: int) -> None:
    env = environment(parallelism=parallelism)
    keyed = orders(env).co_group(payments(env)).where("customer").equal_to("payer")
    assert sorted(rows(keyed.window(EventTimeSessionWindows.with_gap(4)).apply(outer))) == sessions(4)


@pytest.mark.parametrize("function", [None, Pairs()])
def test_joins_of_sessions(env: StreamExecutionEnvironment, function: Any) -> None:
    keyed = orders(env).join(payments(env)).where("customer").equal_to("payer")
    joined = keyed.window(EventTimeSessionWindows.with_gap(4)).apply(function)
    expected = sorted((item, amount) for items, amounts in sessions(4) for item in items for amount in amounts)
    if function is None:
        table = joined.to_arrow()
        assert table.column_names == ["customer", "item", "at", "amount", "at_right"]
        assert sorted(zip(table["item"].to_pylist(), table["amount"].to_pylist(), strict=True)) == expected
    else:
        assert sorted(rows(joined)) == expected


def test_a_trigger_of_rows_of_both_streams_and_an_evictor() -> None:
    env = environment(ONE_ROW_BATCHES, parallelism=1)
    stream = timed(env, *((1, number, number) for number in range(6)), names=("key", "value", "at"))
    grouped = stream.co_group(stream).where("key").equal_to("key").window(GlobalWindows.create())
    found = rows(
        grouped.trigger(PurgingTrigger.of(CountTrigger.of(4)))
        .evictor(CountEvictor.of(3))
        .apply(lambda a, b: [len(list(a)) + len(list(b))])
    )
    assert found == [3, 3, 3]


def test_windows_of_processing_time_need_no_event_time() -> None:
    env = environment(ONE_ROW_BATCHES, parallelism=2)
    first = env.from_collection([(number % 3, number) for number in range(30)])
    second = env.from_collection([(number % 3, -number) for number in range(30)])
    grouped = first.co_group(second).where("f0").equal_to("f0")
    counts = (
        grouped.window(TumblingProcessingTimeWindows.of("1 h"))
        .trigger(CountTrigger.of(20))
        .apply(lambda a, b: [len(list(a)) + len(list(b))])
    )
    assert rows(counts) == [20, 20, 20]


# -- what the program says before it runs


def test_a_join_says_what_is_missing(env: StreamExecutionEnvironment) -> None:
    for paired in (orders(env).join(payments(env)), orders(env).co_group(payments(env))):
        with pytest.raises(InvalidProgramError, match=r"needs \.where\(key\)\.equal_to\(key\)"):
            paired.window(TEN)
        with pytest.raises(InvalidProgramError, match="comes before equal_to"):
            paired.equal_to("payer")
        with pytest.raises(InvalidProgramError, match=r"needs windows .*interval_join"):
            paired.where("customer").equal_to("payer").apply(Pairs())


def test_keys_are_checked_in_whatever_order_they_come(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match="key 'customer' is int64 and key 'item' is string"):
        orders(env).join(orders(env)).where("customer").equal_to("item")
    paired = orders(env).join(orders(env)).where("customer").equal_to("customer")
    with pytest.raises(InvalidProgramError, match="key 'item' is string and key 'customer' is int64"):
        paired.where("item")


def test_triggers_and_evictors_are_checked(env: StreamExecutionEnvironment) -> None:
    class OwnTrigger(EventTimeTrigger):
        def can_merge(self) -> bool:
            return False

    keyed = orders(env).join(payments(env)).where("customer").equal_to("payer")
    windowed = keyed.window(EventTimeSessionWindows.with_gap(4))
    with pytest.raises(InvalidProgramError, match="merges windows, and OwnTrigger cannot"):
        windowed.trigger(OwnTrigger())
    with pytest.raises(InvalidProgramError, match="trigger takes a Trigger"):
        windowed.trigger(10)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="evictor takes an Evictor"):
        windowed.evictor(10)  # type: ignore[arg-type]
