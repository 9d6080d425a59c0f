"""The files that came along with a job, as one task sees them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from flinkray.functions.cached_files import unpack


class CachedFiles:
    """Unpacks a file when it is asked for first, and removes all at the task's end.

    Args:
        packed: by name, what `flinkray.functions.cached_files.pack` gave.
    """

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self._packed = packed
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._paths: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._packed)

    def path(self, name: str) -> str:
        """Of one of the names."""
        if name not in self._paths:
            if self._directory is None:
                self._directory = tempfile.TemporaryDirectory(prefix="flinkray-files-")
            # Files of one name may be registered under several.
            place = tempfile.mkdtemp(dir=self._directory.name)
            self._paths[name] = str(unpack(self._packed[name], Path(place)))
        return self._paths[name]

    def close(self) -> None:
        self._paths.clear()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None
