"""Tasks that must share slots, and must not."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    head = env.from_sequence(1, 10).map(abs).name("head").co_location_group("loop")
    head.map(abs).name("tail").co_location_group("loop").slot_sharing_group("other").print()
    return env
