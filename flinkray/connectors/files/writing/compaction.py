"""Making few large files of many small ones before anybody sees them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from msgspec import Struct
from pyarrow import fs

from flinkray.connectors.files.formats import FileSplit
from flinkray.connectors.files.known_formats import FORMATS
from flinkray.connectors.files.writing.commits import FileCommittable
from flinkray.connectors.files.writing.open_files import FileKind, OpenFile
from flinkray.errors import InvalidProgramError

_COPIED_BYTES = 4 << 20
_ROWS_READ = 65_536


@dataclass(frozen=True)
class FileCompaction:
    """When small files of one directory are made one. They are not seen before that.

    Args:
        file_size: in bytes: files are put together as long as one has no more; None: of any size. Those of a directory
            that have as many together do not wait.
        checkpoints: how many checkpoints files wait at most, with which more may come.
        delimiter: bytes between files of lines that are put together.
    """

    file_size: int | None = 128 << 20
    checkpoints: int = 1
    delimiter: bytes = b""

    def __post_init__(self) -> None:
        if self.file_size is not None and self.file_size < 1:
            raise InvalidProgramError(f"FileCompaction(file_size=...) is at least 1 byte, got {self.file_size!r}")
        if self.checkpoints < 1:
            raise InvalidProgramError(f"FileCompaction(checkpoints=...) is at least 1, got {self.checkpoints!r}")


class FileToCompact(Struct, frozen=True):
    """A committable: a complete file that waits for others of its directory."""

    hidden: str
    final: str
    nbytes: int
    schema: str
    """Tells apart files of other columns in the same directory."""


class WaitingFile(Struct, frozen=True):
    """A file, with the checkpoint that it belongs to."""

    checkpoint_id: int
    file: FileToCompact


def bins(
    files: Sequence[WaitingFile], compaction: FileCompaction, checkpoint_id: int, is_last: bool
) -> list[list[str]]:
    """Which files of a directory become one now, by their hidden names: the same ones whenever it is asked for the
    same files, since a commit may be repeated.

    Args:
        files: in order.
        checkpoint_id: the newest one.
        is_last: whether none waits any longer.
    """
    found: list[list[str]] = [[]]
    room = most = compaction.file_size
    oldest = files[0].checkpoint_id if files else 0
    for each in files:
        if most is not None and room is not None:
            if found[-1] and each.file.nbytes > room:
                found.append([])
                room, oldest = most, each.checkpoint_id
            room -= each.file.nbytes
        found[-1].append(each.file.hidden)
    is_full = room is not None and room <= 0
    if not (is_last or is_full or checkpoint_id - oldest + 1 >= compaction.checkpoints):
        found.pop()
    return [each for each in found if each]


def merge(system: fs.FileSystem, kind: FileKind, sources: Sequence[str], target: str, delimiter: bytes = b"") -> None:
    """Writes the rows of files with the same columns, in order, into one; lines with the delimiter between files."""
    with system.open_output_stream(target, compression=None) as stream:
        if not kind.has_lines:
            _merge_columns(system, kind, sources, stream)
            return
        for index, source in enumerate(sources):
            if index:
                stream.write(delimiter)
            with system.open_input_stream(source, compression=None) as lines:
                rows = _without_header(lines) if kind.has_header and index else lines
                while chunk := rows.read(_COPIED_BYTES):
                    stream.write(chunk)


def _merge_columns(system: fs.FileSystem, kind: FileKind, sources: Sequence[str], stream: pa.NativeFile) -> None:
    writer: OpenFile | None = None
    try:
        for source in sources:
            for batch in _batches(system, kind.name, source):
                if writer is None:
                    writer = kind.open(stream, batch.schema, "", FileCommittable("", ""))
                writer.write(batch)
        if writer is not None:
            writer.finish()
    except BaseException:
        if writer is not None:
            with contextlib.suppress(Exception):  # what is given up need not be whole
                writer.abandon()
        raise


def _batches(system: fs.FileSystem, format: str, path: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file, behind an empty batch, which says its columns also where there are none."""
    files = FORMATS[format]()
    schema = files.schema(system, path)
    assert schema is not None, "a file that was written has columns"
    yield pa.RecordBatch.from_pylist([], schema=schema)
    for batch, _ in files.read(FileSplit(path, path, system), schema, _ROWS_READ):
        yield batch


def _without_header(lines: pa.NativeFile) -> io.BufferedReader:
    """A CSV file behind its first line, within which a quoted name may hold line breaks."""
    buffered = io.BufferedReader(lines, _COPIED_BYTES)
    quotes = 0
    while line := buffered.readline():
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            break
    return buffered
