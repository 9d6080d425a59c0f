"""Which checkpoints a job goes on from, and who may say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.high_availability.directories import high_availability_directory
from actors.high_availability.pointers import CheckpointPointers, JobLeadership, LeadershipLostError, StopSavepoint
from flinkray.config.configuration import Configuration
from flinkray.errors import CheckpointError
from flinkray.types.records import JobId

JOB = JobId("job")


def leader(directory: Path) -> JobLeadership:
    leadership = JobLeadership(str(directory), JOB)
    leadership.take()
    return leadership


def test_a_new_job_starts_from_nothing(tmp_path: Path) -> None:
    assert JobLeadership(str(tmp_path), JOB).take() == CheckpointPointers()


def test_the_next_job_master_finds_what_was_recorded_last_under_a_generation_of_its_own(tmp_path: Path) -> None:
    first = leader(tmp_path)
    first.record(CheckpointPointers(0, 5, ("s3://b/chk-4", "s3://b/savepoint-1"), b"ended\xff"))
    taken = JobLeadership(str(tmp_path), JOB).take()
    assert taken == CheckpointPointers(1, 5, ("s3://b/chk-4", "s3://b/savepoint-1"), b"ended\xff")
    assert JobLeadership(str(tmp_path), JOB).take().generation == 2


def test_the_next_job_master_finds_the_savepoint_with_which_the_job_was_stopping(tmp_path: Path) -> None:
    stop = StopSavepoint("request", "s3://b/savepoint-1")
    leader(tmp_path).record(CheckpointPointers(0, 5, ("s3://b/chk-4",), stop=stop))
    assert JobLeadership(str(tmp_path), JOB).take().stop == stop


def test_a_job_master_that_wakes_up_after_another_one_took_over_changes_nothing(tmp_path: Path) -> None:
    paused = leader(tmp_path)
    paused.record(CheckpointPointers(next_id=2, directories=("chk-1",)))
    second = leader(tmp_path)
    with pytest.raises(LeadershipLostError, match="the checkpoints of job job: was taken over"):
        paused.record(CheckpointPointers(next_id=3, directories=("chk-2",)))
    second.record(CheckpointPointers(next_id=9, directories=("chk-8",)))
    with pytest.raises(LeadershipLostError):
        paused.record(CheckpointPointers(next_id=3, directories=("chk-2",)))
    assert JobLeadership(str(tmp_path), JOB).take() == CheckpointPointers(2, 9, ("chk-8",))


def test_one_that_has_not_taken_the_job_records_nothing(tmp_path: Path) -> None:
    with pytest.raises(LeadershipLostError):
        JobLeadership(str(tmp_path), JOB).record(CheckpointPointers())


def test_a_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    leader(tmp_path)
    (record,) = (tmp_path / JOB).iterdir()
    record.write_bytes(record.read_bytes().replace(b"generation", b"generatiom"))
    with pytest.raises(CheckpointError, match=rf"{record} is corrupt"):
        JobLeadership(str(tmp_path), JOB).take()


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / JOB).write_text("a file where the directory would be")
    with pytest.raises(CheckpointError, match=rf"{tmp_path / JOB}"):
        JobLeadership(str(tmp_path), JOB).take()


@pytest.mark.parametrize(
    ("options", "directory"),
    [
        ({}, ""),
        ({"execution.checkpointing.dir": "s3://b/checkpoints"}, "s3://b/checkpoints/ha/c"),
        ({"high-availability.storageDir": "s3://b/ha"}, "s3://b/ha/c"),
        ({"high-availability.storageDir": "/ha", "execution.checkpointing.dir": "s3://b/checkpoints"}, "/ha/c"),
        ({"execution.checkpointing.dir": "s3://b/c?region=eu"}, "s3://b/c/ha/c?region=eu"),
    ],
)
def test_what_outlives_the_masters_is_beside_the_checkpoints_unless_it_is_told_where(
    options: dict[str, str], directory: str
) -> None:
    assert high_availability_directory(Configuration(options), "c") == directory
