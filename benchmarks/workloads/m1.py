"""M1: memory while W2d runs into a sink that takes 1 ms per batch, so that credits have to bound what is in flight.

    python -m benchmarks.workloads.m1 --rows 20000000 --target ray

Prints the most that Ray's object store held, in MiB (0 on the local target). Who runs this measures the process tree.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading

from benchmarks.slow_sink import SlowSink
from benchmarks.workloads.w2 import W2d
from flinkray import StreamExecutionEnvironment

S_PER_BATCH = 0.001
SAMPLE_S = 0.2


def object_store_mib() -> float:
    """What Ray's object store holds now; 0 without Ray."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return 0.0
    name = "object_store_memory"
    return float(ray.cluster_resources().get(name, 0) - ray.available_resources().get(name, 0)) / (1 << 20)


def peak_object_store_mib(rows: int, target: str, parallelism: int) -> float:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": target, "parallelism.default": parallelism}
    )
    W2d().stream(env, rows).sink_to(SlowSink(S_PER_BATCH))
    client = env.execute_async("memory")
    peak, has_ended = 0.0, threading.Event()
    try:
        while not client.status().is_terminal:
            peak = max(peak, object_store_mib())
            has_ended.wait(SAMPLE_S)
        client.result()
    finally:
        client.close()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--target", choices=("local", "ray"), default="ray")
    parser.add_argument("--parallelism", type=int, default=2)
    given = parser.parse_args()
    print(json.dumps({"object_store_mib": peak_object_store_mib(given.rows, given.target, given.parallelism)}))


if __name__ == "__main__":
    main()
