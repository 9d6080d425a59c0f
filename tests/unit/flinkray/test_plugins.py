"""Plug-ins are found by name among what is installed."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from flinkray import plugins
from flinkray.errors import ConfigurationError
from flinkray.plugins import load_plugin

GROUP = "flinkray.tests"


def install(directory: Path, name: str, plugin: str) -> None:
    """A distribution as pip leaves it, with one entry point."""
    described = directory / f"{name}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {plugin}\n")
    importlib.invalidate_caches()  # within one tick of the clock a directory's time does not tell that it has changed


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_plugin_is_the_object_that_its_entry_point_names(site: Path) -> None:
    install(site, "one", "math:isqrt")
    assert load_plugin(GROUP, "one")(17) == 4


def test_a_plugin_that_is_installed_later_is_found_too(site: Path) -> None:
    install(site, "first", "math:isqrt")
    load_plugin(GROUP, "first")
    install(site, "later", "math:gcd")
    assert load_plugin(GROUP, "later")(12, 18) == 6


def test_what_is_installed_is_looked_at_once(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes milliseconds, and every job asks."""
    install(site, "asked", "math:isqrt")
    load_plugin(GROUP, "asked")
    monkeypatch.setattr(plugins, "entry_points", lambda **_: pytest.fail("looked again"))
    assert load_plugin(GROUP, "asked")(9) == 3


def test_a_name_that_is_not_there_is_told_with_those_that_are(site: Path) -> None:
    install(site, "known", "math:isqrt")
    with pytest.raises(ConfigurationError, match=r"no 'knwon' among flinkray.tests.*known"):
        load_plugin(GROUP, "knwon")
