"""One stream, two ways, one join: the join is built once, and its first gate is that of the chain finished first."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    numbers = env.from_sequence(1, 10)
    left = numbers.map(abs).name("left")
    right = numbers.rebalance().map(abs).name("right")
    left.union(right).print()
    return env
