"""An exchange by key never chains, not even at parallelism 1."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    pairs = env.from_collection([("a", 1)], [str, int])
    pairs.key_by("f0").sum("f1").print()
    return env
