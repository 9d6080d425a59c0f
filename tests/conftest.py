"""Fixtures for all levels. A real Ray cluster is started at most once, and only for tests that are marked so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--seeds", type=int, help="how many seeds each simulation runs with")
    group.addoption("--seed", type=int, help="the one seed that simulations run with")
    parser.getgroup("recovery").addoption("--recovery", action="store_true", help="run tests that are marked recovery")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--recovery"):
        return
    left_out = [item for item in items if item.get_closest_marker("recovery")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("recovery")]


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A local Ray cluster of its own, whatever else runs on this machine."""
    # Ray's workers unpickle classes of tests.support by name, so they must find them.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    import ray

    from actors.hosts.ray.cluster import start_local_cluster

    start_local_cluster()
    yield
    ray.shutdown()
