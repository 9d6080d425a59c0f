"""Jobs that get another parallelism while they run, and to which things happen meanwhile: every row counts once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from actors.hosts.simulation.faults import NO_FAULTS, Faults, StorageFaults
from flinkray.execution import JobStatus
from tests.simulation.test_exactly_once import ENDPOINTS, MASTERS, WORKERS
from tests.simulation.test_exactly_once_operators import FIRING_KINDS, some_kind
from tests.support.exactly_once import KINDS, ExactlyOnceJob
from tests.support.operator_jobs import SCALABLE_KINDS, OperatorJob
from tests.support.simulation import SLOW_STEP_MS, SimulatedRun, firing_in_pieces, run_committing

# A process that is killed ends no coroutine, not even one that has not begun.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

# Virtual time between the end of one rescale and the next, at most.
LONGEST_PAUSE_MS = 300.0


class Rescaler:
    """Gives the job one parallelism after the other."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"rescale {seed}")
        self._number = 0
        self._not_before = 0.0
        self._wanted: int | None = None
        self.done: list[int] = []
        """What the job was rescaled to."""
        self.refused: list[str] = []

    def look(self, run: SimulatedRun) -> None:
        now = run.host.schedule.now
        if run.is_over or now < self._not_before:
            return
        if self._wanted is None:
            self._wanted = self._chance.randint(1, 4)
        result = run.rescale(f"rescale {self._number}", self._wanted)
        if result is None:
            return
        if result.error is None:
            self.done.append(self._wanted)
        else:
            self.refused.append(result.error.message)
        self._number += 1
        self._wanted = None
        self._not_before = now + self._chance.uniform(0, LONGEST_PAUSE_MS)


def check(program: ExactlyOnceJob, seed: int, faults: Faults, **host: Any) -> None:
    rescaler = Rescaler(seed)
    outcome = run_committing(program, seed, faults, rescaler.look, **host)
    what = f"{program}: rescaled to {rescaler.done}, refused {rescaler.refused}, {outcome.faults}"
    assert outcome.status is JobStatus.FINISHED, f"{what}: {outcome.status}, {outcome.error}"
    assert program.committed() == program.expected, what
    assert not program.unmarked(), what


def run(seed: int, faults: Faults, **job: Any) -> None:
    check(ExactlyOnceJob(seed, **job), seed, faults)


@pytest.mark.seeds(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_is_rescaled_again_and_again_commits_every_row_once(kind: str, seed: int) -> None:
    run(seed, NO_FAULTS, kind=kind)


@pytest.mark.seeds(3)
def test_a_job_that_is_rescaled_and_loses_workers_commits_every_row_once(seed: int) -> None:
    run(seed, Faults(kills=WORKERS))


@pytest.mark.seeds(3)
def test_a_job_that_is_rescaled_and_loses_its_masters_commits_every_row_once(seed: int) -> None:
    run(seed, Faults(kills=MASTERS))


@pytest.mark.seeds(2)
def test_a_job_that_is_rescaled_while_processes_hang_commits_every_row_once(seed: int) -> None:
    run(seed, Faults(pauses=dict.fromkeys(ENDPOINTS, 0.0004), pause_ms=(100.0, 90_000.0)))


@pytest.mark.seeds(2)
def test_a_job_that_is_rescaled_while_its_storage_fails_commits_every_row_once(seed: int) -> None:
    run(seed, Faults(storage=StorageFaults(fails=0.01, lies=0.01, tears=0.01, crashes=0.01, slow=0.1), limit=8))


@pytest.mark.seeds(4)
def test_operators_that_are_rescaled_commit_every_row_once(seed: int) -> None:
    check(OperatorJob(seed, some_kind(seed, "live", SCALABLE_KINDS)), seed, NO_FAULTS)


@pytest.mark.seeds(2)
def test_operators_that_are_rescaled_and_lose_workers_commit_every_row_once(seed: int) -> None:
    check(OperatorJob(seed, some_kind(seed, "live kills", SCALABLE_KINDS)), seed, Faults(kills=WORKERS))


@pytest.mark.seeds(2)
def test_what_has_not_fired_fires_in_subtasks_of_a_rescale(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    firing_in_pieces(monkeypatch, seed)
    check(OperatorJob(seed, some_kind(seed, "live pieces", FIRING_KINDS)), seed, NO_FAULTS, step_ms=SLOW_STEP_MS)
