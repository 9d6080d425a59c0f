"""Rows go Spark -> flinkray -> Spark on Ray; prints seconds, and the most memory that flinkray's processes took (MiB).

    python benchmarks/spark_round_trip.py [--rows 10000000] [--parallelism 2]

Rows are (long, long, double, string). Memory is the proportional set size, which counts shared memory once, summed
over the driver and all its descendants except Spark's JVMs, sampled every half second; Ray's own processes count.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from flinkray import Configuration, StreamExecutionEnvironment
from flinkray.spark import init_spark, stop_spark


def descendants(root: int) -> Iterator[int]:
    """`root` and every process below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue  # it has ended meanwhile
            children.setdefault(parent, []).append(int(entry.name))
    waiting = [root]
    while waiting:
        process = waiting.pop()
        yield process
        waiting.extend(children.get(process, []))


def memory_mib(process: int) -> float:
    """Proportional set size; 0 for a JVM and for what has ended."""
    try:
        if Path(f"/proc/{process}/comm").read_text().strip() == "java":
            return 0.0
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return int(rollup.split("Pss:")[1].split()[0]) / 1024


class MemoryWatch:
    """Samples on a thread of its own."""

    def __init__(self) -> None:
        self.peak_mib = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            self.peak_mib = max(self.peak_mib, sum(memory_mib(process) for process in descendants(os.getpid())))


def rows_of(frame: DataFrame) -> tuple[int, int, int]:
    """Count and sums, to see that nothing was lost or changed."""
    row = frame.agg(F.count("*"), F.sum("key"), F.sum(F.length("name"))).first()
    assert row is not None
    return row[0], row[1], row[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--parallelism", type=int, default=2)
    arguments = parser.parse_args()
    with MemoryWatch() as memory:
        spark = init_spark("round-trip")
        try:
            frame = spark.range(arguments.rows).select(
                "id",
                (F.col("id") % 1000).alias("key"),
                (F.col("id") * 0.5).alias("value"),
                F.concat(F.lit("name-"), F.col("id") % 10_000).alias("name"),
            )
            env = StreamExecutionEnvironment.get_execution_environment(
                Configuration({"parallelism.default": arguments.parallelism})
            )
            started = time.monotonic()
            back = env.from_spark(frame).rebalance().to_spark(spark)
            streamed = time.monotonic()
            counted = rows_of(back)
            read = time.monotonic()
            assert counted == rows_of(frame), counted
        finally:
            stop_spark()
    print(f"{arguments.rows:,} rows: Spark to flinkray to blocks {streamed - started:.1f} s, read by Spark in")
    print(f"{read - streamed:.1f} s; most memory of flinkray's processes {memory.peak_mib:,.0f} MiB")


if __name__ == "__main__":
    main()
