"""The files that a job brings along for its functions (env.register_cached_file), unpacked in one task."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from flinkray.functions.cached_files import unpack


class CachedFiles:
    """Unpacks each file when it is first asked for, and removes all of them at the end of the task.

    Args:
        packed: the files as `flinkray.functions.cached_files.pack` has packed them, by name.
    """

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self._packed = packed
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._paths: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._packed)

    def path(self, name: str) -> str:
        """The local path of the file of that name, which must be one of `names`."""
        if name not in self._paths:
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="flinkray-files-")
            # A directory for each, as files of one file name may be registered under several names.
            directory = tempfile.mkdtemp(dir=self._directory.name)
            self._paths[name] = str(unpack(self._packed[name], Path(directory)))
        return self._paths[name]

    def close(self) -> None:
        self._paths.clear()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None
