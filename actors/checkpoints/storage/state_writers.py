"""Writes one subtask's part of one checkpoint: small state into the acknowledgement, the rest into a file."""

from __future__ import annotations

import base64
import io
import posixpath
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from actors.protocol.checkpoint_handles import FileState, InlineState, SharedFile, StateBytes
from actors.protocol.elements import CheckpointOptions
from actors.storage.files import reason, remove_files, resolve_for_checkpoint, sync
from flinkray.errors import CheckpointError

INLINE_FILE = "data:;base64,"
"""Begins the `path` of a SharedFile that carries its content itself, as those of checkpoints without a directory do."""
_COPY_BYTES = 1 << 20


def create_writer(options: CheckpointOptions, name: str, inline_bytes: int) -> FileStateWriter | InlineStateWriter:
    """A writer for one subtask's part of one checkpoint. Does no I/O.

    Args:
        name: names the subtask, in its file's name and in errors.
        inline_bytes: how much state of the subtask may travel in its acknowledgement.

    Raises:
        CheckpointError: there is no such file system.
    """
    if not options.directory:
        return InlineStateWriter()
    return FileStateWriter(options.directory, options.shared_directory, name, inline_bytes)


class InlineStateWriter:
    """Puts all state into the handles that it returns; the path of a shared file is a `data:` URI with its content."""

    def write(self, data: bytes | memoryview) -> InlineState:
        return _inline(bytes(data))

    def write_with(self, write: Callable[[IO[bytes]], None]) -> InlineState:
        stream = io.BytesIO()
        write(stream)
        return _inline(stream.getvalue())

    def write_shared(self, name: str, local_path: str) -> SharedFile:
        content = Path(local_path).read_bytes()
        path = INLINE_FILE + base64.b64encode(content).decode("ascii")
        return SharedFile(name, path, len(content), zlib.crc32(content))

    def close(self) -> None:
        """Nothing to do, as no file is open."""

    def abort(self) -> None:
        """Nothing to do, as no file was written."""


class FileStateWriter:
    """Writes into one file of the checkpoint's directory, created for the first state that does not go inline.

    Used by one thread at a time. A file system's error ends the writer, and removes all that it has written if the file
    system still can; an error of the function given to `write_with` does not.
    """

    def __init__(self, directory: str, shared_directory: str, name: str, inline_bytes: int) -> None:
        self._name = name
        self._filesystem, self._directory = resolve_for_checkpoint(directory)
        self._shared_directory = resolve_for_checkpoint(shared_directory)[1] if shared_directory else self._directory
        self._inline_left = inline_bytes
        # An attempt that was abandoned may write long after the next one has begun, and must not write into its file.
        self.path = posixpath.join(self._directory, f"{name}-{uuid.uuid4().hex}")
        self._file: Any = None
        self._position = 0
        self._uploaded: list[str] = []
        self._is_aborted = False
        self._failure: CheckpointError | None = None
        """The file system's error that ended the writer."""

    def write(self, data: bytes | memoryview) -> StateBytes:
        """
        Raises:
            CheckpointError: names the file, and why it cannot be written; the other methods raise it as well.
        """
        view = memoryview(data).cast("B")
        self._check_goes_on()
        if view.nbytes <= self._inline_left:
            self._inline_left -= view.nbytes
            return _inline(bytes(view))
        start = self._position
        self._append(view)
        return FileState(self.path, start, view.nbytes, zlib.crc32(view))

    def write_with(self, write: Callable[[IO[bytes]], None]) -> StateBytes:
        stream = _SpillingStream(self._inline_left, lambda: self._position, self._append)
        try:
            write(cast(IO[bytes], stream))
        except Exception:
            # Arrow's writers write once more while they are closed, and so hide the first error behind a second one.
            self._check_goes_on()
            raise
        in_memory = stream.in_memory()
        if in_memory is not None:
            return self.write(in_memory)
        return FileState(self.path, stream.start, stream.length, stream.checksum)

    def write_shared(self, name: str, local_path: str) -> SharedFile:
        path = posixpath.join(self._shared_directory, f"{uuid.uuid4().hex}-{posixpath.basename(name)}")
        length = checksum = 0
        with self._giving_up_on_errors(path), open(local_path, "rb") as source:
            self._filesystem.create_dir(self._shared_directory, recursive=True)
            self._uploaded.append(path)
            with self._filesystem.open_output_stream(path, compression=None) as target:
                while chunk := source.read(_COPY_BYTES):
                    target.write(chunk)
                    length += len(chunk)
                    checksum = zlib.crc32(chunk, checksum)
            sync(self._filesystem, path)
        return SharedFile(name, path, length, checksum)

    def close(self) -> None:
        """Makes what was written durable: it survives the end of this process, and on a local disk that of the
        machine."""
        if self._file is not None:
            with self._giving_up_on_errors(self.path):
                file, self._file = self._file, None
                file.close()
                sync(self._filesystem, self.path)

    def abort(self) -> None:
        """Removes what was written, and files that were uploaded, also after `close`. Without effect the second
        time."""
        if self._is_aborted:
            return
        self._is_aborted = True
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except (OSError, pa.ArrowException):
            pass  # the file is removed next
        finally:
            written = [self.path] if self._position or file is not None else []
            remove_files(self._filesystem, [*written, *self._uploaded])

    def _append(self, data: memoryview) -> None:
        with self._giving_up_on_errors(self.path):
            if self._file is None:
                self._filesystem.create_dir(self._directory, recursive=True)
                self._file = self._filesystem.open_output_stream(self.path, compression=None)
            self._file.write(data)
            self._position += data.nbytes

    def _check_goes_on(self) -> None:
        """Raises the error that ended the writer, if it has ended."""
        if self._failure is not None:
            raise self._failure
        if self._is_aborted:
            raise CheckpointError(f"the snapshot of {self._name!r} was given up; nothing more can be written for it")

    @contextmanager
    def _giving_up_on_errors(self, path: str) -> Iterator[None]:
        self._check_goes_on()
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            failure = CheckpointError(f"cannot write state of {self._name!r} to {path}: {reason(error)}")
            self._failure = failure
            try:
                self.abort()
            except CheckpointError as left:
                failure.add_note(str(left))
            raise failure from error


class _SpillingStream(io.RawIOBase):
    """A stream that buffers up to `limit` bytes in memory, and hands everything to `append` once there are more.

    Args:
        position: where in the file the next bytes will be.
        append: writes bytes to the file.
    """

    def __init__(self, limit: int, position: Callable[[], int], append: Callable[[memoryview], None]) -> None:
        super().__init__()
        self._limit = limit
        self._buffer: bytearray | None = bytearray()
        self._position = position
        self._append = append
        self.start = position()
        self.length = 0
        self.checksum = 0

    def in_memory(self) -> memoryview | None:
        """Everything that was written; None if it went to `append`."""
        return None if self._buffer is None else memoryview(self._buffer)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.length

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._buffer is not None and self.length + view.nbytes > self._limit:
            buffer, self._buffer = self._buffer, None
            self.start = self._position()
            self._append(memoryview(buffer))
        if self._buffer is not None:
            self._buffer += view
        else:
            self._append(view)
        self.length += view.nbytes
        self.checksum = zlib.crc32(view, self.checksum)
        return view.nbytes


def _inline(data: bytes) -> InlineState:
    return InlineState(data, zlib.crc32(data))
