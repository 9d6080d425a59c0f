"""The `flinkray` command, as far as it needs no cluster."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.storage.directories import write_metadata
from actors.client import session
from actors.client.cli import main
from actors.client.console import print_lines, speaks_plainly
from actors.client.rest import Rest
from actors.client.tables import detail_lines
from actors.protocol.client_requests import JobOverview
from actors.protocol.control_messages import JobDetails, SubtaskDetails, VertexDetails
from actors.protocol.dispatcher_errors import EndpointSilentError
from actors.protocol.failure_records import FailureRecord, TaskFailure
from actors.protocol.job_reports import CheckpointReport, JobSummary
from actors.protocol.ports import Address, EndpointGone
from actors.protocol.resources import ClusterOverview, ResourceProfile, SlotWait
from actors.protocol.task_messages import TaskMetrics
from flinkray.config.configuration import Configuration
from flinkray.config.options import ATTACHED
from flinkray.errors import CheckpointError, ConfigurationError, ErrorInfo
from flinkray.execution import JobStatus, Pipeline
from flinkray.plugins import EXECUTORS, replace_plugins
from flinkray.state.checkpoint_statistics import (
    CheckpointCounts,
    CheckpointKind,
    CheckpointOverview,
    CheckpointStatistics,
    CheckpointStatus,
    RestoredCheckpoint,
    Spread,
)
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.types.records import MAX_TIMESTAMP, JobId

PROGRAM = """
import sys
from flinkray import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_sequence(1, 10).map(lambda value: value + 1).print()
print("arguments", sys.argv[1:], "parallelism", env.get_parallelism())
env.execute("numbers")
print("never rendered")
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "numbers.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


def test_render_prints_the_graph_and_runs_nothing(program: str) -> None:
    result = CliRunner().invoke(main, ["render", program])
    assert result.exit_code == 0, result.output
    assert "JobGraph 'numbers'" in result.output
    assert "never rendered" not in result.output


@pytest.mark.parametrize("graph", ["stream", "job", "execution"])
def test_render_draws_each_graph(program: str, graph: str) -> None:
    result = CliRunner().invoke(main, ["render", "--graph", graph, "--format", "mermaid", program])
    assert result.exit_code == 0, result.output
    assert "flowchart" in result.output


def test_settings_reach_the_program_and_nothing_is_left_of_them(program: str) -> None:
    before = dict(os.environ), list(sys.argv), list(sys.path)
    result = CliRunner().invoke(main, ["render", "-D", "parallelism.default=3", program, "first", "second"])
    assert "arguments ['first', 'second'] parallelism 3" in result.output
    assert (dict(os.environ), sys.argv, sys.path) == before


def test_run_leaves_options_after_the_program_to_the_program(tmp_path: Path) -> None:
    path = tmp_path / "show.py"
    path.write_text("import sys; print(__name__, sys.argv[1:])", encoding="utf-8")
    result = CliRunner().invoke(main, ["run", str(path), "--rows", "5", "-D", "mine"])
    assert "__main__ ['--rows', '5', '-D', 'mine']" in result.output


WITH_MODULE = """
import sys
import brought_module
from flinkray import StreamExecutionEnvironment

def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    print(__name__, sys.argv[1:], *(f"{key}={value}" for key, value in env.configuration))

if __name__ == "__main__":
    main()
"""


def test_a_program_is_a_file_a_module_or_a_function_and_finds_what_it_brings_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given_program.py").write_text(WITH_MODULE)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "brought_module.py").write_text("")
    monkeypatch.chdir(tmp_path)
    options = ["-p", "3", "-pyfs", "lib", "-pyarch", "a.zip#a", "-pyreq", "r.txt", "-D", "execution.target=local"]
    for program, name in (
        (["given_program.py"], "__main__"),
        (["-py", "given_program.py"], "__main__"),
        (["-m", "given_program"], "__main__"),
        (["-pym", "given_program:main"], "given_program"),
    ):
        result = CliRunner().invoke(main, ["run", *options, *program, "--rows", "5"])
        assert result.output.startswith(f"{name} ['--rows', '5'] "), result.output + str(result.exception)
        for setting in ("parallelism.default=3", "python.files=lib", "python.archives=a.zip#a"):
            assert setting in result.output
        assert "python.requirements=r.txt" in result.output
        sys.modules.pop("brought_module", None)
    sys.modules.pop("given_program", None)


