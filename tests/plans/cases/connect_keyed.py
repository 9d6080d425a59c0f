"""Two streams keyed alike share state by key: both exchanges are by hash, with the operator's key groups."""

from __future__ import annotations

from typing import Any

from flinkray import KeyedCoProcessFunction, StreamExecutionEnvironment


class Both(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield value


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    numbers = env.from_collection([(1, "a")], [int, str]).name("left")
    names = env.from_collection([(1, "b")], [int, str]).name("right")
    joined = numbers.key_by("f0").connect(names.key_by("f0")).process(Both()).set_max_parallelism(16)
    joined.print()
    return env
