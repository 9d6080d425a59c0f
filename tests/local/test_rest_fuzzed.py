"""The REST server of a running job gets requests that no client would send. `--requests 10000` sends more of them."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.local.test_rest import RunningJob, end, start
from tests.support.listening import addresses_of_this_process
from tests.support.rest_fuzzing import Fuzzer, send
from tests.support.waiting import eventually

TOKEN = "t0ken-of-this-test"


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.AbstractEventLoop]:
    """The event loops that are made from here on."""
    found: list[asyncio.AbstractEventLoop] = []
    new = asyncio.new_event_loop
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: found.append(new()) or found[-1])
    return found


def test_wrong_requests_break_nothing_change_nothing_and_leave_nothing(
    tmp_path: Path,
    loops: list[asyncio.AbstractEventLoop],
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    count, seed = request.config.getoption("--requests"), request.config.getoption("--seed") or 1
    job = start(tmp_path, token=TOKEN)
    try:
        eventually(lambda: job.http.get(f"{job.path}/checkpoints").value["counts"]["completed"])
        before, left_before, bytes_before = state_of(job), left_over(loops), 0
        port, statuses = int(job.http.url.rpartition(":")[2]), Counter[int | None]()
        for number, fuzzed in enumerate(Fuzzer(seed, ids_of(job), TOKEN).requests(count)):
            status = send(port, fuzzed)
            assert status is None or status < 500, f"seed {seed}, request {number}: {status} to {fuzzed.data[:2_000]!r}"
            statuses[status] += 1
            if number == count // 4:  # what is loaded once is loaded by then
                bytes_before = resident_bytes()
        assert {200, 400, 401, 403, 404} <= set(statuses), "the requests reach more than the parser"
        assert state_of(job) == before
        kept = {kind: most + 2 for kind, most in left_before.items()}
        eventually(lambda: left_over(loops), lambda left: all(left[kind] <= most for kind, most in kept.items()))
        assert resident_bytes() - bytes_before < 40 << 20
    finally:
        end(job)
    wrong = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert wrong == [], "what clients do wrong is no error of the server"


def ids_of(job: RunningJob) -> dict[str, str]:
    """Of what is there, by the names of parameters in paths."""
    manager = job.http.get("/taskmanagers").value["taskmanagers"][0]["id"]
    own = {"jobid": job.client.job_id, "applicationid": job.client.job_id, "vertexid": job.vertices()[0]}
    return {**own, "subtaskindex": "0", "attempt": "0", "checkpointid": "1", "taskmanagerid": manager}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state_of(job: RunningJob) -> tuple[object, ...]:
    """What a request could have changed."""
    details = job.http.get(job.path).value
    counts = job.http.get(f"{job.path}/checkpoints").value["counts"]
    subtasks = [job.http.get(f"{job.path}/vertices/{vertex}").value["subtasks"] for vertex in job.vertices()]
    attempts = [each["attempt"] for of_vertex in subtasks for each in of_vertex]
    return details["state"], counts["restored"], counts["failed"], counts["total"] > 0, attempts


def left_over(loops: list[asyncio.AbstractEventLoop]) -> dict[str, int]:
    """What a server could have kept of its requests."""
    tasks = [task for loop in loops if not loop.is_closed() for task in asyncio.all_tasks(loop)]
    pools = ("rest-request", "rest-masters")  # these grow to a size that does not depend on the requests
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith(pools)]
    return {"tasks": len(tasks), "threads": len(threads), "files": len(os.listdir("/proc/self/fd"))}


def test_nothing_listens_that_other_machines_reach(tmp_path: Path) -> None:
    job = start(tmp_path)
    try:
        assert addresses_of_this_process() == {f"127.0.0.1:{job.http.url.rpartition(':')[2]}"}
    finally:
        end(job)
