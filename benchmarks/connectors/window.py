"""The job that is timed beside other engines: JSON from Kafka, windows by key, JSON to Kafka."""

from __future__ import annotations

import argparse
import json
import time

from flinkray import (
    Count,
    JsonFormat,
    KafkaSink,
    KafkaSource,
    StreamExecutionEnvironment,
    Sum,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

WINDOW_MS = 10_000
DISORDER_MS = 1_000


def run(servers: str, source: str, target: str, parallelism: int, where: str) -> float:
    """Seconds from submitting the job to its end."""
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": where, "parallelism.default": parallelism}
    )
    columns = {"id": int, "customer": int, "price": float, "word": str, "ts": int}
    messages = KafkaSource(servers, [source], JsonFormat(columns), stop="latest")
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(f"{DISORDER_MS} ms").with_timestamp_assigner("ts")
    windows = (
        env.from_source(messages, strategy, "messages")
        .key_by("customer")
        .window(TumblingEventTimeWindows.of(f"{WINDOW_MS} ms"))
        .aggregate(total=Sum("price"), n=Count())
    )
    windows.sink_to(KafkaSink(servers, target, JsonFormat()))
    started = time.monotonic()
    env.execute("windows")
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("servers")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("parallelism", type=int)
    parser.add_argument("--where", choices=("local", "ray"), default="local")
    given = parser.parse_args()
    seconds = run(given.servers, given.source, given.target, given.parallelism, given.where)
    print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
