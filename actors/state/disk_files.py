"""Checkpoints of a RocksDB as files: what is uploaded once and used by many checkpoints, and how it comes back."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from actors.checkpoints.handles import PartKind, SharedFile, StatePart
from actors.state.keyed_parts import StateFacts
from actors.state.snapshot import NativeState, PendingPart, StateWriter

_SHARED_SUFFIX = ".sst"
"""Of the files that RocksDB never changes; of the others, those that it needs are small and go with the part."""
_SMALL_FILES = ("MANIFEST-", "CURRENT")


@dataclass(frozen=True, slots=True)
class StoreDescription:
    """What a NATIVE part holds beside the shared files."""

    numbers: dict[str, int]
    """Of the states, by name."""
    facts: dict[str, StateFacts]
    sequence: int
    files: dict[str, bytes]
    """The small files."""

    @staticmethod
    def of(state: NativeState) -> StoreDescription:
        description = pickle.loads(state.description())
        assert isinstance(description, StoreDescription)
        return description


class UploadedFiles:
    """Which local files are already where the checkpoints share files. Any thread.

    RocksDB never gives two files of one store the same name.
    """

    def __init__(self) -> None:
        self._files: dict[str, SharedFile] = {}
        self._lock = threading.Lock()

    def add(self, files: Iterable[SharedFile]) -> None:
        with self._lock:
            self._files.update((file.name, file) for file in files)

    def keep(self, names: set[str]) -> None:
        """Forgets the files that are not in use any more."""
        with self._lock:
            self._files = {name: file for name, file in self._files.items() if name in names}

    def within(self, directory: str) -> dict[str, SharedFile]:
        """Those that are in that directory (a URI); others belong to another job, which may delete them."""
        parts = urlsplit(directory)
        prefix = (parts.netloc + parts.path).strip("/") + "/"
        with self._lock:
            return {name: file for name, file in self._files.items() if file.path.lstrip("/").startswith(prefix)}


class NativePart(PendingPart):
    """A copy of the store in `directory`, of which the files that are not `uploaded` yet are uploaded.

    Files count as uploaded once all of the part is written.
    """

    def __init__(
        self,
        name: str,
        directory: str,
        describe: Callable[[dict[str, bytes]], StoreDescription],
        owned: range,
        uploaded: UploadedFiles,
        shared_directory: str,
    ) -> None:
        self._name = name
        self._directory = directory
        self._describe = describe
        self._owned = owned
        self._uploaded = uploaded
        self._shared_directory = shared_directory

    def write(self, writer: StateWriter) -> StatePart:
        try:
            return self._write(writer)
        finally:
            self.discard()

    def _write(self, writer: StateWriter) -> StatePart:
        names = sorted(os.listdir(self._directory))
        known = self._uploaded.within(self._shared_directory)
        shared: list[SharedFile] = []
        small: dict[str, bytes] = {}
        for name in names:
            path = os.path.join(self._directory, name)
            if name.endswith(_SHARED_SUFFIX):
                shared.append(known.get(name) or writer.write_shared(name, path))
            elif name.startswith(_SMALL_FILES):
                with open(path, "rb") as file:
                    small[name] = file.read()
        data = writer.write(pickle.dumps(self._describe(small), protocol=5))
        self._uploaded.add(shared)
        groups = (self._owned.start, self._owned.stop)
        return StatePart(self._name, PartKind.NATIVE, data, len(shared), groups, tuple(shared))

    def discard(self) -> None:
        # By two threads at once, when a checkpoint is given up while it is being written.
        shutil.rmtree(self._directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty: the store, or another checkpoint, is still there
            os.rmdir(os.path.dirname(self._directory))


def fetch(state: NativeState, description: StoreDescription, directory: str) -> None:
    """Puts the files of a store where it can be opened."""
    os.makedirs(directory)
    for file in state.shared_files():
        state.fetch(file, os.path.join(directory, file.name))
    for name, content in description.files.items():
        with open(os.path.join(directory, name), "wb") as small:
            small.write(content)
