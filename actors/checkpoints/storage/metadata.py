"""The file `_metadata`, which makes a checkpoint complete: finding, reading and writing its format.

    flinkray checkpoint 1
    <sha256 of the body, hexadecimal> <its length in bytes>
    <the body: JSON>

Paths of files in the checkpoint's own directory, or in `shared` beside it, are relative to it, so that a savepoint can
be moved or copied elsewhere as a whole, and a job's checkpoints together with the files that they share.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import posixpath
import re
from typing import Any

import pyarrow as pa
from pyarrow import fs

from actors.checkpoints.coordination.completed import CompletedCheckpoint, OperatorState
from actors.protocol.checkpoint_handles import (
    FileState,
    InlineState,
    OperatorSubtaskState,
    PartKind,
    SharedFile,
    StateBytes,
    StatePart,
)
from actors.storage.files import is_missing, is_readable, read_bytes, reason, resolve_for_checkpoint
from flinkray.errors import CheckpointError, DamagedCheckpointError
from flinkray.filesystems import absolute, join, name_of, parent
from flinkray.types.records import JobId, OperatorId

METADATA = "_metadata"
"""Name of the file; a checkpoint is complete exactly if its directory has it."""
SHARED = "shared"
"""Name of the directory, beside those of a job's checkpoints, for files that several of them use."""
FORMAT_VERSION = 1
"""Version of the format of the file. Parts have formats of their own, which must stay readable as well."""
_MAGIC = b"flinkray checkpoint "
_FIRST_LINE = re.compile(rb"flinkray checkpoint ([1-9][0-9]{0,5})\n")
_CHECKPOINT = re.compile(r"chk-([0-9]+)")
_SECOND_LINE = re.compile(rb"([0-9a-f]{64}) (0|[1-9][0-9]{0,15})\n")
_LONGEST_HEAD = 128
"""Bytes that have both lines before the body."""
_LARGEST_BODY = 16 << 30
"""Bytes of a body that are read at most: none that was written here comes near, as state is in files of its own."""

Json = Any


def load(path_or_uri: str) -> CompletedCheckpoint:
    """Loads the checkpoint or savepoint in a directory. Blocks.

    Args:
        path_or_uri: the directory, or the `_metadata` in it.

    Raises:
        DamagedCheckpointError: the directory has no checkpoint that is complete and undamaged; names the directory, and
            what can be used instead.
        CheckpointError: it cannot be read.
    """
    named = absolute(path_or_uri)
    directory = parent(named) if name_of(named) == METADATA else named
    system, path = resolve_for_checkpoint(directory)
    file = posixpath.join(path, METADATA)
    if not is_readable(system, file):
        raise DamagedCheckpointError(f"{directory} is no checkpoint: its {METADATA} is no file")
    try:
        data = read_bytes(system, file, _read)
    except FileNotFoundError:
        raise _nothing_there(system, directory, path) from None
    return decode(data, directory, path)


def _read(stream: pa.NativeFile) -> bytes:
    """The bytes of metadata, and those behind it as far as they show that there are some; of anything else the first
    ones, as it may be of any size."""
    head = bytes(stream.read(_LONGEST_HEAD))
    first = _FIRST_LINE.match(head)
    second = None if first is None else _SECOND_LINE.match(head, first.end())
    if second is None or int(second[2]) > _LARGEST_BODY:
        return head
    return head + bytes(stream.read(max(0, second.end() + int(second[2]) + 1 - len(head))))


def find_latest(directory: str) -> str:
    """The URI of the newest complete checkpoint (`chk-<n>` with the highest n) in the directory of a job. Blocks.

    Raises:
        CheckpointError: there is none, or the directory cannot be read.
    """
    place = absolute(directory)
    system, path = resolve_for_checkpoint(place)
    latest = _latest(system, path)
    if latest is None:
        raise CheckpointError(f"there is no complete checkpoint in {place}: none of its chk-* has a {METADATA}")
    return join(place, latest)


def _latest(system: fs.FileSystem, path: str) -> str | None:
    """The name of the newest complete checkpoint in a directory; None if there is none."""
    try:
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    except (OSError, pa.ArrowException) as error:
        raise CheckpointError(f"cannot list {path}: {reason(error)}") from error
    found = [(int(match[1]), info.base_name) for info in infos if (match := _CHECKPOINT.fullmatch(info.base_name))]
    names = (name for _, name in sorted(found, reverse=True))
    return next((name for name in names if not is_missing(system, posixpath.join(path, name, METADATA))), None)