def test_what_cannot_be_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty_program.py").write_text("x = 1")
    for arguments, code, words in (
        ([], 2, "name the PROGRAM to run, or --module MODULE"),
        (["gone.py"], 2, "there is no file 'gone.py'"),
        (["-m", "gone_module.part"], 1, "there is no module 'gone_module.part' to run, in "),
        (["-m", "empty_program:start"], 1, "module 'empty_program' has no function 'start' to run"),
        (["-m", "empty_program", "-py", "empty_program.py"], 2, "run either the file"),
        (["-pyfs", "gone", "empty_program.py"], 1, "option python.files: there is no"),
    ):
        result = CliRunner().invoke(main, ["run", *arguments])
        assert (result.exit_code, words in result.output) == (code, True), result.output


def test_run_detached_prints_the_id_of_each_job_and_sets_what_does_not_wait(program: str) -> None:
    submitted: list[Pipeline] = []

    class Submitting:
        needs_preparation = False

        def execute(self, pipeline: Pipeline) -> Any:
            submitted.append(pipeline)
            return SimpleNamespace(job_id="abab", close=lambda: None)

    with replace_plugins(EXECUTORS, Submitting):
        result = CliRunner().invoke(main, ["run", "--detached", program])
    assert result.exit_code == 0, result.output
    assert "job abab is submitted" in result.output.splitlines()
    assert not submitted[0].configuration.get(ATTACHED)
    assert StreamExecutionEnvironment._default_listeners == []


def test_an_unknown_option_is_refused_with_the_nearest_one(program: str) -> None:
    result = CliRunner().invoke(main, ["run", "-D", "paralelism.default=3", program])
    assert result.exit_code == 1
    assert "unknown option 'paralelism.default'; did you mean 'parallelism.default'?" in result.output


def test_a_program_that_executes_nothing_cannot_be_rendered(tmp_path: Path) -> None:
    path = tmp_path / "nothing.py"
    path.write_text("x = 1", encoding="utf-8")
    result = CliRunner().invoke(main, ["render", str(path)])
    assert result.exit_code == 1
    assert "executed nothing" in result.output


def test_list_shows_whole_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobOverview(JobId("0123456789abcdef" * 2), "word count", JobStatus.RUNNING, 0, Address("c/job-master"))
    monkeypatch.setattr(session, "session_jobs", lambda _name: (job,))
    monkeypatch.setattr(session, "slot_waits", lambda _jobs: {})
    result = CliRunner().invoke(main, ["list", "--cluster", "mine"])
    header, line = result.output.splitlines()
    assert header.split() == ["cluster", "job", "id", "status", "started", "name"]
    assert line.startswith(f"mine     {job.job_id}  RUNNING  ")
    assert line.endswith("  word count")


