"""Asynchronous calls where there is one thread and a virtual clock: coroutines are stepped, functions that block run
in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from actors.hosts.simulation.faults import NO_FAULTS, Faults
from flinkray import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, DataStream, StreamExecutionEnvironment, Time
from flinkray.execution import JobStatus
from tests.support.simulation import Outcome, run_job

ROWS = 60


class Looked(AsyncFunction):
    """Takes a while; fails the first time for some rows, and never answers for others."""

    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0.02)
        self.attempts: Counter[int] = Counter()

    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)

    async def async_invoke(self, value: int) -> list[int]:
        self.attempts[value] += 1
        if value % 11 == 0 and self.attempts[value] == 1:
            raise ConnectionError(value)
        if value % 40 == 7:
            await asyncio.Event().wait()
        await asyncio.sleep(value % 5 / 1_000)
        return [value] * (value % 3)

    def timeout(self, value: int) -> list[int]:
        return [-value]


class Program:
    """Coroutines, then functions that block."""

    def __init__(self, seed: int) -> None:
        options = {"execution.target": "local", "flinkray.batch.target-rows": 10, "restart-strategy.type": "none"}
        self._environment = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(1 + seed % 2)
        numbers = self._environment.from_sequence(0, ROWS - 1)
        wait = (AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry)[seed // 2 % 2]
        retry = AsyncRetryStrategy.fixed_delay(1, 5, None, lambda _: True)
        looked_up = wait(numbers, Looked(), Time.seconds(5), retry, 1 + seed % 9)
        self._result = looked_up.async_map(lambda value: value + 1, 4, ordered=seed % 3 == 0)

    @property
    def environment(self) -> StreamExecutionEnvironment:
        return self._environment

    @property
    def results(self) -> Mapping[str, DataStream]:
        return {"rows": self._result}


EXPECTED = Counter(
    each + 1 for value in range(ROWS) for each in ([-value] if value % 40 == 7 else [value] * (value % 3))
)


def run(seed: int, faults: Faults = NO_FAULTS) -> Outcome:
    return run_job(Program(seed), seed, faults)


@pytest.mark.seeds(4)
def test_each_row_has_its_results_whatever_happens_first(seed: int) -> None:
    outcome = run(seed)
    assert outcome.status is JobStatus.FINISHED, outcome.error
    assert outcome.rows["rows"] == EXPECTED
    assert outcome.virtual_ms > 5_000  # of which nobody had to wait for one


@pytest.mark.seeds(1)
def test_the_same_seed_gives_the_same_steps(seed: int) -> None:
    assert run(seed).trace == run(seed).trace


# A process that is killed ends no coroutine, not even one that has not begun.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.seeds(4)
def test_a_job_that_loses_workers_gives_all_rows_or_fails_and_leaves_nothing(seed: int) -> None:
    outcome = run(seed, Faults(kills={"TaskSlot": 0.002, "TaskExecutor": 0.001}))
    if outcome.status is JobStatus.FINISHED:
        assert outcome.rows["rows"] == EXPECTED
    else:
        assert outcome.status is JobStatus.FAILED
        assert outcome.faults, f"nothing went wrong, and the job failed: {outcome.error}"
