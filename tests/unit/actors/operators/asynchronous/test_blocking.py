"""Coroutines that keep their event loop are named once, and run as they would without being watched."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from actors.operators.asynchronous.blocking import BlockingWatch


class SteppedClock:
    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> float:
        return self.ms


def run(watch: BlockingWatch, coroutine: Any) -> Any:
    async def main() -> Any:
        return await watch.watched(coroutine)

    return asyncio.run(main())


def test_a_step_that_takes_long_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppedClock()
    watch = BlockingWatch("operator 'ask' (subtask 1 of 1)", clock.now_ms)

    async def blocks() -> str:
        await asyncio.sleep(0)
        clock.ms += 300
        return "done"

    assert [run(watch, blocks()) for _ in range(2)] == ["done", "done"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "operator 'ask' (subtask 1 of 1): a coroutine kept the event loop for 300 ms" in record.getMessage()


def test_time_that_a_coroutine_waits_is_not_its_own(caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppedClock()

    async def waits() -> None:
        for _ in range(5):
            clock.ms += 50
            await asyncio.sleep(0)

    run(BlockingWatch("ask", clock.now_ms), waits())
    assert not caplog.records


def test_errors_and_cancellation_reach_the_coroutine() -> None:
    watch = BlockingWatch("ask", SteppedClock().now_ms)
    seen: list[str] = []

    async def fails() -> None:
        raise KeyError("k")

    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def cancelled() -> None:
        async def watched() -> None:
            await watch.watched(waits_for_ever())

        task = asyncio.create_task(watched())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(KeyError):
        run(watch, fails())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert seen == ["cancelled"]
