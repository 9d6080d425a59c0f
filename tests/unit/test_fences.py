"""The fences of unit tests hold."""

from __future__ import annotations

import importlib
import time

import pytest


def test_unit_tests_cannot_import_ray() -> None:
    with pytest.raises(ImportError):
        importlib.import_module("ray")
    with pytest.raises(ImportError):
        importlib.import_module("ray.util")


def test_unit_tests_cannot_sleep() -> None:
    with pytest.raises(AssertionError, match="do not sleep"):
        time.sleep(0)
