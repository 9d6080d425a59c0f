"""A JobMaster whose job somebody else has taken over, as happens when it was taken for dead and was not."""

from __future__ import annotations

import pytest

from actors.high_availability.pointers import JobLeadership, LeadershipLostError
from actors.protocol.client_requests import GetCheckpoints
from flinkray import filesystems
from flinkray.execution import JobStatus
from flinkray.filesystems import name_of
from tests.support.exactly_once import ExactlyOnceJob
from tests.support.simulation import CLUSTER, JOB, SimulatedRun, compiled, no_row_too_many


@pytest.mark.seeds(4)
def test_a_job_master_whose_job_was_taken_over_completes_no_checkpoint_and_ends(seed: int) -> None:
    job = ExactlyOnceJob(seed)
    filesystems.mount(job.storage.name, job.storage.filesystem())
    try:
        run = SimulatedRun(compiled(job.environment), (), seed, storages=(job.storage,))
        host = run.host
        host.run_until(lambda: host.delivered["NotifyCheckpointComplete"] > 0)
        (former,) = host.alive("JobMaster")
        job_master = former.endpoint
        assert job_master is not None
        leadership = JobLeadership(f"memory://{job.storage.name}/checkpoints/ha/{CLUSTER}", JOB)
        taken = leadership.take()
        newest = int(name_of(taken.directories[0]).removeprefix("chk-"))
        while former.is_alive:
            assert host.step(), "it waits for ever"
            completed = job_master.on_request(GetCheckpoints()).latest_completed
            assert completed is not None
            assert completed.checkpoint_id <= newest, "it has completed one that nobody else knows of"
        run.await_end(on_look=lambda: no_row_too_many(job))
        run.shut_down()
        with pytest.raises(LeadershipLostError):
            leadership.record(taken)
    finally:
        filesystems.unmount(job.storage.name)
    assert run.outcome().status is JobStatus.FINISHED, f"{job}: {run.outcome().error}"
    assert job.committed() == job.expected, str(job)
    # One whose last checkpoint was complete by then has nothing left that another would do again, and ends as it is.
    assert len(host.fatal_errors) <= 1, host.fatal_errors
