"""How the files of a sink become visible exactly once, and how those that lost tasks left behind are removed."""

from __future__ import annotations

import logging
import posixpath
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from pyarrow import fs

from flinkray.connectors.committer import CommitRequest, Committer
from flinkray.connectors.files.storage import storing
from flinkray.connectors.sink import SinkWriterContext
from flinkray.errors import FlinkrayError

log = logging.getLogger(__name__)

# File systems that show a file only once it is whole, and that move it by copying it.
_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})


@dataclass(frozen=True, slots=True)
class FileCommittable:
    """A complete file that waits to be renamed when its checkpoint is complete."""

    hidden: str
    final: str


@dataclass(frozen=True, slots=True)
class AbandonedFiles:
    """Files that attempts before the one that lists them had begun and not prepared: a commit removes them.

    They were listed before this attempt wrote anything. Once a checkpoint that it took part in is complete, the others
    are known to be given up for good; and no checkpoint names their files, which would have another name then. Files
    of later attempts are not on the list, so a commit that comes late does no harm.
    """

    paths: tuple[str, ...]


class FileNames:
    """The names of one writer's files: never those of another subtask, attempt or job.

    A file is ".<name>.<submission>-<subtask>.inprogress" while it is written, ".<name>.pending" once it is prepared,
    and then <name>.

    Args:
        submission: of this sink in one submission of one job; empty: nobody can tell whose unfinished files are.
    """

    def __init__(
        self,
        system: fs.FileSystem,
        directory: str,
        prefix: str,
        suffix: str,
        submission: str,
        context: SinkWriterContext,
    ) -> None:
        self._filesystem = system
        self.directory = directory
        self._suffix = suffix
        self._submission = submission
        self._context = context
        # Each JobMaster counts attempts anew.
        writer = f"{context.attempt_number}-{uuid.uuid4().hex[:8]}"
        self._stem = f"{prefix}-{context.job_id[:8]}-{context.subtask_index}-{writer}"
        self._files = 0
        self._is_object_store = is_object_store(system)

    def next(self, partition: str = "") -> tuple[str, FileCommittable]:
        """The path at which the next file is written, and the names that it has once it is complete.

        Args:
            partition: the directory that it is moved to when it is committed, below the sink's; "": that itself.
        """
        name = f"{self._stem}-{self._files}{self._suffix}"
        self._files += 1
        committable = FileCommittable(self._path(f".{name}.pending"), self._path(posixpath.join(partition, name)))
        if self._is_object_store:
            return committable.hidden, committable
        return self._path(f".{name}.{self._submission}-{self._context.subtask_index}.inprogress"), committable

    def abandoned(self) -> tuple[str, ...]:
        """What attempts of this subtask, or of one that a higher parallelism had, have left unfinished."""
        if self._is_object_store or not self._submission:
            return ()
        pattern = re.compile(rf"\..*\.{self._submission}-(\d+)\.inprogress", re.DOTALL)
        found: list[str] = []
        for info in self._filesystem.get_file_info(fs.FileSelector(self.directory)):
            matched = pattern.fullmatch(info.base_name)
            if matched and int(matched[1]) % self._context.parallelism == self._context.subtask_index:
                found.append(info.path)
        return tuple(sorted(found))

    def _path(self, name: str) -> str:
        return posixpath.join(self.directory, name)


class FileCommitter(Committer):
    """Renames complete files to their final names, and removes abandoned ones."""

    def __init__(self, system: fs.FileSystem) -> None:
        self._filesystem = system

    def commit(self, requests: Sequence[CommitRequest[FileCommittable | AbandonedFiles]]) -> None:
        for request in requests:
            committable = request.committable
            if isinstance(committable, AbandonedFiles):
                self._remove(committable.paths)
                continue
            with storing(f"{committable.final} cannot be made visible"):
                if not self._is_moved(committable):
                    raise lost(committable.final, f"its hidden file {committable.hidden}")

    def abort(self, committables: Sequence[FileCommittable | AbandonedFiles]) -> None:
        for committable in committables:
            if isinstance(committable, FileCommittable):
                delete_file(self._filesystem, committable.hidden)

    def _is_moved(self, committable: FileCommittable) -> bool:
        """Whether the file is where it belongs: now, or since an earlier commit."""
        if exists(self._filesystem, committable.hidden):
            directory = posixpath.dirname(committable.final)
            if directory != posixpath.dirname(committable.hidden):
                self._filesystem.create_dir(directory, recursive=True)
            try:
                self._filesystem.move(committable.hidden, committable.final)
                return True
            except FileNotFoundError:
                pass  # an attempt that was given up commits the same just now
        return exists(self._filesystem, committable.final)

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                delete_file(self._filesystem, path)
            except OSError as error:
                log.warning("%s, which a lost task left behind, cannot be removed: %s", path, error)


def lost(final: str, missing: str) -> FlinkrayError:
    """The error for a file that cannot be committed."""
    return FlinkrayError(
        f"cannot commit {final}: {missing} is gone, and it is not there either; leave files alone that a running job "
        "or a savepoint names, or restore without the state of this sink (give it another uid, and "
        "allow_non_restored_state)"
    )


def delete_file(system: fs.FileSystem, path: str) -> None:
    """Deletes the file; does nothing where it is not there."""
    if exists(system, path):
        try:
            system.delete_file(path)
        except FileNotFoundError:
            return  # somebody else was faster


def exists(system: fs.FileSystem, path: str) -> bool:
    """Whether there is a file."""
    return bool(system.get_file_info(path).type is fs.FileType.File)


def is_object_store(system: fs.FileSystem) -> bool:
    """Whether it shows a file only once it is whole, and moves it by copying it."""
    while isinstance(system, fs.SubTreeFileSystem):
        system = system.base_fs
    return system.type_name in _OBJECT_STORES
