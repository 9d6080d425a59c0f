"""A job's processes find the modules that its driver found."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from flinkray.config.configuration import Configuration
from flinkray.functions.python_path import add_directories, own_directories


def test_the_driver_tells_its_own_directories_and_not_those_of_installed_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules").mkdir()
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "modules"), str(tmp_path / "nowhere"), *sys.path])
    places = own_directories().split(os.pathsep)
    assert places[:2] == [str(Path.cwd()), str(tmp_path / "modules")]
    assert str(tmp_path / "nowhere") not in places
    assert not any(place.startswith(sysconfig.get_path("stdlib")) for place in places)


def test_places_are_added_once_and_behind_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/first", "/second"])
    add_directories(Configuration({"python.pythonpath": "/third:/first"}))
    add_directories(Configuration({"python.pythonpath": "/third:/first"}))
    add_directories(Configuration())
    assert sys.path == ["/first", "/second", "/third"]


def test_a_program_with_a_module_beside_it_finds_its_own_directory(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from flinkray.functions.python_path import own_directories\nprint(own_directories())")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    printed = subprocess.run(
        [sys.executable, str(program)], check=True, capture_output=True, text=True, env=environment, timeout=60
    )
    assert printed.stdout.strip().split(os.pathsep)[0] == str(tmp_path)
