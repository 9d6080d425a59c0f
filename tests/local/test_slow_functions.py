"""Rows that take long: an aligned barrier waits behind as many as take a second or two, not behind full buffers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flinkray import (
    DataGenSource,
    DataStream,
    DiscardSink,
    JobClient,
    SequenceField,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from tests.support.waiting import eventually

ROW_S = 0.001
LONGEST_MS = 10_000
"""The most seconds that a checkpoint may take; full buffers would take some minutes."""


def slowly(row: Any) -> Any:
    threading.Event().wait(ROW_S)
    return row


def behind_an_exchange(rows: DataStream) -> DataStream:
    return rows.rebalance().map(slowly)


def very_slowly(row: Any) -> Any:
    threading.Event().wait(20 * ROW_S)
    return row


def of_few_in_time(rows: DataStream) -> DataStream:
    """What is under way before anybody knows how slow it is counts most here."""
    return rows.rebalance().map(very_slowly)


def behind_two(rows: DataStream) -> DataStream:
    """The task between them waits for room, and has little to do itself."""
    return rows.rebalance().map(lambda row: row).key_by("n").map(slowly)


def of_few_rows_many(rows: DataStream) -> DataStream:
    return rows.flat_map(lambda row: [row] * 50).rebalance().map(slowly)


def beside_a_quick_one(rows: DataStream) -> DataStream:
    """A function that gets the same rows."""
    rows.rebalance().filter(lambda row: row.n < 0).sink_to(DiscardSink())
    return rows.rebalance().map(slowly)


async def look_up(row: Any) -> Any:
    await asyncio.sleep(100 * ROW_S)
    return row


def of_ordered_calls(rows: DataStream) -> DataStream:
    """They take rows at once, and give each back after a while."""
    return rows.rebalance().async_map(look_up, 10, "60 s", ordered=True)


def of_calls(rows: DataStream) -> DataStream:
    return rows.async_map(look_up, 10, "60 s", ordered=False)


def of_calls_before_what_takes_long(rows: DataStream) -> DataStream:
    return rows.rebalance().async_map(look_up, 1_000, "60 s", ordered=False).map(very_slowly)


PROGRAMS = [
    behind_an_exchange,
    of_few_in_time,
    behind_two,
    of_few_rows_many,
    beside_a_quick_one,
    of_ordered_calls,
    of_calls,
    of_calls_before_what_takes_long,
]


def started(programs: Iterable[Any], options: dict[str, str]) -> Iterator[tuple[str, JobClient]]:
    """Each as a job; they wait for most of their time, so all run at once."""
    for program in programs:
        env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local", **options})
        env.set_parallelism(2)
        rows = env.from_source(DataGenSource({"n": SequenceField()}), WatermarkStrategy.no_watermarks(), "rows")
        program(rows).sink_to(DiscardSink())
        yield program.__name__, env.execute_async(program.__name__)


def test_checkpoints_complete_while_rows_take_long() -> None:
    clients: dict[str, JobClient] = {}
    try:
        clients.update(started(PROGRAMS, {"execution.checkpointing.interval": "500 ms"}))
        for name, client in clients.items():
            overview = eventually(client.checkpoints, lambda seen: seen.counts.completed >= 2, deadline_s=60)
            took = [each.duration_ms for each in overview.history if each.duration_ms is not None]
            assert max(took) <= LONGEST_MS, (name, took)
    finally:
        ended(clients.values())


def test_a_job_whose_calls_take_long_is_stopped_with_a_savepoint_in_seconds(tmp_path: Path) -> None:
    clients: dict[str, JobClient] = {}
    try:
        clients.update(started([of_ordered_calls, of_calls], {}))
        for name, client in clients.items():
            eventually(client.progress, lambda seen: seen.records_out >= 100, deadline_s=60)
            assert client.stop_with_savepoint(str(tmp_path / name), timeout=LONGEST_MS / 1_000)
    finally:
        ended(clients.values())


def ended(clients: Iterable[JobClient]) -> None:
    for client in clients:
        client.cancel()
    for client in clients:
        client.close()
