"""PyFlink's own examples, from its wheel on PyPI, run after nothing but their import lines has changed."""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pyflink import EXAMPLES, comparable, expected
from tests.support.pyflink_wheel import DEADLINE, QUIETLY, environ, first_lines, loaded_examples

pytestmark = pytest.mark.pyflink


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples with our imports."""
    return loaded_examples(tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_pyflink_prints(examples: Path, name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", QUIETLY, str(examples / f"{name}.py")],
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
        [sys.executable, "-c", QUIETLY, str(examples / "table" / f"{name}.py")],
        env=environ(), capture_output=True, text=True, timeout=DEADLINE,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert any(re.fullmatch(rf"(\d+> )?{line}", each) for each in run.stdout.splitlines()), run.stdout


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
