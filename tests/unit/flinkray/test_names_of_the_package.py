"""What `import flinkray` gives, and what it does not load for it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

import flinkray
import flinkray.spark
import flinkray.testing


@pytest.mark.parametrize("name", flinkray.__all__)
def test_every_name_of_the_package_is_there(name: str) -> None:
    assert getattr(flinkray, name) is not None
    assert name in dir(flinkray)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = flinkray.NoSuchName  # type: ignore[attr-defined]


def test_importing_the_package_loads_neither_the_api_nor_arrow() -> None:
    names = ("pyarrow", "flinkray.streams.data_stream")
    program = f"import sys, flinkray; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def without_docstring(module: ModuleType) -> Iterator[str]:
    """Public functions, classes and methods of a module; a method that overrides another has that one's docstring."""
    for name in getattr(module, "__all__", dir(module)):
        value = getattr(module, name)
        if name.startswith("_") or not getattr(value, "__module__", "").startswith("flinkray"):
            continue
        doc = value.__doc__ or ""
        if not doc or doc.startswith(f"{name}("):  # dataclasses write that
            yield name
        for method in vars(value) if inspect.isclass(value) else ():
            attribute = getattr(value, method)
            is_method = inspect.isroutine(attribute) or isinstance(attribute, property)
            if is_method and not method.startswith("_") and not inspect.getdoc(attribute):
                yield f"{name}.{method}"


@pytest.mark.parametrize("module", [flinkray, flinkray.spark, flinkray.testing], ids=lambda module: module.__name__)
def test_whatever_a_program_may_name_says_what_it_is(module: ModuleType) -> None:
    assert list(without_docstring(module)) == []