def test_a_name_in_a_list_is_one_line_and_nothing_that_a_terminal_obeys(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["two\nlines", "\x1b[31mred", "ünï 日本", "\udcff"]
    jobs = [JobOverview(JobId(f"{i}" * 32), name, JobStatus.RUNNING, i, Address("c/m")) for i, name in enumerate(names)]
    monkeypatch.setattr(session, "session_jobs", lambda _name: tuple(jobs))
    monkeypatch.setattr(session, "slot_waits", lambda _jobs: {})
    lines = CliRunner().invoke(main, ["list", "--cluster", "mine"]).output.splitlines()[1:]
    assert [line.split("  ")[-1] for line in lines] == ["two\\nlines", "\\x1b[31mred", "ünï 日本", "\\udcff"]


@pytest.fixture
def one_is_silent(monkeypatch: pytest.MonkeyPatch) -> threading.Barrier:
    """Two clusters, of which one does not answer. They are asked at the same time, or neither would be answered."""
    both = threading.Barrier(2, timeout=30)

    def jobs(name: str) -> tuple[JobOverview, ...]:
        both.wait()
        if name == "silent":
            raise EndpointSilentError("the Dispatcher of cluster 'silent' has not answered for 5 s")
        return (JobOverview(JobId("abc1"), "first", JobStatus.RUNNING, 0, Address("good/job-master")),)

    monkeypatch.setattr(session, "list_clusters", lambda: ["good", "silent"])
    monkeypatch.setattr(session, "session_jobs", jobs)
    monkeypatch.setattr(session, "session_overview", lambda _name: ClusterOverview(1, slots=4, free_slots=3))
    monkeypatch.setattr(session, "connect_to_session", lambda _name: None)
    monkeypatch.setattr(session, "slot_waits", lambda _jobs: {})
    monkeypatch.setattr(session, "summaries", lambda _jobs: {})
    return both


@pytest.mark.usefixtures("one_is_silent")
def test_list_shows_the_jobs_of_those_that_answer_and_who_does_not() -> None:
    result = CliRunner().invoke(main, ["list"])
    assert result.exit_code == 1
    assert "abc1" in result.output
    assert "EndpointSilentError: the Dispatcher of cluster 'silent' has not answered for 5 s" in result.output


@pytest.mark.usefixtures("one_is_silent")
def test_session_list_does_not_wait_for_one_session_after_the_other() -> None:
    result = CliRunner().invoke(main, ["session", "list"])
    assert result.exit_code == CliRunner().invoke(main, ["session", "list", "--json"]).exit_code == 1
    assert result.output.splitlines() == [
        "good: 1 running job(s); 1 TaskExecutor(s) with 4 slot(s), 3 of them free, and 0 CPU(s)",
        "silent: the Dispatcher of cluster 'silent' has not answered for 5 s",
    ]


@pytest.mark.usefixtures("one_is_silent")
def test_a_job_is_found_though_another_cluster_is_silent() -> None:
    assert session.job_client("abc").job_id == "abc1"
    with pytest.raises(EndpointSilentError, match="cluster 'silent'"):
        session.job_client("xyz")


def test_doctor_says_what_there_is() -> None:
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    for word in ("python 3.", "ray ", "pandas ", "pyarrow ", "java"):
        assert word in result.output


def test_the_dashboard_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["metrics", "grafana", "--output", str(tmp_path / "new")])
    assert result.exit_code == 0
    assert sorted(result.output.split()) == sorted(map(str, (tmp_path / "new").iterdir()))


# -- JSON


def json_of(*arguments: str) -> Any:
    """What a command prints with --json, which is one document."""
    result = CliRunner().invoke(main, [*arguments, "--json"])
    return json.loads(result.stdout.splitlines()[0])  # older versions of click put errors behind it


@pytest.mark.usefixtures("one_is_silent")
def test_lists_are_json_with_those_that_answer() -> None:
    assert [(job["jid"], job["state"], job["name"]) for job in json_of("list")["jobs"]] == [
        ("abc1", "RUNNING", "first")
    ]
    good, silent = json_of("session", "list")["sessions"]
    assert good == {"name": "good", "jobs-running": 1, "taskmanagers": 1, "slots-total": 4, "slots-available": 3}
    assert silent["errors"][0].startswith("the Dispatcher of cluster 'silent'")


