"""Listing files by paths, directories and patterns, on any pyarrow filesystem."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs

from flinkray import filesystems
from flinkray.errors import InvalidProgramError

PathLike = str | Path
_WILDCARDS = frozenset("*?[")


class FoundFile(NamedTuple):
    """A file that is there: its bytes (None: not known), and when it was changed last (ns; 0: not known)."""

    filesystem: fs.FileSystem
    path: str
    size: int | None
    mtime_ns: int


def resolve(path: PathLike, filesystem: fs.FileSystem | None) -> tuple[fs.FileSystem, str]:
    """The filesystem and the path within it: those of the text (see `flinkray.filesystems`), or `filesystem` and the
    text."""
    return filesystems.resolve(path) if filesystem is None else (filesystem, str(path))


def list_files(
    paths: Sequence[PathLike], filesystem: fs.FileSystem | None, regex: str | None = None
) -> list[tuple[fs.FileSystem, str, int]]:
    """Filesystem, path and size of every file that the paths name, sorted by path for each.

    A directory stands for all files below it, except hidden ones (a name that begins with . or _); a pattern with
    *, ? or [...] for those it matches, and ** crosses any number of directories, or none. What there is under the very
    name is not taken for a pattern.

    Args:
        regex: only files are listed whose whole path it matches.
    Raises:
        InvalidProgramError: one of the paths names no file.
    """
    files: list[tuple[fs.FileSystem, str, int]] = []
    for path in paths:
        found = find_files(path, filesystem, regex)
        if not found:
            which = "" if regex is None else f" whose path matches {regex!r}"
            raise InvalidProgramError(f"there is no file at {str(path)!r}{which}")
        files.extend((file.filesystem, file.path, file.size or 0) for file in found)
    return files


def find_files(path: PathLike, filesystem: fs.FileSystem | None, regex: str | None = None) -> list[FoundFile]:
    """What `list_files` lists for one path, and nothing where there is no file."""
    system, inside = resolve(path, filesystem)
    found = _at(system, inside)
    if not found and _WILDCARDS & set(inside):
        found = _matching(system, inside)
    wanted = found if regex is None else [info for info in found if re.fullmatch(regex, info.path)]
    files = (FoundFile(system, info.path, info.size, info.mtime_ns or 0) for info in wanted)
    return sorted(files, key=lambda file: file.path)


def _at(system: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    info = system.get_file_info(path)
    if info.type is fs.FileType.File:
        return [info]
    return _below(system, path) if info.type is fs.FileType.Directory else []


def _below(system: fs.FileSystem, directory: str) -> list[fs.FileInfo]:
    infos = system.get_file_info(fs.FileSelector(directory, recursive=True, allow_not_found=True))
    return [info for info in infos if info.type is fs.FileType.File and not _is_hidden(info.path, directory)]


def _matching(system: fs.FileSystem, pattern: str) -> list[fs.FileInfo]:
    parts = pattern.split("/")
    fixed = _fixed_parts(system, parts)
    below = _below(system, "/".join(parts[:fixed]))
    return [info for info in below if _is_match(info.path.split("/")[fixed:], parts[fixed:])]


def _fixed_parts(system: fs.FileSystem, parts: list[str]) -> int:
    """The number of parts of the path before the first that is a pattern: a directory's name may hold brackets, too."""
    for index, part in enumerate(parts[:-1]):
        if _WILDCARDS & set(part):
            directory = "/".join(parts[: index + 1])
            if system.get_file_info(directory).type is not fs.FileType.Directory:
                return index
    return len(parts) - 1


def _is_match(names: list[str], parts: list[str]) -> bool:
    """Whether the parts of a path are those of a pattern, where ** stands for any number of them, or none."""
    ends = {0}
    """The numbers of names that the parts so far may stand for."""
    for part in parts:
        if "**" in part:
            first = 0 if part == "**" else 1  # of a**b, too, the ** crosses directories
            spans = ((start, stop) for start in ends for stop in range(start + first, len(names) + 1))
        else:
            spans = ((start, start + 1) for start in ends if start < len(names))
        ends = {stop for start, stop in spans if fnmatch.fnmatchcase("/".join(names[start:stop]), part)}
    return len(names) in ends


def _is_hidden(path: str, directory: str) -> bool:
    below = posixpath.relpath(path, directory)
    return any(part.startswith((".", "_")) for part in below.split("/"))