def _nothing_there(system: fs.FileSystem, directory: str, path: str) -> DamagedCheckpointError:
    """The error for a directory without metadata, which names the newest complete checkpoint in it or beside it."""
    inside = _latest(system, path)
    if inside is not None:
        return DamagedCheckpointError(
            f"{directory} is no checkpoint, but has some: the newest complete one is {join(directory, inside)}"
        )
    beside = _latest(system, posixpath.dirname(path))
    instead = "" if beside is None else f"; the newest complete one beside it is {join(parent(directory), beside)}"
    if is_missing(system, path):
        return DamagedCheckpointError(f"there is no checkpoint {directory}: the directory does not exist{instead}")
    return DamagedCheckpointError(
        f"checkpoint {directory} is incomplete: it has no {METADATA}, which is written last{instead}"
    )


def encode(checkpoint: CompletedCheckpoint, path: str) -> bytes:
    """The content of `_metadata` for a checkpoint.

    Args:
        path: the path of the checkpoint's directory within its file system; "" for a checkpoint without directory.
    """
    body = json.dumps(_Encoder(path).checkpoint(checkpoint), separators=(",", ":")).encode()
    return _MAGIC + b"%d\n%s %d\n" % (FORMAT_VERSION, hashlib.sha256(body).hexdigest().encode(), len(body)) + body


def decode(data: bytes, directory: str, path: str) -> CompletedCheckpoint:
    """The checkpoint that the content of `_metadata` describes.

    Args:
        directory: URI of the directory in which the metadata was found, for the checkpoint and for errors.
        path: the path of that directory within its file system.

    Raises:
        DamagedCheckpointError: the bytes are not what `encode` gave; names the directory, and how they differ.
    """
    body = _checked_body(data, f"the metadata of checkpoint {directory or 'in memory'}")
    try:
        return _Decoder(path).checkpoint(json.loads(body), directory)
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise DamagedCheckpointError(
            f"the metadata of checkpoint {directory} is whole, but not as this version of flinkray writes it: {error!r}"
        ) from error


def _checked_body(data: bytes, what: str) -> bytes:
    truncated = DamagedCheckpointError(
        f"{what} is truncated: it has {len(data)} bytes; it was not copied or written as a whole"
    )
    altered = DamagedCheckpointError(
        f"{what} was altered: its checksum does not match; take another copy, or an earlier one"
    )
    first = _FIRST_LINE.match(data)
    if first is None:
        is_begun = _MAGIC.startswith(data) or re.fullmatch(_MAGIC + rb"[1-9][0-9]{0,5}", data)
        raise (
            truncated if is_begun else DamagedCheckpointError(f"{what} was altered: it does not begin as metadata does")
        )
    if int(first[1]) > FORMAT_VERSION:
        raise DamagedCheckpointError(
            f"{what} has format version {int(first[1])}, and this flinkray reads up to {FORMAT_VERSION}; "
            "it was written by a newer one, which is needed to read it"
        )
    second = _SECOND_LINE.match(data, first.end())
    if second is None:
        raise altered if b"\n" in data[first.end() :] else truncated
    body = data[second.end() :]
    if len(body) < int(second[2]):
        raise truncated
    if len(body) > int(second[2]) or hashlib.sha256(body).hexdigest().encode() != second[1]:
        raise altered
    return body


# -- values to JSON ----------------------------------------------------------------------------------------------


