"""Two streams into one operator: the inputs keep their order whichever chain is built first."""

from __future__ import annotations

from typing import Any

from flinkray import CoMapFunction, StreamExecutionEnvironment


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_sequence(1, 10).name("numbers")
    names = env.from_collection(["one", "two"]).name("names")
    names.connect(numbers).map(Both()).print()
    return env
