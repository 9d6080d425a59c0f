"""Checks the wheel and the sdist in a directory, and runs the README's first program with nothing but the wheel.

    python .ci/check_distributions.py DIRECTORY

The directory has one of each, and may get a virtual environment, for which `uv` is on the PATH.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("actors", "flinkray", "graphs")
TYPING = {*(f"{package}/py.typed" for package in PACKAGES), "flinkray/__init__.pyi"}
BESIDE_PACKAGES = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
ROWS = 30
"""What the README's first program prints: a row for each of ten sensors in each of three hours."""
WITHOUT_PANDAS = """
from flinkray import StreamExecutionEnvironment
from flinkray.errors import MissingDependencyError

try:
    StreamExecutionEnvironment.get_execution_environment().from_sequence(0, 9).to_pandas()
except MissingDependencyError as error:
    print(error)
"""


def files_of_packages() -> set[str]:
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in files if path.parent.name != "__pycache__"}


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    check_files(wheel, names, files_of_packages())


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    check_files(sdist, names, files_of_packages() | BESIDE_PACKAGES)


def check_files(distribution: Path, found: set[str], expected: set[str]) -> None:
    # A source distribution has .gitignore, which hatchling needs to build the same wheel from it.
    missing, unexpected = sorted((expected | TYPING) - found), sorted(found - expected - {".gitignore"})
    assert not missing, f"{distribution.name} lacks {missing}"
    assert not unexpected, f"{distribution.name} has {unexpected}, which nobody is to install"


def run_first_program(wheel: Path, directory: Path) -> None:
    """In an environment that has the wheel and what it depends on; warnings are errors."""
    environment = directory / "environment"
    python = str(environment / "bin" / "python")
    subprocess.run(["uv", "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, wheel], check=True)
    (program, *_) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    variables = {**os.environ, "FLINKRAY_EXECUTION_TARGET": "local", "PYTHONPATH": ""}
    for code, lines in ((program, ROWS), (WITHOUT_PANDAS, 1)):
        command = [python, "-W", "error", "-c", code]
        printed = subprocess.check_output(command, cwd=directory, env=variables, text=True, timeout=120).splitlines()
        print(f"{wheel.name}: {len(printed)} lines, the last: {printed[-1] if printed else ''}")
        assert len(printed) == lines, printed


def main(directory: Path) -> None:
    (wheel,), (sdist,) = directory.glob("*.whl"), directory.glob("*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)
    run_first_program(wheel.resolve(), directory.resolve())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
