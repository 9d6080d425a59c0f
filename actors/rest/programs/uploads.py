"""The directory of uploaded programs. A program is a file there, whose name is its id."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import tempfile
import uuid
import zipfile
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from actors.rest.asking.refusals import Refusal

# Below the directory that is configured, as with Flink, so that nothing else there is taken for a program.
_FOLDER = "flink-web-upload"

_NAME = re.compile(r"\w[\w .+-]{0,120}\.(py|zip)", re.ASCII)
_ID = re.compile(rf"[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}_({_NAME.pattern})", re.ASCII)
_MODULE = re.compile(r"([^\W\d]\w*)\.py")

MAIN = "__main__"


class StoredProgram(Struct, frozen=True):
    """An uploaded program."""

    path: Path
    uploaded_ms: int

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def name(self) -> str:
        """As it was uploaded."""
        return self.path.name.partition("_")[2]

    @property
    def is_archive(self) -> bool:
        return self.path.suffix == ".zip"

    def modules(self) -> list[str]:
        """The modules at the top of an archive, `__main__` first; of a single file, and of what was deleted meanwhile,
        there are none."""
        try:
            return list(_modules(self.path)) if self.is_archive else []
        except OSError:
            return []


@lru_cache
def _modules(path: Path) -> tuple[str, ...]:
    return _modules_of(path.read_bytes())


def _modules_of(data: bytes) -> tuple[str, ...]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = {match[1] for name in archive.namelist() if (match := _MODULE.fullmatch(name))}
    return tuple(sorted(found, key=lambda name: (name != MAIN, name)))


class Uploads:
    """Any thread. Who asks for a program by its id finds it in the list of what is there, so that no id leads out of
    the directory.

    Args:
        directory: below it programs are kept; empty: a new one, which `close` deletes.
    """

    def __init__(self, directory: str) -> None:
        self._is_own = not directory
        self._directory = Path(directory or tempfile.mkdtemp(prefix="flinkray-web-")) / _FOLDER

    def close(self) -> None:
        if self._is_own:
            shutil.rmtree(self._directory.parent, ignore_errors=True)

    def add(self, name: str, data: bytes) -> StoredProgram:
        """Keeps a program; it is there whole, or not at all.

        Raises:
            Refusal: its name or its bytes are not those of a program, or it cannot be kept.
        """
        name = re.split(r"[/\\]", name)[-1]  # some clients send the whole path
        if not _NAME.fullmatch(name):
            raise Refusal(
                400,
                f"{name!r} names no program: files can be uploaded that end with .py or .zip, of letters, digits "
                "and ._+-",
            )
        if name.endswith(".zip"):
            try:
                _modules_of(data)
            except Exception as error:  # damaged archives have several
                raise Refusal(400, f"{name!r} is no zip archive: {error}") from error
        path = self._directory / f"{uuid.uuid4()}_{name}"
        partial = path.with_name(f".{path.name}")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            partial.rename(path)
            return StoredProgram(path, _modified_ms(path))
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise Refusal(503, f"{name!r} cannot be kept in {str(self._directory)!r}: {error.strerror}") from error

    def all(self) -> list[StoredProgram]:
        """Newest first."""
        found = []
        for name in os.listdir(self._directory) if self._directory.is_dir() else ():
            path = self._directory / name
            if _ID.fullmatch(name) and path.is_file() and not path.is_symlink():
                found.append(StoredProgram(path, _modified_ms(path)))
        return sorted(found, key=lambda program: (-program.uploaded_ms, program.id))

    def find(self, program_id: str) -> StoredProgram:
        """
        Raises:
            Refusal: there is none with this id.
        """
        for program in self.all():
            if program.id == program_id:
                return program
        raise Refusal(404, f"no program has the id {program_id!r}; /jars has those that there are")

    def delete(self, program_id: str) -> None:
        """Raises as `find`."""
        self.find(program_id).path.unlink(missing_ok=True)


def _modified_ms(path: Path) -> int:
    """0: the file was deleted meanwhile."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0
