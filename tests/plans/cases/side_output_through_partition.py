"""A side output that is shuffled, then keyed: the tag stays, the nearest partitioner counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkray import OutputTag, StreamExecutionEnvironment


def tagged(value: int, _ctx: Any) -> Iterator[Any]:
    yield OutputTag("odd"), value


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    split = env.from_sequence(1, 10).process(tagged).name("split")
    split.get_side_output(OutputTag("odd")).shuffle().rebalance().map(abs).set_parallelism(3).print().set_parallelism(3)
    return env
