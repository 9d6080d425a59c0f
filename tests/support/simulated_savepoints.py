"""Jobs on the simulation host that are stopped with savepoints, and go on from them as others."""

from __future__ import annotations

import random
from collections.abc import Callable

from actors.hosts.simulation.faults import Faults
from flinkray import filesystems
from tests.support.exactly_once import ExactlyOnceJob
from tests.support.simulation import POLL_MS, Outcome, SimulatedRun, compiled, no_row_too_many

# Virtual time that a job is left alone before it is stopped, at most.
LONGEST_START_MS = 1_500.0


def run_in_parts(
    make: Callable[[ExactlyOnceJob | None, str], ExactlyOnceJob],
    parts: int,
    seed: int,
    faults: Faults,
    step_ms: float | None = None,
) -> tuple[ExactlyOnceJob, list[Outcome]]:
    """The last job, and what became of each: stopped with a savepoint that the next one starts from, or finished.

    Args:
        make: from the job before and its savepoint; None and "" at first.
    """
    chance = random.Random(f"parts {seed}")
    job = make(None, "")
    filesystems.mount(job.storage.name, job.storage.filesystem())
    outcomes: list[Outcome] = []
    try:
        while True:
            # Other parts have other chances, also those of the names of savepoints.
            of_part = seed * parts + len(outcomes)
            run = SimulatedRun(compiled(job.environment), (), of_part, faults, storages=(job.storage,), step_ms=step_ms)
            stop = _Stop(job, run, chance)
            run.await_end(on_look=stop.look if len(outcomes) < parts - 1 else lambda job=job: no_row_too_many(job))
            run.shut_down()
            outcomes.append(run.outcome())
            saved = stop.savepoint()
            if not saved:
                return job, outcomes
            job = make(job, saved)
    finally:
        filesystems.unmount(job.storage.name)


class _Stop:
    """Stops a job with a savepoint after a while; asks for another one where that failed."""

    def __init__(self, job: ExactlyOnceJob, run: SimulatedRun, chance: random.Random) -> None:
        self._job = job
        self._run = run
        self._looks_left = chance.uniform(0, LONGEST_START_MS) // POLL_MS
        self._failed = 0

    def look(self) -> None:
        no_row_too_many(self._job)
        self._looks_left -= 1
        if self._looks_left > 0 or self._run.is_over:
            return
        target = f"memory://{self._job.storage.name}/savepoints"
        result = self._run.stop_with_savepoint(f"stop {self._failed}", target)
        self._failed += result is not None and result.directory is None

    def savepoint(self) -> str:
        """That the next one starts from; empty: the job was not stopped."""
        assert self._run.details is not None
        return next((each.directory for each in self._run.details.savepoints if each.directory), "")
