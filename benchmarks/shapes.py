"""Rows of other shapes than the workloads': what they cost, so that none falls off a cliff.

    python -m benchmarks.shapes                                   # all of them
    python -m benchmarks.shapes skew wide --target local --parallelism 1

Each shape is a job of its own; the same job on a tenth of the rows is subtracted, and start-up with it. Prints rows and
bytes per second, CPU time of the whole process tree per MiB, and what of the first shape's that is.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import pyarrow as pa

from benchmarks.definitions import WINDOW_MS
from benchmarks.engines import ENGINES, variables
from benchmarks.process_tree import Measured
from benchmarks.process_tree import run as run_tree
from benchmarks.workloads.base import KEYS, WINDOWS, Rows, key_column, value_column
from flinkray import (
    Count,
    DataGenSource,
    DataStream,
    DiscardSink,
    EventTimeSessionWindows,
    Row,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    Sum,
    WatermarkStrategy,
    WindowAssigner,
)
from flinkray.functions.interfaces import WindowContext

DEADLINE_S = 300.0
MANY_KEYS = 1_000_000
WIDE_COLUMNS = 200
VALUE_BYTES = 1 << 20

SLIDING = SlidingEventTimeWindows.of(10 * WINDOW_MS, WINDOW_MS)
SESSIONS = EventTimeSessionWindows.with_gap(WINDOW_MS // 2)

Fields = dict[str, Callable[[Rows], Any]]


def time_of(row: Rows) -> Rows:
    return row // 100


CUSTOMERS = pa.array([f"customer-{number}" for number in range(KEYS)])
REGIONS = pa.array([f"region {number}" for number in range(7)])


def text_key(row: Rows) -> pa.Array:
    return CUSTOMERS.take(pa.array(key_column(row)))


def region(row: Rows) -> pa.Array:
    return REGIONS.take(pa.array(row % 7))


def skewed_key(row: Rows) -> Rows:
    return np.where(row % 2 == 0, 0, key_column(row))


def with_nulls(values: Callable[[Rows], Any], every: int) -> Callable[[Rows], pa.Array]:
    return lambda row: pa.array(values(row), mask=row % every == 0)


def large_value(row: Rows) -> pa.Array:
    return pa.array([bytes([number % 256]) * VALUE_BYTES for number in row.tolist()], pa.large_binary())


def far_apart(row: Rows) -> Rows:
    return row * WINDOW_MS


def in_bursts(row: Rows) -> Rows:
    """Event times in groups of a hundred rows of a key, apart by more than the gap of sessions."""
    return time_of(row) + row // (100 * KEYS) * WINDOW_MS


def windows(keys: tuple[str, ...], assigner: WindowAssigner = WINDOWS) -> Callable[[DataStream], DataStream]:
    return lambda stream: stream.key_by(*keys).window(assigner).aggregate(total=Sum("v"), n=Count())


def joined_with_itself(stream: DataStream) -> DataStream:
    return stream.join(stream).where("k").equal_to("k").window(WINDOWS).apply()


def counted(stream: DataStream) -> DataStream:
    return stream.key_by("k").count_window(10).aggregate(total=Sum("v"), n=Count())


def spread(key: int, _context: WindowContext, rows: list[Row]) -> list[tuple[int, float]]:
    values = [row.v for row in rows]
    return [(key, max(values) - min(values))]


def processed(assigner: WindowAssigner) -> Callable[[DataStream], DataStream]:
    return lambda stream: stream.key_by("k").window(assigner).process(spread)


@dataclass(frozen=True)
class Shape:
    """Rows of one shape, and what is done with them."""

    rows: int
    fields: Fields
    job: Callable[[DataStream], DataStream]
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self, rows: int, target: str, parallelism: int) -> float:
        """Seconds from `execute()` to the job's end."""
        env = StreamExecutionEnvironment.get_execution_environment(
            {"execution.target": target, "parallelism.default": parallelism, **self.options}
        )
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(5_000).with_timestamp_assigner("ts")
        self.job(env.from_source(DataGenSource(self.fields, rows), strategy, "rows")).sink_to(DiscardSink())
        started = time.monotonic()
        env.execute("shape")
        return time.monotonic() - started

    @property
    def bytes_per_row(self) -> float:
        rows = np.arange(min(1000, self.rows), dtype=np.int64)
        columns = [pa.array(make(rows)) for make in self.fields.values()]
        return sum(column.nbytes for column in columns) / len(rows)


