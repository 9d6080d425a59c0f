"""Two programs that share nothing are one job of two regions."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).name("one").print()
    env.from_sequence(1, 10).name("two").shuffle().print()
    return env
