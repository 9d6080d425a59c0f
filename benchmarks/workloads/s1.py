"""S1: how long it takes from `execute()` to the first result; prints seconds.

    python -m benchmarks.workloads.s1 --target ray

The first job finds no Ray (`none`), the second one the cluster that the first one started (`warm`).
"""

from __future__ import annotations

import argparse
import json
import time

from flinkray import StreamExecutionEnvironment


def seconds_to_first_result(target: str, parallelism: int) -> float:
    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": target, "parallelism.default": parallelism}
    )
    stream = env.from_sequence(0, 999).rebalance().map(lambda value: value + 1)
    started = time.monotonic()
    with stream.execute_and_collect() as results:
        next(iter(results))
        return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", choices=("local", "ray"), default="ray")
    parser.add_argument("--parallelism", type=int, default=2)
    given = parser.parse_args()
    print(json.dumps({name: seconds_to_first_result(given.target, given.parallelism) for name in ("none", "warm")}))


if __name__ == "__main__":
    main()
