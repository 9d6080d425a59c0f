"""The files that a job brings along for its functions, for the threads of one process that runs them."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from actors.user_code.unpacked_files import UnpackedFiles
from flinkray.errors import FlinkrayError
from flinkray.functions.program_files import ARCHIVES, MODULES


class JobFilesError(FlinkrayError):
    """What a job brings along cannot be unpacked on this node."""


class JobFiles:
    """Unpacks files when they are first asked for; any thread may ask. On one node they are unpacked once.

    Args:
        packed: the files as `flinkray.functions.cached_files.pack` has packed them, by name; those whose names begin
            with MODULES or ARCHIVES are what the options python.files and python.archives name.
        owns_process: whether the process runs nothing but this job, so that it can get a working directory for it.
        unpacked: where they are unpacked.
    """

    def __init__(
        self, packed: Mapping[str, bytes], *, owns_process: bool = False, unpacked: UnpackedFiles | None = None
    ) -> None:
        self._packed = packed
        self._owns_process = owns_process
        self._unpacked = unpacked or UnpackedFiles()
        self._paths: dict[str, str] = {}
        self._on_path: list[str] = []
        self._is_prepared = False
        self._lock = threading.Lock()

    @property
    def has_modules(self) -> bool:
        return any(name.startswith(MODULES) for name in self._packed)

    @property
    def names(self) -> list[str]:
        """What functions may ask for."""
        return sorted(name.removeprefix(ARCHIVES) for name in self._packed if not name.startswith(MODULES))

    def path(self, name: str) -> str:
        """The local path of the file or unpacked archive of that name, which must be one of `names`.

        All functions of the node that ask get the same, which they are not to change.
        """
        with self._lock:
            return self._path(name if name in self._packed else ARCHIVES + name)

    def prepare(self) -> None:
        """Makes `import` find the job's modules, before those that are installed; and puts its archives into the
        working directory, where the process is the job's own. Blocks while it unpacks.

        Raises:
            JobFilesError: that cannot be done on this node.
        """
        with self._lock:
            if self._is_prepared:
                return
            try:
                modules = sorted(name for name in self._packed if name.startswith(MODULES))
                self._on_path = [str(self._unpacked.unpack(self._packed[name])) for name in modules]
                if self._owns_process:
                    self._change_directory()
            except OSError as error:
                raise JobFilesError(
                    f"what the job brings along cannot be unpacked on this node ({error}): the directory for temporary "
                    "files, which TMPDIR names, must have room and be writable"
                ) from error
            sys.path[:0] = self._on_path
            self._is_prepared = True

    def close(self) -> None:
        """Nobody needs the files any more."""
        with self._lock:
            for directory in self._on_path:
                if directory in sys.path:
                    sys.path.remove(directory)
            self._on_path.clear()
            self._paths.clear()
            self._is_prepared = False
            self._unpacked.close()

    def _path(self, name: str) -> str:
        if name not in self._paths:
            # What is packed under a name is one file or directory.
            self._paths[name] = str(next(self._unpacked.unpack(self._packed[name]).iterdir()))
        return self._paths[name]

    def _change_directory(self) -> None:
        archives = {name.removeprefix(ARCHIVES): self._path(name) for name in self._packed if name.startswith(ARCHIVES)}
        if not archives:
            return

        def link(directory: Path) -> None:
            for target, path in archives.items():
                (directory / target).symlink_to(path)

        key = hashlib.sha256(repr(sorted(archives.items())).encode()).hexdigest()[:32]
        os.chdir(self._unpacked.make(key, link))
