"""The REST interface of a job that runs in this process, asked over HTTP."""

from __future__ import annotations

import json
import operator
import urllib.error
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from flinkray import (
    DataGenSource,
    JobCanceledError,
    JobClient,
    MapFunction,
    RuntimeContext,
    SequenceField,
    WatermarkStrategy,
)
from flinkray.rest.routes import ROUTES, TEXT, Route
from tests.support.jobs import environment
from tests.support.json_shapes import differences, shape_of
from tests.support.rest import RestClient
from tests.support.waiting import eventually

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "rest" / "flink-2.3.0.json").read_text())
"""Route -> the shape of what a Flink 2.3.0 cluster with a running job has answered."""


class FailsWhenAsked(MapFunction):
    """Fails when there is a file, which it removes; counts the rows."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counter = runtime_context.add_accumulator("rows")
        self._seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value: Any) -> Any:
        if self._marker.exists():
            self._marker.unlink(missing_ok=True)
            raise ValueError("as asked")
        self._counter.add(1)
        self._seen.inc()
        return value


class RunningJob:
    """A job, and the client of its REST server."""

    def __init__(self, client: JobClient, url: str, token: str = "") -> None:
        self.client = client
        self.http = RestClient(url, token)
        self.path = f"/jobs/{client.job_id}"

    def vertices(self) -> list[str]:
        return [vertex["id"] for vertex in self.http.get(self.path).value["vertices"]]


def start(directory: Path, *, token: str = "", **options: Any) -> RunningJob:
    """A job of two vertices that runs until somebody ends it.

    Args:
        token: what its server asks for; empty: for nothing.
    """
    settings = {
        "rest.port": 0,
        "web.refresh-interval": "1 ms",
        "metrics.fetcher.update-interval": "120 ms",
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 ms",
        **options,
    }
    env = environment(settings)
    source = DataGenSource({"n": SequenceField(0, 10**9)}, rows_per_second=500)
    numbers = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    failing = numbers.map(FailsWhenAsked(directory / "fail"))
    failing.key_by(lambda row: row[0] % 7).reduce(lambda one, _: one).filter(lambda _: False).print()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token" if token else "")  # Ray sets it where it was started in this process
        patch.setenv("RAY_AUTH_TOKEN", token)
        client = env.execute_async("rest")
    return RunningJob(client, client.web_url, token)


def end(job: RunningJob) -> None:
    job.client.cancel()
    with pytest.raises(JobCanceledError):
        job.client.result(timeout=30)
    job.client.close()


def _bounds(vertex: str, lower: int, upper: int) -> bytes:
    return json.dumps({vertex: {"parallelism": {"lowerBound": lower, "upperBound": upper}}}).encode()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningJob]:
    """A job that has failed once, completed checkpoints and a savepoint, and reported rates."""
    directory = tmp_path_factory.mktemp("rest")
    running = start(directory)
    try:
        http, path = running.http, running.path

        def is_ready() -> bool:
            counts = http.get(f"{path}/checkpoints").value["counts"]
            history = [http.get(f"{path}/vertices/{each}/history").value["subtasks"] for each in running.vertices()]
            return counts["completed"] > 0 and counts["restored"] > 0 and all(map(all, history)) and bool(history)

        eventually(lambda: http.get(f"{path}/checkpoints").value["counts"]["completed"])
        (directory / "fail").touch()
        eventually(is_ready)
        running.client.trigger_savepoint()
        yield running
    finally:
        end(running)


MORE_THAN_RECORDED = (
    # The recorded job had set no option of its own, and had not failed in a task.
    ".execution-config.user-config.",
    ".exceptionHistory.entries[].endpoint",
    ".exceptionHistory.entries[].failureLabels.type",
    ".exceptionHistory.entries[].taskManagerId",
    ".exceptionHistory.entries[].taskName",
    # Of a checkpoint that was under way when the job failed.
    ".history[].failure_message",
    ".history[].failure_timestamp",
)
"""Keys that only our answers have, and why."""


def concrete(job: RunningJob, path: str, vertex: int = 0) -> str:
    checkpoint = job.http.get(f"{job.path}/checkpoints").value["latest"]["completed"]["id"]
    manager = job.http.get("/taskmanagers").value["taskmanagers"][0]["id"] if ":taskmanagerid" in path else ""
    replacements = {
        ":jobid": job.client.job_id,
        ":applicationid": job.client.job_id,
        ":vertexid": job.vertices()[vertex],
        ":subtaskindex": "0",
        ":attempt": str(job.http.get(f"{job.path}/vertices/{job.vertices()[vertex]}/subtasks/0").value["attempt"]),
        ":checkpointid": str(checkpoint),
        ":taskmanagerid": manager,
    }
    for name, value in replacements.items():
        path = path.replace(name, value)
    return path


@pytest.mark.parametrize("route", RECORDED)
def test_answers_have_the_keys_and_kinds_of_flinks(job: RunningJob, route: str) -> None:
    path, _, asks = route.removeprefix("GET ").partition("?")
    path = concrete(job, path)
    if asks:
        names = [each["id"] for each in job.http.get(path).value]
        path += "?get=" + ",".join(names)
    answer = job.http.get(path)
    assert answer.status == 200, answer.text
    found = differences(shape_of(answer.value), RECORDED[route])
    assert [each for each in found if not each.startswith(tuple(f"+{key}" for key in MORE_THAN_RECORDED))] == []


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if not route.is_write and ":triggerid" not in route.path], ids=lambda r: r.path
)
def test_all_that_can_be_read_of_a_running_job_is_answered(job: RunningJob, route: Route) -> None:
    answer = job.http.get(concrete(job, route.path.replace(":filename", "worker.out")))
    if route.answer is TEXT:  # what this process prints goes to a file only where tests are started so
        assert answer.status in (200, 404)
    else:
        assert answer.status == 200, answer.text
        assert msgspec.convert(answer.value, route.answer) is not None
    if answer.status == 404:
        assert answer.value["errors"]


def test_a_job_shows_how_it_is(job: RunningJob) -> None:
    details = job.http.get(job.path).value
    assert (details["state"], details["name"], details["isStoppable"]) == ("RUNNING", "rest", True)
    source, sink = details["vertices"]
    assert source["tasks"]["RUNNING"] == source["parallelism"] == 2
    assert [node["id"] for node in details["plan"]["nodes"]] == [source["id"], sink["id"]]
    (reads,) = details["plan"]["nodes"][1]["inputs"]
    assert (reads["id"], reads["ship_strategy"], reads["exchange"]) == (source["id"], "HASH", "pipelined_bounded")
    (listed,) = job.http.get("/jobs/overview").value["jobs"]
    assert listed["tasks"]["running"] == listed["tasks"]["total"] == 4


def test_a_failure_shows_where_it_was_and_whose_matter_it_is(job: RunningJob) -> None:
    (entry,) = job.http.get(f"{job.path}/exceptions").value["exceptionHistory"]["entries"]
    assert "as asked" in entry["stacktrace"]
    assert entry["failureLabels"] == {"type": "user"}
    assert entry["taskName"].startswith("Source: numbers -> Map (")
    assert entry["taskManagerId"] in [each["id"] for each in job.http.get("/taskmanagers").value["taskmanagers"]]
    system = job.http.get(f"{job.path}/exceptions?failureLabelFilter=type:system").value["exceptionHistory"]
    assert system == {"entries": [], "truncated": False}


def test_attempts_that_are_over_can_be_looked_at(job: RunningJob) -> None:
    vertex = f"{job.path}/vertices/{job.vertices()[0]}/subtasks/0"
    assert job.http.get(vertex).value["attempt"] == 1
    former = job.http.get(f"{vertex}/attempts/0").value
    assert former["status"] in ("CANCELED", "FAILED")
    assert former["status-duration"]["RUNNING"] > 0
    assert job.http.get(f"{vertex}/attempts/2").status == 404


def test_rates_are_those_of_the_last_interval(job: RunningJob) -> None:
    path = f"{job.path}/vertices/{job.vertices()[0]}"
    (rate,) = eventually(
        lambda: job.http.get(f"{path}/subtasks/metrics?get=numRecordsInPerSecond&agg=sum").value,
        lambda found: 250 < found[0]["sum"] < 1_000,
    )
    assert set(rate) == {"id", "sum"}
    pressure = job.http.get(f"{path}/backpressure").value
    assert (pressure["status"], pressure["backpressureLevel"]) == ("ok", "ok")
    assert all(0 <= each["idleRatio"] <= 1 and each["busyRatio"] >= 0 for each in pressure["subtasks"])


def test_metrics_of_functions_and_sources_are_beside_those_of_tasks(job: RunningJob) -> None:
    path = f"{job.path}/vertices/{job.vertices()[0]}/subtasks/metrics"
    eventually(lambda: job.http.get(f"{path}?get=Map.seen&agg=min").value[0]["min"] > 0)
    assert "Source__numbers.sourceIdleTime" in {each["id"] for each in job.http.get(path).value}


def test_a_checkpoint_shows_what_each_subtask_did(job: RunningJob) -> None:
    number = job.http.get(f"{job.path}/checkpoints").value["latest"]["completed"]["id"]
    details = job.http.get(f"{job.path}/checkpoints/details/{number}").value
    assert (details["className"], set(details["tasks"])) == ("completed", set(job.vertices()))
    for vertex, summed in details["tasks"].items():
        of_vertex = job.http.get(f"{job.path}/checkpoints/details/{number}/subtasks/{vertex}").value
        assert [each["index"] for each in of_vertex["subtasks"]] == [0, 1]
        assert sum(each["state_size"] for each in of_vertex["subtasks"]) == summed["state_size"]
    assert sum(each["state_size"] for each in details["tasks"].values()) == details["state_size"] > 0


def test_a_savepoint_is_taken_and_deleted(job: RunningJob, tmp_path: Path) -> None:
    body = {"target-directory": str(tmp_path), "triggerId": "ab" * 16}
    for _ in range(2):  # the second time it is the same savepoint
        asked = job.http.write("POST", f"{job.path}/savepoints", body)
        assert (asked.status, asked.value) == (202, {"request-id": "ab" * 16})
    saved = eventually(
        lambda: job.http.get(f"{job.path}/savepoints/{'ab' * 16}").value, lambda v: v["status"]["id"] == "COMPLETED"
    )
    location = saved["operation"]["location"]
    assert Path(location.removeprefix("file://")).parent == tmp_path
    assert len(list(tmp_path.iterdir())) == 1
    disposal = job.http.write("POST", "/savepoint-disposal", {"savepoint-path": location}).value["request-id"]
    done = eventually(
        lambda: job.http.get(f"/savepoint-disposal/{disposal}").value, lambda v: v["status"]["id"] == "COMPLETED"
    )
    assert done["operation"] == {}
    assert list(tmp_path.iterdir()) == []


def test_a_job_is_rescaled_as_flinks_dashboard_asks_for_it(tmp_path: Path) -> None:
    """It names all vertices, with the bounds that it was told but for the upper one of the vertex that changes."""
    job = start(tmp_path)
    try:
        path = f"{job.path}/resource-requirements"
        eventually(lambda: job.http.get(f"{job.path}/checkpoints").value["counts"]["completed"])
        source, *_ = job.vertices()
        bounds = job.http.get(path).value
        assert bounds[source]["parallelism"] == {"lowerBound": 1, "upperBound": 2}
        for wanted in (1, 3):
            bounds[source]["parallelism"]["upperBound"] = wanted
            asked = eventually(  # the one before may not be recorded yet
                lambda: job.http.write("PUT", path, bounds), lambda answer: answer.status == 200
            )
            assert asked.value == {}
            eventually(lambda: job.http.get(path).value, partial(operator.eq, bounds))
        shown = eventually(
            lambda: job.http.get(f"{job.path}/vertices/{source}").value,
            lambda value: {each["status"] for each in value["subtasks"]} == {"RUNNING"},
        )
        assert (shown["parallelism"], len(shown["subtasks"])) == (3, 3)
        asked = eventually(  # the one before may not be recorded yet
            lambda: job.http.write("PATCH", f"{job.path}/rescaling?parallelism=1"), lambda answer: answer.status == 200
        )
        path = f"{job.path}/rescaling/{asked.value['request-id']}"
        done = eventually(lambda: job.http.get(path).value, lambda value: value["status"]["id"] == "COMPLETED")
        assert done["operation"] == {}
        assert len(job.http.get(f"{job.path}/vertices/{source}").value["subtasks"]) == 1
    finally:
        end(job)


def test_a_savepoint_that_is_not_there_cannot_be_deleted(job: RunningJob, tmp_path: Path) -> None:
    asked = job.http.write("POST", "/savepoint-disposal", {"savepoint-path": str(tmp_path / "none")})
    done = eventually(
        lambda: job.http.get(f"/savepoint-disposal/{asked.value['request-id']}").value,
        lambda v: v["status"]["id"] == "COMPLETED",
    )
    assert done["operation"]["failure-cause"]["class"] == "DamagedCheckpointError"


def test_a_checkpoint_is_taken_when_it_is_asked_for(job: RunningJob) -> None:
    asked = job.http.write("POST", f"{job.path}/checkpoints", {"triggerId": "cd" * 16})
    assert asked.value == {"request-id": "cd" * 16}
    done = eventually(
        lambda: job.http.get(f"{job.path}/checkpoints/{'cd' * 16}").value, lambda v: v["status"]["id"] == "COMPLETED"
    )
    assert done["operation"]["checkpointId"] > 0


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("GET", "/jobs/not-an-id", None, {}, 400),
        ("GET", f"/jobs/{'0' * 32}", None, {}, 404),
        ("GET", "{job}/vertices/" + "0" * 32, None, {}, 404),
        ("GET", "{job}/vertices/{vertex}/subtasks/2", None, {}, 404),
        ("GET", "{job}/vertices/{vertex}/subtasks/-1", None, {}, 400),
        ("GET", "{job}/vertices/{vertex}/subtasks/metrics?agg=median", None, {}, 400),
        ("GET", "{job}/vertices/{vertex}/subtasks/metrics?subtasks=x", None, {}, 400),
        ("GET", "{job}/exceptions?maxExceptions=-1", None, {}, 400),
        ("GET", "{job}/exceptions?failureLabelFilter=user", None, {}, 400),
        ("GET", "{job}/checkpoints/details/999999", None, {}, 404),
        ("GET", "{job}/checkpoints/details/\u0661", None, {}, 400),
        ("GET", "{job}/savepoints/" + "0" * 32, None, {}, 404),
        ("GET", "{job}/checkpoints/" + "0" * 32, None, {}, 404),
        ("GET", "/savepoint-disposal/" + "0" * 32, None, {}, 404),
        ("GET", "/taskmanagers/none", None, {}, 404),
        ("GET", "/jobmanager/logs/..%2f..%2fetc%2fpasswd", None, {}, 404),
        ("GET", "/nothing", None, {}, 404),
        ("DELETE", "/jobs/overview", None, JSON, 405),
        ("GET", "{job}/yarn-cancel", None, {}, 403),
        ("PATCH", "{job}?mode=stop", None, {}, 400),
        ("PATCH", "{job}", None, {"Origin": "http://elsewhere.example"}, 403),
        ("PATCH", "{job}", None, {"Sec-Fetch-Site": "cross-site"}, 403),
        ("POST", "{job}/stop", b"{}", {"Content-Type": "text/plain"}, 415),
        ("POST", "{job}/stop", b"{", JSON, 400),
        ("POST", "{job}/stop", b'{"drain": "yes"}', JSON, 400),
        ("POST", "{job}/stop", b'{"triggerId": "../x"}', JSON, 400),
        ("POST", "{job}/stop", b'{"targetDirectory": "' + b"x" * 100_000 + b'"}', JSON, 413),
        ("GET", "{job}/rescaling/" + "0" * 32, None, {}, 404),
        ("PATCH", "{job}/rescaling", None, JSON, 400),
        ("PATCH", "{job}/rescaling?parallelism=0", None, JSON, 400),
        ("PATCH", "{job}/rescaling?parallelism=129", None, JSON, 409),
        ("PUT", "{job}/resource-requirements", b"{}", JSON, 400),
        ("PUT", "{job}/resource-requirements", b'{"{vertex}": 3}', JSON, 400),
        ("PUT", "{job}/resource-requirements", _bounds("none", 1, 2), JSON, 409),
        ("PUT", "{job}/resource-requirements", _bounds("{vertex}", 3, 2), JSON, 400),
        ("PUT", "{job}/resource-requirements", _bounds("{vertex}", 1, 129), JSON, 409),
        ("POST", "{job}/savepoints", b'{"formatType": "NATIVE"}', JSON, 400),
        ("POST", "{job}/checkpoints", b'{"checkpointType": "FULL"}', JSON, 400),
        ("POST", "/savepoint-disposal", b"{}", JSON, 400),
    ],
)
def test_wrong_input_is_told_and_harms_nothing(
    job: RunningJob, method: str, path: str, body: bytes | None, headers: dict[str, str], status: int
) -> None:
    path = path.replace("{job}", job.path).replace("{vertex}", job.vertices()[0])
    body = None if body is None else body.replace(b"{vertex}", job.vertices()[0].encode())
    answer = job.http.send(method, quote(path, safe="/?=:%"), body, headers)
    assert (answer.status, len(answer.value["errors"])) == (status, 1), answer.text
    assert job.http.get(f"{job.path}/status").value == {"status": "RUNNING"}


def test_only_who_names_this_machine_is_answered(job: RunningJob) -> None:
    assert job.http.get("/config", Host="localhost:1").status == 200
    answer = job.http.get("/config", Host="elsewhere.example")
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in job.http.get("/config").headers


# -- the end of jobs -------------------------------------------------------------------------------------------------


def test_a_job_is_stopped_with_a_savepoint_and_what_it_was_stays_to_be_seen(tmp_path: Path) -> None:
    job = start(tmp_path)
    try:
        eventually(lambda: job.http.get(f"{job.path}/checkpoints").value["counts"]["completed"])
        asked = job.http.write("POST", f"{job.path}/stop", {"targetDirectory": str(tmp_path / "saved"), "drain": False})
        trigger = asked.value["request-id"]
        saved = eventually(
            lambda: job.http.get(f"{job.path}/savepoints/{trigger}").value,
            lambda v: v["status"]["id"] == "COMPLETED",
        )
        assert "saved" in saved["operation"]["location"]
        eventually(lambda: job.http.get(f"{job.path}/status").value, lambda v: v == {"status": "FINISHED"})
        result = job.http.get(f"{job.path}/execution-result").value
        assert result["job-execution-result"]["application-status"] == "SUCCEEDED"
        details = job.http.get(job.path).value
        assert details["end-time"] >= details["start-time"] > 0
        assert {vertex["status"] for vertex in details["vertices"]} == {"FINISHED"}
        number = job.http.get(f"{job.path}/checkpoints").value["latest"]["savepoint"]["id"]
        of_vertex = job.http.get(f"{job.path}/checkpoints/details/{number}/subtasks/{job.vertices()[0]}")
        assert len(of_vertex.value["subtasks"]) == 2
        for path in ("savepoints", "stop", "checkpoints"):
            assert job.http.write("POST", f"{job.path}/{path}", {}).status == 409
        assert job.http.write("PATCH", job.path).status == 409
        job.client.result(timeout=30)
    finally:
        job.client.close()


def test_a_job_says_where_it_can_be_watched_and_its_server_ends_with_its_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = start(tmp_path)
    try:
        assert f"job 'rest' can be watched at {job.client.web_url}\n" in capsys.readouterr().err
        eventually(lambda: job.http.get(f"{job.path}/status").value, lambda v: v == {"status": "RUNNING"})
        cancel = job.http.get(f"{job.path}/yarn-cancel", **{"Sec-Fetch-Site": "same-origin"})
        assert (cancel.status, cancel.value) == (202, {})
        eventually(lambda: job.http.get(f"{job.path}/status").value, lambda v: v == {"status": "CANCELED"})
    finally:
        end(job)
    with pytest.raises(urllib.error.URLError, match="refused"):
        job.http.get("/config")


def test_a_job_that_does_not_ask_for_it_has_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    env = environment()
    env.from_collection([1]).print()
    client = env.execute_async("quiet")
    try:
        assert client.web_url == ""
        assert "watched" not in capsys.readouterr().err
    finally:
        client.result(timeout=30)
        client.close()
