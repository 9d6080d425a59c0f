"""A job with state of every kind, that can be stopped and go on, and what it gives when nobody stops it."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flinkray import (
    Count,
    DataGenSource,
    DataStream,
    FileSink,
    JobClient,
    KeyedProcessFunction,
    MapStateDescriptor,
    Row,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from tests.support.held_source import HeldSource
from tests.support.waiting import eventually

Env = StreamExecutionEnvironment

KEYS = 11
SIZE_MS = 700
SLIDE_MS = 350
LISTED_MS = 500
DISORDER_MS = 95
RESULT = pa.schema(
    [("kind", pa.string()), ("key", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())]
)
"""Of all that the job gives: which operator, for which key, and three numbers."""


def keys_of(numbers: Any) -> Any:
    return numbers * 7 % KEYS


def times_of(numbers: Any) -> Any:
    """Up to DISORDER_MS out of order."""
    return numbers * 10 + numbers * 7919 % DISORDER_MS


def local(parallelism: int, saved: str | None = None, /, **options: object) -> Env:
    """
    Args:
        saved: what the job is to start from.
    """
    settings: dict[str, object] = {
        "execution.target": "local",
        "flinkray.batch.target-rows": 50,
        "execution.buffer-timeout.interval": "5 ms",
        "pipeline.auto-watermark-interval": "20 ms",
        "metrics.fetcher.update-interval": "20 ms",
        "execution.checkpointing.data-inline-threshold": 0,
        "restart-strategy.type": "none",
        **options,
    }
    if saved is not None:
        settings["execution.state-recovery.path"] = saved
    return Env.get_execution_environment(settings).set_parallelism(parallelism)


class Bucketed(KeyedProcessFunction):
    """Counts the rows of each key as they come, and adds up those of each second of event time in a map, which a timer
    empties; counts the timers as well.

    Args:
        pause_s: taken for every row.
    """

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s = pause_s

    def open(self, runtime_context: Any) -> None:
        self.rows = runtime_context.get_state(ValueStateDescriptor("rows", int))
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", int))
        self.seconds = runtime_context.get_map_state(MapStateDescriptor("seconds", key_type=int, value_type=int))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.pause_s:
            threading.Event().wait(self.pause_s)
        rows = (self.rows.value() or 0) + 1
        self.rows.update(rows)
        end = ctx.timestamp() // 1_000 * 1_000 + 999
        self.seconds.put(end, (self.seconds.get(end) or 0) + value.n)
        ctx.timer_service().register_event_time_timer(end)
        yield Row(kind="row", key=ctx.get_current_key(), a=rows, b=0, c=0)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        fired = (self.fired.value() or 0) + 1
        self.fired.update(fired)
        total = self.seconds.get(timestamp)
        self.seconds.remove(timestamp)
        yield Row(kind="second", key=ctx.get_current_key(), a=timestamp, b=total, c=fired)


def numbered(env: Env, rows: int, rate: float | None, until: Path | None = None) -> DataStream:
    """Rows (key, n, time) with event time.

    Args:
        rate: of a job that is stopped, in rows per second: it gets a fifth of the rows, and does not end.
        until: a file with which all others come as well.
    """
    fields = {"key": keys_of, "n": lambda numbers: numbers, "time": times_of}
    source = DataGenSource(fields, rows) if rate is None else HeldSource(fields, rows, rate, rows // 5, until)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(DISORDER_MS).with_timestamp_assigner("time")
    return env.from_source(source, strategy, "numbers").uid("numbers")


def everything(
    env: Env, directory: Path, rows: int, rate: float | None, pause_s: float = 0.0, until: Path | None = None
) -> None:
    """Windows with running results, overlapping ones, those that keep rows, and a process function; into files."""
    stream = numbered(env, rows, rate, until)
    by_key = stream.key_by("key")
    bucketed = stream.key_by(lambda row: row.key).process(Bucketed(pause_s), output_type=RESULT).uid("bucketed")
    assigners = {
        "tumbling": TumblingEventTimeWindows.of(SIZE_MS),
        "sliding": SlidingEventTimeWindows.of(SIZE_MS, SLIDE_MS),
    }
    parts = [
        by_key.window(assigner).aggregate(rows=Count(), total=Sum("n")).uid(kind).map(Labelled(kind), RESULT)
        for kind, assigner in assigners.items()
    ]
    listed = by_key.window(TumblingEventTimeWindows.of(LISTED_MS)).process(list_rows, output_type=RESULT).uid("listed")
    bucketed.union(listed, *parts).sink_to(FileSink(directory)).uid("files")


COUNT_WINDOWS = {"row": (1, 1), "counted": (7, 7), "sliding count": (9, 4)}
"""Sizes and slides."""


def count_windows(env: Env, directory: Path, rows: int, rate: float | None) -> None:
    """Windows of numbers of rows; into files. One of the kinds has each row."""
    by_key = numbered(env, rows, rate).set_parallelism(1).key_by("key")
    parts = [
        by_key.count_window(size, slide).aggregate(rows=Count(), total=Sum("n")).uid(kind).map(Labelled(kind), RESULT)
        for kind, (size, slide) in COUNT_WINDOWS.items()
    ]
    parts[0].union(*parts[1:]).sink_to(FileSink(directory)).uid("files")


def expected_counts(rows: int) -> Counter[Any]:
    """What `count_windows` gives, by plain loops."""
    by_key: dict[int, list[int]] = defaultdict(list)
    for n in range(rows):
        by_key[keys_of(n)].append(n)
    return Counter(
        (kind, key, None, size, sum(values[start : start + size]))
        for kind, (size, slide) in COUNT_WINDOWS.items()
        for key, values in by_key.items()
        for start in range(0, len(values) - size + 1, slide)
    )


def list_rows(key: Any, context: Any, rows: Iterable[Any]) -> Iterator[Row]:
    numbers = [row.n for row in rows]
    yield Row(kind="listed", key=key, a=context.window().start, b=len(numbers), c=sum(numbers))


class Labelled:
    """A window's result as a row of all results."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, row: Any) -> Row:
        return Row(kind=self.kind, key=row.key, a=row.window_start, b=row.rows, c=row.total)


