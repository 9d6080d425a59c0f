"""Each operation and setting of a WindowedStream in a whole job of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from flinkray import (
    AggregateFunction,
    ArgMax,
    ArgMin,
    Avg,
    CollectList,
    Count,
    CountDistinct,
    DataStream,
    Duration,
    EventTimeSessionWindows,
    EventTimeTrigger,
    First,
    KeyedStream,
    Last,
    Max,
    Min,
    OutputTag,
    ProcessWindowFunction,
    PurgingTrigger,
    ReduceFunction,
    Row,
    RuntimeContext,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Sum,
    Time,
    TopN,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    Window,
    WindowedStream,
    WindowFunction,
    col,
    struct,
)
from flinkray.functions.interfaces import ProcessContext, WindowContext
from tests.support.jobs import environment
from tests.support.whole_jobs import ONE_ROW_BATCHES, rows, rows_of, timed

EVENTS = [("a", 5, 1), ("b", 7, 2), ("a", 3, 9), ("a", 8, 14), ("b", 2, 25)]
NAMES = ("key", "value", "at")
TEN = TumblingEventTimeWindows.of(10)


def events(env: StreamExecutionEnvironment) -> DataStream:
    return timed(env, *EVENTS, names=NAMES)


def windowed(env: StreamExecutionEnvironment) -> WindowedStream:
    return events(env).key_by("key").window(TEN)


def tuples(stream: DataStream) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows(stream)]


# -- assigners


def starts_between(first: int, slide: int, size: int) -> Callable[[int], list[int]]:
    """The starts of all windows that contain the time, found by trying each."""
    return lambda at: [start for start in range(first, 40, slide) if start <= at < start + size]


ASSIGNERS: dict[str, tuple[Any, Callable[[int], list[int]]]] = {
    "milliseconds": (TumblingEventTimeWindows.of(10), lambda at: [at // 10 * 10]),
    "timedelta": (TumblingEventTimeWindows.of(timedelta(milliseconds=10)), lambda at: [at // 10 * 10]),
    "text": (TumblingEventTimeWindows.of("10 ms"), lambda at: [at // 10 * 10]),
    "Time": (TumblingEventTimeWindows.of(Time.milliseconds(10)), lambda at: [at // 10 * 10]),
    "Duration": (TumblingEventTimeWindows.of(Duration.of_millis(10)), lambda at: [at // 10 * 10]),
    "offset": (TumblingEventTimeWindows.of(10, 2), lambda at: [(at - 2) // 10 * 10 + 2]),
    "negative offset": (TumblingEventTimeWindows.of(10, -1), lambda at: [(at + 1) // 10 * 10 - 1]),
    "sliding": (SlidingEventTimeWindows.of(10, 5), starts_between(-10, 5, 10)),
    "sliding, no divisor": (SlidingEventTimeWindows.of(10, 4), starts_between(-12, 4, 10)),
    "sliding with gaps": (SlidingEventTimeWindows.of(5, 10), starts_between(-10, 10, 5)),
    "sliding, offset": (SlidingEventTimeWindows.of(10, 5, 3), starts_between(-12, 5, 10)),
}


@pytest.mark.parametrize("assigner", ASSIGNERS)
@pytest.mark.parametrize("is_columnar", [True, False])
def test_windows_of_an_assigner(env: StreamExecutionEnvironment, assigner: str, is_columnar: bool) -> None:
    windows, starts = ASSIGNERS[assigner]
    stream = events(env).key_by("key").window(windows)
    if is_columnar:
        found = stream.aggregate(total=Sum("value")).drop("window_end")
    else:
        found = stream.apply(lambda key, window, values: [(key, window.start, sum(row.value for row in values))])
    expected: dict[tuple[str, int], int] = {}
    for key, value, at in EVENTS:
        for start in starts(at):
            expected[key, start] = expected.get((key, start), 0) + value
    assert sorted(tuples(found)) == sorted((*at, total) for at, total in expected.items())


# -- built-in aggregates


AGGREGATES: dict[str, tuple[Any, list[Any]]] = {
    "Count": (Count(), [2, 1, 1, 1]),
    "Count of a column": (Count("value"), [2, 1, 1, 1]),
    "Sum": (Sum("value"), [8, 8, 7, 2]),
    "Sum of an expression": (Sum(col("value") * col("at")), [32, 112, 14, 50]),
    "Avg": (Avg("value"), [4.0, 8.0, 7.0, 2.0]),
    "Min": (Min("value"), [3, 8, 7, 2]),
    "Max": (Max("value"), [5, 8, 7, 2]),
    "First": (First("value"), [5, 8, 7, 2]),
    "Last": (Last("value"), [3, 8, 7, 2]),
    "CountDistinct": (CountDistinct("value"), [2, 1, 1, 1]),
    "ArgMin": (ArgMin("at", by="value"), [9, 14, 2, 25]),
    "ArgMax": (ArgMax("at", by="value"), [1, 14, 2, 25]),
    "TopN": (TopN("value", n=1), [[5], [8], [7], [2]]),
    "TopN of rows": (
        TopN(struct("at", v="value"), 1, by="value"),
        [[{"at": 1, "v": 5}], [{"at": 14, "v": 8}], [{"at": 2, "v": 7}], [{"at": 25, "v": 2}]],
    ),
    "CollectList": (CollectList("value"), [[5, 3], [8], [7], [2]]),
}


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_a_built_in_aggregate(env: StreamExecutionEnvironment, aggregate: str) -> None:
    function, (a_0, a_10, b_0, b_20) = AGGREGATES[aggregate]
    assert tuples(windowed(env).aggregate(result=function)) == [
        ("a", 0, 10, a_0),
        ("a", 10, 20, a_10),
        ("b", 0, 10, b_0),
        ("b", 20, 30, b_20),
    ]


@pytest.mark.parametrize(("operation", "a_0"), [("sum", 8), ("min", 3), ("max", 5)])
@pytest.mark.parametrize("column", ["value", 1])
def test_one_column_summed_up(env: StreamExecutionEnvironment, operation: str, column: Any, a_0: int) -> None:
    stream = events(env).where(col("at") < 10).key_by("key").window(TEN)
    assert rows(getattr(stream, operation)(column))[0] == Row(key="a", window_start=0, window_end=10, value=a_0)


@pytest.mark.parametrize(
    ("settings", "starts"),
    [
        (lambda keyed: keyed.window(TEN), [0, 0, 10, 20]),
        (lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(10)), [1, 2, 25]),
        (lambda keyed: keyed.window(TEN).trigger(PurgingTrigger.of(EventTimeTrigger.create())), [0, 0, 10, 20]),
        (lambda keyed: keyed.count_window(2), [None, None]),
    ],
    ids=["aligned", "sessions", "of any kind", "of rows"],
)
def test_bounds_are_timestamps_where_they_are_asked_for(
    env: StreamExecutionEnvironment, settings: Callable[[KeyedStream], WindowedStream], starts: list[int | None]
) -> None:
    windows = settings(events(env).key_by("key")).bounds_as_timestamps("Europe/Paris")
    table = windows.aggregate(n=Count()).to_arrow().sort_by("window_start")
    in_paris = pa.timestamp("ms", "Europe/Paris")
    assert (table.schema.field("window_start").type, table.schema.field("window_end").type) == (in_paris, in_paris)
    assert table["window_start"].cast(pa.int64()).to_pylist() == starts


def test_results_have_the_key_columns_whatever_the_key(env: StreamExecutionEnvironment) -> None:
    def columns(*key: Any, **named: Any) -> list[str]:
        return events(env).key_by(*key, **named).window(TEN).aggregate(n=Count()).to_arrow().column_names[:-3]

    assert columns("key") == ["key"]
    assert columns("key", "value") == ["key", "value"]
    assert columns(lambda row: row.value) == ["key"]
    assert columns(lambda row: (row.value, row.key)) == ["key_0", "key_1"]
    assert columns(lambda row: (row.value, row.key), key_type=[int, str]) == ["key_0", "key_1"]


def test_nulls_are_left_out_of_aggregates(env: StreamExecutionEnvironment) -> None:
    stream = timed(env, ("a", None, 1), ("a", 4, 2), ("b", None, 3), names=NAMES).key_by("key").window(TEN)
    found = stream.aggregate(rows=Count(), values=Count("value"), total=Sum("value"), mean=Avg("value")).drop(
        "window_end"
    )
    assert tuples(found) == [("a", 0, 2, 1, 4, 4.0), ("b", 0, 1, 0, None, None)]


# -- functions


class Larger(ReduceFunction):
    def reduce(self, value1: Row, value2: Row) -> Row:
        return value1 if value1.value >= value2.value else value2


@pytest.mark.parametrize("function", [Larger(), lambda a, b: a if a.value >= b.value else b])
def test_reduce(env: StreamExecutionEnvironment, function: Any) -> None:
    assert tuples(windowed(env).reduce(function)) == [("a", 5, 1), ("a", 8, 14), ("b", 2, 25), ("b", 7, 2)]


def describe(key: str, context: WindowContext, values: Iterable[Any]) -> Iterator[tuple[str, int, int, str]]:
    yield key, context.window().start, context.window().end, ",".join(str(getattr(v, "value", v)) for v in values)


class Describes(ProcessWindowFunction):
    def process(self, key: str, context: WindowContext, elements: Iterable[Any]) -> Iterator[tuple[str, int, int, str]]:
        assert context.current_watermark() >= context.window().max_timestamp()
        assert context.current_processing_time() > 1_700_000_000_000
        yield from describe(key, context, elements)


ALL = [("a", 0, 10, "5,3"), ("a", 10, 20, "8"), ("b", 0, 10, "7"), ("b", 20, 30, "2")]


@pytest.mark.parametrize("function", [Describes(), describe])
def test_process_sees_all_rows_of_a_window(env: StreamExecutionEnvironment, function: Any) -> None:
    assert rows(windowed(env).process(function)) == ALL


class Applies(WindowFunction):
    def apply(self, key: str, window: Window, inputs: Iterable[Row]) -> Iterator[tuple[str, int, int, str]]:
        yield key, window.start, window.end, ",".join(str(row.value) for row in inputs)


def applies(key: str, window: Window, inputs: Iterable[Row]) -> list[tuple[str, int, int, str]]:
    return [(key, window.start, window.end, ",".join(str(row.value) for row in inputs))]


@pytest.mark.parametrize("function", [Applies(), applies])
def test_apply_sees_all_rows_of_a_window(env: StreamExecutionEnvironment, function: Any) -> None:
    assert rows(windowed(env).apply(function)) == ALL


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Row, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]


def test_an_aggregate_function_of_the_users(env: StreamExecutionEnvironment) -> None:
    assert rows(windowed(env).aggregate(Mean())) == [2.0, 4.0, 7.0, 8.0]


@pytest.mark.parametrize("function", [Describes(), describe])
def test_incremental_aggregation_with_a_window_function(env: StreamExecutionEnvironment, function: Any) -> None:
    assert rows(windowed(env).aggregate(Mean(), function)) == [
        ("a", 0, 10, "4.0"),
        ("a", 10, 20, "8.0"),
        ("b", 0, 10, "7.0"),
        ("b", 20, 30, "2.0"),
    ]
    typed = windowed(env).aggregate(
        Mean(),
        window_function=function,
        accumulator_type=Types.TUPLE([Types.LONG(), Types.LONG()]),
        output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()]),
    )
    assert typed.record_type is not None
    assert len(rows(typed)) == 4


def test_reduce_with_a_window_function(env: StreamExecutionEnvironment) -> None:
    assert rows(windowed(env).reduce(Larger(), describe))[0] == ("a", 0, 10, "5")


class CountsFirings(ProcessWindowFunction):
    """State of the key outlives its windows."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.firings = runtime_context.get_state(ValueStateDescriptor("firings", pa.int64()))

    def process(self, key: str, context: WindowContext, elements: Iterable[Row]) -> Iterator[tuple[str, int]]:
        self.firings.update((self.firings.value() or 0) + 1)
        yield key, self.firings.value() or 0


