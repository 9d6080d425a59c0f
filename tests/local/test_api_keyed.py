"""Each operation of a KeyedStream, and of connected keyed streams, in a whole job of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ArgMax,
    ArgMin,
    Avg,
    CheckpointedFunction,
    CoFlatMapFunction,
    CollectList,
    CoMapFunction,
    Count,
    CountDistinct,
    DataStream,
    FilterFunction,
    First,
    FlatMapFunction,
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelectorFunction,
    Last,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    Max,
    Min,
    OutputTag,
    ReduceFunction,
    ReducingStateDescriptor,
    Row,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Sum,
    TimeDomain,
    TopN,
    Types,
    ValueStateDescriptor,
    col,
)
from flinkray.functions.interfaces import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OnTimerContext,
    ProcessContext,
)
from tests.support.jobs import environment
from tests.support.whole_jobs import ONE_ROW_BATCHES, in_order, rows, rows_of, timed

EVENTS = [("a", 5, 1), ("b", 7, 2), ("a", 3, 3), ("a", 8, 4), ("b", 7, 5)]
NAMES = ("key", "value", "at")


class Counting(MapFunction, CheckpointedFunction):
    """(the value, how many this function has seen)"""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.get_task_name()

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_list_state(ListStateDescriptor("seen"))
        self.seen = sum(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.seen])

    def map(self, value: Any) -> Any:
        self.seen += 1
        return value, self.seen


def events(env: StreamExecutionEnvironment) -> DataStream:
    return timed(env, *EVENTS, names=NAMES)


def per_key(stream: DataStream, key: str = "key") -> dict[Any, list[Any]]:
    """The rows of each key, in order, without the key."""
    found: dict[Any, list[Any]] = {}
    for row in stream.execute_and_collect():
        values = row.as_dict()
        found.setdefault(values.pop(key), []).append(tuple(values.values()))
    return found


# -- keys


class ByKey(KeySelectorFunction):
    def get_key(self, value: Row) -> str:
        return str(value.key)


class EmitCurrentKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: ProcessContext) -> Iterator[Any]:
        yield ctx.get_current_key()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (("key",), ["a", "a", "a", "b", "b"]),
        ((col("key"),), ["a", "a", "a", "b", "b"]),
        ((ByKey(),), ["a", "a", "a", "b", "b"]),
        ((lambda row: row.value % 2 == 0, Types.BOOLEAN()), [False, False, False, False, True]),
        (("key", "value"), [("a", 3), ("a", 5), ("a", 8), ("b", 7), ("b", 7)]),
        ((lambda row: (row.value, row.key),), [(3, "a"), (5, "a"), (7, "b"), (7, "b"), (8, "a")]),
    ],
    ids=["a column", "an expression", "a selector", "a function", "two columns", "a function of tuples"],
)
def test_key_by(env: StreamExecutionEnvironment, key: tuple[Any, ...], expected: list[Any]) -> None:
    assert rows(events(env).key_by(*key).process(EmitCurrentKey())) == expected


# -- running operations


RUNNING: dict[str, dict[str, list[tuple[Any, ...]]]] = {
    "sum": {"a": [(5, 1), (8, 1), (16, 1)], "b": [(7, 2), (14, 2)]},
    "min": {"a": [(5, 1), (3, 1), (3, 1)], "b": [(7, 2), (7, 2)]},
    "max": {"a": [(5, 1), (5, 1), (8, 1)], "b": [(7, 2), (7, 2)]},
    "min_by": {"a": [(5, 1), (3, 3), (3, 3)], "b": [(7, 2), (7, 2)]},
    "max_by": {"a": [(5, 1), (5, 1), (8, 4)], "b": [(7, 2), (7, 2)]},
}


@pytest.mark.parametrize("column", ["value", 1])
@pytest.mark.parametrize("operation", RUNNING)
def test_running_operation(env: StreamExecutionEnvironment, operation: str, column: Any) -> None:
    assert per_key(getattr(events(env).key_by("key"), operation)(column)) == RUNNING[operation]


def test_running_sum_of_tuples_by_position(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
    assert rows(pairs.key_by(lambda pair: pair[0]).sum(1)) == [("a", 1), ("a", 4), ("b", 2)]


def test_running_sum_of_bare_numbers(env: StreamExecutionEnvironment) -> None:
    assert rows(env.from_collection([1, 2, 3]).key_by(lambda value: value % 2).sum()) == [1, 2, 4]


class Adds(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1._replace(value=value1.value + value2.value, at=value2.at)


@pytest.mark.parametrize("function", [Adds(), lambda a, b: {"key": a.key, "value": a.value + b.value, "at": b.at}])
def test_reduce_gives_each_value_reduced_with_those_before(env: StreamExecutionEnvironment, function: Any) -> None:
    assert per_key(events(env).key_by("key").reduce(function)) == {
        "a": [(5, 1), (8, 3), (16, 4)],
        "b": [(7, 2), (14, 5)],
    }


def test_running_aggregates_of_every_kind(env: StreamExecutionEnvironment) -> None:
    found = (
        events(env)
        .key_by("key")
        .aggregate(
            n=Count(),
            total=Sum("value"),
            mean=Avg("value"),
            least=Min("value"),
            most=Max("value"),
            first=First("value"),
            last=Last("value"),
            different=CountDistinct("value"),
            when_least=ArgMin("at", by="value"),
            when_most=ArgMax("at", by="value"),
            top=TopN("value", n=2),
            all=CollectList("value"),
            doubled=Sum(col("value") * 2),
        )
    )
    assert per_key(found) == {
        "a": [
            (1, 5, 5.0, 5, 5, 5, 5, 1, 1, 1, [5], [5], 10),
            (2, 8, 4.0, 3, 5, 5, 3, 2, 3, 1, [5, 3], [5, 3], 16),
            (3, 16, 16 / 3, 3, 8, 5, 8, 3, 3, 4, [8, 5], [5, 3, 8], 32),
        ],
        "b": [
            (1, 7, 7.0, 7, 7, 7, 7, 1, 2, 2, [7], [7], 14),
            (2, 14, 7.0, 7, 7, 7, 7, 1, 2, 2, [7, 7], [7, 7], 28),
        ],
    }


def test_map_with_state(env: StreamExecutionEnvironment) -> None:
    def difference(row: Row, last: int | None) -> tuple[tuple[str, int | None], int]:
        return (row.key, None if last is None else row.value - last), row.value

    found = events(env).key_by("key").map_with_state(difference, state_type=Types.LONG())
    assert rows(found) == [("a", -2), ("a", 5), ("a", None), ("b", 0), ("b", None)]


class Counter(Function):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("count", pa.int64()))

    def count(self) -> int:
        self.state.update((self.state.value() or 0) + 1)
        return self.state.value() or 0


class Numbered(Counter, MapFunction):
    def map(self, value: Row) -> tuple[str, int]:
        return value.key, self.count()


class NumberedTwice(Counter, FlatMapFunction):
    def flat_map(self, value: Row) -> Iterator[tuple[str, int]]:
        yield value.key, self.count()
        yield value.key, self.count()


class OnlyFirst(Counter, FilterFunction):
    def filter(self, value: Row) -> bool:
        return self.count() == 1


def test_row_functions_on_a_keyed_stream_may_have_state(env: StreamExecutionEnvironment) -> None:
    keyed = events(env).key_by("key")
    assert rows(keyed.map(Numbered())) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]
    twice = keyed.where(col("key") == "b").key_by("key").flat_map(NumberedTwice())
    assert rows(twice) == [("b", 1), ("b", 2), ("b", 3), ("b", 4)]
    assert rows(keyed.filter(OnlyFirst())) == [Row(key="a", value=5, at=1), Row(key="b", value=7, at=2)]


# -- process functions: every kind of state, timers, side outputs


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, accumulator_a: tuple[int, int], accumulator_b: tuple[int, int]) -> tuple[int, int]:
        return accumulator_a[0] + accumulator_b[0], accumulator_a[1] + accumulator_b[1]


class AllStates(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", pa.int64()))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", pa.int64(), key_type=pa.int64()))
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", pa.int64(), function=lambda a, b: a + b)
        )
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", function=Mean()))

    def process_element(self, value: Row, ctx: ProcessContext) -> Iterator[Any]:
        before = self.last.value()
        self.last.update(value.value)
        self.values.add(value.value)
        self.times.put(value.value, value.at)
        self.total.add(value.value)
        self.mean.add(value.value)
        yield (
            ctx.get_current_key(),
            before,
            list(self.values.get()),
            sorted(self.times.items()),
            self.total.get(),
            self.mean.get(),
        )


def test_every_kind_of_state(env: StreamExecutionEnvironment) -> None:
    stream = timed(env, ("a", 5, 1), ("a", 3, 3), ("a", 8, 4), names=NAMES)
    assert rows(stream.key_by("key").process(AllStates())) == [
        ("a", 3, [5, 3, 8], [(3, 3), (5, 1), (8, 4)], 16, 16 / 3),
        ("a", 5, [5, 3], [(3, 3), (5, 1)], 8, 4.0),
        ("a", None, [5], [(5, 1)], 5, 5.0),
    ]


class Clears(KeyedProcessFunction):
    """What is left of each kind of state after it was cleared or changed."""

    def open(self, runtime_context: RuntimeContext) -> None:
        ttl = StateTtlConfig(ttl_ms=3_600_000)  # type: ignore[arg-type]
        self.value = runtime_context.get_state(ValueStateDescriptor("value", ttl=ttl))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map"))

    def process_element(self, value: Row, ctx: ProcessContext) -> Iterator[Any]:
        self.value.update("x")
        kept = self.value.value()
        self.value.clear()
        self.items.add_all([1, 2])
        self.items.update([3])
        self.map.put("k", 1)
        self.map.put("l", 2)
        self.map.remove("k")
        yield (
            kept,
            self.value.value(),
            list(self.items.get()),
            self.map.contains("k"),
            list(self.map.keys()),
            list(self.map.values()),
            self.map.get("none"),
            self.map.is_empty(),
        )
        self.map.clear()
        self.items.clear()
        yield list(self.items.get()), self.map.is_empty()


def test_state_is_cleared_and_changed(env: StreamExecutionEnvironment) -> None:
    cleared = events(env).key_by("at").process(Clears(), output_type=Types.PICKLED_BYTE_ARRAY())
    assert rows(cleared) == [("x", None, [3], False, ["l"], [2], None, False)] * 5 + [([], True)] * 5


DONE = OutputTag("done", Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]))


class SumUntilQuiet(KeyedProcessFunction):
    """Per key: the sum of values, once no value came for 10 ms of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", pa.int64()))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", pa.int64()))

    def process_element(self, value: Row, ctx: ProcessContext) -> None:
        self.total.update((self.total.value() or 0) + value.value)
        timers = ctx.timer_service()
        if self.timer.value() is not None:
            timers.delete_event_time_timer(self.timer.value())
        timers.register_event_time_timer(value.at + 10)
        timers.register_event_time_timer(value.at + 10)  # the same timer, which fires once
        self.timer.update(value.at + 10)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), self.total.value(), timestamp, ctx.timestamp()
        yield DONE, (ctx.get_current_key(), timestamp, ctx.time_domain())
        self.total.clear()
        self.timer.clear()


