"""Seeds of random tests: how many each runs with, which one is replayed, and what is printed of those that fail.

The hooks are pytest's; tests/conftest.py takes them over.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

import pytest

HALVES = ("first", "second")

ONCE = ("ray", "spark", "kafka", "postgres", "redis", "nats", "s3")
"""Marks of tests that run with one set of packages only, and so are in both halves."""

MANY_SEEDS = 4
"""With fewer cases a test is in both halves."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is None:
        return
    (default,) = marker.args
    options = metafunc.config.option
    cases = math.prod(len(each.args[1]) for each in metafunc.definition.iter_markers("parametrize"))
    first = options.first_seed
    seeds = seeds_of_a_case(default, options.seeds, cases)
    metafunc.parametrize("seed", [options.seed] if options.seed is not None else range(first, first + seeds))


def seeds_of_a_case(default: int, asked: int | None, cases: int) -> int:
    """How many seeds each case of a test runs with; those that are asked for are dealt out to the cases."""
    return default if asked is None else math.ceil(asked / cases)


def of_the_other_half(items: Sequence[pytest.Item], half: str) -> list[pytest.Item]:
    """The cases that a run of one half leaves to the other: of each test with many seeds some, which are always the
    same."""
    seeded = [
        item
        for item in items
        if "seed" in getattr(getattr(item, "callspec", None), "params", ())
        and not any(map(item.get_closest_marker, ONCE))
    ]
    cases = Counter(_test_of(item.nodeid) for item in seeded)
    return [
        item
        for item in seeded
        if cases[_test_of(item.nodeid)] >= MANY_SEEDS and HALVES[crc32(item.nodeid.encode()) % 2] != half
    ]


def _test_of(node_id: str) -> str:
    return node_id.split("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    seed = getattr(item, "callspec", None) and item.callspec.params.get("seed")  # type: ignore[attr-defined]
    if report.failed and seed is not None and item.get_closest_marker("seeds"):
        report.sections.append(("replay", replay_command(item.nodeid, seed)))
        report.user_properties.append(("replay", replay_command(item.nodeid, seed)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    failed = terminalreporter.getreports("failed")
    commands = sorted({value for report in failed for name, value in report.user_properties if name == "replay"})
    if commands:
        terminalreporter.section("seeds that fail; each command runs exactly that one")
        for command in commands:
            terminalreporter.line(command)


def replay_command(node_id: str, seed: int) -> str:
    return f"{sys.executable} -m pytest '{_test_of(node_id)}' --seed {seed}"
