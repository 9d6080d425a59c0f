"""Reads, writes and removes files of checkpoints on any pyarrow file system, with errors that say what failed."""

from __future__ import annotations

import os
import posixpath
import stat
import uuid
from collections.abc import Callable, Iterable

import pyarrow as pa
from pyarrow import fs

from flinkray.errors import CheckpointError, InvalidProgramError
from flinkray.filesystems import resolve

_OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
"""The types of pyarrow file systems that are object stores."""


def resolve_for_checkpoint(directory: str) -> tuple[fs.FileSystem, str]:
    """The file system of a directory (path or URI), and the path in it (flinkray.filesystems.resolve).

    Raises:
        CheckpointError: there is no such file system.
    """
    try:
        return resolve(directory)
    except InvalidProgramError as error:
        raise CheckpointError(f"checkpoint directory {directory}: {error}") from error


def appears_whole(system: fs.FileSystem) -> bool:
    """Whether a file appears as a whole once it is closed, as in object stores, where a move is a copy."""
    return system.type_name in _OBJECT_STORES


def sync(system: fs.FileSystem, path: str) -> None:
    """Makes a local file or directory durable; other file systems make a file durable when it is closed."""
    if isinstance(system, fs.LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_files(system: fs.FileSystem, paths: Iterable[str]) -> None:
    """Removes files; those that do not exist are skipped.

    Raises:
        CheckpointError: some cannot be removed, of which it names the first; all others are removed.
    """
    failures: list[tuple[str, Exception]] = []
    for path in paths:
        try:
            system.delete_file(path)
        except FileNotFoundError:
            pass
        except (OSError, pa.ArrowException) as error:
            # Some file systems have no special error for a file that does not exist.
            if not is_missing(system, path):
                failures.append((path, error))
    if failures:
        first, cause = failures[0]
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise CheckpointError(f"cannot remove {first}{more}: {reason(cause)}") from cause


def write_atomically(system: fs.FileSystem, path: str, content: bytes) -> None:
    """Writes a file so that it appears as a whole, and replaces one of that name. Its directory must exist.

    A rename is atomic on local disks, NFS and HDFS. On object stores it is a copy and a delete, but there a file
    appears only when it is closed, so that writing it in place is atomic.

    Raises:
        OSError, pa.ArrowException: the file cannot be written; a note names what is left of it, if anything.
    """
    written = path if appears_whole(system) else f"{path}.inprogress-{uuid.uuid4().hex}"
    try:
        with system.open_output_stream(written, compression=None) as stream:
            stream.write(content)
        sync(system, written)
        if written != path:
            _move(system, written, path)
            sync(system, posixpath.dirname(path))
    except (OSError, pa.ArrowException) as error:
        try:
            remove_files(system, [written])
        except CheckpointError as left:
            error.add_note(str(left))
        raise


def _move(system: fs.FileSystem, source: str, target: str) -> None:
    try:
        system.move(source, target)
    except (OSError, pa.ArrowException):
        # HDFS does not replace a file. The existing one was written for the same purpose, and is as good.
        if is_missing(system, target):
            raise
        remove_files(system, [source])


def remove_directory(system: fs.FileSystem, path: str) -> None:
    """Removes a directory with its content, if it exists.

    Raises:
        CheckpointError: names the directory, and why it cannot be removed.
    """
    try:
        system.delete_dir(path)
    except FileNotFoundError:
        return
    except (OSError, pa.ArrowException) as error:
        if not is_missing(system, path):
            raise CheckpointError(f"cannot delete {path}: {reason(error)}") from error


def is_missing(system: fs.FileSystem, path: str) -> bool:
    """Whether there is surely nothing at the path; False if the file system cannot tell."""
    try:
        return bool(system.get_file_info(path).type is fs.FileType.NotFound)
    except (OSError, pa.ArrowException):
        return False


def is_readable(system: fs.FileSystem, path: str) -> bool:
    """Whether reading the path comes to an end: a pipe or device on the local disk may have none."""
    if not isinstance(system, fs.LocalFileSystem):
        return True
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True  # whoever opens it learns what is wrong


def reason(error: BaseException) -> str:
    """The text of a file system's error, in one line."""
    text = " ".join(str(error).split())
    return text or type(error).__name__


def read_file(system: fs.FileSystem, path: str) -> bytes:
    """Reads a whole file.

    Raises:
        FileNotFoundError: there is no such file.
        CheckpointError: it cannot be read.
    """
    return read_bytes(system, path, lambda stream: bytes(stream.read()))


def read_bytes(system: fs.FileSystem, path: str, read: Callable[[pa.NativeFile], bytes]) -> bytes:
    """What `read` takes of a file; raises what `read_file` does."""
    if not is_readable(system, path):
        raise CheckpointError(f"cannot read {path}: it is no file")
    try:
        with system.open_input_stream(path, compression=None) as stream:
            return read(stream)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        if is_missing(system, path):
            raise FileNotFoundError(path) from error
        raise CheckpointError(f"cannot read {path}: {reason(error)}") from error
