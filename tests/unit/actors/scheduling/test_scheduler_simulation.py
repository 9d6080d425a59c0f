"""Random jobs among random failures: see the rules in `tests.support.scheduler_simulation`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.scheduler_simulation import SchedulerSimulation

SEEDS_PER_TEST = 15


@pytest.mark.parametrize("first", range(0, 60, SEEDS_PER_TEST))
def test_a_job_ends_or_runs_with_all_its_tasks_whatever_fails(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            SchedulerSimulation(seed).run(120)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_simulation_sees_every_end_and_many_restarts() -> None:
    ends: Counter[str] = Counter()
    restarts = 0
    for seed in range(40):
        simulation = SchedulerSimulation(seed)
        simulation.run(60)
        ends[simulation.scheduler.status.name] += 1
        restarts += simulation.scheduler.restarts
    assert min(ends[end] for end in ("FINISHED", "FAILED", "CANCELED", "RUNNING")) >= 1, ends
    assert restarts >= 20