def test_a_window_function_may_have_state_of_the_key(env: StreamExecutionEnvironment) -> None:
    assert rows(windowed(env).process(CountsFirings())) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


class FiringsOfEachWindow(ProcessWindowFunction):
    """State of the key and window beside state of the key, and what is left when the window is over."""

    FIRINGS = ValueStateDescriptor("firings", pa.int64())

    def process(self, key: str, context: WindowContext, elements: Iterable[Row]) -> Iterator[tuple[int, int, int]]:
        of_window, of_key = (
            store.get_state(self.FIRINGS) for store in (context.window_state(), context.global_state())
        )
        of_window.update((of_window.value() or 0) + 1)
        of_key.update((of_key.value() or 0) + 1)
        yield context.window().start, of_window.value(), of_key.value()

    def clear(self, context: WindowContext) -> None:
        cleared.append((context.window().start, context.window_state().get_state(self.FIRINGS).value()))
        context.window_state().get_state(self.FIRINGS).clear()


cleared: list[tuple[int, int]] = []


def test_a_window_function_may_have_state_of_the_window() -> None:
    cleared.clear()
    stream = late_windows()
    assert rows(stream.allowed_lateness(21).process(FiringsOfEachWindow())) == [
        (0, 1, 1),
        (0, 2, 3),
        (10, 1, 2),
        (30, 1, 4),
    ]
    assert sorted(cleared) == [(0, 2), (10, 1), (30, 1)]


