"""The `flinkray` command, as far as it needs no cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.client import session
from actors.client.cli import main
from actors.control_messages import JobOverview
from actors.ports import Address
from flinkray.execution import JobStatus
from flinkray.types import JobId

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
    result = CliRunner().invoke(main, ["list", "--cluster", "mine"])
    header, line = result.output.splitlines()
    assert header.split() == ["cluster", "job", "id", "status", "started", "name"]
    assert line.startswith(f"mine     {job.job_id}  RUNNING  ")
    assert line.endswith("  word count")


def test_doctor_says_what_there_is() -> None:
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    for word in ("python 3.", "ray ", "pandas ", "pyarrow ", "java"):
        assert word in result.output
