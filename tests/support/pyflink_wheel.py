"""PyFlink's own examples, from its wheel on PyPI, with nothing but their import lines changed, and how they are run."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pyflink import VERSION, with_our_imports

DEADLINE = 60.0
"""Seconds that an example may take."""
QUIETLY = (
    "import logging, runpy, sys\n"
    # The examples have logging write to standard output, in whose place PyFlink's JVM writes a file.
    "[logging.getLogger(name).setLevel(logging.WARNING) for name in ('actors', 'flinkray', 'graphs')]\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)
_FOLDERS = {"pyflink/examples/datastream/": "", "pyflink/examples/table/": "table/"}
"""The folders of the examples in the wheel, and here."""


def loaded_examples(wheels: Path, scratch: Path) -> Path:
    """The directory with the examples; the test is skipped where they cannot be had."""
    wanted = f"apache-flink=={VERSION}"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", wanted, "--dest", str(wheels)]
    # The examples are the same in the wheels for all platforms, but pip looks for one that suits this Python.
    fetched = subprocess.run(
        [*download, "--only-binary=:all:", "--python-version", "3.11"], capture_output=True, text=True, timeout=100
    )
    if fetched.returncode:
        pytest.skip(f"{wanted} cannot be downloaded: {fetched.stderr.strip()[-300:]}")
    (wheel,) = wheels.glob("*.whl")
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


def first_lines(program: Path, count: int) -> list[str]:
    """What a program that never ends prints first."""
    process = subprocess.Popen(
        [sys.executable, "-c", QUIETLY, str(program)], env=environ(), stdout=subprocess.PIPE, text=True
    )
    end = threading.Timer(DEADLINE, process.kill)  # then there are no further lines
    end.start()
    try:
        assert process.stdout is not None
        return [line.rstrip("\n") for line in itertools.islice(_results(process.stdout), count)]
    finally:
        end.cancel()
        process.kill()
        process.communicate()


def _results(lines: Iterator[str]) -> Iterator[str]:
    return (line for line in lines if "> " in line)