def test_event_time_timers_fire_when_the_watermark_passes_them() -> None:
    env = environment(ONE_ROW_BATCHES)
    stream = timed(env, ("a", 1, 0), ("b", 2, 5), ("a", 3, 8), ("c", 0, 25), ("a", 4, 30), names=NAMES)
    sums = stream.key_by("key").process(SumUntilQuiet())
    assert rows_of(env, {"sums": sums, "done": sums.get_side_output(DONE)}) == {
        "sums": [("a", 4, 18, 18), ("a", 4, 40, 40), ("b", 2, 15, 15), ("c", 0, 35, 35)],
        "done": [(key, at, TimeDomain.EVENT_TIME) for key, at in (("a", 18), ("a", 40), ("b", 15), ("c", 35))],
    }


class AfterAMoment(KeyedProcessFunction):
    def process_element(self, value: Row, ctx: ProcessContext) -> None:
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 1)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[str]:
        yield f"{ctx.get_current_key()} {ctx.time_domain() == TimeDomain.PROCESSING_TIME}"


def once_then_wait() -> Iterator[dict[str, str]]:
    import threading

    yield {"key": "a"}
    threading.Event().wait(20)


def test_processing_time_timers_fire_while_the_job_runs(env: StreamExecutionEnvironment) -> None:
    timers = env.add_source(once_then_wait).key_by("key").process(AfterAMoment())
    assert timers.execute_and_collect(limit=1) == ["a True"]


