"""Jobs with checkpoints to which things happen: what they commit in the end is what they commit undisturbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from actors.checkpoints.storage.metadata import find_latest
from actors.client.cluster import dispatcher_of
from actors.hosts.simulation.faults import NO_FAULTS, NODE, Faults, StorageFaults
from flinkray import filesystems
from flinkray.execution import JobStatus
from tests.support.exactly_once import KINDS, ExactlyOnceJob
from tests.support.simulation import (
    CLUSTER,
    JOB,
    LARGE_BATCHES,
    SLOW_STEP_MS,
    Outcome,
    SimulatedRun,
    compiled,
    in_pieces,
    run_committing,
)

WORKERS: Mapping[str, float] = {"TaskSlot": 0.0006, "TaskExecutor": 0.0003, NODE: 0.0003}
MASTERS: Mapping[str, float] = {"JobMaster": 0.0006, "Dispatcher": 0.0004, "ResourceManager": 0.0004}

ENDPOINTS = ("TaskSlot", "TaskExecutor", "JobMaster", "ResourceManager", "Dispatcher")


def run(seed: int, faults: Faults, step_ms: float | None = None, is_session: bool = False, **job: Any) -> Outcome:
    """The outcome, of a job that has committed every row exactly once."""
    program = ExactlyOnceJob(seed, **job)
    outcome = run_committing(program, seed, faults, step_ms=step_ms, is_session=is_session)
    assert outcome.status is JobStatus.FINISHED, f"{program}: {outcome.status}, {outcome.error}, {outcome.faults}"
    assert program.committed() == program.expected, f"{program}: {outcome.faults}"
    assert not program.unmarked(), f"{program}: {outcome.faults}"
    return outcome


@pytest.mark.seeds(2)
def test_a_job_that_nothing_happens_to_commits_every_row_once(seed: int) -> None:
    outcome = run(seed, NO_FAULTS)
    assert outcome.delivered["AcknowledgeCheckpoint"] > 0
    assert outcome.delivered["NotifyCheckpointComplete"] > 0


@pytest.mark.seeds(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_loses_workers_commits_every_row_once(kind: str, seed: int) -> None:
    run(seed, Faults(kills=WORKERS), kind=kind)


@pytest.mark.seeds(2)
def test_a_job_that_reads_sources_one_after_another_commits_every_row_once(seed: int) -> None:
    run(seed, Faults(kills=WORKERS | MASTERS), parts=3)


@pytest.mark.seeds(3)
def test_a_job_whose_batches_come_in_pieces_commits_every_row_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where rows take long: barriers come between the rows of a batch."""
    in_pieces(monkeypatch, seed)
    run(seed, Faults(kills=WORKERS), SLOW_STEP_MS, options=LARGE_BATCHES)


@pytest.mark.seeds(2)
def test_a_job_that_loses_its_masters_commits_every_row_once(seed: int) -> None:
    run(seed, Faults(kills=MASTERS))


@pytest.mark.seeds(1)
def test_however_many_job_masters_die_a_job_has_as_many_checkpoints_as_it_retains_and_leaves_none(seed: int) -> None:
    job = ExactlyOnceJob(seed, "stateless", options={"execution.checkpointing.num-retained": 1})

    def checkpoints() -> list[str]:
        return [path for path in job.storage.files if path.startswith("checkpoints/") and path.endswith("/_metadata")]

    filesystems.mount(job.storage.name, job.storage.filesystem())
    try:
        cluster = SimulatedRun(compiled(job.environment), (), seed, storages=(job.storage,))
        host = cluster.host
        for _ in range(2):  # when a checkpoint has replaced another, which has not been deleted yet
            host.run_until(lambda: len(checkpoints()) > 1 or not host.alive("JobMaster"))
            for job_master in host.alive("JobMaster"):
                host.crash(job_master.address)
                host.run_until(lambda: len(checkpoints()) <= 1)
        cluster.await_end()
        cluster.shut_down()
    finally:
        filesystems.unmount(job.storage.name)
    assert job.committed() == job.expected, str(job)
    assert not [path for path in job.storage.files if path.startswith("checkpoints/")]


@pytest.mark.seeds(2)
def test_a_job_in_a_session_without_a_directory_loses_its_job_masters_and_commits_every_row_once(seed: int) -> None:
    run(seed, Faults(kills={"JobMaster": 0.002}), is_session=True)


