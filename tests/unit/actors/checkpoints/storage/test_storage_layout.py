"""Where the checkpoints and savepoints of a job are."""

from __future__ import annotations

import os
import random
import re

import pytest

from actors.checkpoints.storage.directories import CheckpointDirectories
from flinkray.errors import CheckpointError
from flinkray.types.records import JobId


def directories(directory: str = "", savepoint_directory: str = "") -> CheckpointDirectories:
    return CheckpointDirectories(JobId("0123456789"), directory, savepoint_directory, random.Random(1))


def test_checkpoints_are_below_their_job_and_share_files_there() -> None:
    of_job = directories("s3://bucket/all?region=x")
    assert of_job(7, False) == (
        "s3://bucket/all/0123456789/chk-7?region=x",
        "s3://bucket/all/0123456789/shared?region=x",
    )
    assert of_job.of_job == "s3://bucket/all/0123456789?region=x"


def test_without_a_directory_checkpoints_are_in_memory() -> None:
    assert directories(savepoint_directory="/sp")(7, False) == ("", "")
    assert directories().of_job == ""


def test_savepoints_get_a_new_directory_each_time_and_share_nothing() -> None:
    of_job = directories("/all", "sp")
    first, second = of_job(7, True), of_job(7, True)
    assert first != second
    assert first[1] == second[1] == ""
    assert re.fullmatch(re.escape(os.path.abspath("sp")) + "/savepoint-012345-[0-9a-f]{12}", first[0])
    assert of_job(7, True, "memory://x/wanted")[0].startswith("memory://x/wanted/savepoint-012345-")


def test_a_savepoint_without_a_directory_is_refused() -> None:
    with pytest.raises(
        CheckpointError, match=r"no directory for the savepoint: .*execution.checkpointing.savepoint-dir"
    ):
        directories("/all")(7, True)
