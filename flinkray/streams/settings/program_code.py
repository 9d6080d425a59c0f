"""What a program brings along, as an environment is told of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Self

from flinkray.config.configuration import Configuration
from flinkray.config.option import ConfigOption
from flinkray.config.python_options import PYTHON_ARCHIVES, PYTHON_FILES, PYTHON_REQUIREMENTS
from flinkray.errors import InvalidProgramError
from flinkray.functions.program_files import named_files, place_of


class ProgramCode:
    """Sets the options `python.files`, `python.requirements` and `python.archives` of one Configuration.

    Raises:
        InvalidProgramError: a file is missing; others are looked at when the program is executed.
    """

    _configuration: Configuration

    def add_python_file(self, file_path: str) -> Self:
        """Makes a module, a package, a directory of these, or a .zip, .whl or .egg file importable here from now on,
        and in the processes of the job, to which it goes along."""
        place = place_of(file_path)
        if place not in sys.path:
            sys.path.insert(0, place)
        self._add(PYTHON_FILES, str(Path(file_path).expanduser().absolute()))
        return self

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> Self:
        """Has the packages of a requirements file installed for the processes of the job, by Ray.

        Args:
            requirements_cache_dir: refused: wheels of this machine go along with `add_python_file`.
        """
        path = Path(requirements_file_path).expanduser().absolute()
        if requirements_cache_dir is not None:
            raise InvalidProgramError(
                f"set_python_requirements: the packages in {requirements_cache_dir} do not go to the nodes: name each "
                f"of its wheels with add_python_file, or, in {requirements_file_path}, an index that nodes reach with "
                "--index-url"
            )
        if not path.exists():
            raise InvalidProgramError(f"set_python_requirements: there is no {path}")
        self._configuration.set(PYTHON_REQUIREMENTS, str(path))
        return self

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> Self:
        """Sends a .zip, .jar, .tar, .tar.gz or .tgz file along, which is unpacked once on each node.

        `runtime_context.get_cached_file(target_dir)` gives the directory; on Ray, it is `target_dir` in the working
        directory of functions too.

        Args:
            target_dir: None: the name of the file.
        """
        path = Path(archive_path).expanduser().absolute()
        if not path.exists():
            raise InvalidProgramError(f"add_python_archive: there is no {path}")
        self._add(PYTHON_ARCHIVES, str(path) if target_dir is None else f"{path}#{target_dir}")
        return self

    def set_python_executable(self, python_exec: str) -> Self:
        """Taken where it is the running Python: workers are of the same kind as the driver."""
        is_general = Path(python_exec).name in ("python", "python3")
        if not is_general and Path(python_exec).resolve() != Path(sys.executable).resolve():
            raise InvalidProgramError(
                f"workers run the Python of the program, {sys.executable}, not {python_exec}; start the program with it"
            )
        return self

    def _add(self, option: ConfigOption[str], file: str) -> None:
        if "," in file:
            raise InvalidProgramError(f"option {option.key}: {file} has a comma in it: rename it")
        self._configuration.set(option, ",".join([*named_files(self._configuration.get(option)), file]))
