"""What `import flinkray` gives, and what it does not load for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flinkray


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
