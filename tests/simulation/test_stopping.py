"""Jobs that are stopped with a savepoint while their JobMaster dies: nothing is lost, nothing is committed twice."""

from __future__ import annotations

import random

import pytest

from actors.protocol.elements import StopMode
from flinkray.execution import JobStatus
from tests.support.exactly_once import KINDS
from tests.support.simulated_stops import MOMENTS, Stopped, go_on, stop


def undisturbed_and_killed(seed: int, mode: StopMode, kinds: tuple[str, ...]) -> tuple[Stopped, Stopped, bool]:
    """The job without and with the death of its JobMaster, and whether that died when the next one could know of the
    savepoint: it has to be that one then."""
    chance = random.Random(f"death {seed}")
    kind, has_two_sinks = chance.choice(kinds), chance.random() < 0.5
    calm = stop(seed, mode, kind, has_two_sinks)
    assert calm.status is JobStatus.FINISHED
    first = calm.moments.get("saved", calm.asked_at) if chance.random() < 0.7 else calm.asked_at
    step, moment = chance.randint(first, max(first, calm.steps)), chance.choice([*MOMENTS, "", "", "", ""])
    kill_at = moment if moment in calm.moments else step
    disturbed = stop(seed, mode, kind, has_two_sinks, kill_at)
    what = f"{calm.job}, {mode}, asked at {calm.asked_at}, {calm.moments}, killed at {kill_at} of {calm.steps} steps"
    assert disturbed.status is JobStatus.FINISHED, what
    assert kill_at != moment or disturbed.deaths == 1, what
    was_recorded = kill_at == "recorded" or (moment != kill_at and step > calm.moments.get("recorded", calm.steps))
    assert not was_recorded or disturbed.savepoint == calm.savepoint, what
    return calm, disturbed, was_recorded


@pytest.mark.seeds(2)
def test_whenever_the_job_master_dies_who_goes_on_from_the_savepoint_has_every_row_once(seed: int) -> None:
    _, disturbed, _ = undisturbed_and_killed(seed, StopMode.SUSPEND, KINDS)
    rows = go_on(disturbed) if disturbed.savepoint else disturbed.rows
    for sink, committed in rows.items():
        assert committed == disturbed.job.expected, f"{disturbed.job}: {sink}"


@pytest.mark.seeds(2)
def test_whenever_the_job_master_dies_a_drained_job_has_committed_all_that_it_read_once(seed: int) -> None:
    calm, disturbed, was_recorded = undisturbed_and_killed(seed, StopMode.DRAIN, ("stateless", "running"))
    job = disturbed.job
    expected = calm.rows[job.sink] if was_recorded else disturbed.rows[job.sink]
    rows = go_on(disturbed) if disturbed.savepoint else disturbed.rows
    for sink, committed in rows.items():
        assert committed == expected, f"{job}: {sink}"
        assert not committed - job.expected, f"{job}: {sink}"
        if job.kind == "running":
            highest = {key: max(n for each, n in committed if each == key) for key, _ in committed}
            assert sum(highest.values()) == committed.total(), f"{job}: {sink} has gaps in the counts of a key"
