"""The packages that a program needs (`python.requirements`): read in the driver, and installed by Ray for the job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from flinkray.config.configuration import Configuration
from flinkray.config.options import TARGET
from flinkray.config.python_options import PYTHON_REQUIREMENTS, RUNTIME_ENV
from flinkray.errors import InvalidProgramError

_OF_PACKAGES = ("pip", "uv", "conda")
_OF_INDEXES = ("--index-url", "--extra-index-url", "--find-links", "--no-index", "--trusted-host", "--pre", "-i", "-f")
"""What lines may begin with that say where packages are found."""


def with_requirements(configuration: Configuration) -> Configuration:
    """A copy whose runtime environment has the packages of the requirements file; on `local`, where functions run in
    this process, these have to be installed.

    Raises:
        InvalidProgramError: there is no such file, a line of it names no package, one of them is not installed here, or
            the runtime environment has packages of its own; says which and what to do.
    """
    file = configuration.get(PYTHON_REQUIREMENTS)
    if not file:
        return configuration
    settled = configuration.copy()
    lines = tuple(_lines_of(Path(file).expanduser().absolute()))
    if configuration.get(TARGET) == "local":
        _check_installed(file, lines)
        return settled
    environment = json.loads(configuration.get(RUNTIME_ENV) or "{}")
    own = next((key for key in _OF_PACKAGES if key in environment), None)
    if own is not None:
        raise InvalidProgramError(
            f"option {PYTHON_REQUIREMENTS.key} names {file}, and {own!r} of {RUNTIME_ENV.key} has packages as well: "
            "put them into one of the two"
        )
    return settled.set(RUNTIME_ENV, {**environment, "pip": list(lines)})


def _lines_of(path: Path) -> Iterator[str]:
    """The requirements of a file, and of the files that it includes."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidProgramError(f"option {PYTHON_REQUIREMENTS.key}: {path} cannot be read ({error})") from error
    for number, raw in enumerate(text.replace("\\\n", " ").splitlines(), start=1):
        line = raw.partition(" #")[0].strip()
        option, _, value = line.replace("=", " ", 1).partition(" ")
        if not line or line.startswith("#"):
            continue
        if option in ("-r", "--requirement"):
            yield from _lines_of(path.parent / value.strip())
        elif option in _OF_INDEXES:
            yield line
        else:
            yield _checked(line, f"{path}, line {number}")


def _checked(line: str, where: str) -> str:
    try:
        Requirement(line)
    except InvalidRequirement as error:
        raise InvalidProgramError(
            f"option {PYTHON_REQUIREMENTS.key}: {where}: {line!r} names no package ({str(error).splitlines()[0]}); "
            "write it as `name==1.2`; a wheel or directory of this machine goes along with the option python.files"
        ) from error
    return line


def _check_installed(file: str, lines: tuple[str, ...]) -> None:
    for line in lines:
        if line.startswith("-"):
            continue
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        found = _version_of(requirement.name)
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            here = "is not installed" if found is None else f"is {found} here"
            raise InvalidProgramError(
                f"option {PYTHON_REQUIREMENTS.key}: {line} of {file} {here}, and with execution.target = local "
                f"functions run in this process: pip install -r {file}"
            )


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
