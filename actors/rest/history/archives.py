"""The archives of a directory, as they come and go."""

from __future__ import annotations

import json
import logging
import posixpath
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from pyarrow import fs

from actors.rest.history.archive import Archive
from actors.rest.history.archiving import SUMMARY
from flinkray.filesystems import resolve

log = logging.getLogger(__name__)

JOBS, APPLICATIONS = "/jobs/overview", "/applications/overview"

# Of so many archives all answers are in memory; one may have some MB.
_IN_MEMORY = 16

_ID = re.compile(r"[0-9a-f]{32}")
_decode = msgspec.json.Decoder(Archive).decode


class Archives:
    """What is known of ended jobs. Any thread.

    Args:
        directory: path or URI.
        monotonic_ms: a clock that never goes back.
        refresh_ms: how often the directory is looked through at most.
    """

    def __init__(self, directory: str, monotonic_ms: Callable[[], float], refresh_ms: float) -> None:
        self._system, self._root = resolve(directory)
        self._monotonic_ms = monotonic_ms
        self._refresh_ms = refresh_ms
        self._lock = threading.Lock()
        self._looked_ms = float("-inf")
        self._listed: dict[tuple[str, Any, int], Mapping[str, Any]] = {}
        """(file, when it was written, its size) -> what it adds to lists; empty: it is no archive."""
        self._read: OrderedDict[str, Mapping[str, str]] = OrderedDict()

    def listed(self, path: str) -> list[Any]:
        """The jobs, or applications, of all archives: what the list at that path (`JOBS`, `APPLICATIONS`) has."""
        with self._lock:
            self._look()
            return [item for lists in self._listed.values() for item in lists.get(path, ())]

    def find(self, path: str) -> str | None:
        """What is kept of the answer at a path, as JSON; None: nothing."""
        match path.split("/"):
            case ["", "jobs" | "applications" as kind, name, *_] if _ID.fullmatch(name):
                with self._lock:
                    self._look()
                    for file in self._files_of(kind, name):
                        found = self._answers(file).get(path)
                        if found is not None:
                            return found
        return None

    def _files_of(self, kind: str, name: str) -> Iterable[str]:
        for (file, _, _), lists in self._listed.items():
            parts = file.split("/")
            if lists and parts[-1] == (name if kind == "jobs" else SUMMARY) and name in parts[-2:]:
                yield file

    def _look(self) -> None:
        """Reads the archives that are new or were written again, and forgets those that are gone."""
        now = self._monotonic_ms()
        if now - self._looked_ms < self._refresh_ms:
            return
        selector = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        found: Sequence[fs.FileInfo] = self._system.get_file_info(selector)
        former, self._listed = self._listed, {}
        for info in sorted(found, key=lambda info: info.path):
            name = posixpath.basename(info.path)
            if info.type is not fs.FileType.File or not (name == SUMMARY or _ID.fullmatch(name)):
                continue
            key = (info.path, info.mtime, info.size)
            if key not in former:
                self._read.pop(info.path, None)
            self._listed[key] = former[key] if key in former else self._lists_of(info.path)
        self._looked_ms = now

    def _lists_of(self, file: str) -> Mapping[str, Any]:
        try:
            answers = self._answers(file)
            kinds = ((JOBS, "jobs"), (APPLICATIONS, "applications"))
            return {path: json.loads(answers[path])[key] for path, key in kinds if path in answers}
        except (OSError, msgspec.DecodeError, ValueError, KeyError) as error:
            log.warning("%s is no archive of a job: %s", file, error)
            return {}

    def _answers(self, file: str) -> Mapping[str, str]:
        known = self._read.get(file)
        if known is None:
            with self._system.open_input_stream(file, compression=None) as stream:
                known = {entry.path: entry.json for entry in _decode(stream.read()).archive}
            self._read[file] = known
            if len(self._read) > _IN_MEMORY:
                self._read.popitem(last=False)
        self._read.move_to_end(file)
        return known
