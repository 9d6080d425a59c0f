"""Pointwise both ways: two senders to five receivers, and five to three."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    spread = env.from_sequence(1, 10).rescale().map(abs).name("five").set_parallelism(5)
    spread.rescale().print().set_parallelism(3)
    return env
