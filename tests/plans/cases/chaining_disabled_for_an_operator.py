"""An operator that shares its task with no other."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).map(abs).name("before").map(abs).name("alone").disable_chaining().map(abs).name(
        "after"
    ).print()
    return env
