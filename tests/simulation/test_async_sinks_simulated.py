"""Sinks that send requests, in jobs whose workers die: every row is sent, also where requests fail."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from actors.hosts.simulation.faults import NO_FAULTS, Faults
from flinkray import (
    AsyncSinkWriter,
    DataStream,
    RequestLimits,
    Sink,
    SinkWriter,
    SinkWriterContext,
    StreamExecutionEnvironment,
)
from flinkray.execution import JobStatus
from tests.support.simulation import run_job

ROWS = 200
KILLS = Faults(kills={"TaskSlot": 0.001, "TaskExecutor": 0.0005})
RECEIVED: dict[int, Counter[int]] = {}
"""What the service got, by seed."""


class _Writer(AsyncSinkWriter):
    def __init__(self, context: SinkWriterContext, seed: int) -> None:
        limits = RequestLimits(max_rows=1 + seed % 7, max_in_flight=1 + seed % 3, max_buffered_rows=20)
        super().__init__(context, limits)
        self._random = random.Random(f"{seed} {context.subtask_index} {context.attempt_number}")
        self._seed = seed

    async def send(self, rows: pa.RecordBatch) -> Sequence[int]:
        await asyncio.sleep(self._random.random() / 50)
        if self._random.random() < 0.1:
            raise ConnectionError
        values = rows.column(0).to_pylist()
        failed = [index for index in range(len(values)) if self._random.random() < 0.05]
        RECEIVED[self._seed].update(value for index, value in enumerate(values) if index not in failed)
        return failed


class _Requests(Sink):
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def create_writer(self, context: SinkWriterContext, restored: object = None) -> SinkWriter:
        return _Writer(context, self._seed)


class Program:
    def __init__(self, seed: int) -> None:
        options = {
            "execution.target": "local",
            "flinkray.batch.target-rows": 10,
            "execution.checkpointing.interval": 100,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1_000,
            "restart-strategy.fixed-delay.delay": 10,
        }
        self._environment = StreamExecutionEnvironment.get_execution_environment(options).set_parallelism(1 + seed % 2)
        self._environment.from_sequence(0, ROWS - 1).sink_to(_Requests(seed))

    @property
    def environment(self) -> StreamExecutionEnvironment:
        return self._environment

    @property
    def results(self) -> Mapping[str, DataStream]:
        return {}


@pytest.mark.seeds(2)
@pytest.mark.parametrize("faults", [NO_FAULTS, KILLS], ids=["undisturbed", "kills"])
def test_every_row_is_sent(seed: int, faults: Faults) -> None:
    RECEIVED[seed] = Counter()
    outcome = run_job(Program(seed), seed, faults)
    assert outcome.status is JobStatus.FINISHED, outcome.error
    assert set(RECEIVED[seed]) == set(range(ROWS))
    if faults is NO_FAULTS:
        assert RECEIVED[seed] == Counter(range(ROWS))
