"""Jobs into tables of a lake whose processes die, also right after a commit: every row is in the table once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.hosts.simulation.faults import NODE, Faults
from flinkray import Sink
from flinkray.connectors.committer import Committer
from flinkray.connectors.delta.sink import DeltaSink
from flinkray.connectors.iceberg.sink import IcebergSink
from flinkray.connectors.lake.commits import CommitConflictError, LakeCommitter
from flinkray.execution import JobStatus
from tests.support.exactly_once import ExactlyOnceJob
from tests.support.lake import TABLES, LakeTable, tuples
from tests.support.simulated_savepoints import run_in_parts

KILLS: Mapping[str, float] = {"TaskSlot": 0.0006, "TaskExecutor": 0.0003, NODE: 0.0003, "JobMaster": 0.0004}
COLUMNS = ("value", "key")
# What a step costs here is the table, not the rows.
FEW_STEPS = {"flinkray.batch.target-rows": 50, "execution.checkpointing.interval": 200}


class _TroubledCommitter(LakeCommitter):
    """A committer to which, again and again, each of these happens: others change the table, the answer of the table is
    lost, the committer fails when it has committed, nothing."""

    def __init__(self, committer: LakeCommitter, troubles: Iterator[str]) -> None:
        self._committer = committer
        self._troubles = troubles

    def last_checkpoint(self, sink_id: str) -> int | None:
        return self._committer.last_checkpoint(sink_id)

    def append(self, sink_id: str, checkpoint_id: int, files: Sequence[Any]) -> None:
        trouble = next(self._troubles)
        if trouble == "conflict":
            raise CommitConflictError("somebody else was faster")
        self._committer.append(sink_id, checkpoint_id, files)
        if trouble == "lost answer":
            raise CommitConflictError("the answer was lost")
        if trouble == "death":
            raise RuntimeError("it dies when it has committed")

    def delete(self, files: Sequence[Any]) -> None:
        self._committer.delete(files)

    def close(self) -> None:
        self._committer.close()


_TROUBLES: dict[str, Iterator[str]] = {}
"""Of each sink: another attempt has other troubles, or it would die at the same place for ever."""


def _troubled(sink: Sink, committer: Any) -> _TroubledCommitter:
    troubles = itertools.cycle(["conflict", "lost answer", "death", ""])
    return _TroubledCommitter(committer, _TROUBLES.setdefault(repr(sink), troubles))


class _TroubledDeltaSink(DeltaSink):
    def create_global_committer(self) -> Committer:
        return _troubled(self, super().create_global_committer())


class _TroubledIcebergSink(IcebergSink):
    def create_global_committer(self) -> Committer:
        return _troubled(self, super().create_global_committer())


class LakeJob(ExactlyOnceJob):
    """Rows into a table of a lake, which is not of the simulation."""

    def __init__(self, table: LakeTable, seed: int, **job: Any) -> None:
        self.table = table
        self._seen: tuple[int, Counter[Any]] | None = None
        super().__init__(seed, kind="stateless", sink=table.package, **job)

    def _new_sink(self, sink: str) -> Sink:
        found = self.table.sink(schema=pa.schema([(name, pa.int64()) for name in COLUMNS]), part_size=2_000)
        found.__class__ = _TroubledDeltaSink if isinstance(found, DeltaSink) else _TroubledIcebergSink
        return found

    def committed(self, sink: str = "") -> Counter[Any]:
        changes = self.table.changes
        if self._seen is None or self._seen[0] != changes:
            self._seen = changes, Counter(tuples(self.table.read(), COLUMNS))
        return self._seen[1]


class _SameThread(Executor):
    """Calls at once, as a simulation has one thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeTable]:
    found = TABLES[request.param](tmp_path)
    if found.package == "pyiceberg":
        from pyiceberg.utils.concurrent import ExecutorFactory

        monkeypatch.setattr(ExecutorFactory, "get_or_create", _SameThread)
    yield found
    found.close()


@pytest.mark.seeds(1)
@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_a_job_that_loses_processes_and_commits_and_goes_on_rescaled_has_every_row_in_its_table_once(
    table: LakeTable, seed: int
) -> None:
    parallelisms = iter((2, 3, 1))

    def make(before: ExactlyOnceJob | None, savepoint: str) -> ExactlyOnceJob:
        options: dict[str, Any] = {"parallelism.default": next(parallelisms), **FEW_STEPS}
        if savepoint:
            options["execution.state-recovery.path"] = savepoint
        return LakeJob(table, seed, before=before, options=options)

    job, outcomes = run_in_parts(make, 3, seed, Faults(kills=KILLS))
    assert [each.status for each in outcomes] == [JobStatus.FINISHED] * len(outcomes), f"{job}: {outcomes[-1].error}"
    assert job.committed() == job.expected, f"{job}: {[each.faults for each in outcomes]}"
