"""What a job brings along is unpacked once on a node, and gone when no process uses it."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from actors.user_code.job_files import JobFiles, JobFilesError
from actors.user_code.unpacked_files import UnpackedFiles
from flinkray.functions.cached_files import pack


@pytest.fixture
def packed(tmp_path: Path) -> dict[str, bytes]:
    (tmp_path / "models" / "small").mkdir(parents=True)
    script = tmp_path / "models" / "small" / "run"
    script.write_text("x")
    script.chmod(0o700)
    (tmp_path / "brought_along.py").write_text("VALUE = 5")
    model = pack(tmp_path / "models")
    return {
        "model": model,
        "python.archives/data": model,
        "python.files/000-brought_along.py": pack(tmp_path / "brought_along.py"),
    }


def test_files_are_unpacked_once_for_all_that_use_them_and_go_with_the_last(
    packed: dict[str, bytes], tmp_path: Path
) -> None:
    first, second = (JobFiles(packed, unpacked=UnpackedFiles(tmp_path / "node")) for _ in range(2))
    assert first.names == ["data", "model"]
    place = Path(first.path("model"))
    assert (place.name, (place / "small" / "run").stat().st_mode & 0o777) == ("models", 0o700)
    assert {first.path("model"), first.path("data"), second.path("model")} == {str(place)}
    first.close()
    assert place.exists(), "the second one uses it"
    second.close()
    assert list((tmp_path / "node").iterdir()) == []


def test_what_a_process_leaves_that_was_killed_is_removed_by_the_next(packed: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "node" / "left").mkdir(parents=True)
    (tmp_path / "node" / "left.lock").touch()
    (tmp_path / "node" / "left" / "file").touch()
    files = JobFiles(packed, unpacked=UnpackedFiles(tmp_path / "node"))
    files.path("model")
    assert not (tmp_path / "node" / "left").exists()
    files.close()


def test_modules_are_found_first_and_archives_in_the_working_directory_of_a_process_of_the_job(
    packed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    for owns_process in (False, True):
        files = JobFiles(packed, owns_process=owns_process, unpacked=UnpackedFiles(tmp_path / "node"))
        files.prepare()
        files.prepare()
        assert len(sys.path) == len(before) + 1
        assert importlib.import_module("brought_along").VALUE == 5
        assert (Path.cwd() != tmp_path) is owns_process
        assert Path("data/small/run").exists() is owns_process
        os.chdir(tmp_path)
        files.close()
        assert sys.path == before
        del sys.modules["brought_along"]


def test_a_node_without_room_is_named_as_that(packed: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "node").write_text("no directory")
    with pytest.raises(JobFilesError, match="TMPDIR"):
        JobFiles(packed, unpacked=UnpackedFiles(tmp_path / "node")).prepare()
