"""Imports point one way, and foreign packages appear where they belong and nowhere else."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flinkray

ROOT = Path(flinkray.__file__).resolve().parent.parent
ALLOWED = {
    "flinkray": {"flinkray"},
    "graphs": {"flinkray", "graphs"},
    "actors": {"flinkray", "graphs", "actors"},
}
HOMES = {
    "ray": ("actors/hosts/ray/",),
    "raydp": ("actors/spark/",),
    "pyspark": ("actors/spark/",),
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level package of every import in the file, also of those inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            yield node.lineno, (node.module or "").split(".")[0]


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_from_actors_to_graphs_to_flinkray(package: str) -> None:
    forbidden = set(ALLOWED) - ALLOWED[package]
    wrong = [f"{p}:{line} imports {name}" for p in modules(package) for line, name in imported(p) if name in forbidden]
    assert wrong == []


def test_ray_and_spark_are_imported_in_their_homes_only() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for package in ALLOWED
        for path in modules(package)
        for line, name in imported(path)
        if name in HOMES and not path.relative_to(ROOT).as_posix().startswith(HOMES[name])
    ]
    assert wrong == []


def run_python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_importing_flinkray_imports_neither_ray_nor_spark_nor_the_runtime(tmp_path: Path) -> None:
    code = "import sys, flinkray; print(sorted({'ray', 'raydp', 'pyspark', 'actors', 'graphs'} & set(sys.modules)))"
    done = run_python(code, tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("shadow", ["actors.py", "graphs/__init__.py", "graphs/other.py"])
def test_a_package_that_shadows_ours_is_named(tmp_path: Path, shadow: str) -> None:
    # A directory without __init__.py gives way to our package of that name, so it is no shadow.
    file = tmp_path / shadow
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    done = run_python("import flinkray", tmp_path)
    if shadow == "graphs/other.py":
        assert done.returncode == 0, done.stderr
    else:
        package = shadow.split("/")[0].removesuffix(".py")
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith(f"ImportError: {file.resolve()} shadows flinkray's own package {package!r}")


def test_all_is_sorted_and_complete() -> None:
    assert flinkray.__all__ == sorted(set(flinkray.__all__))
    assert [name for name in flinkray.__all__ if not hasattr(flinkray, name)] == []
    public = {name for name in vars(flinkray) if name[0].isupper()}
    assert public - set(flinkray.__all__) == set()
