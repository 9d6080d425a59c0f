"""Column operations and row functions share a task like any others."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment, col


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    pairs = env.from_collection([("a", 1)], [str, int])
    pairs.where(col("f1") > 0).with_columns(twice=col("f1") * 2).select("f0", "twice").print()
    return env