def test_each_command_about_a_job_prints_what_the_rest_interface_answers(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = "s3://KEY:SECRET@bucket/one"
    monkeypatch.setattr(client, "trigger_savepoint", lambda _directory: directory)
    error = ErrorInfo.of(ValueError("bad row"))
    failure = FailureRecord(TaskFailure(1_000, error, "map (1/2)"), "restarts")
    client.shown = JobDetails(client.job_id, "words", JobStatus.RUNNING, ((JobStatus.RUNNING, 5),), failures=(failure,))
    details = json_of("info", "abab")
    assert (details["jid"], details["name"], details["state"]) == (client.job_id, "words", "RUNNING")
    (entry,) = json_of("exceptions", "abab")["exceptionHistory"]["entries"]
    assert (entry["exceptionName"], entry["taskName"], entry["timestamp"]) == ("ValueError", "map (1/2)", 1_000)
    assert json_of("checkpoints", "abab")["counts"]["completed"] == 0
    assert json_of("checkpoint", "abab") == {"checkpointId": 8}
    assert json_of("savepoint", "abab") == {"location": "s3://***@bucket/one"}
    assert json_of("stop", "abab") == {"location": "/savepoints/one"}
    assert json_of("cancel", "abab") == {"status": "RUNNING"}
    assert client.is_cancelled
    assert set(json_of("doctor")) > {"python", "flinkray", "ray", "java"}


def test_a_program_is_rendered_as_the_rest_interface_shows_a_jobs_plan(program: str) -> None:
    result = CliRunner().invoke(main, ["render", "--json", "-D", "parallelism.default=3", "--", program, "--json"])
    said, document = result.stdout.splitlines()
    assert said == "arguments ['--json'] parallelism 3"
    plan = json.loads(document)["plan"]
    assert (plan["name"], plan["type"]) == ("numbers", "STREAMING")
    assert {node["parallelism"] for node in plan["nodes"]} == {3}
    assert "inputs" not in plan["nodes"][0]
    # Flink's dashboard shows the operators of an uploaded program only where a node has this.
    assert all(node["job_vertex_id"] == node["id"] for node in plan["nodes"])
    wrong = CliRunner().invoke(main, ["render", "--json", "--graph", "stream", program])
    assert (wrong.exit_code, "--json prints the job graph" in wrong.output) == (2, True)


def test_files_and_servers_are_json_too(tmp_path: Path) -> None:
    written = json_of("metrics", "grafana", "--output", str(tmp_path))
    assert {name: Path(path).exists() for name, path in written.items()} == {"dashboard": True, "rules": True}
    (tmp_path / "file").touch()
    refused = CliRunner().invoke(main, ["metrics", "grafana", "--json", "--output", str(tmp_path / "file" / "below")])
    assert (refused.exit_code, "ConfigurationError: nothing can be written to --output" in refused.output) == (1, True)
    assert CliRunner().invoke(main, ["sql", "--json"]).exit_code == 2


def test_exceptions_are_shown_with_their_tracebacks(client: Client) -> None:
    client.shown = JobDetails(client.job_id, "words", JobStatus.RUNNING, ())
    assert CliRunner().invoke(main, ["exceptions", "abab"]).output == "nothing has failed\n"
    records = tuple(
        FailureRecord(TaskFailure(time, ErrorInfo.of(ValueError(f"row {time}")), "map (1/2)"), "restarts")
        for time in (1_000, 2_000)
    )
    client.shown = JobDetails(client.job_id, "words", JobStatus.RUNNING, (), failures=records)
    output = CliRunner().invoke(main, ["exceptions", "-n", "1", "abab"]).output
    assert "ValueError in map (1/2)" in output.splitlines()[0]
    assert [text in output for text in ("row 2000", "row 1000")] == [True, False]
    assert output.splitlines()[-1] == "there were more before"


def test_checkpoint_waits_for_it(client: Client) -> None:
    output = CliRunner().invoke(main, ["checkpoint", "abab"]).output
    assert output == f"checkpoint 8 of job {client.job_id} is complete\n"


def test_rescale_prints_what_every_vertex_has_then(client: Client) -> None:
    details = JobDetails(client.job_id, "words", JobStatus.RUNNING, (), vertices=(VERTEX,))
    client.shown = details
    output = CliRunner().invoke(main, ["rescale", "abab", "3"]).output
    assert output == f"job {client.job_id} is rescaled:\n     3  map\n"
    assert CliRunner().invoke(main, ["rescale", "abab", "--vertex", "a=b=4", "--vertex", "map=2"]).exit_code == 0
    asked = [call[1] for call in client.calls if call[0] == "rescale"]
    assert asked == [3, {"a=b": 4, "map": 2}]
    shown = json_of("rescale", "abab", "3")
    assert shown == {"ab": {"parallelism": {"lowerBound": 1, "upperBound": 3}}}


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    "arguments",
    [["abab"], ["abab", "0"], ["abab", "3", "--vertex", "map=2"], ["abab", "--vertex", "map"]],
    ids=" ".join,
)
def test_rescale_wants_one_parallelism_or_some_of_vertices(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["rescale", *arguments]).exit_code == 2


@pytest.mark.usefixtures("client")
def test_logs_are_the_last_lines_of_the_job() -> None:
    for options, first in (([], 0), (["--lines", "2"], 8)):
        expected = [f"line {number}" for number in range(first, 10)]
        assert CliRunner().invoke(main, ["logs", "abab", *options]).output.splitlines() == expected
        assert json_of("logs", "abab", *options) == {"lines": expected}


# -- savepoints

UNPREPARED = """
from flinkray import DataGenSource, SequenceField, StreamExecutionEnvironment, WatermarkStrategy

class Costly(DataGenSource):
    def prepare(self):
        raise RuntimeError("a cluster was started")

env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(Costly({"n": SequenceField()}), WatermarkStrategy.no_watermarks(), "costly").print()
env.execute("costly")
"""


