"""Operators with state of every kind, whose snapshots are kept with each release: see `tests/support/store_state.py`.

What is here is the user's code of those snapshots. Its classes are in them by name, so they stay where they are; what a
case computes may only be changed for releases to come, by another case beside it.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from flinkray import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ArgMax,
    ArgMin,
    Avg,
    Batch,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CollectList,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    Count,
    CountDistinct,
    CountEvictor,
    CountTrigger,
    CountWindow,
    DataStream,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    First,
    GlobalWindow,
    GlobalWindows,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    Last,
    ListStateDescriptor,
    MapStateDescriptor,
    Max,
    Min,
    OutputTag,
    ProcessFunction,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    ReducingStateDescriptor,
    Row,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    StateTtlConfig,
    Sum,
    TimeEvictor,
    TopN,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkGenerator,
    WatermarkStrategy,
    Window,
    WindowAssigner,
    col,
)
from flinkray.cep import CEP, AfterMatchSkipStrategy, Pattern
from flinkray.testing import Harness, OneInputHarness, TwoInputHarness

# Rows in each half of a case, the time of neighbours, and what passes of processing time with each.
ROWS = 24
STEP_MS = 10
PASSES_MS = 7
SCHEMA = pa.schema(
    {
        "key": pa.int64(),
        "n": pa.int64(),
        "x": pa.float64(),
        "word": pa.string(),
        "at": pa.timestamp("us"),
        "price": pa.decimal128(10, 2),
    }
)
HASHMAP = {"state.backend.type": "hashmap"}
ROCKSDB = {"state.backend.type": "rocksdb"}


@dataclass(frozen=True)
class OperatorCase:
    """A transformation of one or two streams of `row_of`."""

    build: Callable[..., DataStream]
    inputs: int = 1
    options: dict[str, str] | None = None

    def harness(self, saved: bytes | None = None) -> Harness:
        """
        Args:
            saved: what an earlier one has given as its snapshot.
        """
        settings: Any = {"type_info": SCHEMA, "options": self.options or {}}
        if saved is not None:
            settings["restore_from"] = saved
        kind: Any = OneInputHarness if self.inputs == 1 else TwoInputHarness
        harness: Harness = kind.of(self.build, **settings)
        return harness


def first_half(harness: Harness) -> None:
    """Before the snapshot."""
    _feed(harness, 0)


def second_half(harness: Harness, past_ms: int = 0) -> None:
    """After it, up to the end of the input.

    Args:
        past_ms: processing time that has passed before, where a clock begins anew.
    """
    if past_ms:
        harness.advance_time(past_ms)
    _feed(harness, ROWS)
    harness.advance_time(1_000)
    harness.end_input()


def passed_ms(harness: Harness) -> int:
    return harness.clock.now_ms()


def row_of(number: int) -> tuple[dict[str, Any], int]:
    """A row, and its event time: up to 90 ms out of order."""
    value = {
        "key": number // 2 % 3,
        "n": number * 5 % 17,
        "x": number * 0.25,
        "word": f"word {number % 4}",
        "at": datetime.datetime(2024, 2, 29, 12, 0, number),
        "price": Decimal(number * 125) / 100,
    }
    return value, number * STEP_MS + number * 37 % 90


def _feed(harness: Harness, start: int) -> None:
    inputs = harness._inputs
    for number in range(start, start + ROWS):
        value, time = row_of(number)
        inputs[number % len(inputs)].process(value, time)
        if number % 4 == 3:
            for each in inputs:
                each.watermark(number * STEP_MS - 60)
            harness.advance_time(4 * PASSES_MS)


# -- state by key ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Position:
    """A value of the user's."""

    at: datetime.datetime
    price: Decimal
    parts: tuple[Any, ...]


class Totals(AggregateFunction):
    """(rows, sum of n), as a Row."""

    def create_accumulator(self) -> Row:
        return Row(rows=0, total=0)

    def add(self, value: Any, accumulator: Row) -> Row:
        return Row(rows=accumulator["rows"] + 1, total=accumulator.total + value.n)

    def get_result(self, accumulator: Row) -> tuple[int, int]:
        return accumulator["rows"], accumulator.total

    def merge(self, accumulator_a: Row, accumulator_b: Row) -> Row:
        return Row(rows=accumulator_a["rows"] + accumulator_b["rows"], total=accumulator_a.total + accumulator_b.total)