def test_a_plain_function_of_value_and_context_on_a_keyed_stream(env: StreamExecutionEnvironment) -> None:
    def process(value: Row, ctx: ProcessContext) -> Iterator[tuple[str, int]]:
        yield ctx.get_current_key(), value.value

    assert rows(events(env).key_by("key").process(process)) == sorted((key, value) for key, value, _ in EVENTS)


# -- connected keyed streams


class Enriches(KeyedCoProcessFunction):
    """Orders wait for the customer of their key, in state that both inputs share."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.customer = runtime_context.get_state(ValueStateDescriptor("customer", pa.string()))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", pa.int64()))

    def process_element1(self, value: Row, ctx: ProcessContext) -> Iterator[Any]:
        customer = self.customer.value()
        if customer is None:
            self.waiting.add(value.amount)
            ctx.timer_service().register_event_time_timer(2**62)
        else:
            yield customer, value.amount

    def process_element2(self, value: Row, ctx: ProcessContext) -> Iterator[Any]:
        self.customer.update(value.name)
        for amount in self.waiting.get():
            yield value.name, amount
        self.waiting.clear()

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        for amount in self.waiting.get():
            yield f"unknown {ctx.get_current_key()}", amount


@pytest.mark.parametrize("is_keyed_before", [True, False])
def test_connected_keyed_streams_share_state_and_timers(env: StreamExecutionEnvironment, is_keyed_before: bool) -> None:
    orders = env.from_arrow(pa.table({"customer": [1, 2, 1], "amount": [10, 20, 30]}))
    customers = env.from_arrow(pa.table({"id": [1], "name": ["Ann"]}))
    if is_keyed_before:
        connected = orders.key_by("customer").connect(customers.key_by("id"))
    else:
        connected = orders.connect(customers).key_by("customer", "id")
    assert rows(connected.process(Enriches())) == [("Ann", 10), ("Ann", 30), ("unknown 2", 20)]


class KeyedLabels(CoMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", pa.int64()))

    def map1(self, value: tuple[str, int]) -> int:
        self.seen.update((self.seen.value() or 0) + 1)
        return self.seen.value() or 0

    def map2(self, value: tuple[str, int]) -> int:
        return self.map1(value)


class KeyedRepeats(CoFlatMapFunction):
    def flat_map1(self, value: tuple[str, int]) -> Iterator[str]:
        yield f"1 {value[0]}"

    def flat_map2(self, value: tuple[str, int]) -> list[str]:
        return [f"2 {value[0]}"]


def test_co_map_and_co_flat_map_of_keyed_streams(env: StreamExecutionEnvironment) -> None:
    def connected() -> Any:
        first, second = env.from_collection([("a", 1), ("b", 2)]), env.from_collection([("a", 3)])
        return first.connect(second).key_by(lambda pair: pair[0], lambda pair: pair[0], key_type=Types.STRING())

    assert rows(connected().map(KeyedLabels())) == [1, 1, 2]
    assert rows(connected().flat_map(KeyedRepeats())) == ["1 a", "1 b", "2 a"]


def test_order_within_a_key_is_that_of_its_sender(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_sequence(1, 2000).set_parallelism(1).map(lambda n: (n % 7, n)).set_parallelism(1)
    found = in_order(numbers.key_by("f0").map(lambda pair: pair))
    for key in range(7):
        assert [n for k, n in found if k == key] == [n for n in range(1, 2001) if n % 7 == key]


def test_a_function_of_a_keyed_stream_may_also_have_state_without_a_key(env: StreamExecutionEnvironment) -> None:
    results = env.from_collection(["a", "b"]).key_by(lambda _: "all").map(Counting()).execute_and_collect()
    assert list(results) == [("a", 1), ("b", 2)]