def test_rendering_prepares_no_source(tmp_path: Path) -> None:
    path = tmp_path / "costly.py"
    path.write_text(UNPREPARED, encoding="utf-8")
    result = CliRunner().invoke(main, ["render", str(path)])
    assert result.exit_code == 0, result.output
    assert "Source: costly" in result.output
    started = CliRunner().invoke(main, ["run", "-D", "execution.target=local", str(path)])
    assert "a cluster was started" in started.output + str(started.exception)


SETTINGS = """
import sys
from flinkray import StreamExecutionEnvironment
print(sys.argv[1:], *(f"{k}={v}" for k, v in StreamExecutionEnvironment.get_execution_environment().configuration))
"""


def test_run_names_the_savepoint_to_start_from(tmp_path: Path) -> None:
    path = tmp_path / "settings.py"
    path.write_text(SETTINGS, encoding="utf-8")
    run = ["run", "-s", "/savepoints/one", "--allow-non-restored-state", str(path), "-s", "mine"]
    result = CliRunner().invoke(main, run)
    assert result.output.splitlines()[-1].split(" ", 2)[0:2] == ["['-s',", "'mine']"]
    assert "execution.state-recovery.path=/savepoints/one" in result.output
    assert "execution.state-recovery.ignore-unclaimed-state=True" in result.output
    assert "state-recovery" not in CliRunner().invoke(main, ["run", str(path)]).output


VERTEX = VertexDetails("ab", "map", 3, 128, (), ())


class Client:
    """A job client that keeps what it is asked."""

    job_id = JobId("ab" * 16)

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.overview = CheckpointOverview()
        self.shown: JobDetails | None = None
        self.found = JobStatus.RUNNING
        self.is_cancelled = False

    def trigger_checkpoint(self) -> int:
        return 8

    def rescale(self, parallelism: int | dict[str, int]) -> dict[str, int]:
        self.calls.append(("rescale", parallelism))
        return {"ab": 3}

    def log(self) -> str:
        return "".join(f"line {number}\n" for number in range(10))

    def __call__(self, job: str, cluster: str | None) -> Client:
        self.calls.append((job, cluster))
        return self

    def trigger_savepoint(self, directory: str | None) -> str:
        self.calls.append(("savepoint", directory))
        return "/savepoints/one"

    def stop_with_savepoint(self, directory: str | None, drain: bool) -> str:
        self.calls.append(("stop", directory, drain))
        return "/savepoints/one"

    def status(self) -> JobStatus:
        return self.found

    def cancel(self) -> None:
        self.is_cancelled = True

    def checkpoints(self) -> CheckpointOverview:
        return self.overview

    def checkpoint_report(self) -> CheckpointReport:
        return CheckpointReport(self.overview)

    def details(self) -> JobDetails:
        assert self.shown is not None
        return self.shown


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(session, "job_client", made)
    return made


def test_savepoint_prints_where_it_is(client: Client) -> None:
    assert CliRunner().invoke(main, ["savepoint", "abab", "/there"]).output == "/savepoints/one\n"
    assert CliRunner().invoke(main, ["savepoint", "--cluster", "mine", "abab"]).exit_code == 0
    assert client.calls == [("abab", None), ("savepoint", "/there"), ("abab", "mine"), ("savepoint", None)]


def test_stop_ends_the_job_with_a_savepoint(client: Client) -> None:
    stopped = CliRunner().invoke(main, ["stop", "abab", "--savepoint-path", "/there", "--drain"])
    assert stopped.output == f"job {client.job_id} has finished; its savepoint is\n/savepoints/one\n"
    CliRunner().invoke(main, ["stop", "abab"])
    assert client.calls[1::2] == [("stop", "/there", True), ("stop", None, False)]


