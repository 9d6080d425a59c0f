"""Files of which each name is given once, on every kind of file system."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from actors.hosts.simulation.storage import new_storage
from actors.storage.record_files import LocalRecordFiles, RecordFiles, SharedRecordFiles, record_files
from flinkray import filesystems
from flinkray.errors import CheckpointError


@pytest.fixture(params=["local", "local without links", "simulated", "mock"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordFiles]:
    if request.param == "local":
        made: RecordFiles = record_files(str(tmp_path / "some" / "log"))
        assert isinstance(made, LocalRecordFiles)
    elif request.param == "local without links":
        made = SharedRecordFiles(fs.LocalFileSystem(), str(tmp_path / "log"))
    else:
        storage = new_storage("records").filesystem() if request.param == "simulated" else fs._MockFileSystem()
        filesystems.mount("records", storage)
        made = record_files("memory://records/some/log")
    made.make_directory()
    yield made
    filesystems.unmount("records")


def test_a_name_is_given_once(files: RecordFiles) -> None:
    assert files.create("a", b"first")
    assert not files.create("a", b"second")
    assert not files.create("a", b"first")
    assert files.read("a") == b"first"
    assert files.names() == ["a"]


def test_a_removed_name_is_free_again_and_removing_it_twice_is_no_error(files: RecordFiles) -> None:
    files.create("a", b"first")
    files.remove("a")
    files.remove("a")
    assert files.names() == []
    assert files.create("a", b"second")


def test_what_is_not_there_cannot_be_read(files: RecordFiles) -> None:
    with pytest.raises(FileNotFoundError):
        files.read("a")


def test_a_directory_that_is_not_there_has_no_names(tmp_path: Path) -> None:
    assert record_files(str(tmp_path / "nothing")).names() == []


def test_a_file_in_a_directory_that_is_gone_cannot_be_written_and_the_error_names_it(tmp_path: Path) -> None:
    files = record_files(str(tmp_path / "nothing"))
    with pytest.raises(CheckpointError, match=rf"cannot write {tmp_path}/nothing/a: "):
        files.create("a", b"content")


def test_threads_that_create_the_same_names_on_a_local_disk_never_both_succeed(tmp_path: Path) -> None:
    succeeded: list[tuple[int, int]] = []

    def create(thread: int) -> None:
        files = record_files(str(tmp_path))
        succeeded.extend((name, thread) for name in range(40) if files.create(str(name), str(thread).encode()))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    files = record_files(str(tmp_path))
    assert sorted(name for name, _ in succeeded) == list(range(40))
    assert sorted(files.names(), key=int) == [str(name) for name in range(40)]
    assert all(files.read(str(name)) == str(thread).encode() for name, thread in succeeded)
