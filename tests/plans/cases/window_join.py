"""Two keyed streams that meet in windows."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment, TumblingEventTimeWindows


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    left = env.from_collection([("a", 1)], [str, int]).name("left")
    right = env.from_collection([("a", 2)], [str, int]).name("right")
    joined = left.join(right).where("f0").equal_to("f0").window(TumblingEventTimeWindows.of(1000))
    joined.apply(lambda first, second: (first, second)).print()
    return env
