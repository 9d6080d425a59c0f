"""The versions that `docs/installation.md` gives are those that pip takes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "installation.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def ranges_of(requirements: list[str]) -> dict[str, SpecifierSet]:
    return {parsed.name: parsed.specifier for parsed in map(Requirement, requirements)}


RANGES = {
    "Python": SpecifierSet(PROJECT["requires-python"]),
    "Ray": ranges_of(PROJECT["dependencies"])["ray"],
    "PyArrow": ranges_of(PROJECT["dependencies"])["pyarrow"],
    "numpy": ranges_of(PROJECT["dependencies"])["numpy"],
    "pandas": ranges_of(EXTRAS["pandas"])["pandas"],
    "PySpark with RayDP": ranges_of(EXTRAS["spark"])["pyspark"],
    "PySpark without": ranges_of(EXTRAS["spark4"])["pyspark"],
}


def cells(first: str) -> list[str]:
    row = re.search(rf"^\| {re.escape(first)} \|(.*)\|$", PAGE, re.MULTILINE)
    assert row is not None, f"there is no row for {first}"
    return [cell.strip() for cell in row.group(1).split("|")]


@pytest.mark.parametrize("package", RANGES)
def test_the_oldest_and_the_newest_version_are_the_ends_of_the_range(package: str) -> None:
    oldest, newest, _ = cells(package)
    allowed = RANGES[package]
    assert f">={oldest}" in {str(bound) for bound in allowed}
    *line, last = newest.split(".")
    assert newest in allowed
    assert ".".join([*line, str(int(last) + 1)]) not in allowed


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"bench", "dev", "docs", "release", "test"}))
def test_every_extra_for_users_says_what_it_is_for(extra: str) -> None:
    brings, purpose = cells(f"`{extra}`")
    assert brings
    assert purpose


@pytest.mark.parametrize("package", ["ray", "pandas"])
def test_a_package_has_one_range_in_all_extras(package: str) -> None:
    everywhere = [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    assert len({parsed.specifier for parsed in map(Requirement, everywhere) if parsed.name == package}) == 1
