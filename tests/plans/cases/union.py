"""Streams of unequal parallelism united: an edge each, with a partitioner of its own."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    one = env.from_sequence(1, 10).name("one").set_parallelism(1)
    three = env.from_sequence(1, 10).name("three").set_parallelism(3)
    one.union(three).map(abs).set_parallelism(3).print().set_parallelism(3)
    return env
