"""Key groups by the operator's own setting, by the program's, and by the parallelism where neither is set."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_max_parallelism(300)
    pairs = env.from_collection([("a", 1)], [str, int])
    sums = pairs.key_by("f0").sum("f1").set_parallelism(2).set_max_parallelism(6)
    sums.key_by("f0").max("f1").name("most").set_parallelism(100).print()
    return env
