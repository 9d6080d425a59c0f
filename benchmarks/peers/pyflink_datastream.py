"""PyFlink's DataStream API with Python functions, its mode "process" or "thread". Run in apache-flink's environment."""

from __future__ import annotations

import math
import os
import site
import time
from collections.abc import Iterable
from typing import Any

from pyflink.common import Configuration, Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    ReduceFunction,
    RuntimeContext,
    WindowFunction,
)
from pyflink.datastream.state import ValueState, ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway

from benchmarks.definitions import (
    DISORDER_MS,
    LEAST_Z,
    RIGHT_SHARE,
    ROWS_PER_MS,
    WINDOW_MS,
    Order,
    key_of,
    right_rows,
    serve,
    text_file,
    value_of,
)
from benchmarks.peers.printed import printed_rows, stdout_to_file

KEYED = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
TIMED = Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.LONG()])
SIDED = Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.LONG(), Types.BOOLEAN()])


class TimeColumn(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[2])


class SumAndCount(AggregateFunction):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Any, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator

    def merge(self, first: tuple[float, int], second: tuple[float, int]) -> tuple[float, int]:
        return first[0] + second[0], first[1] + second[1]


class JoinedPairs(WindowFunction):
    def apply(self, key: int, window: Any, inputs: Iterable[Any]) -> Iterable[tuple[float, float]]:
        sides: tuple[list[float], list[float]] = [], []
        for value in inputs:
            sides[value[3]].append(value[1])
        return [(left, right) for left in sides[True] for right in sides[False]]


class SumSoFar(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1[0], value1[1] + value2[1]


class CountSoFar(KeyedProcessFunction):
    _count: ValueState

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> Iterable[tuple[str, int]]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield value, count


def numbers(env: StreamExecutionEnvironment, rows: int, parallelism: int) -> DataStream:
    """The Java source in one subtask, whose numbers go round: several would have a range each, and drift apart."""
    source = NumberSequenceSource(0, rows - 1)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()).set_parallelism(1)
    return stream.rebalance() if parallelism > 1 else stream


def timed(stream: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER_MS))
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(TimeColumn()))


def windows(env: StreamExecutionEnvironment, order: Order) -> DataStream:
    rows_per_ms = ROWS_PER_MS[order.workload]
    rows = numbers(env, order.rows, order.parallelism).map(
        lambda i: (key_of(i), value_of(i), i // rows_per_ms), output_type=TIMED
    )
    keyed = timed(rows).key_by(lambda row: row[0], key_type=Types.LONG())
    window = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    return window.aggregate(SumAndCount(), output_type=Types.TUPLE([Types.DOUBLE(), Types.LONG()]))


def join(env: StreamExecutionEnvironment, order: Order) -> DataStream:
    """Python has no window join here: both sides, marked, in one stream, paired by a window function."""
    rows_per_ms = ROWS_PER_MS[order.workload]

    def side(rows: int, spread: int, is_left: bool) -> DataStream:
        marked = numbers(env, rows, order.parallelism).map(
            lambda i: (key_of(i), value_of(i), i * spread // rows_per_ms, is_left), output_type=SIDED
        )
        return timed(marked)

    both = side(order.rows, 1, True).union(side(right_rows(order.rows), RIGHT_SHARE, False))
    window = both.key_by(lambda row: row[0], key_type=Types.LONG()).window(
        TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    )
    return window.apply(JoinedPairs(), Types.TUPLE([Types.DOUBLE(), Types.DOUBLE()]))


def stream(env: StreamExecutionEnvironment, order: Order) -> DataStream:
    if order.workload == "W1":
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(text_file(order.rows)))
        lines = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "lines")
        words = lines.flat_map(str.split, output_type=Types.STRING()).key_by(lambda word: word, key_type=Types.STRING())
        return words.process(CountSoFar(), output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
    if order.workload in ("W2", "W2d"):
        return windows(env, order)
    if order.workload in ("W6", "W6d"):
        return join(env, order)
    rows = numbers(env, order.rows, order.parallelism)
    if order.workload == "W3":
        return (
            rows.map(lambda i: i * 2 + 1, output_type=Types.LONG())
            .filter(lambda x: x % 3 == 0)
            .map(lambda x: x // 3, output_type=Types.LONG())
        )
    if order.workload == "W4":
        keyed = rows.map(lambda i: (key_of(i), value_of(i)), output_type=KEYED)
        return keyed.key_by(lambda row: row[0], key_type=Types.LONG()).reduce(SumSoFar())
    z = rows.map(lambda i: math.sqrt(value_of(i)) * math.log1p(key_of(i)), output_type=Types.DOUBLE())
    return z.filter(lambda each: each > LEAST_Z)


def environment(order: Order) -> StreamExecutionEnvironment:
    # Otherwise a local run makes the Python workers threads of this process.
    os.environ["_python_worker_execution_mode"] = "process"  # noqa: SIM112
    configuration = Configuration()
    configuration.set_string("python.execution-mode", order.mode or "process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(order.parallelism)
    return env


def run(order: Order) -> tuple[list[tuple[Any, ...]], float]:
    # Python inside the Java process finds packages only by this.
    os.environ["PYTHONPATH"] = os.pathsep.join([*site.getsitepackages(), os.environ.get("PYTHONPATH", "")])
    with stdout_to_file() as printed:
        env = environment(order)
        results = stream(env, order)
        if order.checks:
            results.print()
        else:
            results.sink_to(Sink(get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()))
        started = time.monotonic()
        env.execute(order.workload)
        return list(printed_rows(printed)), time.monotonic() - started


if __name__ == "__main__":
    serve(run)
