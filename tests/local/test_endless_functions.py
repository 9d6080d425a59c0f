"""Functions that give rows without end: a cancel, or a reader that wants no more, ends them soon."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from flinkray import DataStream, DiscardSink, JobStatus, KeyedProcessFunction, StreamExecutionEnvironment
from flinkray.functions.interfaces import OnTimerContext, ProcessContext
from tests.support.leftovers import nothing_is_left
from tests.support.waiting import eventually

SOON_S = 8.0
"""The client gives threads that do not end 10 s before it goes on without them."""


ENDLESS: list[Callable[[DataStream], DataStream]] = [
    lambda rows: rows.flat_map(lambda value: itertools.count(value)),
    lambda rows: rows.flat_map(lambda value: itertools.count(value)).rebalance().map(lambda value: value),
    lambda rows: rows.map_batches(lambda _: ({"n": [number]} for number in itertools.count())).map(lambda row: row.n),
    lambda rows: rows.process(lambda value, _context: itertools.count(value)),
]
NAMES = ["flat_map, emitting", "exchange", "map_batches, emitting", "process"]


# Of these no row comes to the end of the chain.
FRUITLESS: list[Callable[[DataStream], DataStream]] = [
    lambda rows: rows.flat_map(lambda value: itertools.count(value)).filter(see_and_drop),
    lambda rows: rows.flat_map(lambda value: itertools.count(value)).flat_map(lambda value: [0] * see_and_drop(value)),
    lambda rows: rows.map_batches(lambda _: ({"n": [0] * see_and_drop(number)} for number in itertools.count())),
    lambda rows: rows.key_by(lambda value: value).process(Alarms()),
]
FRUITLESS_NAMES = ["filter", "flat_map", "map_batches", "timers"]


def local() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})


@pytest.mark.parametrize("program", ENDLESS, ids=NAMES)
def test_a_function_without_end_ends_with_its_reader(program: Callable[[DataStream], DataStream]) -> None:
    with nothing_is_left():
        begin = time.monotonic()
        assert program(local().from_collection([0])).execute_and_collect(limit=3) == [0, 1, 2]
        assert time.monotonic() - begin < SOON_S


class Seen:
    """Set when a row has come; the functions find it in the process that they share with the test."""

    row: ClassVar[threading.Event]


def see(_row: Any) -> bool:
    Seen.row.set()
    return True


def see_and_drop(row: Any) -> bool:
    return not see(row)


class Alarms(KeyedProcessFunction):
    """A function whose timers set the next one without end: all are due, as the last watermark is behind all event
    times."""

    def process_element(self, value: Any, ctx: ProcessContext) -> None:
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> None:
        see(timestamp)
        ctx.timer_service().register_event_time_timer(timestamp + 1)


@pytest.mark.parametrize("program", ENDLESS + FRUITLESS, ids=NAMES + FRUITLESS_NAMES)
def test_a_function_without_end_is_cancelled_without_an_error_of_its_own(
    program: Callable[[DataStream], DataStream], caplog: pytest.LogCaptureFixture
) -> None:
    Seen.row = threading.Event()
    with nothing_is_left():
        environment = local()
        program(environment.from_collection([0])).filter(see).sink_to(DiscardSink())
        client = environment.execute_async()
        assert Seen.row.wait(SOON_S)
        begin = time.monotonic()
        client.cancel()
        eventually(client.status, lambda status: status is JobStatus.CANCELED, SOON_S)
        client.close()
        assert time.monotonic() - begin < SOON_S
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
