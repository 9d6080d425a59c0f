"""Snapshots of operators in the memory of a test, and restoring operators from them: what storage does, without
files."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.checkpoints.storage.state_writers import InlineStateWriter
from actors.protocol.checkpoint_handles import InlineState, OperatorSubtaskState, PartKind, SharedFile, StatePart
from actors.state.snapshots.snapshot import NativeState, read_keyed_table, read_list

_paths = itertools.count()
_SHARED: dict[str, bytes] = {}
"""The content of shared files by path; a snapshot may refer to files that earlier ones have written."""


class RecordingStateWriter(InlineStateWriter):
    """A StateWriter that keeps shared files in this process, and records which were uploaded.

    One writer may serve many snapshots.
    """

    def __init__(self) -> None:
        self.uploaded: list[str] = []
        """Names of the files that were written as shared ones, in order."""

    def write_shared(self, name: str, local_path: str) -> SharedFile:
        content = Path(local_path).read_bytes()
        path = f"/shared/{next(_paths)}-{name}"
        _SHARED[path] = content
        self.uploaded.append(name)
        return SharedFile(name, path, len(content), zlib.crc32(content))


def delete_shared(file: SharedFile) -> None:
    """Deletes a shared file that no checkpoint uses any more."""
    del _SHARED[file.path]


@dataclass
class MemoryRestoredState:
    """A RestoredState. SPLIT lists stay where they are at the same parallelism, and go round otherwise."""

    former: list[OperatorSubtaskState]
    """The state that each former subtask wrote."""
    owned: range
    subtask_index: int
    parallelism: int
    checkpoint_id: int = 1
    fetched: list[str] = field(default_factory=list)
    """Names of the shared files that were read."""

    @property
    def is_rescaled(self) -> bool:
        return len(self.former) != self.parallelism

    def names(self) -> frozenset[str]:
        return frozenset(part.name for written in self.former for part in written.parts)

    def keyed(self, name: str) -> Iterator[pa.Table]:
        for part in self._parts(name, PartKind.KEYED):
            yield from read_keyed_table(inline_data(part), self.owned)

    def items(self, name: str) -> list[Any]:
        if not self.is_rescaled:
            own = [part for part in self.former[self.subtask_index].parts if part.name == name]
            if own and own[0].kind is PartKind.SPLIT:
                return read_list(inline_data(own[0]))
        split = [item for part in self._parts(name, PartKind.SPLIT) for item in read_list(inline_data(part))]
        if self.is_rescaled and split:
            return split[self.subtask_index :: self.parallelism]
        broadcast = self._parts(name, PartKind.BROADCAST)
        if broadcast:
            return read_list(inline_data(broadcast[self.subtask_index % len(broadcast)]))
        of_all = self._parts(name, PartKind.UNION, PartKind.GATHERED)
        return [item for part in of_all for item in read_list(inline_data(part))]

    def native(self, name: str) -> Iterator[NativeState]:
        for written in self.former:
            for part in written.parts:
                if part.name == name and part.kind is PartKind.NATIVE and _overlap(part, self.owned):
                    yield _MemoryNativeState(part, self.fetched)

    def _parts(self, name: str, *kinds: PartKind) -> list[StatePart]:
        named = [part for written in self.former for part in written.parts if part.name == name]
        return [part for part in named if part.kind in kinds]


@dataclass
class _MemoryNativeState:
    """A NativeState whose files are in this process."""

    part: StatePart
    fetched: list[str]

    @property
    def key_groups(self) -> range:
        assert self.part.key_groups is not None
        return range(*self.part.key_groups)

    def description(self) -> bytes:
        return inline_data(self.part)

    def shared_files(self) -> tuple[SharedFile, ...]:
        return self.part.shared

    def fetch(self, file: SharedFile, local_path: str) -> None:
        content = _SHARED[file.path]
        assert zlib.crc32(content) == file.checksum
        Path(local_path).write_bytes(content)
        self.fetched.append(file.name)


def inline_data(part: StatePart) -> bytes:
    """The bytes of a part that a RecordingStateWriter wrote."""
    assert isinstance(part.data, InlineState)
    return part.data.data


def _overlap(part: StatePart, owned: range) -> bool:
    assert part.key_groups is not None
    first, end = part.key_groups
    return first < owned.stop and owned.start < end
