"""Programs in PyFlink's style print here what PyFlink prints: the expected lines are PyFlink's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pyflink import EXPECTED, PROGRAMS, comparable, expected, output_of

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))


@pytest.fixture(autouse=True)
def locally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    monkeypatch.delenv("FLINKRAY_CONF_DIR", raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_what_pyflink_prints(name: str) -> None:
    assert comparable(name, output_of(PROGRAMS / f"{name}.py")) == expected(name)


def test_every_expected_output_belongs_to_a_test() -> None:
    from tests.support.pyflink import EXAMPLES

    tested = {*NAMES, *(Path(name).stem for name in EXAMPLES)}
    assert {path.stem for path in EXPECTED.glob("*.txt")} == tested
