"""Whole jobs under random interleavings, with nothing going wrong: they give what plain loops give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flinkray.execution import JobStatus
from tests.support.random_programs import RandomProgram, small_frames
from tests.support.simulation import Outcome, run_job

ROOT = Path(__file__).resolve().parent.parent.parent


def run(seed: int) -> tuple[RandomProgram, Outcome]:
    program = RandomProgram(seed, "local", small_frames(seed))
    return program, run_job(program, seed)


@pytest.mark.seeds(4)
def test_a_random_program_gives_what_plain_loops_give_whatever_happens_first(seed: int) -> None:
    program, outcome = run(seed)
    assert outcome.status is JobStatus.FINISHED, outcome.error
    for name in program.results:
        assert outcome.rows[name] == program.expected[name], program.describe()


@pytest.mark.seeds(1)
def test_the_same_seed_gives_the_same_steps(seed: int) -> None:
    assert run(seed)[1].trace == run(seed)[1].trace


def test_another_seed_gives_other_steps() -> None:
    program, again = RandomProgram(1, "local"), RandomProgram(1, "local")
    assert run_job(program, 1).trace != run_job(again, 2).trace


@pytest.mark.seeds(1)
def test_the_same_seed_gives_the_same_steps_in_another_process(seed: int) -> None:
    """Also where texts have other hashes, and sets another order."""
    code = f"from tests.simulation.test_interleavings import run; print(run({seed})[1].trace)"
    traces = [_in_process(code, hash_seed) for hash_seed in ("1", "2")]
    assert traces == [run(seed)[1].trace] * 2


def _in_process(code: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
