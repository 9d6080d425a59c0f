"""A package that only an extra brings is named, with that extra, by whoever needs it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from flinkray import StreamExecutionEnvironment, extras
from flinkray.errors import MissingDependencyError
from flinkray.extras import import_package
from flinkray.plugins import BRIDGES, load_plugin

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture(autouse=True)
def _neither_pandas_nor_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "pyspark"):
        monkeypatch.setitem(sys.modules, package, None)  # None makes an import statement raise
    for module in [name for name in sys.modules if name.startswith(("actors.spark", "pyspark."))]:
        monkeypatch.delitem(sys.modules, module)


def test_to_pandas_says_which_extra_it_needs_before_the_program_runs() -> None:
    env = StreamExecutionEnvironment.get_execution_environment({"execution.target": "unknown"})
    with pytest.raises(MissingDependencyError, match=r'to_pandas\(\) needs pandas: pip install "flinkray\[pandas\]"'):
        env.from_sequence(0, 9).to_pandas()


def test_a_plugin_whose_package_is_not_there_says_which_extra_it_needs() -> None:
    with pytest.raises(MissingDependencyError, match=r'pyspark is not installed: pip install "flinkray\[spark\]"'):
        load_plugin(BRIDGES, "spark")


def test_every_extra_that_an_error_names_is_one_of_flinkrays() -> None:
    named = set(re.findall(r"flinkray\[(.*?)\]", " ".join(extras._INSTALLATIONS.values())))
    assert named
    assert named <= set(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"])


def test_a_package_that_is_there_is_given() -> None:
    assert import_package("pyarrow", "this test").__name__ == "pyarrow"
