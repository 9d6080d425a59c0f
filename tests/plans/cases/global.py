"""All rows to the first subtask."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    env.from_sequence(1, 10).global_().map(abs).print()
    return env
