"""Functions that give rows without end: a cancel, or a reader that wants no more, ends them soon."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from flinkray import DataStream, DiscardSink, JobStatus, StreamExecutionEnvironment
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
NAMES = ["flat_map", "exchange", "map_batches", "process"]


def local() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"})


@pytest.mark.parametrize("program", ENDLESS, ids=NAMES)
def test_a_function_without_end_ends_with_its_reader(program: Callable[[DataStream], DataStream]) -> None:
    with nothing_is_left():
        begin = time.monotonic()
        assert program(local().from_collection([0])).execute_and_collect(limit=3) == [0, 1, 2]
        assert time.monotonic() - begin < SOON_S


class Seen:
    """That a row came; where the functions find it, in the process that they share with the test."""

    row: ClassVar[threading.Event]


def see(_row: Any) -> bool:
    Seen.row.set()
    return True


@pytest.mark.parametrize("program", ENDLESS, ids=NAMES)
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
