"""The REST interface of what runs on Ray: beside a session's Dispatcher, and attached from outside."""

from __future__ import annotations

import io
import json
import logging
import re
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.client.rest import attach
from actors.client.session import list_clusters, start_session, stop_session
from actors.hosts.ray.jobs.submission import RayJobHost
from flinkray import Configuration, DataGenSource, DiscardSink, SequenceField, WatermarkStrategy
from flinkray.errors import FlinkrayError
from tests.support.jobs import environment
from tests.support.listening import addresses_of_port
from tests.support.rest import RestClient, token_here
from tests.support.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


seen: set[int] = set()


def logged(value: Any) -> Any:
    """Logs once in each process."""
    if not seen:
        logging.getLogger("of the program").warning("seen")
        seen.add(0)
    return value


def lines_of_program(server: RestClient, path: str) -> list[dict[str, Any]]:
    lines = server.get(f"{path}/logs").text.splitlines()
    return [json.loads(line) for line in lines if '"logger": "of the program"' in line]


@pytest.mark.usefixtures("ray_cluster")
def test_a_session_serves_its_jobs_as_a_server_from_outside_does_and_ends_its_own() -> None:
    url = start_session("served", Configuration({"rest.port": 0, "web.refresh-interval": "1 ms"}))
    outside = None
    # Versions of Ray differ in whether a cluster wants a token that nobody has asked for.
    token = token_here()
    session = RestClient(url, token)
    try:
        assert addresses_of_port(int(url.rpartition(":")[2])) == {"127.0.0.1"}
        assert RestClient(url, "").get("/config").status == (401 if token else 200)
        options = {
            "flinkray.cluster-id": "served",
            "execution.checkpointing.interval": "200 ms",
            "flinkray.logging.format": "json",
        }
        env = environment(options, target="ray-session")
        source = DataGenSource({"n": SequenceField()}, rows_per_second=100)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        numbers.map(logged).name("logged").sink_to(DiscardSink())
        client = env.execute_async("served")
        path = f"/jobs/{client.job_id}"
        eventually(lambda: session.get(f"{path}/checkpoints").value["counts"]["completed"], deadline_s=60)

        outside = attach(Configuration({"rest.port": 0, "web.refresh-interval": "1 ms"}), None)
        attached = RestClient(outside.url, token)
        for server in (session, attached):
            assert server.get(path).value["state"] == "RUNNING"
            (listed,) = server.get("/jobs/overview").value["jobs"]
            assert (listed["jid"], listed["tasks"]["running"]) == (client.job_id, 2)
            managers = server.get("/taskmanagers").value["taskmanagers"]
            assert sum(manager["assignedTasks"] for manager in managers) == 2
            details = server.get(f"/taskmanagers/{managers[0]['id']}").value
            assert details["metrics"]["heapUsed"] > 0
            # A TaskExecutor and its slots are processes of their own, each with a log.
            threads = server.get(f"/taskmanagers/{managers[0]['id']}/thread-dump").value["threadInfos"]
            assert len({thread["threadName"].partition(":")[0] for thread in threads}) >= 2
            logs = server.get(f"/taskmanagers/{managers[0]['id']}/logs").value["logs"]
            assert {log["name"].rpartition(".")[2] for log in logs} == {"out", "err"}
            assert server.get(f"/taskmanagers/{managers[0]['id']}/log").status == 200
            lines = eventually(partial(lines_of_program, server, path), lambda found: len(found) == 2)
            assert {(line["job_name"], line["subtask"], line["attempt"]) for line in lines} == {
                ("served", 0, 0),
                ("served", 1, 0),
            }
        assert session.write("PATCH", path).status == 202
        eventually(lambda: attached.get(f"{path}/status").value["status"], lambda s: s == "CANCELED", deadline_s=60)
    finally:
        if outside is not None:
            outside.close()
        stop_session("served")
    eventually(list_clusters, lambda names: "served" not in names)
    eventually(lambda: is_down(session))


def is_down(server: RestClient) -> bool:
    try:
        server.get("/config")
    except OSError:
        return True
    return False


PROGRAM = """
import sys
from pathlib import Path
from helpers import doubled
from flinkray import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
print("a program speaks")
numbers = env.from_sequence(1, 10).map(doubled)
path = sys.argv[1]
numbers.map(lambda value: Path(path).open("a").write(f"{value}\\n") and value).print()
env.execute(sys.argv[2])
"""


