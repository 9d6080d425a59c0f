"""The names that users import, and where the reference has them."""

from __future__ import annotations

import inspect

import flinkray
import flinkray.spark
import flinkray.testing

MODULES = (flinkray, flinkray.testing, flinkray.spark)


def public_names() -> dict[str, str]:
    """Where each name that users import is imported from: `flinkray.DataStream` for `DataStream`."""
    return {name: f"{module.__name__}.{name}" for module in MODULES for name in names_of(module.__name__)}


def names_of(module_name: str) -> list[str]:
    """The public names of one of the modules that users import from."""
    module = next(module for module in MODULES if module.__name__ == module_name)
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(name for name, value in vars(module).items() if getattr(value, "__module__", "") == module_name)


def public_classes() -> dict[str, type]:
    """Those of the names that are classes."""
    found = {name: getattr(module, name) for module in MODULES for name in names_of(module.__name__)}
    return {name: value for name, value in found.items() if inspect.isclass(value)}


def is_protocol(it: type) -> bool:
    return getattr(it, "_is_protocol", False)