def kept_for(length_ms: int) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(length_ms).update_ttl_on_read_and_write().never_return_expired()
    return builder.build()


class EveryState(KeyedProcessFunction):
    """Keeps values of all kinds, ours among them, in state of all kinds, and sets timers in both times."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))
        self.row = runtime_context.get_state(ValueStateDescriptor("row"))
        self.position = runtime_context.get_state(ValueStateDescriptor("position"))
        self.typed = runtime_context.get_state(ValueStateDescriptor("typed", Types.ROW([Types.LONG(), Types.STRING()])))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))
        self.by_window = runtime_context.get_map_state(MapStateDescriptor("by window"))
        self.by_row = runtime_context.get_map_state(MapStateDescriptor("by row"))
        self.highest = runtime_context.get_reducing_state(ReducingStateDescriptor("highest", int, function=max))
        totals = AggregatingStateDescriptor("totals", function=Totals())
        self.totals = runtime_context.get_aggregating_state(totals)
        value = ValueStateDescriptor("for a while", ttl=kept_for(60))
        self.for_a_while = runtime_context.get_state(value)
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", ttl=kept_for(60)))
        self.latest = runtime_context.get_map_state(MapStateDescriptor("latest", ttl=kept_for(60)))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        start = ctx.timestamp() // 50 * 50
        window = Window(start, start + 50)
        yield self._contents(ctx.get_current_key(), window, value.word)
        self.count.update(count)
        self.row.update(Row(n=value.n, inner=Row(value.word, None), windows=[window, CountWindow(count)]))
        self.position.update(Position(value.at, value.price, (GlobalWindow(), Row(x=value.x))))
        self.typed.update(Row(count, value.word))
        self.seen.add({"word": value.word, "window": window})
        self.by_window[window] = (self.by_window[window] or 0) + value.n
        self.by_row[Row(word=value.word)] = value.n
        self.highest.add(value.n)
        self.totals.add(value)
        self.for_a_while.update(Row(since=count))
        self.recent.add(count)
        self.latest[value.word] = Row(value.n)
        ctx.timer_service().register_event_time_timer(start + 120)
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 90)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield str((timestamp, str(ctx.time_domain()), ctx.get_current_key(), self.count.value()))

    def _contents(self, key: Any, window: Window, word: str) -> str:
        maps = [sorted(map(repr, state.items())) for state in (self.by_window, self.by_row, self.latest)]
        values = [self.row.value(), self.position.value(), self.typed.value(), self.for_a_while.value()]
        lists = [list(self.seen), list(self.recent)]
        found = [self.by_window[window], self.by_row[Row(word=word)], self.highest.get(), self.totals.get()]
        return repr((key, self.count.value(), values, lists, maps, found))


def every_state(stream: DataStream) -> DataStream:
    return stream.key_by("key").process(EveryState(), Types.STRING())


def row_key(value: Any) -> Row:
    return Row(word=value.word, half=value.key // 2)


def tuple_key(value: Any) -> tuple[Any, ...]:
    day = value.at.replace(second=0)
    return value.word, day, Decimal(value.key) / 4, uuid.UUID(int=value.key), value.x % 1


def nested_key(value: Any) -> Any:
    return Row(word=Row(value.word), key=(value.key, Row(third=value.n % 3)))


def keyed_by(function: Callable[[Any], Any]) -> Callable[[DataStream], DataStream]:
    return lambda stream: stream.key_by(function).process(EveryState(), Types.STRING())


# -- state that belongs to no key --------------------------------------------------------------------------------------


class Listed(ProcessFunction, CheckpointedFunction):
    """Lists of both kinds; gives how long they are with each row."""

    def initialize_state(self, context: Any) -> None:
        self.split = context.get_list_state(ListStateDescriptor("split"))
        self.union = context.get_union_list_state(ListStateDescriptor("union", int))

    def snapshot_state(self, context: Any) -> None:
        """Both are written as they come."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.split.add(Row(n=value.n, window=Window(value.n, value.n + 1)))
        self.union.add(value.n)
        yield repr(list(self.split)), sum(self.union)


RULES = MapStateDescriptor("rules")
LATE = OutputTag("late")


