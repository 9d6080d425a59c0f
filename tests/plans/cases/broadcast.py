"""Every row to every subtask."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    env.from_sequence(1, 10).broadcast().map(abs).set_parallelism(3).print().set_parallelism(3)
    return env
