"""Bytewax: one process per worker, rows as items. Run in the virtual environment of bytewax."""

from __future__ import annotations

import heapq
import math
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window, join_window
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.run import cli_main

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

BATCH_ROWS = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NumberShares(DynamicSource):
    """A source of which each worker makes its share of the items."""

    def __init__(self, items: Callable[[int, int], Iterable[Any]]) -> None:
        self._items = items

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSourcePartition:
        return Share(iter(self._items(worker_index, worker_count)))


class Share(StatelessSourcePartition):
    """One worker's share of the items, in batches."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items

    def next_batch(self) -> list[Any]:
        batch = list(islice(self._items, BATCH_ROWS))
        if not batch:
            raise StopIteration
        return batch


class Results(DynamicSink):
    """Keeps results, or drops them where `kept` is None."""

    def __init__(self, kept: list[Any] | None) -> None:
        self._kept = kept

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition:
        return Kept(self._kept)


class Kept(StatelessSinkPartition):
    def __init__(self, kept: list[Any] | None) -> None:
        self._kept = kept

    def write_batch(self, items: list[Any]) -> None:
        if self._kept is not None:
            self._kept.extend(items)


def numbers(flow: Dataflow, name: str, rows: int) -> Stream:
    return op.input(name, flow, NumberShares(lambda worker, workers: range(worker, rows, workers)))


def timed_row(i: int, spread: int, rows_per_ms: int) -> tuple[str, tuple[float, datetime]]:
    return str(key_of(i)), (value_of(i), EPOCH + timedelta(milliseconds=i * spread // rows_per_ms))


def both_sides(flow: Dataflow, order: Order) -> tuple[Stream, Stream]:
    """The two streams of a join from one input, in the order of time: two inputs would drift apart without limit."""
    rows_per_ms = ROWS_PER_MS[order.workload]

    def sides(worker: int, workers: int) -> Iterator[tuple[int, int]]:
        lefts = ((i, 1) for i in range(worker, order.rows, workers))
        rights = ((i, RIGHT_SHARE) for i in range(worker, right_rows(order.rows), workers))
        return heapq.merge(lefts, rights, key=lambda side: side[0] * side[1])

    split = op.branch("sides", op.input("both", flow, NumberShares(sides)), lambda side: side[1] == 1)
    left, right = (
        op.map(name, stream, lambda side: timed_row(*side, rows_per_ms))
        for name, stream in (("left", split.trues), ("right", split.falses))
    )
    return left, right


def windowing() -> tuple[EventClock, TumblingWindower]:
    # Windows close by event time alone, not when this machine's clock says so.
    clock = EventClock(lambda value: value[1], timedelta(milliseconds=DISORDER_MS), to_system_utc=lambda _: None)
    return clock, TumblingWindower(length=timedelta(milliseconds=WINDOW_MS), align_to=EPOCH)


def results(flow: Dataflow, order: Order) -> Stream:
    if order.workload == "W1":
        path = str(text_file(order.rows))
        lines = op.input("lines", flow, NumberShares(lambda worker, workers: islice(open(path), worker, None, workers)))  # noqa: SIM115
        keyed = op.map("key", op.flat_map("split", lines, str.split), lambda word: (word, None))
        return op.stateful_map("count", keyed, lambda count, _: ((count or 0) + 1,) * 2)
    if order.workload in ROWS_PER_MS:
        rows_per_ms = ROWS_PER_MS[order.workload]
        clock, windower = windowing()
        if order.workload.startswith("W6"):
            left, right = both_sides(flow, order)
            joined = join_window("join", clock, windower, left, right, insert_mode="product", emit_mode="final")
            pairs = op.map("pairs", joined.down, lambda item: item[1][1])
            full = op.filter("full", pairs, lambda pair: None not in pair)
            return op.map("values", full, lambda pair: (pair[0][0], pair[1][0]))
        timed = op.map("timed", numbers(flow, "numbers", order.rows), lambda i: timed_row(i, 1, rows_per_ms))
        sums = fold_window(
            "sums", timed, clock, windower, lambda: (0.0, 0), lambda total, value: (total[0] + value[0], total[1] + 1),
            lambda first, second: (first[0] + second[0], first[1] + second[1]),
        )  # fmt: skip
        return op.map("results", sums.down, lambda item: item[1][1])
    rows = numbers(flow, "numbers", order.rows)
    if order.workload == "W3":
        kept = op.filter("filter", op.map("twice", rows, lambda i: i * 2 + 1), lambda x: x % 3 == 0)
        return op.map("third", kept, lambda x: x // 3)
    if order.workload == "W4":
        keyed = op.map("key", rows, lambda i: (str(key_of(i)), value_of(i)))
        return op.stateful_map("sum", keyed, lambda total, value: ((total or 0.0) + value,) * 2)
    z = op.map("z", rows, lambda i: math.sqrt(value_of(i)) * math.log1p(key_of(i)))
    return op.filter("large", z, lambda each: each > LEAST_Z)


def work(order: Order, process: int, addresses: list[str]) -> list[Any]:
    """Runs one of the processes; gives its results where they are kept."""
    kept: list[Any] | None = [] if order.checks else None
    flow = Dataflow(order.workload)
    op.output("out", results(flow, order), Results(kept))
    if len(addresses) > 1:
        cli_main(flow, process_id=process, addresses=addresses)
    else:
        cli_main(flow)
    return kept or []


def free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def run(order: Order) -> tuple[list[tuple[Any, ...]], float]:
    addresses = free_addresses(order.parallelism)
    with multiprocessing.get_context("spawn").Pool(order.parallelism) as pool:
        started = time.monotonic()
        parts = pool.starmap(work, [(order, process, addresses) for process in range(order.parallelism)], chunksize=1)
        seconds = time.monotonic() - started
    return [item if isinstance(item, tuple) else (item,) for part in parts for item in part], seconds


if __name__ == "__main__":
    serve(run)
