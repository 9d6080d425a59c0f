"""The directories of checkpoints and savepoints: what they are called, and how a checkpoint comes and goes as a whole.

    <directory>/<job id>/chk-<n>/_metadata, and the state files of its subtasks
    <directory>/<job id>/shared/     files of incremental checkpoints
    <directory>/savepoint-<first 6 of the job id>-<random>/

Everything that reads, writes or removes blocks, and is for threads that may; doing it twice does no harm.
"""

from __future__ import annotations

import posixpath
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from actors.checkpoints.coordination.completed import CompletedCheckpoint
from actors.checkpoints.storage.metadata import METADATA, SHARED, encode
from actors.checkpoints.storage.state_writers import INLINE_FILE
from actors.storage.files import (
    reason,
    remove_directory,
    remove_files,
    resolve_for_checkpoint,
    write_atomically,
)
from flinkray.errors import CheckpointError
from flinkray.filesystems import absolute, join
from flinkray.types.records import JobId

_CHECKPOINT = re.compile(r"chk-([0-9]+)")


@dataclass(frozen=True)
class CheckpointDirectories:
    """Names the directories of one job's checkpoints and savepoints, and creates none. Pure except for `random`."""

    job_id: JobId
    directory: str
    """Where the checkpoints of all jobs are; empty: the JobMaster keeps checkpoints in memory."""
    savepoint_directory: str
    """Where savepoints go whose request names no directory."""
    random: random.Random

    def __call__(self, checkpoint_id: int, is_savepoint: bool, target: str = "") -> tuple[str, str]:
        """The URIs of a checkpoint's own directory and of the directory for shared files; "" for none.

        Args:
            target: the directory that a savepoint's request names.

        Raises:
            CheckpointError: neither the request nor the configuration names a directory for savepoints.
        """
        if is_savepoint:
            return self._savepoint(target or self.savepoint_directory), ""
        if not self.directory:
            return "", ""
        return join(self.of_job, f"chk-{checkpoint_id}"), join(self.of_job, SHARED)

    @property
    def of_job(self) -> str:
        """URI of the directory of the job's checkpoints; "" where they are in memory."""
        return join(absolute(self.directory), self.job_id) if self.directory else ""

    def _savepoint(self, target: str) -> str:
        if not target:
            raise CheckpointError(
                "there is no directory for the savepoint: name one, or set execution.checkpointing.savepoint-dir"
            )
        return join(absolute(target), f"savepoint-{self.job_id[:6]}-{self.random.getrandbits(48):012x}")


def make_directory(directory: str) -> None:
    """Makes the directory (URI) of a savepoint, and those that it is in.

    Raises:
        CheckpointError: names the directory, and why it cannot be made.
    """
    system, path = resolve_for_checkpoint(directory)
    try:
        system.create_dir(path, recursive=True)
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"cannot make {path}: {reason(error)}") from error


def write_metadata(checkpoint: CompletedCheckpoint) -> None:
    """Makes the checkpoint complete: from here on a job can start from it. Does nothing for a checkpoint in memory.

    Raises:
        CheckpointError: names the file, and why it cannot be written.
    """
    if not checkpoint.directory:
        return
    system, directory = resolve_for_checkpoint(checkpoint.directory)
    path = posixpath.join(directory, METADATA)
    try:
        system.create_dir(directory, recursive=True)
        write_atomically(system, path, encode(checkpoint, directory))
    except (OSError, pa.ArrowException) as error:
        failure = CheckpointError(
            f"checkpoint {checkpoint.checkpoint_id} cannot be completed: {path} cannot be written: {reason(error)}"
        )
        for note in getattr(error, "__notes__", ()):
            failure.add_note(note)
        raise failure from error


def discard(checkpoint: CompletedCheckpoint) -> None:
    """Deletes a checkpoint, but not the files that it shares with others.

    Raises:
        CheckpointError: names what cannot be deleted, and why.
    """
    discard_directory(checkpoint.directory)


def discard_directory(directory: str) -> None:
    """Deletes the directory of a checkpoint, complete or not; nothing if it is "". Raises what `discard` does."""
    if not directory:
        return
    system, path = resolve_for_checkpoint(directory)
    # The metadata goes first, as nobody must start from a checkpoint that is half deleted.
    remove_files(system, [posixpath.join(path, METADATA)])
    remove_directory(system, path)


def delete_files(directory: str, paths: Iterable[str]) -> None:
    """Deletes files by their paths within the file system that `directory` (URI) is in.

    Raises:
        CheckpointError: some cannot be deleted, of which it names the first; all others are deleted.
    """
    in_files = [path for path in paths if not path.startswith(INLINE_FILE)]
    if in_files:
        remove_files(resolve_for_checkpoint(directory)[0], in_files)


def remove_leftovers(job_directory: str, kept: Iterable[str] = (), before: int | None = None) -> None:
    """Deletes checkpoints that nobody goes on from: those that were never completed, and those that newer ones had
    replaced when their JobMaster died before it had deleted them.

    Args:
        kept: the directories (URIs) of checkpoints that stay.
        before: of a job that runs, only checkpoints with ids below this go; None: the job has ended, nobody writes
            there any more, and shared files go with the last checkpoint.

    Raises what `discard` does.
    """
    if not job_directory:
        return
    system, path = resolve_for_checkpoint(job_directory)
    names = {posixpath.basename(directory) for directory in kept}
    try:
        below = [info.base_name for info in system.get_file_info(fs.FileSelector(path, allow_not_found=True))]
        checkpoints = {name: int(found[1]) for name in below if (found := _CHECKPOINT.fullmatch(name))}
        for name, checkpoint_id in checkpoints.items():
            if name not in names and (before is None or checkpoint_id < before):
                discard_directory(join(job_directory, name))
        if before is not None:
            return
        if names.isdisjoint(checkpoints):
            remove_directory(system, posixpath.join(path, SHARED))
        left = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True))
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"cannot tidy up {job_directory}: {reason(error)}") from error
    if not any(info.type is fs.FileType.File for info in left):
        remove_directory(system, path)
