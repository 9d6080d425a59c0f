"""A file system in memory that refuses to be written, or gives the newest checkpoint back damaged, when told so."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import fs

from actors.hosts.simulation.storage import SimulatedStorage
from flinkray import filesystems

_STATE = re.compile(r".*/chk-([0-9]+)/(?!_metadata)")


class TroubledStorage(SimulatedStorage):
    """May be used by several threads."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.refusal: int | None = None
        """An errno: nothing can be written or created; what is there can be read and deleted."""
        self.damages_newest = False
        """Of the checkpoint whose state is read next, all files of state are short from then on."""
        self.damaged: str | None = None
        """Its number."""
        self._lock = threading.RLock()

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        with self._lock:
            return super().get_file_info_selector(selector)

    def put(self, path: str, content: bytes, writer: Any) -> None:
        with self._lock:
            super().put(path, content, writer)

    def _change(self, operation: str, path: str, change: Callable[[], None]) -> None:
        if self.refusal is not None and not operation.startswith("delete"):
            raise OSError(self.refusal, os.strerror(self.refusal), path)
        with self._lock:
            change()

    def _open(self, path: str) -> Any:
        found = _STATE.match(path)
        if found is not None and self.damages_newest:
            self.damaged, self.damages_newest = found[1], False
        if found is not None and found[1] == self.damaged:
            return pa.BufferReader(self.files[self.normalize_path(path)][:-1])
        return super()._open(path)


@contextmanager
def mounted(name: str) -> Iterator[TroubledStorage]:
    """An empty one, at memory://name."""
    storage = TroubledStorage(name)
    filesystems.mount(name, storage.filesystem())
    try:
        yield storage
    finally:
        filesystems.unmount(name)
