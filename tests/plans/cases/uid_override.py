"""A uid, and a uid hash, in place of the computed ids; behind them the computed ids differ as well."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_sequence(1, 10).uid("numbers").map(abs).name("named").uid("abs").shuffle()
    stream.map(abs).name("forced").set_uid_hash("0123456789abcdef0123456789abcdef").shuffle().print()
    return env
