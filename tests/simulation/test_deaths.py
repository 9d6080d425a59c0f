"""Processes that are killed or hang while a job without checkpoints runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from actors.hosts.simulation.faults import NODE, Faults
from flinkray.execution import JobStatus
from tests.support.random_programs import RandomProgram, small_frames
from tests.support.simulation import Outcome, run_job

WORKERS = {"TaskSlot": 0.002, "TaskExecutor": 0.001, NODE: 0.001}
MASTERS = {"JobMaster": 0.0005, "ResourceManager": 0.0005, "Dispatcher": 0.0003}


def run(seed: int, faults: Faults, **options: object) -> tuple[RandomProgram, Outcome]:
    options = {**small_frames(seed), "restart-strategy.type": "none", **options}
    program = RandomProgram(seed, "local", options)
    return program, run_job(program, seed, faults)


def is_right_or_failed_by_name(program: RandomProgram, outcome: Outcome) -> None:
    """A job that has finished has given everything; else the reason is known, and something had gone wrong."""
    if outcome.status is JobStatus.FINISHED:
        for name in program.results:
            assert outcome.rows[name] == program.expected[name], program.describe()
    else:
        assert outcome.status is JobStatus.FAILED, outcome
        assert outcome.error is not None
        assert outcome.faults, f"nothing went wrong, and the job failed: {outcome.error}"


@pytest.mark.seeds(2)
def test_a_job_that_loses_workers_gives_all_rows_or_fails_by_name_and_leaves_nothing(seed: int) -> None:
    is_right_or_failed_by_name(*run(seed, Faults(kills=WORKERS)))


@pytest.mark.seeds(2)
def test_a_job_that_restarts_after_deaths_gives_all_rows_or_says_that_some_would_come_twice(seed: int) -> None:
    """Without checkpoints a job begins again; rows that its driver has already cannot be called back."""
    options = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 100,
        "restart-strategy.fixed-delay.delay": 20 + seed,
        "jobmanager.execution.failover-strategy": ("region", "full")[seed % 2],
    }
    program, outcome = run(seed, Faults(kills=WORKERS, limit=3), **options)
    if outcome.status is JobStatus.FINISHED:
        is_right_or_failed_by_name(program, outcome)
    else:
        assert outcome.error is not None
        assert "was restarted after some of its rows had been handed to the driver" in outcome.error.message


@pytest.mark.seeds(2)
def test_a_job_whose_processes_hang_for_a_while_gives_all_rows_or_fails_by_name(seed: int) -> None:
    pauses = dict.fromkeys(("TaskSlot", "TaskExecutor", "JobMaster", "ResourceManager", "Dispatcher"), 0.0005)
    is_right_or_failed_by_name(*run(seed, Faults(pauses=pauses, pause_ms=(100.0, 90_000.0))))


@pytest.mark.seeds(2)
def test_a_job_that_loses_batches_gives_all_rows_or_fails_by_name(seed: int) -> None:
    is_right_or_failed_by_name(*run(seed, Faults(payload_loss=0.05)))


@pytest.mark.seeds(2)
def test_workers_end_whoever_of_their_masters_dies(seed: int) -> None:
    """Nobody is left who knows of the job where its Dispatcher dies; but nothing of it may go on for ever."""
    kills: Mapping[str, float] = {**WORKERS, **MASTERS}
    program, outcome = run(seed, Faults(kills=kills, pauses=kills, pause_ms=(100.0, 90_000.0)))
    if outcome.status is not None:
        is_right_or_failed_by_name(program, outcome)
