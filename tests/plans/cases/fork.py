"""A chain that forks, and forks again, with an exchange out of its middle."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_sequence(1, 10)
    inner = numbers.map(abs).name("inner")
    inner.print().name("a")
    inner.filter(bool).name("some").print().name("b")
    inner.shuffle().print().name("c")
    numbers.print().name("d")
    return env
