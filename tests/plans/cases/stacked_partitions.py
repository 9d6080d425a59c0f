"""Of partitionings one upon another the last one counts."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_sequence(1, 10).shuffle().broadcast().rebalance().map(abs).set_parallelism(3).print().set_parallelism(3)
    return env
