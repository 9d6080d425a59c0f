"""Batch jobs under random interleavings, and with processes that die: the final results, or an error by name."""

from __future__ import annotations

import random

import pytest

from actors.hosts.simulation.faults import NODE, Faults
from flinkray.execution import JobStatus
from tests.support.random_programs import RandomProgram, final_results, small_frames
from tests.support.simulation import Outcome, run_job

WORKERS = {"TaskSlot": 0.002, "TaskExecutor": 0.001, NODE: 0.001}


def run(seed: int, faults: Faults | None = None, **options: object) -> tuple[RandomProgram, Outcome]:
    chance = random.Random(seed)
    memory = {
        "flinkray.batch.result-memory": chance.choice([0, 1_000, 1 << 20]),
        "flinkray.batch.sort-memory": chance.choice([5_000, 1 << 20]),
    }
    options = {
        "execution.runtime-mode": "batch",
        **small_frames(seed),
        **memory,
        **options,
    }
    program = RandomProgram(seed, "local", options)
    return program, run_job(program, seed) if faults is None else run_job(program, seed, faults)


def check(program: RandomProgram, outcome: Outcome) -> None:
    assert outcome.status is JobStatus.FINISHED, outcome.error
    for name in program.results:
        assert outcome.rows[name] == final_results(name, program.expected[name]), program.describe()


@pytest.mark.seeds(2)
def test_a_random_program_gives_its_final_results_whatever_happens_first(seed: int) -> None:
    check(*run(seed))


@pytest.mark.seeds(2)
def test_a_job_that_loses_workers_makes_lost_results_again(seed: int) -> None:
    """Rows that its driver has already cannot be called back, where the stage that gives them runs again."""
    options = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 100,
        "restart-strategy.fixed-delay.delay": 20 + seed,
    }
    program, outcome = run(seed, Faults(kills=WORKERS, limit=3), **options)
    if outcome.status is JobStatus.FINISHED:
        check(program, outcome)
    else:
        assert outcome.error is not None
        assert "was restarted after some of its rows had been handed to the driver" in outcome.error.message
