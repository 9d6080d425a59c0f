"""What the README shows runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_programs_of_the_readme_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    job, state, *_ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    program = f"{job}\n{state}\nprint(changes.to_pandas()['sensor'].nunique(), 'sensors')"
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert printed.count("3600000") == 20, "the first window's end and the second's start, for ten sensors each"
    assert "10 sensors" in printed