SMALL = OutputTag("small", Types.STRING())


class SideOutputs(ProcessWindowFunction):
    def process(self, key: str, context: WindowContext, elements: Iterable[Row]) -> Iterator[Any]:
        total = sum(row.value for row in elements)
        yield (SMALL, key) if total < 5 else total


def test_a_window_function_may_yield_side_outputs(env: StreamExecutionEnvironment) -> None:
    totals = windowed(env).process(SideOutputs(), output_type=Types.LONG())
    found = rows_of(env, {"totals": totals, "small": totals.get_side_output(SMALL)})
    assert found == {"totals": [7, 8, 8], "small": ["b"]}


# -- time of results, and windows of windows


def test_a_result_has_the_last_moment_of_its_window_as_event_time(env: StreamExecutionEnvironment) -> None:
    def timestamp(_value: Any, ctx: ProcessContext) -> Iterator[int | None]:
        yield ctx.timestamp()

    for results in (
        windowed(env).aggregate(n=Count()),
        windowed(env).reduce(Larger()),
        windowed(env).process(describe),
    ):
        assert rows(results.process(timestamp)) == [19, 29, 9, 9]


def test_windows_of_window_results(env: StreamExecutionEnvironment) -> None:
    tens = windowed(env).aggregate(total=Sum("value"))
    twenties = tens.key_by("key").window(TumblingEventTimeWindows.of(20)).aggregate(total=Sum("total"), tens=Count())
    assert tuples(twenties) == [("a", 0, 20, 16, 2), ("b", 0, 20, 7, 1), ("b", 20, 40, 2, 1)]