def form(name: str, data: bytes) -> tuple[bytes, dict[str, str]]:
    head = f'--part\r\nContent-Disposition: form-data; name="jarfile"; filename="{name}"\r\n\r\n'
    return head.encode() + data + b"\r\n--part--\r\n", {"Content-Type": "multipart/form-data; boundary=part"}


@pytest.mark.usefixtures("ray_cluster")
def test_a_program_is_uploaded_to_a_session_and_runs_there(tmp_path: Path) -> None:
    options = {"rest.port": 0, "web.refresh-interval": "1 ms", "web.submit.enable": True}
    http = RestClient(start_session("takes", Configuration(options)), timeout_s=120)
    results = tmp_path / "results"
    try:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("main.py", PROGRAM)
            archive.writestr("helpers.py", "def doubled(value):\n    return value * 2\n")
        for name, data in (("doubles.zip", packed.getvalue()), ("broken.py", b"raise ValueError('as it is')")):
            assert http.send("POST", "/jars/upload", *form(name, data)).status == 200
        programs = {each["name"]: each for each in http.get("/jars").value["files"]}
        assert [each["name"] for each in programs["doubles.zip"]["entry"]] == ["helpers", "main"]
        body = {"entryClass": "main", "programArgsList": [str(results), "in two; words"], "parallelism": 1}

        path = f"/jars/{programs['doubles.zip']['id']}"
        plan = http.write("POST", f"{path}/plan", body)
        assert plan.value["plan"]["name"] == "in two; words"
        assert not results.exists()
        ran = http.write("POST", f"{path}/run", body)
        assert ran.status == 200, ran.text
        job = f"/jobs/{ran.value['jobid']}"
        eventually(
            lambda: http.get(f"{job}/status").value, lambda found: found == {"status": "FINISHED"}, deadline_s=60
        )
        assert http.get(job).value["name"] == "in two; words"
        assert sorted(map(int, results.read_text().split())) == list(range(2, 21, 2))

        failed = http.write("POST", f"/jars/{programs['broken.py']['id']}/run")
        assert (failed.status, "ValueError: as it is" in failed.text) == (400, True)
        assert http.write("DELETE", path).status == 200
        assert [each["name"] for each in http.get("/jars").value["files"]] == ["broken.py"]
    finally:
        stop_session("takes")


@pytest.mark.usefixtures("ray_cluster")
def test_a_program_of_which_only_the_plan_was_asked_for_is_stopped_with_its_process(tmp_path: Path) -> None:
    endless = "import os, time\nprint('process', os.getpid(), flush=True)\nwhile True:\n    time.sleep(1)\n"
    (tmp_path / "endless.py").write_text(endless)
    host = RayJobHost({})
    command = host.start(["render", "--json", "--", "endless.py"], tmp_path)
    begun = eventually(lambda: re.search(r"process (\d+)", host.state(command).output), deadline_s=60)
    assert not host.state(command).is_over
    host.stop(command)
    eventually(lambda: host.state(command).is_over, deadline_s=60)
    eventually(lambda: not Path(f"/proc/{begun[1]}").exists())


def test_a_program_waits_for_the_part_of_ray_that_starts_it(tmp_path: Path) -> None:
    answers: list[Any] = [RuntimeError("status code 500: No available agent to submit job"), "raysubmit_1"]

    def submit_job(**_: Any) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    host = RayJobHost({})
    host._client = SimpleNamespace(submit_job=submit_job)  # type: ignore[assignment]
    assert host.start(["render"], tmp_path) == "raysubmit_1"
    answers += [RuntimeError("status code 404"), "raysubmit_2"]
    with pytest.raises(FlinkrayError, match="status code 404"):
        host.start(["render"], tmp_path)


def test_an_endpoint_closes_its_server_before_it_kills_itself() -> None:
    from actors.hosts.ray.rest import RestEndpoint

    done: list[str] = []
    endpoint = RestEndpoint.__new__(RestEndpoint)
    endpoint.context = SimpleNamespace(address="c/rest", kill=lambda _: done.append("killed"))
    endpoint._server = SimpleNamespace(close=lambda: done.append("closed"))
    endpoint._on_looked(False, None)
    endpoint._on_looked(True, None)
    assert done == ["closed", "killed"]
