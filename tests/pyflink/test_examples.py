"""PyFlink's own examples, from its wheel on PyPI, run after nothing but their import lines has changed."""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pyflink import EXAMPLES, VERSION, comparable, expected, with_our_imports

pytestmark = pytest.mark.pyflink

DEADLINE = 60.0
"""Seconds that an example may take."""
_FOLDERS = {"pyflink/examples/datastream/": "", "pyflink/examples/table/": "table/"}
"""The folders of the examples in the wheel, and here."""
_QUIETLY = (
    "import logging, runpy, sys\n"
    # The examples have logging write to standard output, in whose place PyFlink's JVM writes a file.
    "[logging.getLogger(name).setLevel(logging.WARNING) for name in ('actors', 'flinkray', 'graphs')]\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples with our imports."""
    directory = tmp_path_factory.mktemp("wheel")
    wanted = f"apache-flink=={VERSION}"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", wanted, "--dest", str(directory)]
    # The examples are the same in the wheels for all platforms, but pip looks for one that suits this Python.
    fetched = subprocess.run(
        [*download, "--only-binary=:all:", "--python-version", "3.11"], capture_output=True, text=True, timeout=100
    )
    if fetched.returncode:
        pytest.skip(f"{wanted} cannot be downloaded: {fetched.stderr.strip()[-300:]}")
    (wheel,) = directory.glob("*.whl")
    scratch = tmp_path_factory.mktemp("examples")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            for folder, here in _FOLDERS.items():
                if name.startswith(folder) and name.endswith(".py"):
                    copy = scratch / here / name.removeprefix(folder)
                    copy.parent.mkdir(exist_ok=True, parents=True)
                    copy.write_text(with_our_imports(archive.read(name).decode()), encoding="utf-8")
    return scratch


def environ() -> dict[str, str]:
    settings = {"FLINKRAY_EXECUTION_TARGET": "local", "FLINKRAY_PARALLELISM_DEFAULT": "2"}
    return {key: value for key, value in os.environ.items() if not key.startswith("FLINKRAY_")} | settings


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_pyflink_prints(examples: Path, name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _QUIETLY, str(examples / f"{name}.py")],
        env=environ(), capture_output=True, text=True, timeout=DEADLINE,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert comparable(name, run.stdout) == expected(name)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("basic_operations", r"\| \+I \| +Germany \| +123 \|"),
        ("word_count", r"\+[IU]\[the, 15\]"),
        ("multi_sink", r"\+I\[4, PyFlink\]"),
        ("process_json_data", r"\+I\[4, China\]"),
        ("process_json_data_with_udf", r'\+I\[4, \{"name": "PyFlink", "tel": 33, .*'),
        ("mixing_use_of_datastream_and_table", r"\+I\[-?\d+\]"),
        ("pandas/conversion_from_dataframe", r"\[1000 rows x 2 columns\]"),
        ("pandas/pandas_udaf", r"\+I\[Bob, 16\.1, 1970-01-01T00:00:05Z, 1970-01-01T00:00:10Z\]"),
        ("windowing/tumble_window", r"\+I\[Bob, 16\.1, 1970-01-01T00:00:05Z, 1970-01-01T00:00:10Z\]"),
        ("windowing/sliding_window", r"\+I\[Alice, 20\.1, 1970-01-01T00:00:08Z, 1970-01-01T00:00:13Z\]"),
        ("windowing/session_window", r"\+I\[Bob, 99\.4, 1970-01-01T00:00:02Z, 1970-01-01T00:00:13Z\]"),
        ("async/async_scalar_function", r"\| \+I \| +\d \| +Product \d: \$\d+ \|"),
        ("windowing/over_window", r"\+I\[Bob, 53\.1\]"),
    ],
)
def test_an_example_of_tables_prints_what_it_computes(examples: Path, name: str, line: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _QUIETLY, str(examples / "table" / f"{name}.py")],
        env=environ(), capture_output=True, text=True, timeout=DEADLINE,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert any(re.fullmatch(rf"(\d+> )?{line}", each) for each in run.stdout.splitlines()), run.stdout


def first_lines(program: Path, count: int) -> list[str]:
    """What a program that never ends prints first."""
    process = subprocess.Popen(
        [sys.executable, "-c", _QUIETLY, str(program)], env=environ(), stdout=subprocess.PIPE, text=True
    )
    end = threading.Timer(DEADLINE, process.kill)  # then there are no further lines
    end.start()
    try:
        assert process.stdout is not None
        return [line.rstrip("\n") for line, _ in zip(_results(process.stdout), range(count), strict=False)]
    finally:
        end.cancel()
        process.kill()
        process.communicate()


def _results(lines: Iterator[str]) -> Iterator[str]:
    return (line for line in lines if "> " in line)


def test_the_streaming_word_count_counts_each_word_from_one(examples: Path) -> None:
    lines = first_lines(examples / "streaming_word_count.py", 25)
    assert len(lines) == 25
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        match = re.fullmatch(r"[12]> \((\w+),(\d+)\)", line)
        assert match, line
        word, count = match.groups()
        counts[word] += 1
        assert int(count) == counts[word]


def test_the_inference_example_gives_a_result_for_each_request(examples: Path) -> None:
    lines = first_lines(examples / "asyncio" / "remote_model_inference.py", 40)
    assert len(lines) == 40
    results = [json.loads(line.split("> ", 1)[1]) for line in lines]
    assert {tuple(result) for result in results} == {("user_id", "comments", "analysis_result")}
    assert {result["analysis_result"] for result in results} <= {"positive", None}
