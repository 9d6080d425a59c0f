"""An operator that begins a chain, which others join."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).map(abs).name("before").map(abs).name("begins").start_new_chain().map(abs).name(
        "joins"
    ).print()
    return env
