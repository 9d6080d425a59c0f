"""Which seeds of a random test run where."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.seeds import HALVES, MANY_SEEDS, of_the_other_half


def item(test: str, seed: int | None = None, mark: str = "") -> Any:
    made = SimpleNamespace(nodeid=test, get_closest_marker=lambda name: name == mark)
    if seed is not None:
        made.nodeid, made.callspec = f"{test}[{seed}]", SimpleNamespace(params={"seed": seed})
    return made


def test_each_case_of_many_seeds_is_in_one_half_and_all_else_in_both() -> None:
    many = [item("test_many", seed) for seed in range(100)]
    few = [item("test_few", seed) for seed in range(MANY_SEEDS - 1)]
    of_ray = [item("test_ray", seed, "ray") for seed in range(100)]
    first, second = (of_the_other_half([*many, *few, *of_ray, item("test_plain")], half) for half in HALVES)
    assert sorted(each.nodeid for each in first + second) == sorted(each.nodeid for each in many)
    assert min(len(first), len(second)) > 30