@pytest.mark.seeds(2)
def test_a_job_whose_dispatcher_dies_for_good_ends_and_leaves_its_last_checkpoint(seed: int) -> None:
    job = ExactlyOnceJob(seed)
    filesystems.mount(job.storage.name, job.storage.filesystem())
    try:
        cluster = SimulatedRun(compiled(job.environment), (), seed, storages=(job.storage,), is_session=True)
        host = cluster.host
        host.run_until(lambda: host.delivered["NotifyCheckpointComplete"] > 0)
        host.crash(dispatcher_of(CLUSTER))
        host.run_until(lambda: not host.alive("TaskSlot"))
        cluster.shut_down()
        # A job that has come to its end before it notices has committed all, and leaves none.
        assert job.committed() == job.expected or find_latest(f"memory://{job.storage.name}/checkpoints/{JOB}")
    finally:
        filesystems.unmount(job.storage.name)


@pytest.mark.seeds(3)
def test_a_job_that_failed_with_a_worker_leaves_a_checkpoint_from_which_another_commits_the_rest(seed: int) -> None:
    """Whatever its retention says, as it could have gone on."""
    job = ExactlyOnceJob(seed, options={"restart-strategy.type": "none"})
    filesystems.mount(job.storage.name, job.storage.filesystem())
    try:
        failed = SimulatedRun(compiled(job.environment), (), seed, storages=(job.storage,))
        failed.host.run_until(lambda: failed.host.delivered["NotifyCheckpointComplete"] > 0)
        failed.host.crash(failed.host.alive("TaskSlot")[0].address)
        failed.await_end()
        failed.shut_down()
        assert failed.outcome().status is JobStatus.FAILED
        options = {
            "execution.state-recovery.path": find_latest(f"memory://{job.storage.name}/checkpoints/{JOB}"),
            "execution.checkpointing.dir": f"memory://{job.storage.name}/checkpoints of the next",
        }
    finally:
        filesystems.unmount(job.storage.name)
    following = ExactlyOnceJob(seed, options=options, before=job)
    outcome = run_committing(following, seed)
    assert outcome.status is JobStatus.FINISHED, f"{job}: {outcome.error}"
    assert following.committed() == following.expected, str(job)


@pytest.mark.seeds(2)
def test_a_job_whose_processes_hang_and_wake_again_commits_every_row_once(seed: int) -> None:
    pauses = dict.fromkeys(ENDPOINTS, 0.0004)
    if seed % 2:  # a third one would perhaps be the last that can notice
        run(seed, Faults(pauses=pauses, pause_ms=(100.0, 36_000_000.0), limit=2))
    else:
        run(seed, Faults(pauses=pauses, pause_ms=(100.0, 90_000.0)))


@pytest.mark.seeds(2)
@pytest.mark.parametrize("kind", ENDPOINTS)
def test_whatever_hangs_for_however_long_the_job_goes_on_after_a_few_timeouts_and_commits_every_row_once(
    kind: str, seed: int
) -> None:
    """What wakes when others have taken its place must not change what they do."""
    faults = Faults(pauses={kind: 0.01}, pause_ms=(8_000.0, 36_000_000.0), limit=1, after_steps=1_500)
    options = {"heartbeat.interval": 1_000, "heartbeat.timeout": 5_000}
    outcome = run(seed, faults, options=options)
    # A job takes up to three seconds; silence is noticed within six, an order to end takes five, and a start three.
    assert outcome.virtual_ms < 25_000, outcome.faults


@pytest.mark.seeds(2)
def test_a_job_that_loses_batches_commits_every_row_once(seed: int) -> None:
    run(seed, Faults(payload_loss=0.03))


@pytest.mark.seeds(2)
def test_a_job_whose_storage_fails_commits_every_row_once(seed: int) -> None:
    storage = StorageFaults(fails=0.01, lies=0.01, tears=0.01, crashes=0.01, slow=0.1)
    run(seed, Faults(storage=storage, limit=8))


@pytest.mark.seeds(3)
def test_a_job_to_which_everything_happens_commits_every_row_once(seed: int) -> None:
    kills = {**WORKERS, **MASTERS}
    storage = StorageFaults(fails=0.005, lies=0.005, tears=0.005, crashes=0.01, slow=0.1)
    faults = Faults(kills=kills, pauses=kills, pause_ms=(100.0, 60_000.0), payload_loss=0.01, storage=storage)
    run(seed, faults)
