"""What is kept of a job that has ended."""

from __future__ import annotations

from pathlib import Path

from actors.rest.history.serving import start_history_server
from flinkray import Configuration
from tests.local.test_rest import end, start
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
