"""Archives of ended jobs: what is in them, and what a server makes of a directory of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.protocol.control_messages import JobDetails, SubtaskDetails, VertexDetails
from actors.protocol.job_reports import AttemptDetails, JobArchive, VertexCheckpoint
from actors.protocol.task_messages import TaskMetrics
from actors.rest.access import Access
from actors.rest.history.archive import archives_of
from actors.rest.history.archives import JOBS, Archives
from actors.rest.history.archiving import archive_job
from actors.rest.history.history_service import HistoryService
from actors.rest.service import Request
from flinkray.errors import ErrorInfo, InvalidProgramError
from flinkray.execution import JobStatus
from flinkray.state.checkpoint_statistics import (
    CheckpointKind,
    CheckpointOverview,
    CheckpointStatistics,
    CheckpointStatus,
)
from flinkray.types.records import JobId

JOB, OTHER, VERTEX = "a" * 32, "b" * 32, "c" * 32


def details_of(job_id: str = JOB, name: str = "ended") -> JobDetails:
    times = (("RUNNING", 1_000), ("FINISHED", 2_000))
    subtask = SubtaskDetails(0, "attempt", 1, "FINISHED", None, TaskMetrics(), times=times)
    vertex = VertexDetails(VERTEX, "map", 1, 128, (), (subtask,))
    entry = CheckpointStatistics(7, CheckpointKind.CHECKPOINT, CheckpointStatus.COMPLETED, 1_000, 1, ended_ms=1_100)
    archive = JobArchive(
        checkpoints=(VertexCheckpoint(7, VERTEX, 1),),
        attempts={VERTEX: (AttemptDetails(0, 0, "FAILED", times, None),)},
    )
    return JobDetails(
        JobId(job_id),
        name,
        JobStatus.FINISHED,
        ((JobStatus.RUNNING, 1_000), (JobStatus.FINISHED, 2_500)),
        (vertex,),
        checkpoints=CheckpointOverview(history=(entry,), latest_completed=entry),
        archive=archive,
    )


# Those of an archive that Flink 2.3 has written; a scheduler that rescales has some more.
FLINKS = {
    f"/jobs/{JOB}{path}"
    for path in (
        "",
        "/accumulators",
        "/checkpoints",
        "/checkpoints/config",
        "/checkpoints/details/7",
        f"/checkpoints/details/7/subtasks/{VERTEX}",
        "/config",
        "/exceptions",
        "/jobmanager/config",
        "/jobmanager/environment",
        "/plan",
        f"/vertices/{VERTEX}",
        f"/vertices/{VERTEX}/subtasks/0/attempts/0",
        f"/vertices/{VERTEX}/subtasks/0/attempts/1",
        f"/vertices/{VERTEX}/subtasks/0/attempts/1/accumulators",
        f"/vertices/{VERTEX}/subtasktimes",
        f"/vertices/{VERTEX}/taskmanagers",
    )
} | {"/jobs/overview"}


def test_an_archive_has_an_answer_for_each_path_that_flinks_has() -> None:
    job, application = archives_of(details_of(), "cluster", {"key": "value"}, "1.0")
    paths = [entry.path for entry in job.archive]
    assert sorted(FLINKS - set(paths)) == []
    assert len(set(paths)) == len(paths)
    assert [entry.path for entry in application.archive] == [
        "/applications/overview",
        f"/applications/{JOB}",
        f"/applications/{JOB}/exceptions",
        f"/applications/{JOB}/jobmanager/config",
    ]
    answers = {entry.path: json.loads(entry.json) for entry in (*job.archive, *application.archive)}
    assert answers[f"/jobs/{JOB}"]["duration"] == 1_500, "as it was at its end, whenever it is asked"
    assert answers[f"/applications/{JOB}/jobmanager/config"] == [{"key": "key", "value": "value"}]


def test_a_job_that_could_not_start_has_an_archive_too() -> None:
    times = ((JobStatus.INITIALIZING, 1), (JobStatus.FAILED, 2))
    error = ErrorInfo.of(InvalidProgramError("wrong"))
    job, _ = archives_of(JobDetails(JobId(JOB), "failed", JobStatus.FAILED, times, error=error), "cluster", {}, "1.0")
    answers = {entry.path: json.loads(entry.json) for entry in job.archive}
    assert answers[f"/jobs/{JOB}"]["state"] == "FAILED"
    (entry,) = answers[f"/jobs/{JOB}/exceptions"]["exceptionHistory"]["entries"]
    assert "wrong" in entry["stacktrace"]


def written(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_the_layout_is_flinks(tmp_path: Path) -> None:
    archive_job(str(tmp_path), "my-session", {}, details_of())
    cluster = written(tmp_path)[0].partition("/")[0]
    assert re.fullmatch("[0-9a-f]{32}", cluster)
    place = f"{cluster}/applications/{JOB}"
    assert written(tmp_path) == [f"{place}/application-summary", f"{place}/jobs/{JOB}"]
    archive_job(str(tmp_path), "my-session", {}, details_of())
    assert len(written(tmp_path)) == 2, "written again, it is the same"


def test_a_job_whose_archive_cannot_be_written_has_ended_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    archive_job(str(tmp_path / "file"), "cluster", {}, details_of())
    assert "job 'ended' is not in the history" in caplog.text


class Asked:
    """A server over a directory, and a clock that is moved by hand."""

    def __init__(self, directory: Path) -> None:
        self.now_ms = 0.0
        self.archives = Archives(str(directory), lambda: self.now_ms, 10.0)
        self._service = HistoryService(self.archives, Access(), "1.0", 10)

    def get(self, path: str, method: str = "GET", host: str = "localhost") -> tuple[int, Any]:
        response = self._service.answer(Request(method, path, headers={"host": host}))
        is_json = response.content_type == "application/json"
        return response.status, msgspec.json.decode(response.body) if is_json else response.body

    def jobs(self) -> list[str]:
        return [job["name"] for job in self.get("/jobs/overview")[1]["jobs"]]


def test_jobs_come_and_go_with_their_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = Asked(tmp_path / "later")
    assert asked.jobs() == []
    archive_job(str(tmp_path / "later"), "one", {}, details_of(JOB, "first"))
    archive_job(str(tmp_path / "later"), "two", {}, details_of(OTHER, "second"))
    (tmp_path / "later" / ("d" * 32)).write_text("{")
    assert asked.jobs() == [], "the directory is not looked through all the time"
    asked.now_ms += 10
    assert sorted(asked.jobs()) == ["first", "second"]
    assert "is no archive of a job" in caplog.text
    assert asked.get("/overview")[1]["jobs-finished"] == 2
    assert [each["id"] for each in asked.get("/applications/overview")[1]["applications"]].count(JOB) == 1
    assert asked.get(f"/v1/jobs/{JOB}")[1]["name"] == "first"
    (found,) = (tmp_path / "later").rglob(f"jobs/{JOB}")
    found.unlink()
    archive_job(str(tmp_path / "later"), "two", {}, details_of(OTHER, "second again"))
    asked.now_ms += 10
    assert asked.jobs() == ["second again"]
    assert asked.get(f"/jobs/{JOB}")[0] == 404
    assert asked.get(f"/jobs/{OTHER}")[1]["name"] == "second again"


@pytest.mark.parametrize(
    ("path", "method", "host", "status"),
    [
        ("/config", "GET", "localhost", 200),
        ("/", "GET", "localhost", 200),
        ("/page/app.js", "HEAD", "localhost", 200),
        (f"/jobs/{JOB}/vertices/{VERTEX}/flamegraph", "GET", "localhost", 404),
        (f"/jobs/../{JOB}", "GET", "localhost", 404),
        ("/taskmanagers", "GET", "localhost", 404),
        (f"/jobs/{JOB}", "PATCH", "localhost", 405),
        (f"/jobs/{JOB}", "GET", "elsewhere.example", 403),
        ("/", "GET", "elsewhere.example", 403),
    ],
)
def test_only_what_is_kept_is_served_and_nothing_is_changed(
    tmp_path: Path, path: str, method: str, host: str, status: int
) -> None:
    archive_job(str(tmp_path), "one", {}, details_of())
    assert Asked(tmp_path).get(path, method, host)[0] == status


def test_few_archives_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.rest.history.archives._IN_MEMORY", 2)
    for number in range(5):
        archive_job(str(tmp_path), "one", {}, details_of(f"{number}" * 32, str(number)))
    asked = Asked(tmp_path)
    assert len(asked.archives.listed(JOBS)) == 5
    assert [asked.get(f"/jobs/{str(number) * 32}")[1]["name"] for number in range(5)] == list("01234")
    assert len(asked.archives._read) == 2
