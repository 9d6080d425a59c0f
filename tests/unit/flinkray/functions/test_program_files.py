"""What the options python.files, python.archives and python.requirements name goes along with a job, or is refused."""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from flinkray.config.configuration import Configuration
from flinkray.config.python_options import RUNTIME_ENV
from flinkray.errors import InvalidProgramError
from flinkray.functions import program_files
from flinkray.functions.program_files import pack_program_files, place_of
from flinkray.functions.requirements import with_requirements


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files of every kind, which is the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("one.py", "package/__init__.py", "package/__pycache__/x.pyc", "many/two.py", "many/json.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for name in ("three.whl", "again.zip", "data.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("one.py" if name == "again.zip" else "three/__init__.py", "")
            script = zipfile.ZipInfo("three/run.sh")
            script.external_attr = 0o755 << 16
            archive.writestr(script, "")
    with tarfile.open(tmp_path / "data.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "one.py", "one.py")
    (tmp_path / "bad.zip").write_text("no archive")
    return tmp_path


def packed(**options: str) -> dict[str, dict[str, int]]:
    """The names and modes of the files in what is packed, by its name."""
    configuration = Configuration({f"python.{key}": value for key, value in options.items()})
    contents = {}
    for name, content in pack_program_files(configuration).items():
        with tarfile.open(fileobj=BytesIO(content)) as archive:
            contents[name] = {each.name: each.mode for each in archive if each.isfile()}
    return contents


def test_each_kind_of_file_is_packed_so_that_its_modules_are_at_the_top(files: Path) -> None:
    (files / "many" / "json.py").unlink()
    found = packed(files="one.py, package,many,three.whl,", archives="data.zip#models,data.tar.gz")
    assert {name: sorted(content) for name, content in found.items()} == {
        "python.files/000-one.py": ["one.py"],
        "python.files/001-package": ["package/__init__.py"],
        "python.files/002-many": ["two.py"],
        "python.files/003-three.whl": ["three/__init__.py", "three/run.sh"],
        "python.archives/models": ["models/three/__init__.py", "models/three/run.sh"],
        "python.archives/data.tar.gz": ["data.tar.gz/one.py"],
    }
    assert found["python.archives/models"]["models/three/run.sh"] & 0o777 == 0o755, "scripts can be run"
    places = {name: place_of(name) for name in ("one.py", "package", "many", "three.whl")}
    in_files = {"many": str(files / "many"), "three.whl": str(files / "three.whl")}
    assert places == {"one.py": str(files), "package": str(files), **in_files}


def test_what_cannot_go_along_is_refused_with_the_file_and_the_way_out(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_files, "MAX_PACKED_BYTES", 100_000)
    (files / "large.zip").write_bytes((files / "data.zip").read_bytes())
    with zipfile.ZipFile(files / "large.zip", "a") as archive:
        archive.writestr("large", bytes(200_000))
    for options, words in (
        ({"files": "gone.py"}, f"python.files: there is no {files / 'gone.py'}"),
        ({"files": "s3://b/one.py"}, "s3://b/one.py is not a file of this machine; copy it here"),
        ({"files": "data.tar.gz"}, "data.tar.gz is no module, package, directory"),
        ({"files": "one.py,again.zip"}, "one.py and again.zip both bring a module 'one'"),
        ({"files": "many"}, "many brings a module 'json', which would take the place of one that Python"),
        ({"files": "bad.zip"}, "bad.zip cannot be unpacked"),
        ({"files": "large.zip"}, "the program's files take more than 0 MiB, python.files/000-large.zip"),
        ({"archives": "gone.zip"}, f"python.archives: there is no {files / 'gone.zip'}"),
        ({"archives": "one.py"}, "one.py is none of .zip"),
        ({"archives": "data.zip#a,data.tar.gz#a"}, "'data.tar.gz#a' is to be unpacked into 'a', which must be one"),
        ({"archives": "data.zip#../a"}, "data.zip#another_name"),
    ):
        with pytest.raises(InvalidProgramError, match=re.escape(words)):
            packed(**options)


def test_requirements_are_installed_by_ray_with_what_they_include(files: Path) -> None:
    (files / "base.txt").write_text("msgspec>=0.1  # a comment\n\n# another\n")
    (files / "needed.txt").write_text("-r base.txt\n--index-url https://x/simple\ngone-package==1.0\n")
    options = {"execution.target": "ray", "python.requirements": "needed.txt", "python.runtime-env": {"env_vars": {}}}
    environment = json.loads(with_requirements(Configuration(options)).get(RUNTIME_ENV))
    assert environment["pip"] == ["msgspec>=0.1", "--index-url https://x/simple", "gone-package==1.0"]
    assert "env_vars" in environment


def test_requirements_that_cannot_be_had_are_refused_with_the_line_and_the_way_out(files: Path) -> None:
    (files / "bad.txt").write_text("msgspec\n./wheels/a.whl\n")
    (files / "absent.txt").write_text('other; python_version < "3"\nmsgspec\ngone-package==1.0\n')
    (files / "old.txt").write_text("msgspec<0.1\n")
    for options, words in (
        ({"python.requirements": "gone.txt"}, f"{files / 'gone.txt'} cannot be read"),
        ({"python.requirements": "bad.txt"}, "bad.txt, line 2: './wheels/a.whl' names no package"),
        ({"python.requirements": "absent.txt"}, "gone-package==1.0 of absent.txt is not installed, and with"),
        ({"python.requirements": "old.txt"}, "pip install -r old.txt"),
        (
            {"python.requirements": "old.txt", "execution.target": "ray", "python.runtime-env": {"uv": ["x"]}},
            "'uv' of python.runtime-env has packages as well",
        ),
    ):
        with pytest.raises(InvalidProgramError, match=re.escape(words)):
            with_requirements(Configuration({"execution.target": "local", **options}))
