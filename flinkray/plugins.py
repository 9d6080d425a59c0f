"""Plug-ins that are found by name: planners, executors and bridges, which installed distributions register as entry
points.

This is how `flinkray` reaches the compiler and the runtime without an import upwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from flinkray.errors import ConfigurationError, did_you_mean
from flinkray.extras import missing_package

PLANNERS = "flinkray.planners"
EXECUTORS = "flinkray.executors"
BRIDGES = "flinkray.bridges"


_replaced: dict[str, Callable[..., Any]] = {}


@contextmanager
def replace_plugins(group: str, plugin: Callable[..., Any]) -> Iterator[None]:
    """Within the block, `load_plugin` gives `plugin` for any name of the group.

    How a front end runs a program its own way (Flink's context environment). Not for several threads at once.
    """
    former = _replaced.get(group)
    _replaced[group] = plugin
    try:
        yield
    finally:
        if former is None:
            del _replaced[group]
        else:
            _replaced[group] = former


def load_plugin(group: str, name: str) -> Callable[..., Any]:
    """The object that an installed distribution registers as `name` in the entry-point `group`.

    Raises:
        ConfigurationError: none is registered under that name; the message lists those that are.
        MissingDependencyError: it needs a package that only an extra brings; says which.
    """
    if group in _replaced:
        return _replaced[group]
    found = _installed(group)
    if name not in found:
        _installed.cache_clear()  # it may have been installed since
        found = _installed(group)
    if name not in found:
        known = ", ".join(sorted(found)) or "none; is flinkray installed (pip install)?"
        raise ConfigurationError(f"no {name!r} among {group}{did_you_mean(name, found)}; there are: {known}")
    try:
        plugin: Callable[..., Any] = found[name].load()
    except ModuleNotFoundError as error:
        missing = missing_package(error)
        if missing is None:
            raise
        raise missing from error
    return plugin


@cache
def _installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name. Finding them reads a file of each installed distribution, which takes
    milliseconds."""
    return {entry.name: entry for entry in entry_points(group=group)}
