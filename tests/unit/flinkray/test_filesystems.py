"""Paths and URIs: which file system they are in, and how they are put together."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pytest
from pyarrow import fs

from flinkray import filesystems
from flinkray.errors import InvalidProgramError


@pytest.fixture
def mounted() -> Iterator[fs.FileSystem]:
    yield filesystems.mount("test-filesystems")
    filesystems.unmount("test-filesystems")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("a/../b", os.path.abspath("b")),
        ("~/a", os.path.expanduser("~/a")),
        (Path("/a/b"), "/a/b"),
        ("file:///a/b%20c/", "/a/b c"),
        ("file:///", "/"),
        ("file:///a b/é[1]{2}#3\\4%5%41.json", "/a b/é[1]{2}#3\\4%5A.json"),
    ],
)
def test_local_paths_and_uris_are_found(given: str | Path, expected: str) -> None:
    system, path = filesystems.resolve(given)
    assert (type(system), path) == (fs.LocalFileSystem, expected)


def test_what_is_mounted_is_found_by_name_until_it_is_unmounted(mounted: fs.FileSystem) -> None:
    assert filesystems.resolve("memory://test-filesystems/a/b/") == (mounted, "a/b")
    assert filesystems.resolve("memory://test-filesystems") == (mounted, "")
    with pytest.raises(ValueError, match="memory://test-filesystems is mounted already"):
        filesystems.mount("test-filesystems")
    filesystems.unmount("test-filesystems")
    filesystems.unmount("test-filesystems")
    with pytest.raises(InvalidProgramError, match="none is mounted in this process as 'test-filesystems'"):
        filesystems.resolve("memory://test-filesystems/a")
    own = fs.LocalFileSystem()
    assert filesystems.mount("test-filesystems", own) is own
    assert filesystems.resolve("memory://test-filesystems/a")[0] is own


def test_a_memory_file_system_moves_and_deletes(mounted: fs.FileSystem) -> None:
    mounted.create_dir("a/b", recursive=True)
    for name in ("x", "y"):
        with mounted.open_output_stream(f"a/b/{name}") as stream:
            stream.write(name.encode())
    mounted.move("a/b/x", "a/b/y")
    with mounted.open_input_file("a/b/y") as file:
        assert file.read() == b"x"
    mounted.delete_dir("a")
    assert mounted.get_file_info("a/b/y").type is fs.FileType.NotFound


def test_a_mounted_file_system_is_the_same_after_pickling(mounted: fs.FileSystem) -> None:
    assert pickle.loads(pickle.dumps(mounted)) is mounted
    assert cloudpickle.loads(cloudpickle.dumps({"held": mounted}))["held"] is mounted
    with pytest.raises(TypeError, match="while it is mounted"):
        pickle.dumps(fs._MockFileSystem())


def test_a_scheme_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidProgramError, match=r"no filesystem for 'nosuch://x/y': .*s3://bucket/directory"):
        filesystems.resolve("nosuch://x/y")


def test_uris_are_checked_where_that_asks_no_server() -> None:
    for good in ("file:///some/where", "s3://nosuchbucket/directory", "gs://nosuchbucket/directory"):
        filesystems.check_uri(good)
    for bad in ("s4://x/y", "memory://nosuch/x"):
        with pytest.raises(InvalidProgramError, match="no filesystem for"):
            filesystems.check_uri(bad)


def test_places_where_no_directory_can_be_are_told_without_making_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for good in (
        str(tmp_path),
        f"{tmp_path}/a/b",
        f"file://{tmp_path}/a",
        "s3://bucket/a",
    ):
        filesystems.check_directory(good, is_here=True)
    for bad in (f"{tmp_path}/file", f"{tmp_path}/file/a/b", f"file://{tmp_path}/file/a", f"{tmp_path}/nowhere/a"):
        with pytest.raises(InvalidProgramError, match=rf"at '{bad}': {tmp_path}/(file|nowhere) is not a directory"):
            filesystems.check_directory(bad, is_here=False)
    monkeypatch.setattr(os, "access", lambda path, _mode: path != str(tmp_path))
    filesystems.check_directory(f"{tmp_path}/a", is_here=False)
    with pytest.raises(InvalidProgramError, match=rf"to '{tmp_path}/a': {tmp_path} is not writable"):
        filesystems.check_directory(f"{tmp_path}/a", is_here=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "nowhere"]


def test_uris_are_put_together_before_their_settings() -> None:
    bucket = "s3://bucket/checkpoints?region=eu-west-1&scheme=http"
    assert filesystems.join(bucket, "job", "chk-1") == (
        "s3://bucket/checkpoints/job/chk-1?region=eu-west-1&scheme=http"
    )
    assert filesystems.parent(filesystems.join(bucket, "job")) == bucket
    assert filesystems.name_of(filesystems.join(bucket, "job")) == "job"
    assert (filesystems.join("/a?b/", "c"), filesystems.parent("/a?b/c/"), filesystems.name_of("/a?b/c?/")) == (
        "/a?b/c",
        "/a?b",
        "c?",
    )


def test_text_for_other_processes_does_not_depend_on_the_working_directory() -> None:
    assert filesystems.absolute("a/b") == os.path.abspath("a/b")
    assert filesystems.absolute("~/a") == os.path.expanduser("~/a")
    for same in ("/a/b", "s3://bucket/a", "memory://name/a"):
        assert filesystems.absolute(same) == same


def test_a_uri_may_have_a_path_that_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    found = fs.LocalFileSystem(), "bucket"
    monkeypatch.setattr(filesystems.fs, "FileSystem", SimpleNamespace(from_uri=lambda uri: asked.append(uri) or found))
    for uri in (
        "s3://K/+:S%2F@bucket/a b/n=1#2?region=a/b c",
        "s3://bucket",
        "s3a://bucket/a b",
        "hdfs://host:9000/a=1,2/%20+",
    ):
        filesystems.resolve(uri)
    assert asked == [
        "s3://K/+:S%2F@bucket/a%20b/n=1%232?region=a/b c",
        "s3://bucket",
        "s3://bucket/a%20b",
        "hdfs://host:9000/a=1,2/%20+",
    ]


@pytest.mark.parametrize("scheme", ["s3a", "s3n", "s3p"])
def test_other_names_of_a_scheme_are_not_asked_about_before_a_job_starts(scheme: str) -> None:
    filesystems.check_uri(f"{scheme}://no-such-bucket-of-anybody/x")
    filesystems.check_directory(f"{scheme}://no-such-bucket-of-anybody/x", is_here=True)
