"""Programs bring their modules, archives and variables along, to processes that do not see the program's directory."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.client.session import start_session, stop_session
from flinkray.config.configuration import Configuration

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


def start(program: Path, *options: str) -> subprocess.Popen[str]:
    """`flinkray run` of the program, whose processes look for its modules nowhere but in what it brings along."""
    import ray

    directory = program.parent.parent
    own = ["-pyfs", str(directory / "modules"), "--archives", f"{directory / 'data.zip'}#data"]
    settings = ["-D", "python.pythonpath=/nowhere", "-D", 'python.runtime-env={"env_vars": {"GREETING": "hello"}}']
    environment = {**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
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
