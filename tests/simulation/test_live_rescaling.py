"""Jobs that get another parallelism while they run, and to which things happen meanwhile: every row counts once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from actors.hosts.simulation.faults import NO_FAULTS, Faults, StorageFaults
from flinkray.execution import JobStatus
from tests.simulation.test_exactly_once import ENDPOINTS, MASTERS, WORKERS
from tests.support.exactly_once import KINDS, ExactlyOnceJob
from tests.support.simulation import SimulatedRun, run_committing

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
            assert max(result.parallelism.values()) >= self._wanted or self._wanted > 1
        else:
            self.refused.append(result.error.message)
        self._number += 1
        self._wanted = None
        self._not_before = now + self._chance.uniform(0, LONGEST_PAUSE_MS)


def run(seed: int, faults: Faults, **job: Any) -> Rescaler:
    program = ExactlyOnceJob(seed, **job)
    rescaler = Rescaler(seed)
    outcome = run_committing(program, seed, faults, rescaler.look)
    what = f"{program}: rescaled to {rescaler.done}, refused {rescaler.refused}, {outcome.faults}"
    assert outcome.status is JobStatus.FINISHED, f"{what}: {outcome.status}, {outcome.error}"
    assert program.committed() == program.expected, what
    assert not program.unmarked(), what
    return rescaler


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
