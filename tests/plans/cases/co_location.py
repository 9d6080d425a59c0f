"""Two tasks whose subtasks of equal index share a slot."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    numbers = env.from_sequence(1, 10)
    head = numbers.shuffle().map(abs).name("head").co_location_group("loop")
    head.shuffle().map(abs).name("tail").co_location_group("loop").print()
    return env
