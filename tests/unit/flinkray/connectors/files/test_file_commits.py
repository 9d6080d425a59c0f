"""Files of a sink whose tasks fail: nothing is written over, committed twice or lost, and garbage goes when it may."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from flinkray import ConnectorError, FileSink, FlinkrayError
from flinkray.connectors.files.writing.commits import AbandonedFiles, FileCommittable, FileCommitter, FileNames
from tests.support.api import FakeSubtaskContext, batch_of
from tests.support.commits import requests_of


def context(subtask: int = 0, parallelism: int = 1, attempt: int = 0) -> FakeSubtaskContext:
    made = FakeSubtaskContext(subtask, parallelism)
    made.attempt_number = attempt
    return made


def hidden(directory: Path, ending: str) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(ending))


def values(directory: Path) -> list[int]:
    """Of all visible files."""
    files = [path for path in directory.iterdir() if not path.name.startswith(".")]
    return sorted(int(line) for path in files for line in path.read_text().splitlines())


def prepared_at_barrier(writer: Any) -> list[Any]:
    writer.flush(end_of_input=False)
    return writer.prepare_commit(1)


def lost(sink: Any, subtask: int = 0, parallelism: int = 1, attempt: int = 0) -> None:
    """A task that is killed in the middle of a file."""
    writer = sink.create_writer(context(subtask, parallelism, attempt))
    writer.write(batch_of(1))
    writer._open[0]._stream.close()


def test_attempts_of_one_number_do_not_share_names(tmp_path: Path) -> None:
    """Each JobMaster counts attempts from 0."""
    sink = FileSink(tmp_path, "text").prepare()
    committables = []
    for value in range(2):
        writer = sink.create_writer(context())
        writer.write(batch_of(value))
        committables += prepared_at_barrier(writer)
    FileCommitter(fs.LocalFileSystem()).commit(
        requests_of([each for each in committables if isinstance(each, FileCommittable)])
    )
    assert values(tmp_path) == [0, 1]


def test_unfinished_files_of_a_lost_attempt_go_with_the_first_complete_checkpoint_after_it(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "text").prepare()
    lost(sink)
    writer, committer = sink.create_writer(context(attempt=1), []), sink.create_committer()
    assert committer is not None
    writer.write(batch_of(7))
    committables = prepared_at_barrier(writer)
    assert len(hidden(tmp_path, ".inprogress")) == 1, "not before the checkpoint is complete"
    committer.commit(requests_of(committables))
    committer.commit(requests_of(committables))
    assert hidden(tmp_path, ".inprogress") == []
    assert values(tmp_path) == [7]


def test_without_a_checkpoint_nothing_of_another_attempt_is_removed(tmp_path: Path) -> None:
    """This attempt may have been given up itself."""
    sink = FileSink(tmp_path, "text").prepare()
    lost(sink)
    writer = sink.create_writer(context(attempt=1))
    writer.flush(end_of_input=True)
    assert writer.prepare_commit(1) == []
    assert [type(each) for each in prepared_at_barrier(writer)] == [AbandonedFiles], "the last checkpoint"


def test_files_of_attempts_that_began_later_are_safe_from_one_that_was_given_up(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "text").prepare()
    lost(sink)
    given_up = sink.create_writer(context(attempt=1), [])
    writer = sink.create_writer(context(attempt=2), [])
    writer.write(batch_of(1))
    FileCommitter(fs.LocalFileSystem()).commit(requests_of(prepared_at_barrier(given_up)))
    (committable,) = [each for each in prepared_at_barrier(writer) if isinstance(each, FileCommittable)]
    assert Path(committable.hidden).exists()


def test_nothing_of_other_subtasks_sinks_and_submissions_is_removed(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "text")
    mine, other = sink.prepare(), sink.prepare()
    lost(mine, subtask=1, parallelism=2)
    lost(other)
    lost(sink)
    (tmp_path / ".somebody.inprogress").touch()
    before = hidden(tmp_path, ".inprogress")
    assert prepared_at_barrier(mine.create_writer(context(0, 2, attempt=1), [])) == []
    assert prepared_at_barrier(sink.create_writer(context(attempt=1), [])) == []
    assert hidden(tmp_path, ".inprogress") == before


def test_at_a_lower_parallelism_files_of_all_former_subtasks_go(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, "text").prepare()
    for subtask in range(5):
        lost(sink, subtask, 5)
    committer = FileCommitter(fs.LocalFileSystem())
    for subtask in range(2):
        committer.commit(requests_of(prepared_at_barrier(sink.create_writer(context(subtask, 2), []))))
    assert hidden(tmp_path, ".inprogress") == []


def test_a_file_that_waits_for_its_checkpoint_is_never_taken_for_garbage(tmp_path: Path) -> None:
    """A savepoint may name it, from which the job did not go on."""
    sink = FileSink(tmp_path, "text").prepare()
    writer = sink.create_writer(context())
    writer.write(batch_of(1))
    of_savepoint = prepared_at_barrier(writer)
    committer = FileCommitter(fs.LocalFileSystem())
    committer.commit(requests_of(prepared_at_barrier(sink.create_writer(context(attempt=1), []))))
    committer.commit(requests_of(of_savepoint))
    assert values(tmp_path) == [1]


def test_a_commit_that_another_attempt_has_just_done_is_done(tmp_path: Path) -> None:
    class Slow(fs.LocalFileSystem):  # type: ignore[misc]
        def move(self, src: str, dest: str) -> None:
            fs.LocalFileSystem.move(self, src, dest)
            fs.LocalFileSystem.move(self, src, dest)

    (tmp_path / ".a.pending").write_text("1\n")
    committable = FileCommittable(str(tmp_path / ".a.pending"), str(tmp_path / "a"))
    FileCommitter(Slow()).commit(requests_of([committable]))
    assert values(tmp_path) == [1]


def test_a_file_that_is_gone_is_missed_and_the_way_out_is_named(tmp_path: Path) -> None:
    committable = FileCommittable(str(tmp_path / ".a.pending"), str(tmp_path / "a"))
    with pytest.raises(FlinkrayError, match=r"is gone, and it is not there either.*allow_non_restored_state"):
        FileCommitter(fs.LocalFileSystem()).commit(requests_of([committable]))


def test_object_stores_show_whole_files_only_so_none_is_moved_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkray.connectors.files.writing.commits._OBJECT_STORES", frozenset({"local"}))
    system = fs.SubTreeFileSystem("/bucket", fs.LocalFileSystem())
    names = FileNames(system, "directory", "part", ".csv", "submission", context())
    path, committable = names.next()
    assert path == committable.hidden
    assert names.abandoned() == ()


# -- whatever happens -----------------------------------------------------------------------------------------------


@dataclass
class _Kept:
    """A checkpoint or savepoint: the rows until then, and what its restore commits."""

    rows: int
    committables: list[Any] = field(default_factory=list)


class FileRun:
    """One subtask that writes 0, 1, 2, ... to files; checkpoints, savepoints, kills, zombies, and other jobs."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.random = random.Random(seed)
        self.directory = directory
        self.sink: Any = FileSink(directory, "text").prepare()
        self.committer = FileCommitter(fs.LocalFileSystem())
        self.checkpoint = _Kept(0)
        self.zombies: list[Any] = []
        self._start(self.checkpoint)

    def step(self) -> None:
        action = self.random.random()
        if action < 0.45:
            self.writer.write(batch_of(self.rows))
            self.rows += 1
        elif action < 0.65:
            self.checkpoint = self.prepare()
            self.committer.commit(requests_of(self.checkpoint.committables))
            self.prepared = []
        elif action < 0.75:
            self.prepare()  # a checkpoint that fails: it goes with the next
        elif action < 0.80:
            self.checkpoint = self.prepare()  # complete, and killed before the notice
            self._start(self.checkpoint)
        elif action < 0.88:
            self.zombies.append(self.writer)
            self._start(self.checkpoint)
        elif action < 0.94:
            self.writer.close()
            self._start(self.checkpoint)
        elif self.zombies:
            self._zombie_goes_on(self.random.choice(self.zombies))

    def prepare(self) -> _Kept:
        self.prepared += prepared_at_barrier(self.writer)
        return _Kept(self.rows, list(self.prepared))

    def conclude(self) -> None:
        self.writer.flush(end_of_input=True)
        self.committer.commit(requests_of(self.prepare().committables))
        self.writer.close()
        assert values(self.directory) == list(range(self.rows))

    def _start(self, kept: _Kept) -> None:
        self.committer.commit(requests_of(kept.committables))
        self.rows = kept.rows
        self.prepared: list[Any] = []
        self.writer = self.sink.create_writer(context(), [])

    def _zombie_goes_on(self, zombie: Any) -> None:
        """What it prepares is in no checkpoint; it may even commit what was in the last one."""
        self.committer.commit(requests_of(self.checkpoint.committables))
        try:
            zombie.write(batch_of(-1))
            prepared_at_barrier(zombie)
        except ConnectorError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            self.zombies.remove(zombie)  # it has learned that it was given up


@pytest.mark.parametrize("seed", range(15))
def test_every_row_is_in_one_visible_file_whatever_fails(seed: int, tmp_path: Path) -> None:
    run = FileRun(seed, tmp_path)
    for _ in range(80):
        run.step()
    run.conclude()
