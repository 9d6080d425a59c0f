"""Windows with built-in aggregates that can be combined: the local phase stands before the exchange."""

from __future__ import annotations

from flinkray import Count, StreamExecutionEnvironment, Sum, TumblingEventTimeWindows, WatermarkStrategy


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    pairs = env.from_collection(
        [("a", 1)], [str, int], WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")
    )
    windows = pairs.key_by("f0").window(TumblingEventTimeWindows.of(1000))
    windows.aggregate(rows=Count(), total=Sum("f1")).name("totals").print()
    return env
