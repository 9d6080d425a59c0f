"""What every storage of checkpoints promises: a local directory, a file system in memory, and none at all."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import fs

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.storage.directories import (
    CheckpointDirectories,
    delete_files,
    discard,
    discard_directory,
    remove_leftovers,
    write_metadata,
)
from actors.checkpoints.storage.metadata import find_latest, load
from actors.checkpoints.storage.reading import RestoredOperatorState, read_part
from actors.checkpoints.storage.state_writers import FileStateWriter, InlineStateWriter, create_writer
from actors.protocol.checkpoint_handles import (
    FileState,
    InlineState,
    OperatorSubtaskState,
    PartKind,
    StatePart,
    TaskRestore,
)
from actors.protocol.checkpoint_handles import RestoredPart as Restored
from actors.state.snapshots.snapshot import KeyedTable, write_keyed_table
from flinkray import filesystems
from flinkray.errors import CheckpointError, DamagedCheckpointError
from graphs.execution_graph import ExecutionGraph, ExecutionVertexId
from tests.support.checkpoints import (
    JOB,
    completed,
    deployment_of,
    keyed_values,
    operator_state,
    options_for,
    random_checkpoint,
    snapshot_of,
    write_parts,
)
from tests.support.graphs import Program

LIMIT = 100
"""Bytes that are kept inline."""


@dataclass
class Place:
    """Where checkpoints go; "" for the JobMaster's memory."""

    base: str
    local: Path

    @property
    def directories(self) -> CheckpointDirectories:
        return CheckpointDirectories(JOB, self.base, self.base, random.Random(1))

    def writer(self, checkpoint_id: int = 1, name: str = "subtask") -> FileStateWriter | InlineStateWriter:
        return create_writer(options_for(*self.directories(checkpoint_id, False)), name, LIMIT)

    def files(self) -> list[str]:
        """All below the base, relative to it."""
        if not self.base:
            return []
        system, path = filesystems.resolve(self.base)
        infos = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        return sorted(info.path[len(path) :].strip("/") for info in infos if info.type is fs.FileType.File)


def make_place(kind: str, tmp_path: Path) -> Iterator[Place]:
    bases = {
        "local path": str(tmp_path / "check points" / "all"),
        "local uri": (tmp_path / "checkpoints").as_uri(),
        "memory": "memory://storage-contract/checkpoints",
        "inline": "",
    }
    filesystems.mount("storage-contract")
    yield Place(bases[kind], tmp_path)
    filesystems.unmount("storage-contract")


