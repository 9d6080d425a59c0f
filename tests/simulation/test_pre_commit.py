"""Jobs whose sinks change what is committed on its way to their committers: whatever dies, it is committed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from actors.hosts.simulation.faults import NODE, Faults
from flinkray import (
    CommittableSummary,
    DataStream,
    KeyedProcessFunction,
    ListStateDescriptor,
    RuntimeContext,
    Sink,
    SupportsPreCommitTopology,
)
from flinkray.connectors.committer import END_OF_INPUT
from flinkray.execution import JobStatus
from tests.support.exactly_once import ExactlyOnceJob, GlobalLedgerSink, LedgerSink
from tests.support.simulated_savepoints import run_in_parts
from tests.support.simulation import run_committing

KILLS: Mapping[str, float] = {"TaskSlot": 0.0006, "TaskExecutor": 0.0003, NODE: 0.0003, "JobMaster": 0.0004}


class _Late(KeyedProcessFunction):
    """Keeps committables in its state until a writer says that a further checkpoint comes."""

    def open(self, context: RuntimeContext) -> None:
        self._kept = context.get_list_state(ListStateDescriptor("kept"))

    def process_element(self, value: Any, context: KeyedProcessFunction.Context) -> Iterator[Any]:
        if isinstance(value, CommittableSummary):
            kept = list(self._kept.get() or ())
            self._kept.clear()
            yield from (value, *kept)
        elif value.checkpoint_id == END_OF_INPUT:
            yield value
        else:
            self._kept.add(value)


class _Keeping(SupportsPreCommitTopology):
    def add_pre_commit_topology(self, committables: DataStream) -> Any:
        return committables.key_by(lambda _: 0).process(_Late()).rebalance()


class _KeepingLedger(LedgerSink, _Keeping): ...


class _KeepingGlobalLedger(GlobalLedgerSink, _Keeping): ...


class KeepingJob(ExactlyOnceJob):
    def _new_sink(self, sink: str) -> Sink:
        return (_KeepingLedger if sink == "ledger" else _KeepingGlobalLedger)(self.storage)

    def check(self, outcome: Any) -> None:
        assert outcome.status is JobStatus.FINISHED, f"{self}: {outcome.status}, {outcome.error}, {outcome.faults}"
        assert self.committed() == self.expected, f"{self}: {outcome.faults}"


@pytest.mark.seeds(2)
@pytest.mark.parametrize("sink", ["ledger", "global ledger"])
def test_a_job_that_loses_processes_commits_once_what_comes_through_operators(sink: str, seed: int) -> None:
    job = KeepingJob(seed, sink=sink)
    job.check(run_committing(job, seed, Faults(kills=KILLS)))


@pytest.mark.seeds(1)
@pytest.mark.parametrize("sink", ["ledger", "global ledger"])
def test_what_operators_keep_back_is_in_savepoints(sink: str, seed: int) -> None:
    parallelisms = iter((2, 3, 1))

    def make(before: ExactlyOnceJob | None, savepoint: str) -> ExactlyOnceJob:
        options: dict[str, Any] = {"parallelism.default": next(parallelisms)}
        if savepoint:
            options["execution.state-recovery.path"] = savepoint
        return KeepingJob(seed, "stateless", sink, before=before, options=options)

    job, outcomes = run_in_parts(make, 3, seed, Faults(kills=KILLS))
    assert isinstance(job, KeepingJob)
    job.check(outcomes[-1])
