"""Chaining off for the program: every operator has a task, and forward edges go over the network."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    env.disable_operator_chaining()
    env.from_sequence(1, 10).map(abs).filter(bool).print()
    return env
