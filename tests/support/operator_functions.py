"""Functions of random jobs whose results depend neither on when rows arrive nor on when watermarks do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from flinkray import (
    AggregateFunction,
    AggregatingStateDescriptor,
    AsyncFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

LATE = OutputTag("late")
ODD = OutputTag("odd")
RULES = MapStateDescriptor("rules", key_type=int)

# Event time that `Buckets` adds up.
BUCKET_MS = 200

# Event time that no row has.
AFTER_ALL_MS = 1 << 40


def each_value(key: Any, _: Any, rows: Iterable[Any]) -> Iterator[Any]:
    """The window function of firings that purge: each row once."""
    for row in rows:
        yield key, row.value


def summary(key: Any, context: Any, rows: Iterable[Any]) -> Iterator[Any]:
    """(key, start, end, rows, sum)"""
    values = [row.value for row in rows]
    yield key, context.window().start, context.window().end, len(values), sum(values)


def contents(key: Any, _: Any, rows: Iterable[Any]) -> Iterator[Any]:
    """(key, values as text): also says their order."""
    yield key, " ".join(str(row.value) for row in rows)


def reduced(key: Any, context: Any, rows: Iterable[Any]) -> Iterator[Any]:
    """(key, start, end, rows, sum) of the one row that `add_up` made."""
    for row in rows:
        yield key, context.window().start, context.window().end, row.n, row.total


def add_up(left: Any, right: Any) -> Any:
    return {"key": left.key, "n": left.n + right.n, "total": left.total + right.total}


def difference(one: Any, other: Any) -> float:
    return float(abs(one.value - other.value))


def split_parities(value: Any) -> Any:
    return (ODD, (value.key, value.value)) if value.value % 2 else (value.key, value.value)


class Totals(AggregateFunction):
    """(rows, sum of values)"""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        number = value if isinstance(value, int) else value.value
        return accumulator[0] + 1, accumulator[1] + number

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, accumulator_a: tuple[int, int], accumulator_b: tuple[int, int]) -> tuple[int, int]:
        return accumulator_a[0] + accumulator_b[0], accumulator_a[1] + accumulator_b[1]


class Buckets(KeyedProcessFunction):
    """Adds up the values of a key for each bucket of event time, in state of all kinds.

    A bucket's timer gives (key, end, sum, buckets so far, values so far, their sum, the highest one, those that wait),
    and deletes another timer that would give -1.
    """

    def open(self, runtime_context: Any) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", int))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", key_type=int, value_type=int))
        self.highest = runtime_context.get_reducing_state(ReducingStateDescriptor("highest", int, function=max))
        self.totals = runtime_context.get_aggregating_state(AggregatingStateDescriptor("totals", function=Totals()))

    def process_element(self, value: Any, ctx: Any) -> None:
        end = ctx.timestamp() // BUCKET_MS * BUCKET_MS + BUCKET_MS - 1
        self.waiting.add((end, value.value))
        self.sums[end] = (self.sums[end] or 0) + value.value
        ctx.timer_service().register_event_time_timer(end)
        ctx.timer_service().register_event_time_timer(end + 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if not self.sums.contains(timestamp):
            yield ctx.get_current_key(), timestamp, -1, -1, -1, -1, -1, ""
            return
        ctx.timer_service().delete_event_time_timer(timestamp + 1)
        self.fired.update((self.fired.value() or 0) + 1)
        rows = list(self.waiting)
        due = sorted(value for end, value in rows if end == timestamp)
        self.waiting.update([row for row in rows if row[0] != timestamp])
        for value in due:
            self.highest.add(value)
            self.totals.add(value)
        total = self.sums[timestamp]
        del self.sums[timestamp]
        values = " ".join(map(str, due))
        yield (
            ctx.get_current_key(), timestamp, total, self.fired.value(), *self.totals.get(), self.highest.get(), values
        )  # fmt: skip


class Latest(KeyedProcessFunction):
    """Of the results of windows that fire again and again, (key, start, end, rows, sum), the last ones, when all data
    is there.

    Args:
        merges: a result takes the place of those whose windows lie in its own.
    """

    def __init__(self, merges: bool) -> None:
        self.merges = merges

    def open(self, runtime_context: Any) -> None:
        self.results = runtime_context.get_map_state(MapStateDescriptor("results"))

    def process_element(self, value: Any, ctx: Any) -> None:
        _, start, end, *result = value
        if self.merges:
            for old_start, old_end in list(self.results.keys()):
                if start <= old_start and old_end <= end:
                    self.results.remove((old_start, old_end))
        self.results[start, end] = tuple(result)
        ctx.timer_service().register_event_time_timer(AFTER_ALL_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        for (start, end), result in self.results.items():
            yield ctx.get_current_key(), start, end, *result
        self.results.clear()


class Firings(ProcessWindowFunction):
    """(key, start, firings of this window before, firings of this key before, rows)"""

    descriptor = ValueStateDescriptor("firings", int)

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        of_window, of_key = (
            store.get_state(self.descriptor) for store in (context.window_state(), context.global_state())
        )
        yield key, context.window().start, of_window.value() or 0, of_key.value() or 0, len(list(elements))
        of_window.update((of_window.value() or 0) + 1)
        of_key.update((of_key.value() or 0) + 1)

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.descriptor).clear()


class Numbered(KeyedProcessFunction):
    """(key, number of the row among its key's, value)"""

    def open(self, runtime_context: Any) -> None:
        self.rows = runtime_context.get_state(ValueStateDescriptor("rows", int))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number = self.rows.value() or 0
        self.rows.update(number + 1)
        yield value[0], number, value[1]


class Pairs(KeyedCoProcessFunction):
    """Every pair of both streams, once, as soon as it is there."""

    def open(self, runtime_context: Any) -> None:
        self.seen = [runtime_context.get_list_state(ListStateDescriptor(name, int)) for name in ("left", "right")]

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen[0].add(value.value)
        for other in self.seen[1]:
            yield value.value, other

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen[1].add(value.value)
        for other in self.seen[0]:
            yield other, value.value


class EachRule(KeyedBroadcastProcessFunction):
    """Every row with every rule, once, whichever of them came first."""

    waiting_descriptor = ListStateDescriptor("waiting", int)

    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_list_state(self.waiting_descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.waiting.add(value.value)
        for rule in ctx.get_broadcast_state(RULES).values():
            yield value.value, rule

    def process_broadcast_element(self, value: Any, ctx: Any) -> list[Any]:
        ctx.get_broadcast_state(RULES)[value.value] = value.value
        pairs: list[Any] = []
        ctx.apply_to_keyed_state(
            self.waiting_descriptor, lambda _, state: pairs.extend((each, value.value) for each in state)
        )
        return pairs


class CountedRules(BroadcastProcessFunction):
    """Rows as they are, as (-1, value); in each subtask each rule with the number of rules before it."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield -1, value.value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        yield len(list(rules.keys())), value.value
        rules[value.value] = value.value


class Looked(AsyncFunction):
    """(key, value), after a while that is different for each row; some rows twice, some not at all."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(value.value % 7 / 200)
        return [(value.key, value.value)] * copies(value.value)


def copies(value: int) -> int:
    return (1, 1, 2, 0)[value % 4]


async def tripled(value: Any) -> tuple[int, int]:
    await asyncio.sleep(value.value % 5 / 300)
    return value.key, value.value * 3


def tripled_by_blocking(value: Any) -> tuple[int, int]:
    return value.key, value.value * 3
