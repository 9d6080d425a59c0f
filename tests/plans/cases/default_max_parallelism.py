"""Without any setting the key groups are a power of two above one and a half times the parallelism."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 100})
    pairs = env.from_collection([("a", 1)], [str, int])
    pairs.key_by("f0").sum("f1").print()
    return env
