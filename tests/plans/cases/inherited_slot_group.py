"""A slot sharing group goes on to what follows, and ends where inputs disagree."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    first = env.from_sequence(1, 10).name("first").slot_sharing_group("red")
    second = env.from_sequence(1, 10).name("second").slot_sharing_group("blue")
    inherits = first.shuffle().map(abs).name("red still")
    inherits.union(second).map(abs).name("default again").print()
    return env
