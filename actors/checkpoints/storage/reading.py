"""Reads the state that operators and tasks start from out of a checkpoint, and checks every byte of it."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pyarrow as pa
from pyarrow import fs

from actors.checkpoints.storage.state_writers import INLINE_FILE
from actors.protocol.checkpoint_handles import (
    FileState,
    InlineState,
    PartKind,
    RestoredPart,
    SharedFile,
    StatePart,
    TaskRestore,
)
from actors.protocol.task_messages import TaskDeployment
from actors.state.snapshots.snapshot import read_keyed_table, read_list
from actors.storage.files import is_missing, is_readable, reason, resolve_for_checkpoint
from flinkray.errors import CheckpointError, DamagedCheckpointError, operator_label
from flinkray.types.records import OperatorId
from graphs.key_groups import key_group_range

_CHUNK_BYTES = 1 << 20


def read_part(restore: TaskRestore, part: RestoredPart) -> bytes:
    """Reads a part as it was written. Blocks.

    Raises:
        DamagedCheckpointError: its file is missing or altered; names it and the checkpoint.
        CheckpointError: it cannot be read.
    """
    return _CheckpointReader(restore, f"part {part.part.name!r}").read(part.part)


class RestoredOperatorState:
    """The state that one operator subtask starts from (a RestoredState). Reading blocks."""

    def __init__(self, deployment: TaskDeployment, restore: TaskRestore, operator_id: OperatorId) -> None:
        name = next(each.name for each in deployment.operators if each.operator_id == operator_id)
        subtask, parallelism = deployment.subtask_index, deployment.parallelism
        self._restore = restore
        self._operator_id = operator_id
        self._parts = restore.operators.get(operator_id, ())
        self._owned = key_group_range(subtask, parallelism, deployment.max_parallelism)
        self._reader = _CheckpointReader(restore, operator_label(name, f"{subtask + 1} of {parallelism}"))

    @property
    def checkpoint_id(self) -> int:
        return self._restore.checkpoint_id

    @property
    def is_rescaled(self) -> bool:
        return self._operator_id in self._restore.rescaled

    def names(self) -> frozenset[str]:
        return frozenset(each.part.name for each in self._parts if each.part.kind is not PartKind.IN_FLIGHT)

    def keyed(self, name: str) -> Iterator[pa.Table]:
        for each in self._named(name, PartKind.KEYED):
            with self._reader.opened(each.part) as stream:
                yield from read_keyed_table(stream, self._owned)

    def items(self, name: str) -> list[Any]:
        lists = self._named(name, PartKind.SPLIT, PartKind.UNION, PartKind.GATHERED, PartKind.BROADCAST)
        return [item for each in lists for item in read_list(self._reader.read(each.part), each.first, each.end)]

    def native(self, name: str) -> Iterator[RestoredNativeState]:
        for each in self._named(name, PartKind.NATIVE):
            yield RestoredNativeState(each.part, self._reader)

    def _named(self, name: str, *kinds: PartKind) -> list[RestoredPart]:
        return [each for each in self._parts if each.part.name == name and each.part.kind in kinds]


@dataclass(frozen=True)
class RestoredNativeState:
    """A part in a state backend's own format (a NativeState)."""

    _part: StatePart
    _reader: _CheckpointReader

    @property
    def key_groups(self) -> range:
        assert self._part.key_groups is not None
        return range(*self._part.key_groups)

    def description(self) -> bytes:
        return self._reader.read(self._part)

    def shared_files(self) -> tuple[SharedFile, ...]:
        return self._part.shared

    def fetch(self, file: SharedFile, local_path: str) -> None:
        self._reader.fetch(file, local_path)


class _CheckpointReader:
    """Reads bytes of a checkpoint, with errors that name the operator and the checkpoint.

    Args:
        what: what cannot be restored if reading fails, for errors.
    """

    def __init__(self, restore: TaskRestore, what: str) -> None:
        self._what = what
        self._checkpoint = f"checkpoint {restore.directory or restore.checkpoint_id}"
        self._directory = restore.directory
        self._system: fs.FileSystem | None = None

    def read(self, part: StatePart) -> bytes:
        if isinstance(part.data, InlineState):
            self._check(part.data.data, part.data.checksum, f"part {part.name!r} in the metadata")
            return part.data.data
        return b"".join(self._chunks(part.data))

    @contextmanager
    def opened(self, part: StatePart) -> Iterator[Any]:
        """Opens a part as a stream for Arrow.

        A slice of a file is read twice, the first time for its checksum, but never in memory as a whole.
        """
        if isinstance(part.data, InlineState):
            yield BytesIO(self.read(part))
            return
        for _ in self._chunks(part.data):
            pass
        with self._errors(part.data.path), self._open(part.data.path) as file:
            yield file.get_stream(part.data.offset, part.data.length)

    def fetch(self, file: SharedFile, local_path: str) -> None:
        """Copies a shared file to a local path."""
        with open(local_path, "wb") as target:
            if file.path.startswith(INLINE_FILE):
                content = base64.b64decode(file.path.removeprefix(INLINE_FILE))
                self._check(content, file.checksum, f"file {file.name!r} in the metadata")
                target.write(content)
                return
            for chunk in self._chunks(FileState(file.path, 0, file.length, file.checksum), is_whole=True):
                target.write(chunk)

    def _chunks(self, data: FileState, is_whole: bool = False) -> Iterator[bytes]:
        """Reads a slice of a file, chunk by chunk; the last chunk is given only if the checksum of all is right."""
        checksum, left = 0, data.length
        with self._errors(data.path), self._open(data.path) as file:
            size = file.size()
            if size < data.offset + data.length or (is_whole and size > data.length):
                raise self._damaged(f"{data.path} has {size} bytes instead of {data.offset + data.length}")
            file.seek(data.offset)
            while left:
                chunk = file.read(min(left, _CHUNK_BYTES))
                if not chunk:
                    raise self._damaged(f"{data.path} ends early")
                checksum = zlib.crc32(chunk, checksum)
                left -= len(chunk)
                if not left and checksum != data.checksum:
                    break
                yield chunk
        if checksum != data.checksum:
            raise self._damaged(f"{data.path} was altered: its checksum does not match")

    def _check(self, data: bytes, checksum: int, what: str) -> None:
        if zlib.crc32(data) != checksum:
            raise self._damaged(f"{what} was altered: its checksum does not match")

    def _open(self, path: str) -> Any:
        if self._system is None:
            self._system, _ = resolve_for_checkpoint(self._directory)
        if not is_readable(self._system, path):
            raise self._damaged(f"{path} is no file")
        return self._system.open_input_file(path)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if self._system is not None and is_missing(self._system, path):
                raise self._damaged(f"there is no file {path}") from error
            raise CheckpointError(f"{self._cannot}: {path} cannot be read: {reason(error)}") from error

    def _damaged(self, what: str) -> DamagedCheckpointError:
        return DamagedCheckpointError(f"{self._cannot}: {what}; bring the file back, or start from another checkpoint")

    @property
    def _cannot(self) -> str:
        return f"{self._what} cannot be restored from {self._checkpoint}"
