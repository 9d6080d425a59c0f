"""Fixtures for all levels. A real Ray cluster is started at most once, and only for tests that are marked so."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from actors.hosts.turns import usable_cores
from tests.support.seeds import (
    HALVES,
    of_the_other_half,
    pytest_generate_tests,
    pytest_runtest_makereport,
    pytest_terminal_summary,
)
from tests.support.waiting import eventually

__all__ = ["pytest_generate_tests", "pytest_runtest_makereport", "pytest_terminal_summary"]

ROOT = Path(__file__).resolve().parent.parent
# Older versions of Ray give a tip at each start, and leave it to the collector to close what they started with.
WARNINGS_OF_RAY = (
    "ignore:Tip. In future versions of Ray, Ray will no longer override accelerator:FutureWarning",
    "ignore:unclosed file .*/dev/null:ResourceWarning",
    "ignore:subprocess .* is still running:ResourceWarning",
)

# pytest rewrites the assertions of all test modules, which takes each worker ten seconds unless it may keep the result.
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("seeds")
    group.addoption("--seeds", type=int, help="how many seeds each random test runs with, dealt out to its cases")
    group.addoption("--first-seed", type=int, default=0, help="the first of these seeds")
    group.addoption("--seed", type=int, help="the one seed that random tests run with")
    group.addoption("--half", choices=HALVES, help="of tests with many seeds, only the cases that are in this half")
    parser.getgroup("rest").addoption("--requests", type=int, default=200, help="how many wrong requests a server gets")
    parser.getgroup("recovery").addoption("--recovery", action="store_true", help="run tests that are marked recovery")
    parser.getgroup("pyflink").addoption("--pyflink", action="store_true", help="run tests that are marked pyflink")


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: a third of the time of the fast tests is waiting for something."""
    return max(2, 3 * usable_cores() // 2)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unasked = [] if config.getoption("--recovery") else ["recovery"]
    if not config.getoption("--pyflink") and "pyflink" not in config.getoption("-m"):
        unasked.append("pyflink")
    left_out = [item for item in items if any(map(item.get_closest_marker, unasked))]
    if half := config.getoption("--half"):
        left_out += of_the_other_half(items, half)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
    if not version("ray").startswith("2.60."):
        for item in filter(lambda item: item.get_closest_marker("ray"), items):
            for warning in WARNINGS_OF_RAY:
                item.add_marker(pytest.mark.filterwarnings(warning))


def pytest_collection_finish() -> None:
    """Takes the half a million objects of thousands of tests out of the collector's sight: tests that look for what is
    left over collect again and again, which took some of them more time than all else that they do."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A local Ray cluster of its own, whatever else runs on this machine."""
    # Ray's workers unpickle classes of tests.support by name, so they must find them.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    # Where a part of the dashboard takes longer to start, 30 s otherwise, Ray goes on without one.
    os.environ["RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT"] = "120"
    import ray

    from actors.hosts.ray.cluster import start_local_cluster

    start_local_cluster()
    eventually(has_dashboard, deadline_s=120)
    yield
    ray.shutdown()


def has_dashboard() -> bool:
    """Whether Ray's dashboard answers, which says what actors there are; older versions start it after all else."""
    import ray
    from ray.util.state import list_nodes

    try:
        return bool(list_nodes(address=ray.get_runtime_context().gcs_address))
    except Exception:  # Ray has many, and any of them means this
        return False