@pytest.fixture(params=["local path", "local uri", "memory", "inline"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from make_place(request.param, tmp_path)


@pytest.fixture(params=["local path", "local uri", "memory"])
def in_files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from make_place(request.param, tmp_path)


def read(place: Place, data: InlineState | FileState, checkpoint_id: int = 1) -> bytes:
    restore = TaskRestore(checkpoint_id, place.directories(checkpoint_id, False)[0])
    return read_part(restore, Restored(StatePart("part", PartKind.SPLIT, data, 1)))


def one_operator() -> tuple[ExecutionGraph, ExecutionVertexId]:
    program = Program({"pipeline.max-parallelism": 128})
    program.sink(program.source("numbers", uid="numbers"))
    graph = program.execution_graph()
    return graph, next(iter(graph.vertices))


def restored(
    graph: ExecutionGraph, vertex: ExecutionVertexId, checkpoint: CompletedCheckpoint
) -> RestoredOperatorState:
    (state,) = checkpoint.operators.values()
    parts = tuple(Restored(part) for part in state.subtasks[0].parts)
    restore = TaskRestore(checkpoint.checkpoint_id, checkpoint.directory, {state.operator_id: parts})
    return RestoredOperatorState(deployment_of(graph, vertex), restore, state.operator_id)


# -- pieces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_every_piece_is_read_as_it_was_written(place: Place, seed: int) -> None:
    rng = random.Random(seed)
    writer = place.writer()
    pieces = [rng.randbytes(rng.choice([0, 1, 60, LIMIT, LIMIT + 1, 5_000, 3_000_000])) for _ in range(8)]
    written = []
    for piece in pieces:
        if rng.random() < 0.5:
            written.append(writer.write(memoryview(piece)))
        else:
            written.append(writer.write_with(lambda stream, piece=piece: in_chunks(piece, stream, rng)))
    writer.close()
    assert [read(place, data) for data in written] == pieces
    inline = sum(data.length for data in written if isinstance(data, InlineState))
    assert not place.base or inline <= LIMIT
    assert len(place.files()) == (1 if any(isinstance(data, FileState) for data in written) else 0)


def in_chunks(piece: bytes, stream: IO[bytes], rng: random.Random) -> None:
    position = 0
    while position < len(piece):
        end = position + rng.choice([1, 50, 200_000])
        stream.write(piece[position:end])
        position = end


def test_small_state_makes_no_file_and_large_state_one_per_subtask(in_files: Place) -> None:
    small = in_files.writer(name="small")
    small.write(b"x" * LIMIT)
    small.close()
    assert in_files.files() == []
    large = in_files.writer(name="large")
    for _ in range(3):
        large.write(b"x" * (LIMIT + 1))
    large.close()
    (file,) = in_files.files()
    assert file.startswith(f"{JOB}/chk-1/large-")


def test_two_attempts_of_a_subtask_never_write_into_the_same_file(in_files: Place) -> None:
    first, second = in_files.writer(), in_files.writer()
    written = first.write(b"1" * 1_000)
    second.write(b"2" * 1_000)
    second.close()
    first.close()
    assert read(in_files, written) == b"1" * 1_000


def test_an_aborted_snapshot_leaves_nothing_and_takes_nothing_more(in_files: Place) -> None:
    source = in_files.local / "000001.sst"
    source.write_bytes(b"sorted")
    for is_closed in (False, True):
        writer = in_files.writer()
        writer.write(b"x" * 1_000)
        writer.write_shared("000001.sst", str(source))
        if is_closed:
            writer.close()
        assert in_files.files()
        writer.abort()
        writer.abort()
        assert in_files.files() == []
        with pytest.raises(CheckpointError, match="given up"):
            writer.write(b"more")


def test_an_error_of_what_is_written_comes_through_as_it_is(place: Place) -> None:
    def fail(stream: IO[bytes]) -> None:
        stream.write(b"x" * 1_000)
        raise KeyError("mine")

    writer = place.writer()
    with pytest.raises(KeyError, match="mine"):
        writer.write_with(fail)
    writer.abort()
    assert place.files() == []


def test_a_shared_file_is_fetched_as_it_was_uploaded(place: Place) -> None:
    content = random.Random(1).randbytes(2_500_000)
    source = place.local / "000007.sst"
    source.write_bytes(content)
    writer = place.writer()
    file = writer.write_shared("000007.sst", str(source))
    again = writer.write_shared("000007.sst", str(source))
    part = StatePart("native", PartKind.NATIVE, writer.write(b"how"), 1, (0, 128), (file,))
    writer.close()
    graph, vertex = one_operator()
    operator_id = graph.job_vertices[vertex.vertex_id].job_vertex.head.operator_id
    state = operator_state({0: [part]}, operator_id=operator_id)
    checkpoint = completed([state], directory=place.directories(1, False)[0])
    (native,) = restored(graph, vertex, checkpoint).native("native")
    native.fetch(file, str(place.local / "copy"))
    assert (place.local / "copy").read_bytes() == content
    assert (native.description(), native.key_groups, file.name) == (b"how", range(128), "000007.sst")
    if place.base:
        assert file.path != again.path
        assert all(each.startswith(f"{JOB}/shared/") for each in place.files())


# -- whole checkpoints -------------------------------------------------------------------------------------------


def written_checkpoint(place: Place, checkpoint_id: int, is_savepoint: bool = False) -> CompletedCheckpoint:
    graph, _ = one_operator()
    operator_id = next(iter(graph.job_vertices.values())).job_vertex.head.operator_id
    directory, _ = place.directories(checkpoint_id, is_savepoint)
    writer = create_writer(options_for(directory), "subtask", LIMIT)
    snapshot = snapshot_of(range(128), [(n % 128, n) for n in range(1_000)], ["a", "b"], [1], [2])
    state = operator_state({0: write_parts(snapshot, writer)}, operator_id=operator_id)
    writer.close()
    checkpoint = completed([state], checkpoint_id, directory, is_savepoint)
    write_metadata(checkpoint)
    return checkpoint


def check_content(checkpoint: CompletedCheckpoint) -> None:
    state = restored(*one_operator(), checkpoint)
    assert sorted(keyed_values(state)) == list(range(1_000))
    assert [state.items(name) for name in ("split", "union", "broadcast")] == [["a", "b"], [1], [2]]
    assert state.names() == {"keyed", "split", "union", "broadcast"}
    assert (list(state.keyed("other")), state.items("other"), list(state.native("keyed"))) == ([], [], [])


def test_a_checkpoint_is_read_as_it_was_written(place: Place) -> None:
    checkpoint = written_checkpoint(place, 1)
    check_content(checkpoint)
    if place.base:
        assert load(checkpoint.directory) == checkpoint
        assert load(filesystems.join(checkpoint.directory, "_metadata")) == checkpoint
        assert sorted(file.split("/")[1] for file in place.files()) == ["chk-1", "chk-1"]


def test_metadata_can_be_written_twice(in_files: Place) -> None:
    checkpoint = written_checkpoint(in_files, 1)
    write_metadata(checkpoint)
    assert load(checkpoint.directory) == checkpoint
    assert len(in_files.files()) == 2


@pytest.mark.parametrize("seed", range(20))
def test_anything_comes_back_from_metadata(in_files: Place, seed: int) -> None:
    directory, _ = in_files.directories(seed, False)
    checkpoint = random_checkpoint(random.Random(seed), directory, filesystems.resolve(directory)[1])
    write_metadata(checkpoint)
    assert load(directory) == checkpoint


def test_a_discarded_checkpoint_is_gone_and_the_shared_files_are_not(in_files: Place) -> None:
    source = in_files.local / "1.sst"
    source.write_bytes(b"sorted")
    writer = in_files.writer()
    shared = writer.write_shared("1.sst", str(source))
    writer.close()
    checkpoint = written_checkpoint(in_files, 1)
    other = written_checkpoint(in_files, 2)
    for _ in range(2):
        discard(checkpoint)
    assert [file for file in in_files.files() if "chk-1" in file] == []
    assert len([file for file in in_files.files() if "/shared/" in file]) == 1
    check_content(other)
    for _ in range(2):
        delete_files(checkpoint.directory, [shared.path])
    assert [file for file in in_files.files() if "/shared/" in file] == []
    for _ in range(2):
        discard_directory(other.directory)
    assert in_files.files() == []


def test_nothing_is_done_for_checkpoints_in_memory() -> None:
    checkpoint = completed()
    write_metadata(checkpoint)
    discard(checkpoint)
    file = InlineStateWriter().write_shared("this file", __file__)
    delete_files("", [file.path])
    remove_leftovers("")


def test_the_newest_complete_checkpoint_is_found(in_files: Place) -> None:
    of_job = in_files.directories.of_job
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        find_latest(of_job)
    for checkpoint_id in (9, 10, 2):
        written_checkpoint(in_files, checkpoint_id)
    in_files.writer(11).write(b"x" * 1_000)
    assert find_latest(of_job) == in_files.directories(10, False)[0]


def test_what_is_no_complete_checkpoint_is_refused_with_one_that_is(in_files: Place) -> None:
    directories = in_files.directories
    nowhere, _ = directories(1, False)
    with pytest.raises(CheckpointError, match=r"chk-1: the directory does not exist$"):
        load(nowhere)
    written_checkpoint(in_files, 5)
    latest, _ = directories(5, False)
    with pytest.raises(CheckpointError, match=r"chk-1: the directory does not exist; the newest complete .*chk-5$"):
        load(nowhere)
    writer = in_files.writer(6)
    writer.write(b"x" * 1_000)
    writer.close()
    with pytest.raises(CheckpointError, match=r"chk-6 is incomplete: it has no _metadata, .*; the newest .*chk-5$"):
        load(directories(6, False)[0])
    with pytest.raises(CheckpointError, match=r"is no checkpoint, but has some: the newest complete one is .*chk-5$"):
        load(directories.of_job)
    assert find_latest(directories.of_job) == latest


def test_leftovers_of_a_job_go_and_complete_checkpoints_stay(in_files: Place) -> None:
    checkpoint = written_checkpoint(in_files, 1)
    savepoint = written_checkpoint(in_files, 2, is_savepoint=True)
    writer = in_files.writer(3)
    writer.write(b"x" * 1_000)
    writer.close()
    of_job = in_files.directories.of_job
    remove_leftovers(of_job, [checkpoint.directory])
    assert not any("chk-3" in file for file in in_files.files())
    check_content(load(checkpoint.directory))
    discard(checkpoint)
    remove_leftovers(of_job)
    remove_leftovers(of_job)
    system, path = filesystems.resolve(of_job)
    assert system.get_file_info(path).type is fs.FileType.NotFound
    check_content(load(savepoint.directory))


def test_what_a_job_master_had_replaced_and_not_deleted_goes_and_what_the_job_writes_now_stays(in_files: Place) -> None:
    replaced, kept, after = (written_checkpoint(in_files, each) for each in (1, 2, 1_001))
    for each in (3, 1_002):
        in_files.writer(each).write(b"x" * 1_000)
    of_job = in_files.directories.of_job
    remove_leftovers(of_job, [kept.directory], before=1_001)
    assert {file.split("/chk-")[1].split("/")[0] for file in in_files.files() if "/chk-" in file} == {
        "2",
        "1001",
        "1002",
    }
    for checkpoint in (kept, after):
        check_content(load(checkpoint.directory))
    with pytest.raises(CheckpointError, match="does not exist"):
        load(replaced.directory)


def test_files_that_checkpoints_shared_go_with_the_last_of_them(in_files: Place) -> None:
    checkpoint = written_checkpoint(in_files, 1)
    in_files.writer(2).write_shared("orphan", __file__)
    of_job = in_files.directories.of_job
    remove_leftovers(of_job, [checkpoint.directory])
    assert any("/shared/" in file for file in in_files.files())
    check_content(load(checkpoint.directory))
    remove_leftovers(of_job)
    assert in_files.files() == []


# -- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["missing", "shorter", "altered"])
def test_a_damaged_file_is_named_with_operator_and_checkpoint(in_files: Place, damage: str) -> None:
    checkpoint = written_checkpoint(in_files, 1)
    (data,) = {part.data for state in checkpoint.states() for part in state.parts if part.name == "keyed"}
    assert isinstance(data, FileState)
    system, _ = filesystems.resolve(checkpoint.directory)
    with system.open_input_stream(data.path) as stream:
        content = bytearray(stream.read())
    system.delete_file(data.path)
    if damage == "shorter":
        content.pop()
    if damage == "altered":
        content[len(content) // 2] ^= 1
    if damage != "missing":
        with system.open_output_stream(data.path) as stream:
            stream.write(bytes(content))
    state = restored(*one_operator(), load(checkpoint.directory))
    with pytest.raises(CheckpointError) as raised:
        list(state.keyed("keyed"))
    text = str(raised.value)
    assert "operator 'numbers' (subtask 1 of 1)" in text
    assert checkpoint.directory in text
    assert data.path in text


def test_inline_state_that_was_altered_is_refused() -> None:
    part = StatePart("split", PartKind.SPLIT, InlineState(b"data", 0), 1)
    with pytest.raises(CheckpointError, match="part 'split' in the metadata was altered"):
        read_part(TaskRestore(1, ""), Restored(part))


def test_a_savepoint_can_be_moved_and_a_jobs_checkpoints_together(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "old"), tmp_path)
    savepoint = written_checkpoint(place, 1, is_savepoint=True)
    moved = tmp_path / "new place"
    shutil.move(savepoint.directory, moved)
    check_content(load(str(moved)))
    assert load(str(moved)).directory == str(moved)

    source = tmp_path / "1.sst"
    source.write_bytes(b"sorted")
    writer = place.writer()
    file = writer.write_shared("1.sst", str(source))
    writer.close()
    part = StatePart("native", PartKind.NATIVE, writer.write(b""), 1, (0, 128), (file,))
    write_metadata(completed([operator_state({0: [part]})], 1, place.directories(1, False)[0]))
    shutil.move(place.directories.of_job, tmp_path / "job")
    (found,) = load(str(tmp_path / "job" / "chk-1")).shared_files()
    assert found.path.startswith(str(tmp_path / "job" / "shared"))
    assert Path(found.path).read_bytes() == b"sorted"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def endless_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def endless_file_with_metadata(path: Path) -> None:
    path.write_bytes(b"flinkray checkpoint 1\n%064d %d\n" % (0, 10**15))
    os.truncate(path, 1 << 40)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [pipe, endless_device, endless_file, endless_file_with_metadata, Path.mkdir])
def test_what_has_no_end_in_place_of_metadata_or_state_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "chk-1").mkdir()
    make(tmp_path / "chk-1" / "_metadata")
    with pytest.raises(DamagedCheckpointError, match=str(tmp_path / "chk-1")):
        load(str(tmp_path / "chk-1"))
    state = tmp_path / "chk-1" / "state"
    make(state)
    with pytest.raises(DamagedCheckpointError, match=str(state)):
        read_part(
            TaskRestore(1, str(tmp_path)), Restored(StatePart("a", PartKind.SPLIT, FileState(str(state), 0, 9, 7), 1))
        )


