"""Small files whose names are used only once, of which a fenced log is made. Blocks, and is for threads that may."""

from __future__ import annotations

import os
import posixpath
import uuid
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from actors.storage.files import (
    appears_whole,
    is_missing,
    read_file,
    reason,
    remove_files,
    resolve_for_checkpoint,
    sync,
)
from flinkray.errors import CheckpointError

_UNFINISHED = ".inprogress-"


class RecordFiles(Protocol):
    """The record files of one directory. Methods raise CheckpointErrors that name the file, unless they say
    otherwise."""

    @property
    def directory(self) -> str: ...

    def make_directory(self) -> None:
        """Creates the directory if it does not exist."""

    def names(self) -> list[str]:
        """The names of all files, in any order; empty if the directory does not exist."""

    def read(self, name: str) -> bytes:
        """Reads a file; raises FileNotFoundError if there is none of that name."""

    def create(self, name: str, content: bytes) -> bool:
        """Creates a file with this content, as a whole and for good; False: the name is in use.

        After a CheckpointError the file may exist, or not.
        """

    def remove(self, name: str) -> None:
        """Removes a file; without effect if there is none of that name."""


def record_files(directory: str) -> RecordFiles:
    """The record files of a directory (path or URI), which need not exist.

    Raises:
        CheckpointError: there is no such file system.
    """
    system, path = resolve_for_checkpoint(directory)
    if isinstance(system, fs.LocalFileSystem):
        return LocalRecordFiles(system, path)
    return SharedRecordFiles(system, path)


class SharedRecordFiles:
    """Record files on any pyarrow file system.

    Most file systems cannot create a file only if there is none, so that `create` looks for the file, writes it, and
    reads it again. If two create the same name at the same time, the one whose file is overwritten notices, unless it
    has read its file before the other wrote; then both succeed, and the later content stays. That cannot happen where a
    rename does not replace a file (HDFS).
    """

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._system = system
        self._path = path
        self._is_whole_when_closed = appears_whole(system)

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
            failure = error  # the file may exist all the same
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
        """Removes what is left of an attempt. It may also stay, as nobody reads it."""
        if written != path and not is_missing(self._system, written):
            try:
                remove_files(self._system, [written])
            except CheckpointError:
                return


class LocalRecordFiles(SharedRecordFiles):
    """Record files on a local disk or NFS, where a hard link fails if its name is in use: no two create the same
    name."""

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
