"""run_locally: a whole program, run from a test."""

from __future__ import annotations

from flinkray.config.options import TARGET
from flinkray.execution import JobExecutionResult
from flinkray.streams.environment import StreamExecutionEnvironment


def run_locally(env: StreamExecutionEnvironment, job_name: str | None = None) -> JobExecutionResult:
    """Runs the environment's program in this process, whatever its `execution.target`, and waits for its end."""
    target = env.configuration.get(TARGET)
    env.configure({TARGET.key: "local"})
    try:
        return env._execute_and_wait(job_name)
    finally:
        env.configure({TARGET.key: target})
