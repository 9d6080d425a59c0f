"""A buffer timeout of one operator, and that of the program for the others."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_buffer_timeout(50)
    env.from_sequence(1, 10).set_buffer_timeout(0).shuffle().map(abs).shuffle().print()
    return env
