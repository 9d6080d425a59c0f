"""Rows that take long: an aligned barrier waits behind as many as take a second or two, not behind full buffers."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from flinkray import (
    DataGenSource,
    DataStream,
    DiscardSink,
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


@pytest.mark.parametrize("program", PROGRAMS)
def test_checkpoints_complete_while_rows_take_long(program: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).set_parallelism(2)
    env.enable_checkpointing("500 ms")
    source = DataGenSource({"n": SequenceField()})
    program(env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")).sink_to(DiscardSink())
    client = env.execute_async()
    try:
        overview = eventually(client.checkpoints, lambda seen: seen.counts.completed >= 2, deadline_s=60)
        took = [each.duration_ms for each in overview.history if each.duration_ms is not None]
        assert max(took) <= LONGEST_MS, took
    finally:
        client.cancel()
        client.close()


@pytest.mark.parametrize("program", [of_ordered_calls, of_calls])
def test_a_job_whose_calls_take_long_is_stopped_with_a_savepoint_in_seconds(program: Any, tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).set_parallelism(2)
    source = DataGenSource({"n": SequenceField()})
    program(env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")).sink_to(DiscardSink())
    client = env.execute_async()
    try:
        eventually(client.progress, lambda seen: seen.records_out >= 100, deadline_s=60)
        assert client.stop_with_savepoint(str(tmp_path), timeout=LONGEST_MS / 1_000)
    finally:
        client.close()
