"""One committer for the files of all subtasks: it puts small ones together, and commits whole partitions."""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Sequence
from typing import Any

from pyarrow import fs

from flinkray.connectors.committer import END_OF_INPUT, CommitRequest, Committer
from flinkray.connectors.files.partitions import Partitions, partition_values
from flinkray.connectors.files.paths import find_files
from flinkray.connectors.files.writing.commits import (
    AbandonedFiles,
    FileCommittable,
    FileCommitter,
    delete_file,
    exists,
    is_object_store,
    lost,
)
from flinkray.connectors.files.writing.compaction import FileCompaction, FileToCompact, WaitingFile, bins, merge
from flinkray.connectors.files.writing.open_files import FileKind
from flinkray.connectors.files.writing.partition_commit import (
    CommittedPartition,
    PartitionCommit,
    PartitionWritten,
    WriterProgress,
)


class GlobalFileCommitter(Committer):
    """Commits what the writers of all subtasks prepared for a checkpoint: first files, then the partitions they are in.

    Whatever it decides follows from the requests alone, so that a commit that is repeated decides the same.

    Args:
        submission: as of `FileNames`: what is being written has it in its name, for who removes it if this one is lost.
    """

    def __init__(
        self,
        system: fs.FileSystem,
        directory: str,
        kind: FileKind,
        partitions: Partitions,
        compaction: FileCompaction | None,
        partition_commit: PartitionCommit | None,
        submission: str,
        overwrite: bool = False,
        emptied: str | None = None,
    ) -> None:
        self._filesystem = system
        self._directory = directory
        self._kind = kind
        self._partitions = partitions
        self._compaction = compaction
        self._partition_commit = partition_commit
        self._submission = submission
        self._overwrite = overwrite
        self._emptied = emptied
        self._files = FileCommitter(system)

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        progress = [each.committable for each in requests if isinstance(each.committable, WriterProgress)]
        checkpoint_id = max(each.checkpoint_id for each in requests)
        is_last = checkpoint_id == END_OF_INPUT or (bool(progress) and all(each.has_ended for each in progress))
        if self._overwrite:
            if not is_last:
                self._files.commit([each for each in requests if isinstance(each.committable, AbandonedFiles)])
                for request in requests:
                    if not isinstance(request.committable, AbandonedFiles | WriterProgress):
                        request.carry_over()
                return
            self._remove_old([request.committable for request in requests])
        due = self._due_partitions(requests, progress, is_last)
        waiting: dict[tuple[str, str], list[CommitRequest[FileToCompact]]] = {}
        others: list[CommitRequest[Any]] = []
        for request in requests:
            committable = request.committable
            if isinstance(committable, FileToCompact):
                group = posixpath.dirname(committable.final), committable.schema
                waiting.setdefault(group, []).append(request)
            elif not isinstance(committable, WriterProgress | PartitionWritten):
                others.append(request)
        paths = {self._path(partition) for partition in due}
        for (directory, _), group_of in waiting.items():
            self._compact(group_of, checkpoint_id, is_last or directory in paths)
        self._files.commit(others)
        self._commit_partitions(requests, due)

    def abort(self, committables: Sequence[Any]) -> None:
        for each in committables:
            if isinstance(each, FileToCompact):
                delete_file(self._filesystem, each.hidden)
        self._files.abort([each for each in committables if isinstance(each, FileCommittable)])

    def _remove_old(self, committables: Sequence[Any]) -> None:
        """Removes the files that there are in the directories of new ones, but for those that are moved already."""
        new = {each.final for each in committables if isinstance(each, FileCommittable | FileToCompact)}
        new |= {_compacted(final) for final in new}
        directories = {posixpath.dirname(final) for final in new}
        if not self._partitions.columns:
            directories.add(self._directory)
        if self._emptied is not None:
            directories.add(self._path(self._emptied))
        for directory in sorted(directories):
            for found in find_files(directory, self._filesystem):
                if found.path not in new:
                    delete_file(self._filesystem, found.path)

    # -- partitions --------------------------------------------------------------------------------------------------

    def _due_partitions(
        self, requests: Sequence[CommitRequest[Any]], progress: Sequence[WriterProgress], is_last: bool
    ) -> list[str]:
        """The partitions that are complete, in order."""
        created: dict[str, int] = {}
        for request in requests:
            if isinstance(request.committable, PartitionWritten):
                partition, since = request.committable.partition, request.committable.created_ms
                created[partition] = min(since, created.get(partition, since))
        commit = self._partition_commit
        if commit is None:
            return []
        if is_last:
            return sorted(created)
        if not progress:
            return []  # these are carried over, and restored without what came with them
        watermark, now_ms = min(each.watermark for each in progress), max(each.now_ms for each in progress)
        return sorted(
            partition
            for partition, since in created.items()
            if commit.is_due(self._values(partition), since, now_ms, watermark)
        )

    def _commit_partitions(self, requests: Sequence[CommitRequest[Any]], due: Sequence[str]) -> None:
        """Once their files are there."""
        if self._partition_commit is None:
            return
        for partition in due:
            found = CommittedPartition(self._path(partition), self._values(partition), self._filesystem)
            self._partition_commit.carry_out(found)
        waiting: set[str] = set(due)
        for request in requests:
            if isinstance(request.committable, PartitionWritten) and request.committable.partition not in waiting:
                waiting.add(request.committable.partition)  # one request is enough: the first, which is the oldest
                request.carry_over()

    def _values(self, partition: str) -> dict[str, str | None]:
        return partition_values(f"{partition}/", self._partitions.columns, self._partitions.default)

    def _path(self, partition: str) -> str:
        return posixpath.join(self._directory, partition) if partition else self._directory

    # -- small files -------------------------------------------------------------------------------------------------

    def _compact(self, requests: Sequence[CommitRequest[FileToCompact]], checkpoint_id: int, is_last: bool) -> None:
        """Makes one file of several, of one directory and with the same columns; what is to wait is carried over."""
        assert self._compaction is not None
        by_name = {request.committable.hidden: request for request in requests}
        ordered = sorted(requests, key=lambda request: (request.checkpoint_id, request.committable.hidden))
        files = [WaitingFile(request.checkpoint_id, request.committable) for request in ordered]
        for names in bins(files, self._compaction, checkpoint_id, is_last):
            together = [by_name.pop(name).committable for name in names]
            if len(together) == 1:
                (alone,) = together
                self._files.commit([CommitRequest(FileCommittable(alone.hidden, alone.final), checkpoint_id)])
            else:
                self._merge(together, self._compaction.delimiter)
        for request in by_name.values():
            request.carry_over()

    def _merge(self, files: Sequence[FileToCompact], delimiter: bytes) -> None:
        """Writes a file of all these and removes them; does what is left of that where it was begun before."""
        final = _compacted(files[0].final)
        directory, name = posixpath.split(final)
        if not exists(self._filesystem, final):
            self._filesystem.create_dir(directory, recursive=True)
            if is_object_store(self._filesystem):
                unfinished = final  # which is there once it is whole
            else:
                hidden = f".{name}.{uuid.uuid4().hex[:8]}.{self._submission}-0.inprogress"
                unfinished = posixpath.join(self._directory, hidden)
            try:
                merge(self._filesystem, self._kind, [file.hidden for file in files], unfinished, delimiter)
                if unfinished != final:
                    self._filesystem.move(unfinished, final)
            except FileNotFoundError:
                # An attempt that was given up does the same just now, and was faster.
                if not exists(self._filesystem, final):
                    raise lost(final, "one of its hidden files") from None
        for file in files:
            delete_file(self._filesystem, file.hidden)


def _compacted(final: str) -> str:
    """The name of what is made of several files, of which the first would have this one."""
    directory, name = posixpath.split(final)
    return posixpath.join(directory, f"compacted-{name}")