def test_no_command_shows_a_secret_of_a_directory(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = "s3://KEY:SECRET@bucket/one"
    monkeypatch.setattr(client, "trigger_savepoint", lambda _directory: directory)
    monkeypatch.setattr(client, "stop_with_savepoint", lambda _directory, _drain: directory)
    failed = (1, CheckpointKind.CHECKPOINT, CheckpointStatus.FAILED)
    entry = CheckpointStatistics(*failed, triggered_ms=1, subtasks=1, directory=directory, failure=f"no {directory}")
    client.overview = CheckpointOverview(history=(entry,))
    for arguments in (["savepoint", "abab"], ["stop", "abab"], ["checkpoints", "abab"]):
        output = CliRunner().invoke(main, arguments).output
        assert "SECRET" not in output
        assert "s3://***@bucket/one" in output


@pytest.mark.parametrize("arguments", [[], ["--dispose", "/x", "job"]])
def test_savepoint_wants_a_job_or_a_savepoint(client: Client, arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["savepoint", *arguments])
    assert (result.exit_code, client.calls) == (2, [])
    assert "--dispose PATH" in result.output


def test_a_savepoint_that_fails_is_one_plain_message(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_directory: str | None) -> str:
        raise CheckpointError("the disk is full")

    monkeypatch.setattr(client, "trigger_savepoint", fail)
    result = CliRunner().invoke(main, ["savepoint", "abab"])
    assert (result.exit_code, result.output) == (1, "CheckpointError: the disk is full\n")


def test_cancel_says_that_the_job_is_asked_to_stop_if_it_is(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang() -> JobDetails:
        raise EndpointSilentError("the JobMaster of job 'first' has not answered for 5 s")

    client.shown = JobDetails(client.job_id, "first", JobStatus.RUNNING, ())
    client.found = JobStatus.FINISHED
    assert CliRunner().invoke(main, ["cancel", "abc"]).output == f"job {client.job_id} is FINISHED already\n"
    assert not client.is_cancelled
    client.found = JobStatus.RUNNING
    assert CliRunner().invoke(main, ["cancel", "abc"]).output == f"job {client.job_id} is asked to stop\n"
    assert client.is_cancelled
    monkeypatch.setattr(client, "details", hang)
    output = CliRunner().invoke(main, ["cancel", "abc"]).output
    assert "stops when its JobMaster answers again, or is replaced: the JobMaster of job 'first' has not" in output


def test_checkpoints_shows_each_with_its_figures(client: Client) -> None:
    assert CliRunner().invoke(main, ["checkpoints", "abab"]).output == (
        "0 triggered, 0 completed, 0 failed, 0 in progress, 0 restored\n"
    )
    done = CheckpointStatistics(
        12,
        CheckpointKind.SAVEPOINT,
        CheckpointStatus.COMPLETED,
        triggered_ms=1_000,
        subtasks=4,
        directory="/savepoints/one",
        acknowledged=4,
        ended_ms=2_234,
        nbytes=3 << 19,
        alignment_ms=Spread(7.4, 9.0),
        sync_ms=Spread(2.0, 3.0),
        async_ms=Spread(30.6, 50.0),
    )
    failed = CheckpointStatistics(
        13,
        CheckpointKind.CHECKPOINT,
        CheckpointStatus.FAILED,
        triggered_ms=5_000,
        subtasks=4,
        acknowledged=1,
        ended_ms=5_500,
        failure="map (1/2):\nno space",
    )
    going = CheckpointStatistics(14, CheckpointKind.CHECKPOINT, CheckpointStatus.IN_PROGRESS, 6_000, 4)
    client.overview = CheckpointOverview(
        CheckpointCounts(3, 1, 1, 1, 1), (going, failed, done), latest_restored=RestoredCheckpoint(9, 0, True, "/old")
    )
    result = CliRunner().invoke(main, ["checkpoints", "abab"])
    counts, restored, _, header, *rows = result.output.splitlines()
    assert counts == "3 triggered, 1 completed, 1 failed, 1 in progress, 1 restored"
    assert restored.endswith("from savepoint 9 of /old")
    assert header.split("  ")[0] == "id"
    cells = [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows]
    assert [row[:3] for row in cells] == [
        ["14", "checkpoint", "in progress"],
        ["13", "checkpoint", "failed"],
        ["12", "savepoint", "completed"],
    ]
    assert cells[0][4:] == ["-", "0 B", "0/4", "0", "0", "0", "-"]
    assert cells[1][4:] == ["0.500 s", "0 B", "1/4", "0", "0", "0", "-", "map (1/2): no space"]
    assert cells[2][4:] == ["1.234 s", "1.5 MiB", "4/4", "2", "31", "7", "/savepoints/one"]


def test_info_shows_restarts_and_the_last_failure(client: Client) -> None:
    error = ErrorInfo.of(ValueError("bad row"))
    beside = TaskFailure(5_000, ErrorInfo.of(KeyError("k")), "map (2/2)")
    subtasks = tuple(SubtaskDetails(index, f"a{index}", 1, "RUNNING", None, TaskMetrics()) for index in range(2))
    client.shown = JobDetails(
        client.job_id,
        "word count",
        JobStatus.RUNNING,
        ((JobStatus.CREATED, 0), (JobStatus.RUNNING, 1_000)),
        vertices=(VertexDetails("v", "Source: words -> map", 2, 128, (), subtasks),),
        restarts=3,
        failures=(
            FailureRecord(TaskFailure(1_000, error, "old"), "restarts"),
            FailureRecord(TaskFailure(5_000, error, "map (1/2)"), "restarts after 1 s", (beside,)),
        ),
    )
    result = CliRunner().invoke(main, ["info", "abab"])
    lines = result.output.splitlines()
    assert lines[0] == f"job {client.job_id} 'word count'"
    assert "restarts 3" in lines
    (failure,) = [index for index, line in enumerate(lines) if line.startswith("last failure")]
    assert lines[failure].endswith(" in map (1/2): ValueError: bad row")
    assert lines[failure + 1 : failure + 3] == ["  restarts after 1 s", "  beside it in map (2/2): KeyError: 'k'"]
    assert lines[-1] == "Source: words -> map  2         2 RUNNING"


def checkpoint_at(directory: Path, is_savepoint: bool) -> str:
    write_metadata(CompletedCheckpoint(JobId("ab" * 16), "words", 5, 0, 1, is_savepoint, str(directory), {}))
    return str(directory)


def test_a_savepoint_is_disposed_of_as_a_whole(tmp_path: Path) -> None:
    saved = checkpoint_at(tmp_path / "savepoint-1", is_savepoint=True)
    (tmp_path / "savepoint-1" / "state").write_text("x")
    result = CliRunner().invoke(main, ["savepoint", "--dispose", saved])
    assert result.output == f"savepoint {saved} is deleted\n"
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_savepoint_is_not_disposed_of(tmp_path: Path) -> None:
    kept = checkpoint_at(tmp_path / "chk-5", is_savepoint=False)
    refused = CliRunner().invoke(main, ["savepoint", "--dispose", kept])
    assert refused.exit_code == 1
    assert f"{kept} is no savepoint, but checkpoint 5 of job 'words'" in refused.output
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "mine").write_text("x")
    other = CliRunner().invoke(main, ["savepoint", "--dispose", str(tmp_path / "files")])
    assert other.exit_code == 1
    assert str(tmp_path / "files") in other.output
    assert (tmp_path / "chk-5" / "_metadata").exists()
    assert (tmp_path / "files" / "mine").exists()


def test_a_job_is_named_by_how_its_id_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = {
        "one": (JobOverview(JobId("abc1"), "first", JobStatus.RUNNING, 0, Address("one/job-master")),),
        "two": (JobOverview(JobId("abd2"), "second", JobStatus.RUNNING, 0, Address("two/job-master")),),
    }
    monkeypatch.setattr(session, "list_clusters", lambda: list(jobs))
    monkeypatch.setattr(session, "session_jobs", lambda name: jobs[name])
    monkeypatch.setattr(session, "connect_to_session", lambda _name: None)
    assert session.job_client("abd").job_id == "abd2"
    assert session.job_client("ab", "one").job_id == "abc1"
    for job, cluster, message in (
        ("ab", None, "several jobs begin with 'ab': abc1, abd2"),
        ("x", None, "no job on the running Ray cluster has the id 'x'"),
        ("abd", "one", "no job in cluster 'one' has the id 'abd'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            session.job_client(job, cluster)


def test_ui_serves_until_it_is_interrupted_and_then_ends_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def attach(configuration: Configuration, cluster_id: str | None) -> Rest:
        asked.extend((dict(configuration), cluster_id, os.environ["RAY_ADDRESS"]))
        return Rest("http://127.0.0.1:8081", lambda: asked.append("closed"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("RAY_ADDRESS", "elsewhere")
    monkeypatch.setattr("actors.client.rest.attach", attach)
    # Not of all events: threads that others have left in this process wait for theirs.
    monkeypatch.setattr("actors.client.cli.threading", SimpleNamespace(Event=lambda: SimpleNamespace(wait=interrupted)))
    monkeypatch.setattr(session, "list_clusters", lambda: ["etl"])
    arguments = ["ui", "--address", "head:6379", "--cluster", "etl", "-D", "rest.port=8081"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, asked) == (0, [{"rest.port": 8081}, "etl", "head:6379", "closed"])
    assert "http://127.0.0.1:8081" in result.output
    result = CliRunner().invoke(main, ["ui", "--cluster", "other"])
    assert (result.exit_code, "there is no session 'other'" in result.output) == (1, True)


def details_of(*subtasks: SubtaskDetails, **more: Any) -> JobDetails:
    vertices = (VertexDetails("v", "map", len(subtasks), 128, (), subtasks),)
    return JobDetails(JobId("abab"), "count", JobStatus.RUNNING, ((JobStatus.RUNNING, 0),), vertices=vertices, **more)


def subtask(state: str, metrics: TaskMetrics) -> SubtaskDetails:
    return SubtaskDetails(0, "attempt", 0, state, None, metrics)


def test_info_shows_how_busy_vertices_are_their_watermarks_and_rows_dropped_as_late() -> None:
    first = TaskMetrics(busy_ms=100, idle_ms=200, backpressured_ms=100, watermark=1_700_000_000_000)
    second = TaskMetrics(busy_ms=200, idle_ms=200, watermark=MAX_TIMESTAMP)
    details = details_of(
        subtask("RUNNING", first),
        subtask("RUNNING", second),
        accumulators={"late_records_dropped": 1_234},
        watermark=1_700_000_000_000,
    )
    lines = list(detail_lines(details))
    assert "rows dropped as late 1,234" in lines
    assert "watermark 2023-11-14 22:13:20Z" in lines
    assert lines[-2].split() == ["vertex", "subtasks", "states", "busy", "back-pressured", "watermark"]
    assert lines[-1].split() == ["map", "2", "2", "RUNNING", "38%", "12%", "2023-11-14", "22:13:20Z"]
    assert not any("waits" in line for line in lines)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("buffering", [1, -1], ids=["at once", "buffered"])
@pytest.mark.parametrize("command", [["doctor"], ["doctor", "--json"], ["sql", "-e", "SHOW CATALOGS"]])
def test_an_output_that_takes_nothing_more_is_one_message_and_is_left_alone(
    command: list[str], buffering: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w", buffering, encoding="utf-8") as full:  # closing it would fail, too
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            main(command)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "FlinkrayError: standard output takes nothing more: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "by", [lambda text: print_lines([text]), lambda text: Console().out(text)], ids=["echo", "rich"]
)
@pytest.mark.parametrize(("buffering", "length"), [(0, 1), (-1, 1), (-1, 100_000)])
def test_what_cannot_be_printed_is_told_though_nothing_is_left_of_it(
    by: Callable[[str], None], buffering: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "wb", buffering) as full:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full, write_through=not buffering))
        with pytest.raises(SystemExit):
            speaks_plainly(lambda: by("x" * length))()
        sys.stdout.close()


def test_an_error_of_another_file_is_left_alone_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        speaks_plainly(fail)()
    assert capsys.readouterr() == ("", "")


WAIT = SlotWait(1_700_000_000_000, 4, ((ResourceProfile(1), 2), (ResourceProfile(2, 1 << 20), 1)))
WAITS_FOR = "for 2 slot(s) of 1 CPU and 1 slot(s) of 2 CPUs and 1 MiB; it needs 4 slot(s) and has 1"


def test_info_says_what_a_job_waits_for() -> None:
    lines = list(detail_lines(details_of(subtask("SCHEDULED", TaskMetrics()), slot_wait=WAIT)))
    (waits,) = [line for line in lines if line.startswith("waits since 2023-11-14 ")]
    assert waits.endswith(WAITS_FOR)


def test_list_says_what_jobs_wait_for_and_asks_nobody_who_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_host: object, address: Address, *_: object) -> JobSummary:
        if address == "c/gone":
            raise EndpointGone(address)
        return JobSummary(slot_wait=WAIT if address == "c/waits" else None)

    jobs = [(name, JobStatus.RUNNING) for name in ("waits", "runs", "gone")] + [("ended", JobStatus.FINISHED)]
    found = tuple(JobOverview(JobId(name), name, status, 0, Address(f"c/{name}")) for name, status in jobs)
    monkeypatch.setattr(session, "session_jobs", lambda _name: found)
    monkeypatch.setattr(session, "connect_to_session", lambda _name: None)
    monkeypatch.setattr(session, "ask", answer)
    *table, waits = CliRunner().invoke(main, ["list", "--cluster", "mine"]).output.splitlines()
    assert len(table) == 5
    assert waits.startswith("job waits waits since 2023-11-14 ")
    assert waits.endswith(WAITS_FOR)
