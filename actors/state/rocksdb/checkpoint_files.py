"""The files of a RocksDB in checkpoints: uploaded once and shared by many, or copied back to open the store again.

After Flink's RocksIncrementalSnapshotStrategy.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from actors.protocol.checkpoint_handles import PartKind, SharedFile, StatePart
from actors.state.snapshots.keyed_parts import StateFacts
from actors.state.snapshots.snapshot import NativeState, PendingPart, StateWriter
from flinkray.persistence import dumps, loads

_SHARED_SUFFIX = ".sst"
"""How the names of the files end that RocksDB never changes, so that checkpoints can share them."""
_SMALL_FILES = ("MANIFEST-", "CURRENT")
"""How the names of the other files begin that RocksDB needs; their content goes into the part itself."""


class StoreDescription(Struct, frozen=True):
    """What a NATIVE part holds beside the shared files. Pickled into checkpoints."""

    numbers: dict[str, int]
    """The number of each state in the keys of the store, by the state's name."""
    facts: dict[str, StateFacts]
    """What each state is, by its name."""
    sequence: int
    """The highest sequence number of a list element."""
    files: dict[str, bytes]
    """The content of the small files, by name."""
    may_have_paths: bool = False
    """Whether classes in the store may be written as before they had names, so that keys are other bytes now."""

    @staticmethod
    def of(state: NativeState) -> StoreDescription:
        description = loads(state.description())
        assert isinstance(description, StoreDescription)
        return description


def store_description_1(
    numbers: dict[str, int], facts: dict[str, StateFacts], sequence: int, files: dict[str, bytes]
) -> StoreDescription:
    """What the first version of a StoreDescription is read as."""
    return StoreDescription(numbers, facts, sequence, files, may_have_paths=True)


class UploadedFiles:
    """Which files of earlier checkpoints a new one may refer to, instead of uploading them again. Any thread.

    The files of the latest completed checkpoint stay until a newer one is complete. So a file may be referred to again
    if that checkpoint has it, and all checkpoints that have begun since have it too: whichever of them is completed
    next or aborted, the file stays (files that an aborted checkpoint has uploaded are deleted). RocksDB never gives two
    files of one store the same name.
    """

    def __init__(self) -> None:
        self._completed: dict[str, SharedFile] = {}
        self._under_way: dict[int, dict[str, SharedFile]] = {}
        self._lock = threading.Lock()

    def restored(self, files: Iterable[SharedFile]) -> None:
        """The store has been restored from a completed checkpoint that has these files."""
        with self._lock:
            self._completed = {file.name: file for file in files}

    def begin(self, checkpoint_id: int | None, names: Iterable[str], directory: str) -> dict[str, SharedFile]:
        """The files that a new checkpoint need not upload, by name.

        Args:
            checkpoint_id: None: later checkpoints will not refer to files that this one uploads.
            names: all files of the store.
            directory: URI of the directory for shared files. Files elsewhere belong to another job, which may delete
                them.
        """
        with self._lock:
            known = [self._completed, *self._under_way.values()]
            usable = {
                name: self._completed[name]
                for name in names
                if name in self._completed
                and _is_in(directory, self._completed[name].path)
                and all(files.get(name) == self._completed[name] for files in known)
            }
            if checkpoint_id is not None:
                self._under_way[checkpoint_id] = usable
        return usable

    def written(self, checkpoint_id: int | None, files: Iterable[SharedFile]) -> None:
        """A checkpoint that has begun now has all of its files uploaded."""
        with self._lock:
            if checkpoint_id in self._under_way:
                self._under_way[checkpoint_id] = {file.name: file for file in files}

    def complete(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, and with it all earlier ones."""
        with self._lock:
            if checkpoint_id in self._under_way:
                self._completed = self._under_way[checkpoint_id]
            self._under_way = {number: files for number, files in self._under_way.items() if number > checkpoint_id}

    def abort(self, checkpoint_id: int) -> None:
        with self._lock:
            self._under_way.pop(checkpoint_id, None)


def _is_in(directory: str, path: str) -> bool:
    """Whether a file is in the directory (a URI), going by the last two components of the directory's name.

    One of them is the job's id. Those before them may differ in a path, which has no credentials and perhaps no host.
    """
    parts = directory.partition("?")[0].rstrip("/").split("/")
    return f"/{posixpath.dirname(path)}".endswith("/" + "/".join(parts[-2:]).lstrip("/"))


class NativePart(PendingPart):
    """A part of a snapshot made of the store's files.

    Args:
        directory: a copy of the store, which is removed when the part is written or discarded.
        describe: makes the description, given the content of the small files.
        uploaded: the shared files that need not be uploaded, by name.
        written: called with all shared files of the part once it is written.
    """

    def __init__(
        self,
        name: str,
        directory: str,
        describe: Callable[[dict[str, bytes]], StoreDescription],
        owned: range,
        uploaded: Mapping[str, SharedFile],
        written: Callable[[list[SharedFile]], None],
    ) -> None:
        self._name = name
        self._directory = directory
        self._describe = describe
        self._owned = owned
        self._uploaded = uploaded
        self._written = written

    def write(self, writer: StateWriter) -> StatePart:
        try:
            return self._write(writer)
        finally:
            self.discard()

    def _write(self, writer: StateWriter) -> StatePart:
        shared: list[SharedFile] = []
        small: dict[str, bytes] = {}
        for name in sorted(os.listdir(self._directory)):
            path = os.path.join(self._directory, name)
            if name.endswith(_SHARED_SUFFIX):
                shared.append(self._uploaded.get(name) or writer.write_shared(name, path))
            elif name.startswith(_SMALL_FILES):
                with open(path, "rb") as file:
                    small[name] = file.read()
        data = writer.write(dumps(self._describe(small)))
        self._written(shared)
        groups = (self._owned.start, self._owned.stop)
        return StatePart(self._name, PartKind.NATIVE, data, len(shared), groups, tuple(shared))

    def discard(self) -> None:
        # Two threads may be here at once, when a checkpoint is aborted while it is being written.
        shutil.rmtree(self._directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty: the store, or another checkpoint, is still there
            os.rmdir(os.path.dirname(self._directory))


def fetch(state: NativeState, description: StoreDescription, directory: str) -> None:
    """Copies the files of a store into a new directory, where it can be opened."""
    os.makedirs(directory)
    for file in state.shared_files():
        state.fetch(file, os.path.join(directory, file.name))
    for name, content in description.files.items():
        with open(os.path.join(directory, name), "wb") as small:
            small.write(content)
