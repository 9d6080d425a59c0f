"""What is kept of a job that has ended."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

from actors.rest.history.serving import start_history_server
from flinkray import Configuration, JobExecutionError
from tests.local.test_rest import end, start
from tests.support.jobs import environment
from tests.support.rest import RestClient
from tests.support.waiting import eventually


def test_an_ended_job_is_shown_as_it_was(tmp_path: Path) -> None:
    job = start(tmp_path, **{"jobmanager.archive.fs.dir": str(tmp_path / "history")})
    try:
        eventually(lambda: job.http.get(f"{job.path}/checkpoints").value["counts"]["completed"])
        (tmp_path / "fail").touch()
        eventually(lambda: job.http.get(f"{job.path}/checkpoints").value["counts"]["restored"])
        live = job.http.get(job.path).value
    finally:
        end(job)
    # Nobody has heard of the end before it was written down.
    server = start_history_server(Configuration({"rest.port": 0}), str(tmp_path / "history"))
    try:
        http = RestClient(server.url)
        (listed,) = http.get("/jobs/overview").value["jobs"]
        assert (listed["jid"], listed["state"]) == (job.client.job_id, "CANCELED")
        assert http.get(job.path).value["plan"] == live["plan"]
        (failure,) = http.get(f"{job.path}/exceptions").value["exceptionHistory"]["entries"]
        assert "as asked" in failure["stacktrace"]
        vertex = f"{job.path}/vertices/{live['vertices'][0]['id']}"
        assert http.get(f"{vertex}/subtasks/0/attempts/0").value["status"] in ("CANCELED", "FAILED")
        latest = http.get(f"{job.path}/checkpoints").value["latest"]["completed"]
        details = http.get(f"{job.path}/checkpoints/details/{latest['id']}").value
        assert set(details["tasks"]) == {each["id"] for each in live["vertices"]}
        assert http.get(f"{vertex}/subtasks/metrics?get=numRecordsInPerSecond").value == []
    finally:
        server.close()


def divide(value: int) -> float:
    return 10 / value  # the line that fails


def test_the_archive_alone_says_which_line_failed_in_which_subtask_with_which_value(tmp_path: Path) -> None:
    """Of a job that nobody has looked at, and whose processes are gone with their logs."""
    options = {"jobmanager.archive.fs.dir": str(tmp_path), "restart-strategy.type": "none"}
    numbers = environment(options).from_sequence(0, 1).rebalance().map(divide).name("quotients")
    with pytest.raises(JobExecutionError):
        numbers.to_arrow()

    archives = [json.loads(file.read_text())["archive"] for file in tmp_path.rglob("*") if file.is_file()]
    answers = {entry["path"]: json.loads(entry["json"]) for archive in archives for entry in archive}
    (path,) = [path for path in answers if path.startswith("/jobs/") and path.endswith("/exceptions")]
    (failure,) = answers[path]["exceptionHistory"]["entries"]

    lines, first = inspect.getsourcelines(divide)
    assert f'File "{__file__}", line {first + len(lines) - 1}, in divide' in failure["stacktrace"]
    assert lines[-1].strip().partition("  #")[0] in failure["stacktrace"]
    assert "ZeroDivisionError: division by zero; the value was 0" in failure["stacktrace"]
    where = re.search(r"operator 'quotients' \(subtask (\d) of 2\)", failure["stacktrace"])
    assert where is not None, failure["stacktrace"]
    assert failure["taskName"].startswith("quotients")
    assert failure["taskName"].endswith(f" ({where[1]}/2)")
    assert failure["failureLabels"] == {"type": "user"}