USUAL: Fields = {"k": key_column, "v": value_column, "ts": time_of}
SHAPES = {
    "usual": Shape(400_000_000, USUAL, windows(("k",))),
    "text": Shape(40_000_000, {**USUAL, "k": text_key}, windows(("k",))),
    "composite": Shape(40_000_000, {**USUAL, "r": region}, windows(("k", "r"))),
    "nulls": Shape(
        60_000_000,
        {**USUAL, "k": with_nulls(key_column, 1000), "v": with_nulls(value_column, 7)},
        windows(("k",)),
    ),
    "skew": Shape(300_000_000, {**USUAL, "k": skewed_key}, windows(("k",))),
    "many keys": Shape(40_000_000, {**USUAL, "k": lambda row: key_column(row, MANY_KEYS)}, windows(("k",))),
    "one row per batch": Shape(100_000, USUAL, windows(("k",)), {"flinkray.batch.target-rows": 1}),
    "one row per window": Shape(4_000_000, {**USUAL, "ts": far_apart}, windows(("k",))),
    "one row per slice": Shape(1_000_000, {**USUAL, "ts": far_apart}, windows(("k",), SLIDING)),
    "one row per session": Shape(4_000_000, {**USUAL, "ts": far_apart}, windows(("k",), SESSIONS)),
    "one pair per window": Shape(2_000_000, {**USUAL, "ts": far_apart}, joined_with_itself),
    "count windows": Shape(40_000_000, USUAL, counted),
    "window function": Shape(10_000_000, USUAL, processed(WINDOWS)),
    "session function": Shape(10_000_000, {**USUAL, "ts": in_bursts}, processed(SESSIONS)),
    "crossing": Shape(100_000_000, USUAL, DataStream.rebalance),
    "wide": Shape(
        2_000_000,
        {"ts": time_of} | {f"c{number}": value_column for number in range(WIDE_COLUMNS)},
        DataStream.rebalance,
    ),
    "large values": Shape(4_000, {"ts": time_of, "value": large_value}, DataStream.rebalance),
}


def measured(name: str, rows: int, target: str, parallelism: int) -> Measured:
    command = [sys.executable, "-m", "benchmarks.shapes", name, "--rows", str(rows), "--once"]
    command += ["--target", target, "--parallelism", str(parallelism)]
    return run_tree(command, variables(ENGINES["flinkray"]), DEADLINE_S)


@click.command(help=(__doc__ or "").splitlines()[0])
@click.argument("shapes", nargs=-1, type=click.Choice(list(SHAPES)))
@click.option("--target", type=click.Choice(("ray", "local")), default="ray", show_default=True)
@click.option("--parallelism", type=click.IntRange(1), default=2, show_default=True)
@click.option("--rows", type=click.IntRange(10), help="Instead of each shape's own number.")
@click.option("--once", is_flag=True, help="Only the seconds of one run, as JSON.")
def main(shapes: tuple[str, ...], target: str, parallelism: int, rows: int | None, once: bool) -> None:
    if once:
        shape = SHAPES[shapes[0]]
        shape.run(1, target, parallelism)  # starts Ray, whose time differs by more than some jobs take
        click.echo(json.dumps({"seconds": shape.run(rows or shape.rows, target, parallelism)}))
        return
    columns = f"{'rows':>14}{'B/row':>12}{'M rows/s':>10}{'MiB/s':>8}{'CPU ms/MiB':>12}{'of the first':>14}"
    click.echo(f"{'shape':18}{columns}")
    first: float | None = None
    for name in shapes or SHAPES:
        cpu_ms, line = report(name, rows or SHAPES[name].rows, target, parallelism)
        first = first or cpu_ms
        click.echo(f"{name:18}{line}{cpu_ms / first:14.2f}")


def report(name: str, rows: int, target: str, parallelism: int) -> tuple[float, str]:
    """CPU milliseconds per MiB, and the line about it."""
    few, many = (measured(name, each, target, parallelism) for each in (rows // 10, rows))
    bytes_per_row, counted = SHAPES[name].bytes_per_row, rows - rows // 10
    seconds = many.output["seconds"] - few.output["seconds"]
    mib = counted * bytes_per_row / (1 << 20)
    cpu_ms = 1e3 * (many.cpu_s - few.cpu_s) / mib
    rates = f"{counted / seconds / 1e6:10.3f}{mib / seconds:8.0f}"
    return cpu_ms, f"{rows:14,}{bytes_per_row:12,.0f}{rates}{cpu_ms:12.2f}"


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.shapes")
