"""File systems by local path or URI, for everything that pyarrow has one for.

What a program or an option names stays text, which every process resolves for itself.
"""

from __future__ import annotations

import copyreg
import os
import posixpath
import re
import threading
import urllib.parse
from collections.abc import Callable

from pyarrow import fs

from flinkray.errors import InvalidProgramError

MEMORY = "memory"
"""The URI scheme of file systems that were mounted by name; they exist in one process, and are for tests."""

_ALIASES = {"s3a": "s3", "s3n": "s3", "s3p": "s3"}
"""Schemes of Hadoop's, Flink's and Spark's file systems for the stores of others."""

_mounted: dict[str, fs.FileSystem] = {}
_mounting = threading.Lock()


def resolve(uri_or_path: str | os.PathLike[str]) -> tuple[fs.FileSystem, str]:
    """The file system, and the path within it, of a local path (`~` is the home) or of a URI such as "s3://bucket/key".

    Raises:
        InvalidProgramError: no file system has that scheme, or it cannot be reached.
    """
    text = os.fspath(uri_or_path)
    if not is_uri(text):
        return fs.LocalFileSystem(), absolute(text)
    scheme, rest = _parts(text)
    if scheme == MEMORY:
        return _mounted_at(text, *rest.partition("/")[::2])
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(_quoted(f"{scheme}://{rest}"))
    except (ValueError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidProgramError(
            f"no filesystem for {text!r}: {reason}; name a local path, or a URI that pyarrow knows, such as "
            "file:///directory, s3://bucket/directory, gs://bucket/directory or hdfs://host:port/directory"
        ) from None  # pyarrow's error has the URI too, with all secrets that are in it
    return found[0], found[1].rstrip("/") or found[1]


def _quoted(uri: str) -> str:
    """The URI with what its path may not have as it is, such as blanks, letters that are not of ASCII, and #, behind
    which pyarrow would not read on; what is quoted already stays as it is."""
    place, settings = _without_settings(uri)
    scheme, _, rest = place.partition("://")
    authority, slash, path = rest.partition("/")
    path = urllib.parse.quote(re.sub("%(?![0-9a-fA-F]{2})", "%25", path), safe="%/:@!$&'()*+,;=")
    return f"{scheme}://{authority}{slash}{path}{settings}"


def check_uri(text: str) -> None:
    """Checks, without asking any server, that a URI can be resolved.

    Raises:
        InvalidProgramError: it cannot.
    """
    if _parts(text)[0] not in _REMOTE:
        resolve(text)


def check_directory(uri_or_path: str, *, is_here: bool) -> None:
    """Checks, without asking any server and without making anything, that a directory can be made, or is there.

    Args:
        is_here: it is this process that will write there. Else the path may be another disk's, and only what is most
            likely wrong everywhere is found.

    Raises:
        InvalidProgramError: it cannot.
    """
    if is_uri(uri_or_path) and _parts(uri_or_path)[0] in _REMOTE:
        return
    system, path = resolve(uri_or_path)
    if not isinstance(system, fs.LocalFileSystem):
        return
    nearest = path
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        raise InvalidProgramError(f"no directory can be at {uri_or_path!r}: {nearest} is not a directory")
    if is_here and not os.access(nearest, os.W_OK | os.X_OK):
        raise InvalidProgramError(f"nothing can be written to {uri_or_path!r}: {nearest} is not writable")


_REMOTE = frozenset({"s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss"})
"""Schemes that pyarrow may ask a server about, such as for the region of a bucket."""


def is_uri(text: str) -> bool:
    """Whether it is a URI, and not a local path."""
    return "://" in text


def _parts(uri: str) -> tuple[str, str]:
    """Its scheme, as pyarrow calls it, and what comes behind."""
    scheme, _, rest = uri.partition("://")
    return _ALIASES.get(scheme, scheme), rest


def absolute(uri_or_path: str) -> str:
    """The path made absolute, so that it means the same in a process with another working directory; a URI as it is."""
    return uri_or_path if is_uri(uri_or_path) else os.path.abspath(os.path.expanduser(uri_or_path))


def join(uri_or_path: str, *names: str) -> str:
    """The path or URI of something below; the query of a URI ("s3://bucket/directory?region=...") stays at its end."""
    path, settings = _without_settings(uri_or_path)
    return "/".join((path.rstrip("/"), *names)) + settings


def parent(uri_or_path: str) -> str:
    """The directory that a file or directory is in."""
    path, settings = _without_settings(uri_or_path)
    return posixpath.dirname(path.rstrip("/")) + settings


def name_of(uri_or_path: str) -> str:
    """The last part of a path."""
    return posixpath.basename(_without_settings(uri_or_path)[0].rstrip("/"))


def _without_settings(uri_or_path: str) -> tuple[str, str]:
    if not is_uri(uri_or_path):
        return uri_or_path, ""
    path, mark, settings = uri_or_path.partition("?")
    return path, mark + settings


def mount(name: str, filesystem: fs.FileSystem | None = None) -> fs.FileSystem:
    """Serves `memory://name/...` in this process from now on; None: from an empty file system in memory.

    Raises:
        ValueError: something is mounted there.
    """
    # Arrow's own file system for tests: in memory, with directories and renames as on a disk.
    added = fs._MockFileSystem() if filesystem is None else filesystem
    with _mounting:
        if name in _mounted:
            raise ValueError(f"memory://{name} is mounted already; unmount it first")
        _mounted[name] = added
    return added


def unmount(name: str) -> None:
    """Ends `mount`; does nothing where nothing is mounted."""
    with _mounting:
        _mounted.pop(name, None)


def _mounted_at(text: str, name: str, path: str) -> tuple[fs.FileSystem, str]:
    with _mounting:
        found = _mounted.get(name)
        known = ", ".join(sorted(_mounted)) or "none"
    if found is None:
        raise InvalidProgramError(
            f"no filesystem for {text!r}: none is mounted in this process as {name!r}; mounted: {known}"
        )
    return found, path.strip("/")


def _travel_by_name(filesystem: fs.FileSystem) -> tuple[Callable[[str], fs.FileSystem], tuple[str]]:
    with _mounting:
        names = [name for name, mounted in _mounted.items() if mounted is filesystem]
    if not names:
        raise TypeError("a file system in memory can be pickled while it is mounted, and read in the same process")
    return _named, (names[0],)


def _named(name: str) -> fs.FileSystem:
    return resolve(f"{MEMORY}://{name}")[0]


# What a sink or source holds is pickled with it, even where it runs in the same process.
copyreg.pickle(fs._MockFileSystem, _travel_by_name)
