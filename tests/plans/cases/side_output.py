"""A side output and the main one inside a chain, and the side output once more over the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkray import OutputTag, StreamExecutionEnvironment


def by_parity(value: int, _ctx: Any) -> Iterator[Any]:
    yield value if value % 2 == 0 else (OutputTag("late"), value)


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    late = OutputTag("late")
    split = env.from_sequence(1, 10).process(by_parity).name("split")
    split.print().name("even")
    split.get_side_output(late).print().name("odd")
    split.get_side_output(late).rebalance().print().name("odd elsewhere")
    return env
