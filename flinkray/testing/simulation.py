"""Simulation: whole programs in a simulated cluster, with faults that a seed decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkray.execution import JobExecutionResult
from flinkray.plugins import EXECUTORS, load_plugin, replace_plugins
from flinkray.streams.data_stream import DataStream
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.testing.driver import PLUGINS


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFaults:
    """What may go wrong in a Simulation."""

    worker_deaths: bool = True
    """Processes of slots and workers are killed, and whole nodes."""
    master_deaths: bool = False
    """The JobMaster and the ResourceManager are killed; a job survives that with high availability only."""
    pauses: bool = True
    """Processes stop for a while, and go on."""
    lost_messages: bool = True
    """Batches are lost on their way between slots."""
    limit: int = 3
    """The most faults of a run, so that a job can come to its end."""


NO_FAULTS = SimulatedFaults(worker_deaths=False, pauses=False, lost_messages=False, limit=0)


class Simulation:
    """Runs a program in a cluster of one thread with virtual time, in which a seed decides what happens when, and what
    goes wrong. The same seed gives the same run.

    ```python
    for seed in range(100):
        env = program()  # a new one each time, with checkpoints and a restart strategy
        Simulation(seed).execute(env)
        assert committed_rows() == expected
    ```

    Each run ends with the job's result or its error, as in `execute`; a job without a restart strategy fails with the
    first fault. Waiting takes no time. Nothing may start a thread: FileSource, generator functions and SourceFunctions
    cannot take part; collections, sequences, DataGenSource and ScriptedSource can.

    Args:
        faults: what may go wrong; None: nothing, and the seed decides only what happens when.
    """

    def __init__(self, seed: int, faults: SimulatedFaults | None = SimulatedFaults()) -> None:
        self.seed = seed
        self._executor = load_plugin(PLUGINS, "simulation")(seed, faults or NO_FAULTS)

    def execute(self, env: StreamExecutionEnvironment, job_name: str | None = None) -> JobExecutionResult:
        """Runs the environment's program to its end.

        Raises:
            JobExecutionError: it failed; `faults` says what had gone wrong.
        """
        with replace_plugins(EXECUTORS, lambda: self._executor):
            return env._execute_and_wait(job_name)

    def collect(self, stream: DataStream, job_name: str | None = None) -> list[Any]:
        """Runs the program to its end, and gives the values of the stream. Raises as `execute` does."""
        with replace_plugins(EXECUTORS, lambda: self._executor):
            return list(stream.execute_and_collect(job_name))

    @property
    def faults(self) -> tuple[str, ...]:
        """What has gone wrong in the last run, in words."""
        happened: tuple[str, ...] = self._executor.happened
        return happened