def expected(rows: int) -> Counter[Any]:
    """What `everything` gives, by plain loops."""
    numbers = np.arange(rows, dtype=np.int64)
    plain = zip(keys_of(numbers).tolist(), numbers.tolist(), times_of(numbers).tolist(), strict=True)
    by_key: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for key, n, time in plain:
        by_key[key].append((time, n))
    found: Counter[Any] = Counter()
    for key, events in by_key.items():
        found.update(("row", key, count, 0, 0) for count in range(1, len(events) + 1))
        windows: dict[tuple[str, int], list[int]] = defaultdict(list)
        for time, n in sorted(events):
            windows["tumbling", time // SIZE_MS * SIZE_MS].append(n)
            last = time // SLIDE_MS * SLIDE_MS
            for start in range(last, last - SIZE_MS, -SLIDE_MS):
                windows["sliding", start].append(n)
            windows["listed", time // LISTED_MS * LISTED_MS].append(n)
            windows["second", time // 1_000 * 1_000 + 999].append(n)
        seconds = sorted(end for kind, end in windows if kind == "second")
        for (kind, start), values in windows.items():
            if kind == "second":
                found["second", key, start, sum(values), seconds.index(start) + 1] += 1
            else:
                found[kind, key, start, len(values), sum(values)] += 1
    return found


def committed(directory: Path) -> Counter[Any]:
    """The rows in the files that are visible."""
    tables = [pq.read_table(path, partitioning=None) for path in sorted(directory.glob("part-*"))]
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


@contextmanager
def started(env: Env, rows: int = 1, name: str = "saved") -> Iterator[JobClient]:
    """The job, once its sources have emitted so many rows, and some have reached its sinks; it is over afterwards."""
    client = env.execute_async(name)
    try:
        eventually(client.progress, lambda progress: progress.records_in >= rows and progress.records_out > 0)
        yield client
    finally:
        client.close()


def listing(directory: Path) -> dict[str, bytes]:
    """All files below, with what is in them."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
