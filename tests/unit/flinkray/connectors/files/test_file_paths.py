"""Files named by paths, directories and patterns."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from flinkray import (
    FileSource,
)
from flinkray.connectors.files import paths as file_paths
from tests.support.files import splits_of, write


def test_directories_and_patterns_leave_hidden_files_out(tmp_path: Path) -> None:
    for name in ("b/x.csv", "a.csv", ".hidden.csv", "_logs/c.csv", "a.txt"):
        write(tmp_path / name, "csv")

    def found(path: Any, **options: Any) -> list[str]:
        splits = splits_of(FileSource(path, format="csv", **options))
        return [str(Path(split.path).relative_to(tmp_path)) for split in splits]

    assert found(tmp_path) == ["a.csv", "a.txt", "b/x.csv"]
    assert found(f"{tmp_path}/*.csv") == ["a.csv"]
    assert found(f"{tmp_path}/**.csv") == ["a.csv", "b/x.csv"]
    assert found([tmp_path / "b", f"file://{tmp_path}/a.csv"]) == ["b/x.csv", "a.csv"]
    assert found(str(tmp_path / "a.csv"), filesystem=fs.LocalFileSystem()) == ["a.csv"]


def test_two_stars_match_any_number_of_directories_and_one_star_none(tmp_path: Path) -> None:
    for name in ("a.txt", "b/c.txt", "b/d/e.txt", "b/d/a.log"):
        write(tmp_path / name, "json")

    def found(pattern: str) -> list[str]:
        splits = splits_of(FileSource(f"{tmp_path}/{pattern}", format="text"))
        return [str(Path(split.path).relative_to(tmp_path)) for split in splits]

    assert found("**/*.txt") == ["a.txt", "b/c.txt", "b/d/e.txt"]
    assert found("**/d/**/*.txt") == ["b/d/e.txt"]
    assert found("b/**") == ["b/c.txt", "b/d/a.log", "b/d/e.txt"]
    assert found("**/a.*") == ["a.txt", "b/d/a.log"]
    assert found("*/*.txt") == ["b/c.txt"]
    assert found("b**e.txt") == ["b/d/e.txt"]


def test_a_path_that_exists_is_not_taken_for_a_pattern(tmp_path: Path) -> None:
    for name in ("a[2].txt", "a2.txt", "x [1]/b.txt", "x [1]/c[3].txt", "y3/b.txt"):
        write(tmp_path / name, "json")

    def found(pattern: str) -> list[str]:
        splits = splits_of(FileSource(f"{tmp_path}/{pattern}", format="text"))
        return [str(Path(split.path).relative_to(tmp_path)) for split in splits]

    assert found("a[2].txt") == ["a[2].txt"]
    assert found("[a]2.txt") == ["a2.txt"]
    assert found("x [1]") == ["x [1]/b.txt", "x [1]/c[3].txt"]
    assert found("x [1]/b.*") == ["x [1]/b.txt"]
    assert found("x [1]/c[3].txt") == ["x [1]/c[3].txt"]
    assert found("y[1-3]/*") == ["y3/b.txt"]


def test_a_pattern_with_many_stars_is_matched_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    matches, fnmatchcase = 0, fnmatch.fnmatchcase

    def counted(name: str, part: str) -> bool:
        nonlocal matches
        matches += 1
        return fnmatchcase(name, part)

    monkeypatch.setattr(fnmatch, "fnmatchcase", counted)
    assert not file_paths._is_match(["a"] * 12, ["**", "a"] * 5 + ["b"])
    assert file_paths._is_match(["a"] * 12, ["**", "a"] * 5 + ["a"])
    assert matches < 2_000
