"""A job on the simulation host that is stopped with a savepoint, and whose JobMaster dies at some moment of that."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from actors.hosts.simulation.faults import Faults
from actors.protocol.elements import StopMode
from flinkray import filesystems
from flinkray.execution import JobStatus
from tests.support.exactly_once import ExactlyOnceJob
from tests.support.simulation import POLL_MS, SimulatedRun, compiled

MOMENTS = ("saved", "recorded")
"""Right after the savepoint's metadata is written; right after the next JobMaster can know of it."""

# Virtual time that a job is left alone before it is stopped, at most.
LONGEST_START_MS = 600.0


@dataclass(frozen=True)
class Stopped:
    """A job that was stopped, or had come to its end before that."""

    job: ExactlyOnceJob
    status: JobStatus | None
    savepoint: str
    """What its driver was told; empty: nothing."""
    rows: dict[str, Counter[Any]]
    """What each sink has committed."""
    asked_at: int
    """Number of the step before which the driver asked for the savepoint."""
    moments: dict[str, int]
    """The step of each moment of MOMENTS, if it came to that."""
    steps: int
    deaths: int


def stop(seed: int, mode: StopMode, kind: str, has_two_sinks: bool, kill_at: int | str | None = None) -> Stopped:
    """Runs the same up to the death of the JobMaster, whenever that is.

    Args:
        kill_at: the number of the step, or one of MOMENTS, at which the JobMaster dies; None: never.
    """
    job = ExactlyOnceJob(seed, kind=kind, has_two_sinks=has_two_sinks)
    files = job.storage.files = _WatchedFiles(kill_at)
    faults = Faults(kills={"JobMaster": 1.0}, after_steps=kill_at, limit=1) if isinstance(kill_at, int) else Faults()
    filesystems.mount(job.storage.name, job.storage.filesystem())
    try:
        run = files.run = SimulatedRun(compiled(job.environment), (), seed, faults, storages=(job.storage,))
        driver = _Driver(job, run, mode)
        run.await_end(on_look=driver.look)
        run.shut_down()
    finally:
        filesystems.unmount(job.storage.name)
    assert run.details is not None
    told = next((each.directory for each in run.details.savepoints if each.directory), "")
    rows = {sink: job.committed(sink) for sink in job.sinks}
    outcome = run.outcome()
    deaths = len(outcome.faults) + files.deaths
    return Stopped(job, outcome.status, told, rows, driver.asked_at, dict(files.moments), outcome.steps, deaths)


def go_on(stopped: Stopped) -> dict[str, Counter[Any]]:
    """Runs a job that starts from the savepoint to its end; what each sink has committed then, by both jobs."""
    before = stopped.job
    options = {
        "execution.state-recovery.path": stopped.savepoint,
        "execution.checkpointing.dir": f"memory://{before.storage.name}/checkpoints of the next",
    }
    job = ExactlyOnceJob(before.seed, before.kind, options=options, before=before, has_two_sinks=before.has_two_sinks)
    filesystems.mount(job.storage.name, job.storage.filesystem())
    try:
        run = SimulatedRun(compiled(job.environment), (), before.seed, storages=(job.storage,))
        run.await_end()
        run.shut_down()
    finally:
        filesystems.unmount(job.storage.name)
    assert run.outcome().status is JobStatus.FINISHED, f"{job}: {run.outcome().error}"
    return {sink: job.committed(sink) for sink in job.sinks}


class _Driver:
    """Asks for the savepoint after a while, and again where that failed."""

    def __init__(self, job: ExactlyOnceJob, run: SimulatedRun, mode: StopMode) -> None:
        self._run = run
        self._looks_left = random.Random(f"stop {job.seed}").uniform(0, LONGEST_START_MS) // POLL_MS
        self._ask = partial(run.stop_with_savepoint, target=f"memory://{job.storage.name}/savepoints", stop=mode)
        self._failed = 0
        self.asked_at = 0

    def look(self) -> None:
        self._looks_left -= 1
        if self._looks_left > 0 or self._run.is_over:
            return
        self.asked_at = self.asked_at or self._run.host.schedule.steps
        result = self._ask(f"stop {self._failed}")
        self._failed += result is not None and result.directory is None


class _WatchedFiles(dict[str, bytes]):
    """The files of a storage; notes when moments come, and ends the process that brings the one that is chosen."""

    def __init__(self, kill_at: int | str | None) -> None:
        super().__init__()
        self.run: SimulatedRun | None = None
        self.moments: dict[str, int] = {}
        self.deaths = 0
        self._kill_at = kill_at

    def __setitem__(self, path: str, content: bytes) -> None:
        super().__setitem__(path, content)
        moment = _moment_of(path, content)
        if moment is None or moment in self.moments or self.run is None:
            return
        self.moments[moment] = self.run.host.schedule.steps
        if moment == self._kill_at:
            self.deaths += 1
            self.run.host.die_in_the_middle(f"killed when the savepoint was {moment}")


def _moment_of(path: str, content: bytes) -> str | None:
    if not content:
        return None
    if path.startswith("savepoints/") and path.endswith("/_metadata"):
        return "saved"
    is_record = re.search(r"/ha/.*/log-\d+$", path) is not None
    return "recorded" if is_record and b'"stop"' in content else None