# -- a file system that fails ------------------------------------------------------------------------------------


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    place = Place(str(tmp_path / "file"), tmp_path)
    with pytest.raises(CheckpointError, match=r"cannot write state of 'subtask' to .*file/.*chk-1/subtask-"):
        place.writer().write(b"x" * 1_000)
    directory, _ = place.directories(1, False)
    with pytest.raises(CheckpointError, match=r"checkpoint 1 cannot be completed: .*chk-1/_metadata cannot be written"):
        write_metadata(completed(directory=directory))
    with pytest.raises(CheckpointError, match="no filesystem for 'nosuch://x"):
        create_writer(options_for("nosuch://x"), "subtask", 1)


def test_a_full_disk_is_named_and_nothing_half_written_is_left() -> None:
    full = FullDisk(500)
    filesystems.mount("full", fs.PyFileSystem(full))
    try:
        writer = create_writer(options_for("memory://full/chk-1"), "subtask", LIMIT)
        writer.write(b"x" * 400)
        keyed = KeyedTable(np.zeros(WIDE.num_rows, np.int32), WIDE)
        # Arrow's writer writes once more when it is closed, and whoever goes on after that fails for the same reason.
        for write in (lambda: writer.write_with(partial(write_keyed_table, keyed)), lambda: writer.write(b"x")):
            with pytest.raises(CheckpointError, match=r"state of 'subtask' to chk-1/subtask-.*no space left"):
                write()
            assert full.file_names() == []
        full.space = 20
        with pytest.raises(CheckpointError, match=r"_metadata cannot be written: .*no space left"):
            write_metadata(completed(directory="memory://full/chk-1"))
        assert full.file_names() == []
    finally:
        filesystems.unmount("full")


