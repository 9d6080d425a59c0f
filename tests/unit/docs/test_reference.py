"""The API reference describes each public name, once."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import docs
from docs.extensions.public_names import MODULES, public_names

REFERENCE = Path(docs.__file__).parent / "reference"


def described() -> Counter[str]:
    """The full names that the pages of the reference describe."""
    found: Counter[str] = Counter()
    for page in REFERENCE.glob("*.rst"):
        module = ""
        for directive, name in re.findall(r"^\.\. (\w+):: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            if directive == "currentmodule":
                module = name
            elif directive in ("autoclass", "autofunction", "autoexception"):
                found[name if "." in name else f"{module}.{name}"] += 1
    return found


def test_each_public_name_is_described_once() -> None:
    assert {name: described()[name] for name in public_names().values() if described()[name] != 1} == {}


def test_what_else_is_described_is_where_the_reference_says() -> None:
    further = set(described()) - set(public_names().values())
    for name in further:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name


def test_the_modules_that_users_import_from_have_names() -> None:
    names = public_names()
    assert {path.rpartition(".")[0] for path in names.values()} == {module.__name__ for module in MODULES}
    assert names["DataStream"] == "flinkray.DataStream"
    assert names["KeyedHarness"] == "flinkray.testing.KeyedHarness"
    assert {"init_spark", "stop_spark", "stage_stream"} <= set(names)