class _Encoder:
    """Makes JSON of a checkpoint whose directory has the given path."""

    def __init__(self, path: str) -> None:
        self._path = path

    def checkpoint(self, checkpoint: CompletedCheckpoint) -> Json:
        return {
            "job_id": checkpoint.job_id,
            "job_name": checkpoint.job_name,
            "checkpoint_id": checkpoint.checkpoint_id,
            "triggered_ms": checkpoint.triggered_ms,
            "completed_ms": checkpoint.completed_ms,
            "is_savepoint": checkpoint.is_savepoint,
            "operators": [self._operator(state) for state in checkpoint.operators.values()],
        }

    def _operator(self, state: OperatorState) -> Json:
        return {
            "operator_id": state.operator_id,
            "name": state.name,
            "uid": state.uid,
            "computes": state.computes,
            "parallelism": state.parallelism,
            "max_parallelism": state.max_parallelism,
            "finished": sorted(state.finished),
            "coordinator": None if state.coordinator is None else _to_text(state.coordinator),
            "subtasks": [[index, [self._part(part) for part in of.parts]] for index, of in state.subtasks.items()],
            "gates": state.gates,
            "results": state.results,
        }

    def _part(self, part: StatePart) -> Json:
        return {
            "name": part.name,
            "kind": part.kind.value,
            "items": part.items,
            "key_groups": part.key_groups,
            "data": self._data(part.data),
            "shared": [self._shared(file) for file in part.shared],
        }

    def _data(self, data: StateBytes) -> Json:
        if isinstance(data, InlineState):
            return {"inline": _to_text(data.data), "checksum": data.checksum}
        where = self._file(data.path)
        return {**where, "offset": data.offset, "length": data.length, "checksum": data.checksum}

    def _shared(self, file: SharedFile) -> Json:
        return {"name": file.name, **self._file(file.path), "length": file.length, "checksum": file.checksum}

    def _file(self, path: str) -> Json:
        if self._path:
            own = posixpath.join(self._path, "")
            beside = posixpath.join(posixpath.dirname(self._path), SHARED, "")
            if path.startswith(own):
                return {"relative": path.removeprefix(own)}
            if path.startswith(beside):
                return {"beside": path.removeprefix(beside)}
        return {"path": path}


class _Decoder:
    """Makes a checkpoint of JSON that was found in a directory with the given path."""

    def __init__(self, path: str) -> None:
        self._path = path

    def checkpoint(self, read: Json, directory: str) -> CompletedCheckpoint:
        operators = [self._operator(each) for each in read["operators"]]
        return CompletedCheckpoint(
            job_id=JobId(_text(read["job_id"])),
            job_name=_text(read["job_name"]),
            checkpoint_id=_number(read["checkpoint_id"]),
            triggered_ms=_number(read["triggered_ms"]),
            completed_ms=_number(read["completed_ms"]),
            is_savepoint=read["is_savepoint"] is True,
            directory=directory,
            operators={state.operator_id: state for state in operators},
        )

    def _operator(self, read: Json) -> OperatorState:
        return OperatorState(
            operator_id=OperatorId(_text(read["operator_id"])),
            name=_text(read["name"]),
            uid=None if read["uid"] is None else _text(read["uid"]),
            parallelism=_number(read["parallelism"]),
            max_parallelism=_number(read["max_parallelism"]),
            subtasks={
                _number(index): OperatorSubtaskState(tuple(self._part(part) for part in parts))
                for index, parts in read["subtasks"]
            },
            finished=frozenset(map(_number, read["finished"])),
            coordinator=None if read["coordinator"] is None else _to_bytes(read["coordinator"]),
            computes=_text(read.get("computes", "")),  # which earlier versions did not write, nor what follows
            gates=tuple(map(_number, read.get("gates", ()))),
            results=tuple((OperatorId(_text(id)), _number(index)) for id, index in read.get("results", ())),
        )

    def _part(self, read: Json) -> StatePart:
        return StatePart(
            name=_text(read["name"]),
            kind=PartKind(read["kind"]),
            data=self._data(read["data"]),
            items=_number(read["items"]),
            key_groups=None if read["key_groups"] is None else _pair(read["key_groups"]),
            shared=tuple(self._shared(file) for file in read["shared"]),
        )

    def _data(self, read: Json) -> StateBytes:
        if "inline" in read:
            return InlineState(_to_bytes(read["inline"]), _number(read["checksum"]))
        return FileState(self._file(read), *(_number(read[name]) for name in ("offset", "length", "checksum")))

    def _shared(self, read: Json) -> SharedFile:
        return SharedFile(_text(read["name"]), self._file(read), _number(read["length"]), _number(read["checksum"]))

    def _file(self, read: Json) -> str:
        if "relative" in read:
            return posixpath.join(self._path, _text(read["relative"]))
        if "beside" in read:
            return posixpath.join(posixpath.dirname(self._path), SHARED, _text(read["beside"]))
        return _text(read["path"])


def _text(read: Json) -> str:
    if not isinstance(read, str):
        raise TypeError(f"there is a {type(read).__name__} where text belongs")
    return read


def _number(read: Json) -> int:
    if type(read) is not int or not 0 <= read < 1 << 63:
        raise ValueError(f"there is a {type(read).__name__} where a number belongs, or one out of range")
    return read


def _pair(read: Json) -> tuple[int, int]:
    first, second = read
    return _number(first), _number(second)


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _to_bytes(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)