def test_several_windows_over_one_keyed_stream(env: StreamExecutionEnvironment) -> None:
    keyed = events(env).key_by("key")
    found = rows_of(
        env,
        {
            "tens": keyed.window(TEN).aggregate(n=Count()),
            "all": keyed.window(TumblingEventTimeWindows.of(100)).aggregate(n=Count()),
        },
    )
    assert [row.n for row in found["tens"]] == [2, 1, 1, 1]
    assert [row.n for row in found["all"]] == [3, 2]


def silent() -> Iterator[dict[str, Any]]:
    yield from ()
    threading.Event().wait(30)


def one_and_a_later_one() -> Iterator[dict[str, Any]]:
    yield {"key": "a", "at": 5}
    yield {"key": "a", "at": 50}
    threading.Event().wait(30)


def test_an_idle_source_does_not_hold_windows_back(env: StreamExecutionEnvironment) -> None:
    env.configure({"pipeline.auto-watermark-interval": "10 ms"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at").with_idleness("50 ms")
    stream = env.add_source(one_and_a_later_one, "speaks", watermark_strategy=strategy).union(
        env.add_source(silent, "is silent", watermark_strategy=strategy)
    )
    counts = stream.key_by("key").window(TEN).aggregate(n=Count())
    assert counts.execute_and_collect(limit=1) == [Row(key="a", window_start=0, window_end=10, n=1)]


# -- late rows

LATE = OutputTag("late")
# The row at 30 moves the watermark to 29, past the windows of the rows after it.
LATE_EVENTS = [("a", 1, 1), ("a", 2, 30), ("a", 4, 12), ("a", 8, 4)]


def late_windows(env: StreamExecutionEnvironment | None = None) -> WindowedStream:
    env = env or environment(ONE_ROW_BATCHES)
    return timed(env, *LATE_EVENTS, names=NAMES).key_by("key").window(TEN)


def sums(stream: WindowedStream, is_columnar: bool) -> DataStream:
    if is_columnar:
        return stream.aggregate(total=Sum("value")).select("window_start", "total").map(tuple)
    return stream.apply(lambda key, window, values: [(window.start, sum(row.value for row in values))])  # noqa: ARG005


@pytest.mark.parametrize("is_columnar", [True, False])
def test_late_rows_are_dropped(is_columnar: bool) -> None:
    stream = late_windows()
    assert rows(sums(stream, is_columnar)) == [(0, 1), (30, 2)]


@pytest.mark.parametrize("is_columnar", [True, False])
def test_late_rows_go_to_the_side_output_with_their_time(is_columnar: bool) -> None:
    env = environment(ONE_ROW_BATCHES)
    stream = late_windows(env)
    if is_columnar:
        totals = stream.side_output_late_data(LATE).aggregate(total=Sum("value"))
    else:
        totals = stream.side_output_late_data(LATE).process(describe)
    late = totals.get_side_output(LATE).process(with_time)
    found = rows_of(env, {"totals": totals, "late": late})
    assert len(found["totals"]) == 2
    assert found["late"] == [(("a", 4, 12), 12), (("a", 8, 4), 4)]


def with_time(value: Row, ctx: ProcessContext) -> Iterator[Any]:
    yield tuple(value), ctx.timestamp()


@pytest.mark.parametrize("is_columnar", [True, False])
def test_allowed_lateness_fires_a_window_once_more_for_each_late_row(is_columnar: bool) -> None:
    stream = late_windows()
    # The watermark is at 29: a window that ends at 10 and is kept 20 ms longer is just over.
    totals = sums(stream.allowed_lateness("20 ms"), is_columnar)
    assert rows(totals) == [(0, 1), (10, 4), (30, 2)]
    stream = late_windows()
    assert rows(sums(stream.allowed_lateness(Time.milliseconds(21)), is_columnar)) == [(0, 1), (0, 9), (10, 4), (30, 2)]
