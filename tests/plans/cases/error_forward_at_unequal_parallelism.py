"""Forward keeps the subtask index, so it needs equal parallelism."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).forward().map(abs).set_parallelism(3).print()
    return env
