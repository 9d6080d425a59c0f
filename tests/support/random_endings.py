"""Random jobs that do not come to their end by themselves: they are cancelled, or fail at a random row."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from flinkray import (
    Configuration,
    Count,
    DataGenSource,
    DataStream,
    MapFunction,
    RuntimeContext,
    SequenceField,
    Sink,
    SinkWriter,
    SourceFunction,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flinkray.batches.batch import Batch

# Counted by name, since the tasks of this process run copies of the functions that a test makes.
_lock = threading.Lock()
_open: Counter[str] = Counter()


def _count(what: str, change: int) -> None:
    with _lock:
        _open[what] += change


def still_open() -> dict[str, int]:
    """Functions, writers and sources that were opened and not closed, or closed twice."""
    with _lock:
        return {what: count for what, count in _open.items() if count}


class Boom(Exception):
    """What a failing function raises."""


class CountedMap(MapFunction):
    """Adds 1; raises at its n-th row, where one is given."""

    def __init__(self, fails_at: int | None = None) -> None:
        self._left = fails_at

    def open(self, runtime_context: RuntimeContext) -> None:
        _count("map", 1)

    def map(self, value: int) -> int:
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                raise Boom("at its row")
        return value + 1

    def close(self) -> None:
        _count("map", -1)


class CountedSink(Sink):
    """Takes everything; raises in the n-th batch, where one is given."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return _CountedWriter(self.fails_at)


class _CountedWriter(SinkWriter):
    def __init__(self, fails_at: int | None) -> None:
        self._left = fails_at
        _count("writer", 1)

    def write(self, batch: Batch) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left <= 0:
                raise Boom("in the sink")

    def close(self) -> None:
        _count("writer", -1)


class CountedSource(SourceFunction):
    """Numbers for ever, from a thread of its own; raises at the n-th, where one is given."""

    def __init__(self, fails_at: int | None = None) -> None:
        self._fails_at = fails_at

    def open(self, runtime_context: RuntimeContext) -> None:
        _count("source", 1)

    def run(self, ctx: Any) -> Iterator[int]:
        number = 0
        while not ctx.is_cancelled():
            number += 1
            if number == self._fails_at:
                raise Boom("in the source")
            yield number

    def cancel(self) -> None: ...

    def close(self) -> None:
        _count("source", -1)


class EndlessJob:
    """A program from a seed that runs until it is cancelled or until the place that fails has had enough rows."""

    def __init__(self, seed: int, fails: bool = False) -> None:
        self.seed = seed
        self._random = chance = random.Random(seed)
        self.parallelism = chance.randint(1, 3)
        self.environment = StreamExecutionEnvironment.get_execution_environment(
            Configuration(
                {
                    "execution.target": "local",
                    "parallelism.default": self.parallelism,
                    "flinkray.batch.target-rows": chance.choice([1, 10, 1000]),
                    "execution.buffer-timeout.interval": chance.choice([0, 5, 100]),
                    "pipeline.operator-chaining.enabled": chance.random() < 0.5,
                }
            )
        )
        self.fails = chance.choice(["source", "map", "sink"]) if fails else ""
        self._has_window = False
        streams = [self._source(self.fails == "source" and not number) for number in range(chance.randint(1, 2))]
        for _ in range(chance.randint(0, 4)):
            index = chance.randrange(len(streams))
            streams[index] = self._step(streams[index])
        stream = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
        if self.fails == "map":
            stream = stream.map(CountedMap(self._row()))
        for _ in range(chance.randint(0, 2)):
            stream = self._step(stream)
        stream.sink_to(CountedSink(self._row() if self.fails == "sink" else None))

    def __str__(self) -> str:
        return f"seed {self.seed}, parallelism {self.parallelism}, fails in {self.fails or 'nothing'}"

    def moment_s(self) -> float:
        """When to cancel it: while it is set up, or when it runs."""
        return self._random.choice([0.0, self._random.uniform(0, 0.1), self._random.uniform(0.1, 0.5)])

    def _row(self) -> int:
        return self._random.choice([1, self._random.randint(1, 50)])

    def _source(self, fails: bool) -> DataStream:
        if fails or self._random.random() < 0.4:
            return self.environment.add_source(CountedSource(self._row() if fails else None), type_info=int)
        rows = DataGenSource({"n": SequenceField()}, rows_per_second=self._random.choice([1000, None]))
        return self.environment.from_source(rows, WatermarkStrategy.no_watermarks(), "rows").map(lambda row: row.n)

    def _step(self, stream: DataStream) -> DataStream:
        steps: list[Callable[[DataStream], DataStream]] = [
            lambda each: each.map(CountedMap()),
            lambda each: each.rebalance().map(CountedMap()),
            lambda each: each.broadcast().filter(lambda x: x % 3 == 0),
            lambda each: each.key_by(lambda x: x % 7).reduce(max),
            self._window,
        ]
        return self._random.choice(steps)(stream)

    def _window(self, stream: DataStream) -> DataStream:
        if self._has_window:  # a second one would see too few rows
            return stream
        self._has_window = True
        stamped = stream.map(lambda x: {"key": x % 5, "time": x}).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("time")
        )
        totals = stamped.key_by("key").window(TumblingEventTimeWindows.of(10)).aggregate(n=Count(), total=Sum("time"))
        return totals.map(lambda row: row.total)
