"""C1: a function whose calls take the same time for any number of rows, as a model's do.

    python -m benchmarks.workloads.c1 --milliseconds 50 --debloating true --seconds 40 --target ray

Rows are generated as fast as they are taken: key_by -> map_batches -> sink, with a checkpoint every two seconds. Prints
the rows per second in the second half of the time, in which buffers have their size, and the seconds that the longest
checkpoint of that half took, the one under way included.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.workloads.base import FIELDS
from flinkray import Batch, DataGenSource, DiscardSink, StreamExecutionEnvironment, WatermarkStrategy

MILLISECONDS = (1, 10, 50, 200)
CHECKPOINT_INTERVAL_MS = 2_000


def call(batch: Batch, seconds: float, file: str) -> Batch:
    """Takes the time, and notes when it was over and for how many rows."""
    time.sleep(seconds)
    with Path(file).open("a") as calls:
        calls.write(f"{time.time()} {batch.num_rows}\n")
    return batch


def fixed_cost(milliseconds: int, debloating: str, seconds: float, target: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "calls")
        env = StreamExecutionEnvironment.get_execution_environment(
            {
                "execution.target": target,
                "parallelism.default": 1,
                "taskmanager.network.memory.buffer-debloat.enabled": debloating,
                "execution.checkpointing.dir": f"{directory}/checkpoints",
            }
        )
        env.enable_checkpointing(CHECKPOINT_INTERVAL_MS)
        source = env.from_source(DataGenSource(dict(FIELDS)), WatermarkStrategy.no_watermarks(), "rows")
        model = partial(call, seconds=milliseconds / 1000, file=str(file))
        source.key_by("k").map_batches(model).slot_sharing_group("model").sink_to(DiscardSink())
        client = env.execute_async("fixed cost")
        try:
            while not file.exists():
                time.sleep(0.01)
            begin = time.time() + seconds / 2
            time.sleep(seconds)
            end = time.time()
            history = client.checkpoints().history
        finally:
            client.cancel()
            while not client.status().is_terminal:
                time.sleep(0.01)
            client.close()
        calls = [line.split() for line in file.read_text().splitlines()]
    rows = sum(int(count) for at, count in calls if begin <= float(at) < end)
    ended = [(each.triggered_ms, each.ended_ms or end * 1000) for each in history]
    longest = max((end_ms - start_ms for start_ms, end_ms in ended if end_ms >= begin * 1000), default=0.0)
    return {"rows/s": rows / (end - begin), "longest checkpoint s": longest / 1000}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--milliseconds", type=int, default=50)
    parser.add_argument("--debloating", choices=("true", "false"), default="true")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--target", choices=("local", "ray"), default="ray")
    given = parser.parse_args()
    print(json.dumps(fixed_cost(given.milliseconds, given.debloating, given.seconds, given.target)))


if __name__ == "__main__":
    main()
