"""A slot sharing group of its own breaks the chain."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).map(abs).name("light").map(abs).name("heavy").slot_sharing_group("heavy").print()
    return env