class WithRules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, repr(sorted(ctx.get_broadcast_state(RULES).items()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES)[value.word, Window(0, value.key)] = Row(n=value.n)


class WithRulesByKey(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.waiting.add(Row(n=value.n))
        yield repr(list(self.waiting)), repr(sorted(ctx.get_broadcast_state(RULES).items()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES)[value.word] = value.n


class Pairs(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = [runtime_context.get_list_state(ListStateDescriptor(name)) for name in ("left", "right")]

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from self._pairs(0, value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield from self._pairs(1, value, ctx)

    def _pairs(self, side: int, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen[side].add(value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 30)
        yield side, value.n, sum(other.n for other in self.seen[1 - side])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield 2, timestamp, len(list(self.seen[0]))


class Stepping(WatermarkGenerator):
    """Keeps a Row between its calls."""

    def __init__(self) -> None:
        self.last = Row(highest=-(2**63), rows=0)

    def on_batch(self, batch: Batch, timestamps: pa.Array) -> Any:
        highest = max(self.last.highest, *timestamps.to_pylist())
        self.last = Row(highest=highest, rows=self.last["rows"] + batch.num_rows)
        return highest - 95 if self.last["rows"] % 5 == 0 else None

    def on_periodic_emit(self) -> Any:
        return None


class ByMarks(KeyedProcessFunction):
    """What the watermark is with each row."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, ctx.timestamp(), ctx.timer_service().current_watermark()


# -- windows -----------------------------------------------------------------------------------------------------------


class Parts:
    """A value of the user's that Arrow cannot hold, with some of ours in it."""

    def __init__(self, word: str, n: int) -> None:
        self.inner = Row(word=word, window=Window(n, n + 1))
        self.n = n

    def __repr__(self) -> str:
        return f"Parts({self.inner!r})"


def as_parts(value: Any) -> Any:
    return Parts(value.word, value.n)


def n_of(value: Any) -> int:
    return int(value.n)


def third_of(value: Any) -> int:
    return int(value.n) % 3


class Halves(WindowAssigner):
    """Of the user's: windows of half the size where n is odd, which are no class of ours."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Any]:
        size = 25 if element.n % 2 else 50
        start = timestamp // size * size
        return [Half(start, size)]

    def get_default_trigger(self, env: Any = None) -> Any:
        return ContinuousEventTimeTrigger.of(40)

    def is_event_time(self) -> bool:
        return True


@dataclass(frozen=True, order=True)
class Half:
    start: int
    size: int

    def max_timestamp(self) -> int:
        return self.start + self.size - 1


def listed(key: Any, context: Any, rows: Iterable[Any]) -> Iterator[Any]:
    yield repr((key, context.window())), repr([row.n for row in rows])


def listed_all(context: Any, rows: Iterable[Any]) -> Iterator[Any]:
    yield repr(context.window()), repr([row.n for row in rows])


def summed(one: Any, other: Any) -> Any:
    """With all columns, whose types the first row may be the only one to show."""
    return one._replace(n=one.n + other.n, word=max(one.word, other.word))


def objects_joined(one: Any, other: Any) -> Any:
    return Parts(max(one.inner.word, other.inner.word), one.n + other.n)


def differing(one: Any, other: Any) -> float:
    return float(abs(one.n - other.n))


class Firings(ProcessWindowFunction):
    """(window, firings of it before, firings of the key before, rows)"""

    descriptor = ValueStateDescriptor("firings")

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        states = [store.get_state(self.descriptor) for store in (context.window_state(), context.global_state())]
        before = [state.value() or Row(times=0) for state in states]
        for state, each in zip(states, before, strict=True):
            state.update(Row(times=each.times + 1))
        yield repr((key, context.window(), *before)), len(list(elements))

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.descriptor).clear()


def gap_of(value: Any) -> int:
    return 10 + int(value.n) % 4 * 10


AGGREGATES: dict[str, Any] = {
    "rows": Count(),
    "total": Sum("n"),
    "mean": Avg("x"),
    "low": Min("n"),
    "high": Max("price"),
    "first": First("word"),
    "last": Last("at"),
    "words": CountDistinct("word"),
    "all": CollectList("n"),
    "best": ArgMax("word", "n"),
    "worst": ArgMin("word", "n"),
    "top": TopN("n", 2),
}
FEWER: dict[str, Any] = {"rows": Count(), "total": Sum("n"), "words": CountDistinct("word")}


def windows(assigner: Any, finish: Callable[[Any], DataStream], **parts: Any) -> Callable[[DataStream], DataStream]:
    """Of windows by key.

    Args:
        parts: trigger, evictor, allowed_lateness: what the window is given beside.
    """

    def build(stream: DataStream) -> DataStream:
        windowed = stream.key_by("key").window(assigner)
        for name, part in parts.items():
            windowed = getattr(windowed, name)(part)
        return finish(windowed)

    return build


def every_aggregate(windowed: Any) -> Any:
    return windowed.aggregate(**AGGREGATES)


def some_aggregates(windowed: Any) -> Any:
    return windowed.aggregate(**FEWER)


def reduced(windowed: Any) -> Any:
    return windowed.reduce(summed)


def accumulated(windowed: Any) -> Any:
    return windowed.aggregate(Totals(), listed_totals)


def listed_totals(key: Any, context: Any, results: Iterable[Any]) -> Iterator[Any]:
    yield key, repr(context.window()), repr(list(results))


def processed(windowed: Any) -> Any:
    return windowed.process(listed)


def fired(windowed: Any) -> Any:
    return windowed.process(Firings())


def with_late_rows(stream: DataStream) -> DataStream:
    windowed = stream.key_by("key").window(TumblingEventTimeWindows.of(50)).side_output_late_data(LATE)
    results = windowed.allowed_lateness(20).process(listed)
    return results.union(results.get_side_output(LATE).map(late_row))


def late_row(value: Any) -> tuple[str, str]:
    return "late", repr(value)


def of_objects(finish: Callable[[Any], Any], assigner: Any) -> Callable[[DataStream], DataStream]:
    def build(stream: DataStream) -> DataStream:
        return finish(stream.map(as_parts, object).key_by(third_of).window(assigner))

    return build


def counted(size: int, slide: int | None, finish: Callable[[Any], Any]) -> Callable[[DataStream], DataStream]:
    return lambda stream: finish(stream.key_by("key").count_window(size, slide))


def all_windows(stream: DataStream) -> DataStream:
    return stream.window_all(TumblingEventTimeWindows.of(70)).process(listed_all)


# -- joins and running results -----------------------------------------------------------------------------------------


def paired(one: Any, other: Any) -> tuple[int, int]:
    return one.n, other.n


def grouped(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    return [(repr([row.n for row in first]), repr([row.n for row in second]))]


def joined(assigner: Any, **parts: Any) -> Callable[[DataStream, DataStream], DataStream]:
    def build(one: DataStream, other: DataStream) -> DataStream:
        pair: Any = one.join(other).where("key").equal_to("key").window(assigner)
        for name, part in parts.items():
            pair = getattr(pair, name)(part)
        return pair.apply(paired)

    return build


def co_grouped(assigner: Any, **parts: Any) -> Callable[[DataStream, DataStream], DataStream]:
    def build(one: DataStream, other: DataStream) -> DataStream:
        pair: Any = one.co_group(other).where("key").equal_to("key").window(assigner)
        for name, part in parts.items():
            pair = getattr(pair, name)(part)
        return pair.apply(grouped)

    return build


def by_interval(one: DataStream, other: DataStream) -> DataStream:
    return one.key_by("key").interval_join(other.key_by("key")).between(-60, 80).process(intervals)


def intervals(one: Any, other: Any, ctx: Any) -> Iterator[Any]:
    yield one.n, other.n, ctx.get_timestamp()


def by_interval_of_columns(one: DataStream, other: DataStream) -> DataStream:
    fewer = other.select("key", "n").rename({"n": "m"})
    return one.key_by("key").interval_join(fewer.key_by("key")).between(-60, 80).join()


def running_reduce(stream: DataStream) -> DataStream:
    return stream.key_by("key").reduce(summed)


def running_reduce_of_objects(stream: DataStream) -> DataStream:
    return stream.map(as_parts, object).key_by(third_of).reduce(objects_joined)


def running_aggregates(stream: DataStream) -> DataStream:
    return stream.key_by("key").aggregate(**AGGREGATES)


def running_columns(stream: DataStream) -> DataStream:
    summed_up = stream.select("key", "n", "x").key_by("key").sum("n")
    return summed_up.key_by("key").max("x")


def connected(one: DataStream, other: DataStream) -> DataStream:
    return one.connect(other).key_by("key", "key").process(Pairs())


def broadcast(one: DataStream, other: DataStream) -> DataStream:
    return one.connect(other.broadcast(RULES)).process(WithRules())


def broadcast_by_key(one: DataStream, other: DataStream) -> DataStream:
    return one.key_by("key").connect(other.broadcast(RULES)).process(WithRulesByKey())


def lists(stream: DataStream) -> DataStream:
    return stream.process(Listed())


def time_of(_: Any, timestamp: int) -> int:
    return timestamp + 5


def watermarked(stream: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_generator(Stepping).with_timestamp_assigner(time_of)
    return stream.assign_timestamps_and_watermarks(strategy).key_by("key").process(ByMarks())


def numbers_of(match: Any) -> list[tuple[str, list[int]]]:
    return [(name, [row.n for row in rows]) for name, rows in match.items()]


def is_even(row: Any) -> bool:
    return bool(row.n % 2 == 0)


def is_more(row: Any, ctx: Any) -> bool:
    return all(row.n > other.n for other in ctx.get_events_for_pattern("even"))


def pattern_of_columns(stream: DataStream) -> DataStream:
    few = Pattern.begin("few").where(col("n") < 7).followed_by("many").where(col("n") > 9).one_or_more().within(300)
    return CEP.pattern(stream.key_by("key"), few).select(numbers_of)


def pattern_of_functions(stream: DataStream) -> DataStream:
    skipping = AfterMatchSkipStrategy.skip_past_last_event()
    even = Pattern.begin("even", skipping).where(is_even).followed_by("more").where(is_more)
    return CEP.pattern(stream, even).select(numbers_of)


def pattern_in_processing_time(stream: DataStream) -> DataStream:
    even = Pattern.begin("even").where(is_even).next("odd").where(col("n") > 3).optional().within(60)
    return CEP.pattern(stream.key_by("word"), even).in_processing_time().select(numbers_of)


TUMBLING = TumblingEventTimeWindows.of(50)
WIDE = TumblingEventTimeWindows.of(100)
LONG_SESSIONS = EventTimeSessionWindows.with_gap(45)
SLIDING = SlidingEventTimeWindows.of(80, 30)
SESSIONS = EventTimeSessionWindows.with_gap(15)
DYNAMIC = EventTimeSessionWindows.with_dynamic_gap(gap_of)

FIRST_CASES: dict[str, OperatorCase] = {
    **{
        f"{name} {backend['state.backend.type']}": OperatorCase(build, 1, backend)
        for backend in (HASHMAP, ROCKSDB)
        for name, build in {
            "state": every_state,
            "state by rows": keyed_by(row_key),
            "state by tuples": keyed_by(tuple_key),
            "state by nested rows": keyed_by(nested_key),
        }.items()
    },
    "lists": OperatorCase(lists),
    "broadcast": OperatorCase(broadcast, 2),
    "broadcast by key": OperatorCase(broadcast_by_key, 2),
    "connected": OperatorCase(connected, 2),
    "watermarks": OperatorCase(watermarked),
    "tumbling aggregates": OperatorCase(windows(TUMBLING, every_aggregate)),
    "sliding aggregates": OperatorCase(windows(SLIDING, every_aggregate)),
    "tumbling reduce": OperatorCase(windows(TUMBLING, reduced)),
    "sliding accumulators": OperatorCase(windows(SLIDING, accumulated)),
    "tumbling process": OperatorCase(windows(TUMBLING, processed)),
    "sliding process": OperatorCase(windows(SLIDING, processed)),
    "late rows": OperatorCase(with_late_rows),
    "late aggregates": OperatorCase(windows(TUMBLING, some_aggregates, allowed_lateness=40)),
    "tumbling objects": OperatorCase(of_objects(processed, TUMBLING)),
    "session aggregates": OperatorCase(windows(SESSIONS, every_aggregate)),
    "session reduce": OperatorCase(windows(SESSIONS, reduced)),
    "session accumulators": OperatorCase(windows(SESSIONS, accumulated)),
    "session process": OperatorCase(windows(SESSIONS, processed)),
    "session objects": OperatorCase(of_objects(processed, SESSIONS)),
    "dynamic sessions": OperatorCase(windows(DYNAMIC, some_aggregates)),
    "count aggregates": OperatorCase(counted(5, None, some_aggregates)),
    "sliding count aggregates": OperatorCase(counted(6, 4, some_aggregates)),
    "count process": OperatorCase(counted(5, None, processed)),
    "sliding count process": OperatorCase(counted(6, 4, processed)),
    "count trigger": OperatorCase(windows(TUMBLING, processed, trigger=CountTrigger.of(2))),
    "purging trigger": OperatorCase(
        windows(SLIDING, processed, trigger=PurgingTrigger.of(ContinuousEventTimeTrigger.of(40)))
    ),
    "delta trigger": OperatorCase(
        windows(GlobalWindows.create(), processed, trigger=PurgingTrigger.of(DeltaTrigger.of(6, differing)))
    ),
    "trigger in processing time": OperatorCase(
        windows(TUMBLING, some_aggregates, trigger=ContinuousProcessingTimeTrigger.of(30))
    ),
    "aggregates with a trigger": OperatorCase(windows(SESSIONS, some_aggregates, trigger=CountTrigger.of(2))),
    "reduce with a trigger": OperatorCase(windows(TUMBLING, reduced, trigger=CountTrigger.of(2))),
    "accumulators with a trigger": OperatorCase(windows(SESSIONS, accumulated, trigger=CountTrigger.of(2))),
    "objects with a trigger": OperatorCase(
        lambda stream: (
            stream.map(as_parts, object).key_by(third_of).window(TUMBLING).trigger(CountTrigger.of(2)).process(listed)
        )
    ),
    "count evictor": OperatorCase(windows(SLIDING, processed, evictor=CountEvictor.of(2))),
    "time evictor": OperatorCase(windows(TUMBLING, processed, evictor=TimeEvictor.of(20))),
    "delta evictor": OperatorCase(windows(SESSIONS, processed, evictor=DeltaEvictor.of(9, differing))),
    "tumbling processing time": OperatorCase(windows(TumblingProcessingTimeWindows.of(40), some_aggregates)),
    "sliding processing time": OperatorCase(windows(SlidingProcessingTimeWindows.of(60, 40), processed)),
    "sessions in processing time": OperatorCase(windows(ProcessingTimeSessionWindows.with_gap(40), some_aggregates)),
    "state of windows": OperatorCase(windows(TUMBLING, fired, allowed_lateness=100)),
    "state of windows with a trigger": OperatorCase(windows(TUMBLING, fired, trigger=CountTrigger.of(2))),
    "windows of the user": OperatorCase(windows(Halves(), processed)),
    "windows of all keys": OperatorCase(all_windows),
    "window join": OperatorCase(joined(WIDE), 2),
    "sliding join": OperatorCase(joined(SLIDING), 2),
    "session join": OperatorCase(joined(LONG_SESSIONS), 2),
    "join with a trigger": OperatorCase(joined(WIDE, trigger=CountTrigger.of(2)), 2),
    "co-group": OperatorCase(co_grouped(TUMBLING), 2),
    "session co-group": OperatorCase(co_grouped(SESSIONS), 2),
    "co-group with an evictor": OperatorCase(co_grouped(SLIDING, evictor=CountEvictor.of(3)), 2),
    "interval join": OperatorCase(by_interval, 2),
    "interval join of columns": OperatorCase(by_interval_of_columns, 2),
    "running reduce": OperatorCase(running_reduce),
    "running reduce of objects": OperatorCase(running_reduce_of_objects),
    "running aggregates": OperatorCase(running_aggregates),
    "running columns": OperatorCase(running_columns),
}

# Of operators that came when a version had been kept; its stored program does not have them.
LATER_CASES: dict[str, OperatorCase] = {
    "pattern of columns": OperatorCase(pattern_of_columns),
    "pattern of functions": OperatorCase(pattern_of_functions),
    "pattern in processing time": OperatorCase(pattern_in_processing_time),
}

CASES = FIRST_CASES | LATER_CASES
