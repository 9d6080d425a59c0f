"""Programs bring their modules, archives and variables along, to processes that do not see the program's directory."""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from actors.client.cli import main
from actors.client.session import start_session, stop_session
from flinkray import (
    DataGenSource,
    DiscardSink,
    JobExecutionError,
    SequenceField,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from flinkray.config.configuration import Configuration
from tests.support.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.timeout(240)]

RUN = [sys.executable, "-c", "from actors.client.cli import main; main()", "run"]

PROGRAM = """
import os
import sys
from pathlib import Path

from flinkray import StreamExecutionEnvironment
from own_module import VERSION, version

def look(number):
    return version(), Path("data/word.txt").read_text(), os.environ.get("GREETING")

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    print("rows", list(env.from_sequence(1, 2).map(look).execute_and_collect()), "driver", VERSION)
"""


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest) -> Iterator[str]:
    request.getfixturevalue("ray_cluster")
    start_session("shared-code", Configuration())
    yield "shared-code"
    stop_session("shared-code")


def write_program(directory: Path, version: str) -> Path:
    """A program whose module is in a directory of its own, which is on nobody's path."""
    (directory / "modules").mkdir(parents=True)
    (directory / "program").mkdir()
    (directory / "modules" / "own_module.py").write_text(f"VERSION = {version!r}\ndef version():\n    return VERSION\n")
    with zipfile.ZipFile(directory / "data.zip", "w") as archive:
        archive.writestr("word.txt", "word")
    program = directory / "program" / "program.py"
    program.write_text(PROGRAM)
    return program


def address() -> str:
    import ray

    return str(ray.get_runtime_context().gcs_address)


def start(program: Path, *options: str) -> subprocess.Popen[str]:
    """`flinkray run` of the program, whose processes look for its modules nowhere but in what it brings along."""
    directory = program.parent.parent
    own = ["-pyfs", str(directory / "modules"), "--archives", f"{directory / 'data.zip'}#data"]
    settings = ["-D", "python.pythonpath=/nowhere", "-D", 'python.runtime-env={"env_vars": {"GREETING": "hello"}}']
    environment = {**os.environ, "RAY_ADDRESS": address()}
    return subprocess.Popen(
        [*RUN, *own, *settings, *options, str(program)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_two_jobs_of_a_session_and_one_of_its_own_have_each_its_version(session: str, tmp_path: Path) -> None:
    in_session = ("-D", "execution.target=ray-session", "-D", f"flinkray.cluster-id={session}")
    running = {
        version: start(write_program(tmp_path / version, version), *options)
        for version, options in (("one", in_session), ("two", in_session), ("three", ("-D", "execution.target=ray")))
    }
    try:
        for version, process in running.items():
            output, _ = process.communicate(timeout=200)
            row = (version, "word", "hello")
            assert f"rows {[row, row]} driver {version}" in output, output
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


def test_a_program_that_rays_job_api_runs_has_its_working_directory_in_a_session_too(
    session: str, tmp_path: Path
) -> None:
    import ray
    from ray.job_submission import JobStatus, JobSubmissionClient

    program = write_program(tmp_path, "four")
    (tmp_path / "modules" / "own_module.py").rename(tmp_path / "program" / "own_module.py")
    (tmp_path / "program" / "data").mkdir()
    (tmp_path / "program" / "data" / "word.txt").write_text("word")
    submissions = JobSubmissionClient(f"http://{ray._private.worker.global_worker.node.webui_url}")
    command = " ".join(map(shlex.quote, RUN))
    own, in_session = "-D execution.target=ray", f"-D execution.target=ray-session -D flinkray.cluster-id={session}"

    def submit(target: str) -> str:
        """Empty: the part of Ray that starts jobs is not up yet."""
        try:
            return submissions.submit_job(
                entrypoint=f"{command} -D python.pythonpath=/nowhere {target} {program.name}",
                runtime_env={"working_dir": str(program.parent), "env_vars": {"GREETING": "hello"}},
            )
        except RuntimeError as error:
            if "No available agent" not in str(error):
                raise
            return ""

    submitted = [eventually(partial(submit, target)) for target in (own, in_session)]
    for job, greeting in zip(submitted, ("hello", None), strict=True):
        status = eventually(partial(submissions.get_job_status, job), JobStatus.is_terminal, deadline_s=200)
        row = ("four", "word", greeting)
        assert f"rows {[row, row]}" in submissions.get_job_logs(job), (status, submissions.get_job_logs(job))
        assert status is JobStatus.SUCCEEDED


def test_an_environment_that_cannot_be_set_up_ends_the_job_with_a_sentence(session: str, tmp_path: Path) -> None:
    settings = {
        "execution.target": "ray-session",
        "flinkray.cluster-id": session,
        "execution.checkpointing.dir": str(tmp_path),  # with which a JobMaster that dies is replaced
        "python.runtime-env": {"working_dir": "gcs://_ray_pkg_gone.zip"},
    }
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_sequence(1, 2).sink_to(DiscardSink())
    with pytest.raises(JobExecutionError, match=r"its runtime environment could not be set up: .*gcs://_ray_pkg_gone"):
        env.execute("environment")


def test_commands_take_a_checkpoint_and_show_the_logs_of_the_processes(session: str, tmp_path: Path) -> None:
    settings = {
        "execution.target": "ray-session",
        "flinkray.cluster-id": session,
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.dir": str(tmp_path),
    }
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = DataGenSource({"number": SequenceField()}, rows_per_second=100)
    logged = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(_log_once)
    logged.sink_to(DiscardSink())
    client = env.execute_async("watched")
    try:
        eventually(lambda: client.progress().records_out, lambda rows: rows > 0, deadline_s=60)
        commands = {
            name: json.loads(CliRunner().invoke(main, [name, "--json", client.job_id]).stdout)
            for name in ("checkpoint", "checkpoints", "exceptions", "info", "logs")
        }
    finally:
        client.cancel()
    assert commands["checkpoint"] == {"checkpointId": 1}
    assert commands["checkpoints"]["counts"]["completed"] == 1
    assert commands["exceptions"]["exceptionHistory"]["entries"] == []
    assert commands["info"]["state"] == "RUNNING"
    assert any("a word in the log" in line for line in commands["logs"]["lines"])


def _log_once(row: Any) -> Any:
    if row.number == 0:
        logging.getLogger(__name__).error("a word in the log")
    return row
