"""A client of Flink's REST interface that others have written gets answers that it understands
(`pip install flink-rest-client`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from flinkray.execution import JobStatus
from tests.local.test_rest import RunningJob, start
from tests.support.waiting import eventually

_WRITES = {
    *("upload", "upload_and_run", "run", "delete", "get_plan", "delete_cluster", "delete_dataset", "rescale"),
    *("create_savepoint", "terminate", "stop", "get_log"),
}
"""What changes something, or needs a file."""


def known(job: RunningJob) -> dict[str, Any]:
    """What is there, under the names that clients give it."""
    vertex = job.vertices()[0]
    manager = job.http.get("/taskmanagers").value["taskmanagers"][0]["id"]
    number = job.http.get(f"{job.path}/checkpoints").value["latest"]["completed"]["id"]
    parts = {"vertex_id": vertex, "subtask_id": 0, "checkpoint_id": number, "taskmanager_id": manager}
    return {"job_id": job.client.job_id, **parts}


def call(method: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """Calls it with what it needs."""
    needed = [name for name, each in inspect.signature(method).parameters.items() if each.default is each.empty]
    return method(**{name: names[name] for name in needed})


def test_flink_rest_client_reads_everything_and_stops_a_job_with_a_savepoint(tmp_path: Path) -> None:
    client = pytest.importorskip("flink_rest_client", reason="flink-rest-client is not installed").FlinkRestClient
    job = start(tmp_path)
    try:
        eventually(lambda: job.http.get(f"{job.path}/checkpoints").value["counts"]["completed"])
        host, _, port = job.http.url.removeprefix("http://").rpartition(":")
        asked, names = client.get(host=host, port=port), known(job)
        vertex = asked.jobs.get_vertex(names["job_id"], names["vertex_id"])
        for part in (asked, asked.jobs, asked.taskmanagers, asked.jobmanager, asked.jars, vertex, vertex.subtasks):
            for name, method in inspect.getmembers(part, inspect.ismethod):
                if not name.startswith("_") and name not in _WRITES:
                    assert call(method, names) is not None, name
        saved = asked.jobs.create_savepoint(names["job_id"], str(tmp_path / "saved"))
        eventually(lambda: saved.status["status"]["id"], lambda status: status == "COMPLETED")
        asked.jobs.stop(names["job_id"], str(tmp_path / "stopped"))
        eventually(lambda: job.client.status() is JobStatus.FINISHED)
        job.client.result(timeout=30)
    finally:
        job.client.close()
