"""Keyed windows with built-in aggregates, and what comes too late for them beside."""

from __future__ import annotations

from flinkray import Count, OutputTag, StreamExecutionEnvironment, TumblingEventTimeWindows, WatermarkStrategy


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment({"parallelism.default": 2})
    late = OutputTag("late")
    pairs = env.from_collection(
        [("a", 1)], [str, int], WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("f1")
    )
    windows = pairs.key_by("f0").window(TumblingEventTimeWindows.of(1000)).side_output_late_data(late)
    counts = windows.aggregate(rows=Count())
    counts.print()
    counts.get_side_output(late).print().name("late")
    return env
