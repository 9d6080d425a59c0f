"""Small files of which each name is given once: what a fenced log is made of. Blocks; for threads that may."""

from __future__ import annotations

import os
import posixpath
import uuid
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from actors.storage.files import is_missing, read_file, reason, remove_files, resolve_for_checkpoint, sync
from flinkray.errors import CheckpointError

_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
"""Types of pyarrow file systems where a file appears as a whole, once it is closed, and a move is a copy."""

_UNFINISHED = ".inprogress-"


class RecordFiles(Protocol):
    """One directory. Errors are CheckpointErrors that name the file, where nothing else is said."""

    @property
    def directory(self) -> str: ...

    def make_directory(self) -> None:
        """Without effect where it is there."""

    def names(self) -> list[str]:
        """Of the files, in any order; empty where there is no directory."""

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError where there is none."""

    def create(self, name: str, content: bytes) -> bool:
        """Gives the name to this content, as a whole and for good; False: it is taken.

        After a CheckpointError it may have happened, or not.
        """

    def remove(self, name: str) -> None:
        """Without effect where there is none."""


def record_files(directory: str) -> RecordFiles:
    """Files below a path or URI, whose directory need not exist.

    Raises:
        CheckpointError: there is no such file system.
    """
    system, path = resolve_for_checkpoint(directory)
    if isinstance(system, fs.LocalFileSystem):
        return LocalRecordFiles(system, path)
    return SharedRecordFiles(system, path)


class SharedRecordFiles:
    """On any pyarrow file system.

    Most have nothing that creates a file only if there is none, so that `create` looks, writes, and reads again what
    has become of it. Of two that create a name at the same time, the one that is overwritten learns so unless it read
    before the other wrote; then both have succeeded, and the later content stays. Where a rename does not replace
    (HDFS) that cannot be.
    """

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._system = system
        self._path = path
        self._is_whole_when_closed = system.type_name in _OBJECT_STORES

    @property
    def directory(self) -> str:
        return self._path

    def make_directory(self) -> None:
        try:
            self._system.create_dir(self._path, recursive=True)
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(f"cannot create {self._path}: {reason(error)}") from error

    def names(self) -> list[str]:
        try:
            found = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(f"cannot list {self._path}: {reason(error)}") from error
        return [info.base_name for info in found if info.is_file and _UNFINISHED not in info.base_name]

    def read(self, name: str) -> bytes:
        return read_file(self._system, self._at(name))

    def create(self, name: str, content: bytes) -> bool:
        path = self._at(name)
        if self._content(name) is not None:
            return False
        written = path if self._is_whole_when_closed else f"{path}{_UNFINISHED}{uuid.uuid4().hex}"
        failure: BaseException | None = None
        try:
            self._write(written, content)
            if written != path:
                self._system.move(written, path)
        except (OSError, pa.ArrowException) as error:
            failure = error  # what counts is what is there now
        stored = self._content(name)
        if stored is None or failure is not None:
            self._forget(written, path)
        if stored is not None:
            return stored == content
        cause = "it is gone again" if failure is None else reason(failure)
        raise CheckpointError(f"cannot write {path}: {cause}") from failure

    def remove(self, name: str) -> None:
        remove_files(self._system, [self._at(name)])

    def _at(self, name: str) -> str:
        return posixpath.join(self._path, name)

    def _content(self, name: str) -> bytes | None:
        try:
            return self.read(name)
        except FileNotFoundError:
            return None

    def _write(self, path: str, content: bytes) -> None:
        with self._system.open_output_stream(path, compression=None) as stream:
            stream.write(content)
        sync(self._system, path)

    def _forget(self, written: str, path: str) -> None:
        """What is left of an attempt; nobody looks at it, so that it may also stay."""
        if written != path and not is_missing(self._system, written):
            try:
                remove_files(self._system, [written])
            except CheckpointError:
                return


class LocalRecordFiles(SharedRecordFiles):
    """On a local disk or NFS, where a hard link fails if its name is taken: no two ever create the same name."""

    def create(self, name: str, content: bytes) -> bool:
        path = self._at(name)
        written = f"{path}{_UNFINISHED}{uuid.uuid4().hex}"
        try:
            self._write(written, content)
            try:
                os.link(written, path)
            except FileExistsError:
                return False
            sync(self._system, self._path)
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(f"cannot write {path}: {reason(error)}") from error
        finally:
            self._forget(written, path)
        return True
