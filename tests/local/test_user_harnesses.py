"""What users test whole programs with: simulated clusters with faults, and sources that crash as they say."""

from __future__ import annotations

import pytest

from flinkray import DataStream, StreamExecutionEnvironment
from flinkray.errors import JobExecutionError
from flinkray.testing import Crash, ScriptedSource, SimulatedFaults, Simulation, Watermark, run_locally
from flinkray.time.watermarks import WatermarkStrategy
from tests.support.jobs import environment

RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 100,
    "restart-strategy.fixed-delay.delay": 20,
    "execution.checkpointing.interval": "100 ms",
}


def doubled(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_sequence(1, 500).key_by(lambda value: value % 7).map(lambda value: value * 2)


@pytest.mark.parametrize("seed", range(6))
def test_a_program_in_a_simulated_cluster_gives_its_result_whatever_goes_wrong(seed: int) -> None:
    simulation = Simulation(seed)
    assert sorted(simulation.collect(doubled(environment(RESTARTS)))) == [2 * value for value in range(1, 501)]


def test_the_same_seed_gives_the_same_faults_and_other_seeds_others() -> None:
    def faults(seed: int) -> tuple[str, ...]:
        simulation = Simulation(seed)
        simulation.collect(doubled(environment(RESTARTS)))
        return simulation.faults

    found = [faults(seed) for seed in range(6)]
    assert found == [faults(seed) for seed in range(6)]
    assert len(set(found)) > 2


def test_a_program_without_a_restart_strategy_fails_with_the_first_death() -> None:
    outcomes = []
    for seed in range(12):
        simulation = Simulation(seed, SimulatedFaults(pauses=False, lost_messages=False))
        try:
            rows = simulation.collect(doubled(environment({"restart-strategy.type": "none"})))
        except JobExecutionError:
            assert simulation.faults
            outcomes.append("failed")
        else:
            assert sorted(rows) == [2 * value for value in range(1, 501)]
            outcomes.append("finished")
    assert set(outcomes) == {"failed", "finished"}


def test_without_faults_the_seed_decides_only_the_order() -> None:
    for seed in range(3):
        simulation = Simulation(seed, faults=None)
        env = environment()
        doubled(env).print()
        assert simulation.execute(env, "simulated").job_name == "simulated"
        assert simulation.faults == ()


def test_a_scripted_crash_restarts_the_job_once_and_every_row_comes_once() -> None:
    items = [1, 2, Crash, 3, Watermark(5), Crash, 4]
    env = environment({**RESTARTS, "execution.checkpointing.interval": "20 ms"})
    stream = env.from_source(ScriptedSource(items), WatermarkStrategy.no_watermarks(), "script")
    # The driver gets rows with checkpoints, so that none comes twice.
    assert sorted(stream.execute_and_collect()) == [1, 2, 3, 4]


def test_a_scripted_crash_fails_a_job_that_does_not_restart() -> None:
    env = environment({"restart-strategy.type": "none"})
    env.from_source(ScriptedSource([1, Crash]), WatermarkStrategy.no_watermarks(), "script").print()
    with pytest.raises(JobExecutionError, match="the script has a crash at item 1"):
        run_locally(env)


def test_a_scripted_crash_happens_in_a_simulation_too() -> None:
    env = environment(RESTARTS)
    stream = env.from_source(ScriptedSource([1, Crash, 2]), WatermarkStrategy.no_watermarks(), "script")
    assert sorted(Simulation(3, faults=None).collect(stream)) == [1, 2]
