"""What a job logs says whose it is, on whatever thread it is logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkray import AsyncFunction, MapFunction, SourceFunction
from tests.support.jobs import environment

log = logging.getLogger("mine")


class Numbers(SourceFunction):
    """Runs on a thread of its connector."""

    def run(self, context: Any) -> None:
        log.info("source")
        for number in range(4):
            context.collect(number)

    def cancel(self) -> None:
        pass


class FailsOnce(MapFunction):
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def map(self, value: Any) -> Any:
        log.info("map")
        if not self._marker.exists():
            self._marker.touch()
            raise ValueError("as asked")
        return value


class Awaits(AsyncFunction):
    """Runs on the thread of an event loop."""

    async def async_invoke(self, value: Any) -> list[Any]:
        log.info("coroutine")
        return [value]


def on_a_thread(value: Any) -> Any:
    log.info("pool")
    return value


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """All that is logged; the records themselves are looked at, as formatters of a program get them."""
    found: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler, root = Kept(logging.INFO), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield found
    root.removeHandler(handler)
    root.setLevel(level)


def test_every_line_says_its_job_vertex_subtask_and_attempt(tmp_path: Path, records: list[Any]) -> None:
    env = environment({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 ms"})
    numbers = env.add_source(Numbers(), "numbers").rebalance()
    checked = numbers.map(FailsOnce(tmp_path / "failed")).name("check").disable_chaining()
    checked.async_map(Awaits(), capacity=2).name("await").async_map(on_a_thread).name("call").print()
    job = env.execute("logs").job_id

    def seen(message: str) -> set[Any]:
        mine = [each for each in records if each.name == "mine" and each.getMessage() == message]
        assert {(each.flinkray_job_id, each.flinkray_job_name) for each in mine} == {(job, "logs")}
        return {(each.flinkray_vertex, each.flinkray_subtask, each.flinkray_attempt) for each in mine}

    assert seen("source") == {("Source: numbers", 0, 0), ("Source: numbers", 0, 1)}
    assert seen("map") >= {("check", 0, 1), ("check", 1, 1)}
    assert {(subtask, attempt) for _, subtask, attempt in seen("coroutine")} >= {(0, 1), (1, 1)}
    assert all("await" in vertex for vertex, *_ in seen("coroutine"))
    assert all("call" in vertex for vertex, *_ in seen("pool"))
    of_masters = [each for each in records if each.name.startswith("actors.") and "'logs'" in each.getMessage()]
    assert {each.flinkray_job_id for each in of_masters} == {job}
    assert {each.name for each in of_masters} >= {"actors.dispatcher", "actors.jobs.dispatcher_connection"}
    (restart,) = [each for each in records if "as asked" in each.getMessage()]
    assert (restart.flinkray_job_id, restart.flinkray_vertex) == (job, ""), "the JobMaster logs for the whole job"
