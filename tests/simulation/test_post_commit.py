"""Jobs whose sinks go on with what they have committed: whatever dies, each commit is told of once."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from actors.hosts.simulation.faults import NODE, Faults
from flinkray import CommittableWithLineage, DataStream, Sink, SupportsPostCommitTopology
from flinkray.execution import JobStatus
from tests.support.exactly_once import ExactlyOnceJob, GlobalLedgerSink, LedgerSink
from tests.support.simulated_savepoints import run_in_parts
from tests.support.simulation import run_committing

KILLS: Mapping[str, float] = {"TaskSlot": 0.0006, "TaskExecutor": 0.0003, NODE: 0.0003, "JobMaster": 0.0004}


class _ToldSink(LedgerSink):
    directory = "told"


class _Telling(SupportsPostCommitTopology):
    """Has the names of the transactions that it has committed written into a ledger of their own."""

    def add_post_commit_topology(self, committables: DataStream) -> None:
        names = committables.filter(lambda each: isinstance(each, CommittableWithLineage)).map(
            lambda each: posixpath.basename(each.committable.committed)
        )
        names.rebalance().sink_to(_ToldSink(self._storage))  # type: ignore[attr-defined]


class _TellingLedger(LedgerSink, _Telling): ...


class _TellingGlobalLedger(GlobalLedgerSink, _Telling): ...


class TellingJob(ExactlyOnceJob):
    def _new_sink(self, sink: str) -> Sink:
        return (_TellingLedger if sink == "ledger" else _TellingGlobalLedger)(self.storage)

    def check(self, outcome: Any) -> None:
        assert outcome.status is JobStatus.FINISHED, f"{self}: {outcome.status}, {outcome.error}, {outcome.faults}"
        assert self.committed() == self.expected, f"{self}: {outcome.faults}"
        prefix = f"{self.sink}/committed/"
        transactions = {path.removeprefix(prefix) for path in self.storage.files if path.startswith(prefix)}
        assert self.committed("told") == Counter(transactions), f"{self}: {outcome.faults}"


@pytest.mark.seeds(2)
@pytest.mark.parametrize("sink", ["ledger", "global ledger"])
def test_a_job_that_loses_processes_tells_of_each_commit_once(sink: str, seed: int) -> None:
    job = TellingJob(seed, sink=sink)
    job.check(run_committing(job, seed, Faults(kills=KILLS)))


@pytest.mark.seeds(1)
@pytest.mark.parametrize("sink", ["ledger", "global ledger"])
def test_a_job_that_goes_on_rescaled_from_savepoints_tells_of_each_commit_once(sink: str, seed: int) -> None:
    parallelisms = iter((2, 3, 1))

    def make(before: ExactlyOnceJob | None, savepoint: str) -> ExactlyOnceJob:
        options: dict[str, Any] = {"parallelism.default": next(parallelisms)}
        if savepoint:
            options["execution.state-recovery.path"] = savepoint
        return TellingJob(seed, "stateless", sink, before=before, options=options)

    job, outcomes = run_in_parts(make, 3, seed, Faults(kills=KILLS))
    assert isinstance(job, TellingJob)
    job.check(outcomes[-1])
