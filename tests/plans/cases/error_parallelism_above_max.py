"""More subtasks than key groups."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).map(abs).set_parallelism(8).set_max_parallelism(4).print()
    return env
