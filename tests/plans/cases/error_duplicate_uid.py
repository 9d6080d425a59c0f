"""Two operators with one uid."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).map(abs).name("first").uid("x").map(abs).name("second").uid("x").print()
    return env
