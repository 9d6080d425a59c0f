"""Fences off what unit tests must not do: use Ray, or sleep."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = tuple(f"{ROOT / directory}/" for directory in ("actors", "flinkray", "graphs", "tests"))
_sleep = time.sleep


def _no_sleep(seconds: float) -> None:
    # The standard library may: subprocess does while it waits with a timeout.
    if sys._getframe(1).f_code.co_filename.startswith(OURS):
        raise AssertionError("unit tests do not sleep: hand in a clock, or wait for a condition with a deadline")
    _sleep(seconds)


@pytest.fixture(autouse=True)
def _no_ray_and_no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    # None makes an import statement raise. Modules that earlier tests have imported are found without their package.
    for name in [name for name in sys.modules if name.startswith("ray.")] if "ray.util" in sys.modules else ():
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr(time, "sleep", _no_sleep)
