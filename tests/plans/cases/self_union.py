"""A stream united with itself: two edges, two results, two gates."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_sequence(1, 10)
    numbers.union(numbers).print()
    return env
