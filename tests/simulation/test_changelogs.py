"""Changelogs in jobs whose processes die: each change comes once, in its order and as what it is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from actors.hosts.simulation.faults import Faults
from flinkray import DataStream, KeyedProcessFunction, Row, StreamExecutionEnvironment, ValueStateDescriptor
from flinkray.execution import JobStatus
from tests.support.changelogs import random_changes
from tests.support.simulation import run_job


class Applied(KeyedProcessFunction):
    """Applies changes to a row, and says whether each was possible."""

    def open(self, runtime_context: Any) -> None:
        self.row = runtime_context.get_state(ValueStateDescriptor("row"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        is_addition = value.op in ("+I", "+U")
        is_possible = self.row.value() == (None if is_addition else value.n)
        self.row.update(value.n if is_addition else None)
        yield value.op, value.k, value.n, is_possible


async def later(row: Row) -> Row:
    await asyncio.sleep(0.02)
    return Row(k=row.k, n=row.n)


class Program:
    """Rows are held by asynchronous calls and on their way through two exchanges when a checkpoint comes."""

    def __init__(self, seed: int) -> None:
        options = {
            "execution.target": "local",
            "parallelism.default": 2,
            "flinkray.batch.target-rows": 10,
            "execution.checkpointing.interval": 50,
            "execution.checkpointing.unaligned.enabled": seed % 2 == 0,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 100,
            "restart-strategy.fixed-delay.delay": 20,
        }
        self._environment = StreamExecutionEnvironment.get_execution_environment(options)
        self.changes, _ = random_changes(seed, 80)
        changes = self._environment.from_collection(self.changes).key_by("k").async_map(later, 4)
        self._result = changes.key_by(lambda row: row.k).kinds_as_column("op").key_by("k").process(Applied())

    @property
    def environment(self) -> StreamExecutionEnvironment:
        return self._environment

    @property
    def results(self) -> Mapping[str, DataStream]:
        return {"rows": self._result}


# A process that is killed ends no coroutine, not even one that has not begun.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.seeds(2)
def test_each_change_comes_once_and_in_order_whatever_dies(seed: int) -> None:
    program = Program(seed)
    outcome = run_job(program, seed, Faults(kills={"TaskSlot": 0.002}, after_steps=300))
    assert outcome.status is JobStatus.FINISHED, outcome.error
    assert outcome.rows["rows"] == Counter((str(row.get_row_kind()), row.k, row.n, True) for row in program.changes)
