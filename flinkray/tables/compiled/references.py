"""Where a compiled plan is: in a file, or in a text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from msgspec import Struct
from pyarrow import fs

from flinkray.errors import InvalidProgramError
from flinkray.filesystems import absolute, resolve

T = TypeVar("T")


class PlanReference(Struct, frozen=True):
    """Where a plan is, which `load_plan` reads. Made with `from_file` and `from_json_string`."""

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> FilePlanReference:
        """The plan in a file, which a path or a URI names."""
        return FilePlanReference(os.fspath(path))

    @staticmethod
    def from_json_string(json_string: str) -> JsonContentPlanReference:
        """The plan that a text is."""
        return JsonContentPlanReference(json_string)

    def read(self) -> str:
        """The text of the plan."""
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError


class FilePlanReference(PlanReference, frozen=True):
    """A plan in a file."""

    path: str

    def get_file(self) -> Path:
        """The absolute path."""
        return Path(absolute(self.path))

    def read(self) -> str:
        """The text of the file.

        Raises:
            InvalidProgramError: it cannot be read.
        """

        def read(system: fs.FileSystem, path: str) -> str:
            with system.open_input_stream(path, compression=None) as stream:
                return bytes(stream.read()).decode()

        return _reached(self.path, "read", read)

    def exists(self) -> bool:
        """Whether there is such a file.

        Raises:
            InvalidProgramError: nobody knows.
        """
        return _reached(
            self.path, "found", lambda system, path: system.get_file_info(path).type is not fs.FileType.NotFound
        )

    def write(self, text: str) -> None:
        """Writes the file, over one that is there.

        Raises:
            InvalidProgramError: it cannot be written.
        """

        def write(system: fs.FileSystem, path: str) -> None:
            if isinstance(system, fs.LocalFileSystem):
                system.create_dir(os.path.dirname(path), recursive=True)
            with system.open_output_stream(path, compression=None) as stream:
                stream.write(text.encode())

        _reached(self.path, "written", write)

    def __str__(self) -> str:
        return f"the plan {self.path!r}"


class JsonContentPlanReference(PlanReference, frozen=True):
    """A plan that is a text."""

    content: str

    def get_content(self) -> str:
        return self.content

    def read(self) -> str:
        return self.content

    def __str__(self) -> str:
        return "the plan"


def _reached(path: str, done: str, use: Callable[[fs.FileSystem, str], T]) -> T:
    try:
        return use(*resolve(path))
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise InvalidProgramError(f"the plan {path!r} cannot be {done}: {error}") from error
