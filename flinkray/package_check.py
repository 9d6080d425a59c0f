"""Makes sure that the packages `actors` and `graphs` found by name are flinkray's own, for these are common names."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

_PACKAGES = ("actors", "graphs")


def check_packages() -> None:
    """Looks where the packages would be imported from, without importing them.

    Raises:
        ImportError: something else is found first, or nothing; says which file shadows which.
    """
    root = Path(__file__).resolve().parent.parent
    for package in _PACKAGES:
        own = root / package / "__init__.py"
        found = _location(package)
        if found is None:
            raise ImportError(f"flinkray's package {package!r} is not at {own}; install flinkray anew")
        if found != own:
            raise ImportError(
                f"{found} shadows flinkray's own package {package!r} at {own}. Rename it, or start the program from "
                "another directory (its directory comes before installed packages)"
            )


def _location(package: str) -> Path | None:
    """The file (or, for a directory without __init__.py, the directory) that an import of that name would find."""
    try:
        spec: ModuleSpec | None = importlib.util.find_spec(package)
    except ValueError:
        return None  # a module put into sys.modules by hand
    if spec is None:
        return None
    if spec.origin is not None:
        return Path(spec.origin).resolve()
    return next((Path(directory).resolve() for directory in spec.submodule_search_locations or ()), None)
