"""The subtask by a function of the user."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    env.from_sequence(1, 10).partition_custom(lambda key, channels: key % channels, abs).print()
    return env