WIDE = pa.table({"value": list(range(10_000))})


class FullDisk(fs.FileSystemHandler):
    """A disk in memory with little space."""

    def __init__(self, space: int) -> None:
        self.space = space
        self._disk = fs._MockFileSystem()

    def file_names(self) -> list[str]:
        infos = self._disk.get_file_info(fs.FileSelector("", recursive=True))
        return [info.path for info in infos if info.type is fs.FileType.File]

    def open_output_stream(self, path: str, metadata: object) -> pa.PythonFile:
        return pa.PythonFile(LimitedStream(self._disk.open_output_stream(path), self.space), mode="w")

    def get_type_name(self) -> str:
        return "full"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return list(self._disk.get_file_info(paths))

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        return list(self._disk.get_file_info(selector))

    def create_dir(self, path: str, recursive: bool) -> None:
        self._disk.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._disk.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._disk.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        self._disk.delete_dir_contents("", accept_root_dir=True)

    def delete_file(self, path: str) -> None:
        self._disk.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self._disk.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self._disk.copy_file(src, dest)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._disk.open_input_stream(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._disk.open_input_file(path)

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        return self._disk.open_append_stream(path)


class LimitedStream:
    def __init__(self, stream: pa.NativeFile, space: int) -> None:
        self._stream = stream
        self._space = space
        self.closed = False

    def write(self, data: pa.Buffer) -> int:
        length = memoryview(data).nbytes
        self._space -= length
        if self._space < 0:
            raise OSError(28, "no space left on device")
        self._stream.write(data)
        return length

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self.closed = True
        self._stream.close()


def test_state_of_no_subtask_has_no_bytes() -> None:
    assert OperatorSubtaskState().nbytes == completed().nbytes == 0
