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
"""Begins the `path` of a SharedFile that has its content in itself: of checkpoints that have no directory."""
_COPY_BYTES = 1 << 20


def create_writer(options: CheckpointOptions, name: str, inline_bytes: int) -> FileStateWriter | MemoryStateWriter:
    """For what one subtask writes of one checkpoint. Does no I/O.

    Args:
        name: of the subtask, for its file and for errors.
        inline_bytes: state of the subtask up to this size travels in its acknowledgement.

    Raises:
        CheckpointError: there is no such file system.
    """
    if not options.directory:
        return MemoryStateWriter()
    return FileStateWriter(options.directory, options.shared_directory, name, inline_bytes)


class MemoryStateWriter:
    """Keeps everything in the handles themselves; of a shared file, its path is a `data:` URI with the content."""

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
        """There is nothing to close."""

    def abort(self) -> None:
        """There is nothing to remove."""


class FileStateWriter:
    """Writes into one file of the checkpoint's directory, made with the first piece that is not kept inline.

    One thread at a time. An error that is not of `write_with`'s own `write` leaves nothing of the snapshot behind,
    where the file system still lets it be removed, and ends the writer.
    """

    def __init__(self, directory: str, shared_directory: str, name: str, inline_bytes: int) -> None:
        self._name = name
        self._filesystem, self._directory = resolve_for_checkpoint(directory)
        self._shared_directory = resolve_for_checkpoint(shared_directory)[1] if shared_directory else self._directory
        self._inline_left = inline_bytes
        # An attempt that was given up may write long after its successor has begun: never into the same file.
        self.path = posixpath.join(self._directory, f"{name}-{uuid.uuid4().hex}")
        self._file: Any = None
        self._position = 0
        self._uploaded: list[str] = []
        self._is_aborted = False

    def write(self, data: bytes | memoryview) -> StateBytes:
        """
        Raises:
            CheckpointError: names the file, and why it cannot be written. So for the other methods.
        """
        view = memoryview(data).cast("B")
        if self._is_aborted:
            raise CheckpointError(f"the snapshot of {self._name!r} was given up; nothing more can be written for it")
        if view.nbytes <= self._inline_left:
            self._inline_left -= view.nbytes
            return _inline(bytes(view))
        start = self._position
        self._append(view)
        return FileState(self.path, start, view.nbytes, zlib.crc32(view))

    def write_with(self, write: Callable[[IO[bytes]], None]) -> StateBytes:
        piece = _Piece(self._inline_left, lambda: self._position, self._append)
        write(cast(IO[bytes], piece))
        kept = piece.kept()
        return self.write(kept) if kept is not None else FileState(self.path, piece.start, piece.length, piece.checksum)

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
        """What was written survives the end of this process, and on a local disk that of the machine."""
        if self._file is not None:
            with self._giving_up_on_errors(self.path):
                file, self._file = self._file, None
                file.close()
                sync(self._filesystem, self.path)

    def abort(self) -> None:
        """Removes what was written, also after `close`; uploaded files too. Without effect the second time."""
        if self._is_aborted:
            return
        self._is_aborted = True
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except (OSError, pa.ArrowException):
            pass  # of no use any more: what is left of it is removed next
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

    @contextmanager
    def _giving_up_on_errors(self, path: str) -> Iterator[None]:
        if self._is_aborted:
            raise CheckpointError(f"the snapshot of {self._name!r} was given up; {path} cannot be written for it")
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            failure = CheckpointError(f"cannot write state of {self._name!r} to {path}: {reason(error)}")
            try:
                self.abort()
            except CheckpointError as left:
                failure.add_note(str(left))
            raise failure from error


class _Piece(io.RawIOBase):
    """A stream that keeps up to `keep` bytes in memory, and hands everything to `append` once there are more."""

    def __init__(self, keep: int, position: Callable[[], int], append: Callable[[memoryview], None]) -> None:
        super().__init__()
        self._keep = keep
        self._kept: bytearray | None = bytearray()
        self._position = position
        self._append = append
        self.start = position()
        self.length = 0
        self.checksum = 0

    def kept(self) -> memoryview | None:
        """The whole piece; None if it was appended."""
        return None if self._kept is None else memoryview(self._kept)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.length

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._kept is not None and self.length + view.nbytes > self._keep:
            kept, self._kept = self._kept, None
            self.start = self._position()
            self._append(memoryview(kept))
        if self._kept is not None:
            self._kept += view
        else:
            self._append(view)
        self.length += view.nbytes
        self.checksum = zlib.crc32(view, self.checksum)
        return view.nbytes


def _inline(data: bytes) -> InlineState:
    return InlineState(data, zlib.crc32(data))
