"""K1: keyed state in rocksdb, read and written row by row between checkpoints.

    python -m benchmarks.workloads.k1 --keys 5000000 [--whole]

Writes all keys once, then in rounds takes a checkpoint and reads and writes the counts of random keys: a tenth as many
as there are keys, at least 100,000. Prints the median over the rounds of rows per second and of CPU microseconds per
row (with those of RocksDB's own threads), the lowest rows per second, and the longest checkpoint in seconds, of which
the task waits for the pause.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from actors.hosts.runtime import SystemClock
from actors.protocol.elements import CheckpointOptions
from actors.state.keyed.options import StateOptions
from actors.state.rocksdb.backend import RocksDbKeyedStateBackend
from benchmarks.state_backends import GROUPS, FileWriter
from flinkray.state.descriptors import ValueStateDescriptor

ROUNDS = 5
FEWEST_ROWS = 100_000


def measure(keys: int, options: StateOptions, directory: Path) -> dict[str, float]:
    backend = RocksDbKeyedStateBackend("benchmark", range(GROUPS), "", SystemClock(), options)
    count = backend.get_state(ValueStateDescriptor("count"))
    random = np.random.default_rng(0)
    groups = random.integers(0, GROUPS, keys, np.uint8)
    for key in range(keys):
        backend.set_current_key(key, int(groups[key]))
        count.update(0)
    incremental = CheckpointOptions(shared_directory=f"file://{directory}/shared")
    rates, cpu_us, checkpoints_s, pauses_s = [], [], [], []
    for number in range(1, ROUNDS + 1):
        started = time.perf_counter()
        parts = backend.snapshot(incremental, number)
        pauses_s.append(time.perf_counter() - started)
        writer = FileWriter(directory)
        for part in parts:
            part.write(writer)
        backend.notify_checkpoint_complete(number)
        checkpoints_s.append(time.perf_counter() - started)
        chosen = random.integers(0, keys, max(FEWEST_ROWS, keys // 10))
        started, began = time.perf_counter(), time.process_time()
        for key, group in zip(chosen.tolist(), groups[chosen].tolist(), strict=True):
            backend.set_current_key(key, group)
            count.update(count.value() + 1)
        rates.append(len(chosen) / (time.perf_counter() - started))
        cpu_us.append((time.process_time() - began) / len(chosen) * 1e6)
    backend.close()
    return {
        "rows_per_s": median(rates),
        "lowest_rows_per_s": min(rates),
        "cpu_us_per_row": median(cpu_us),
        "checkpoint_s": max(checkpoints_s),
        "pause_s": max(pauses_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--target", choices=("local", "ray"), default="local", help="The same on both.")
    parser.add_argument("--whole", action="store_true", help="Indexes and filters that are not partitioned.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        options = StateOptions("rocksdb", True, directory, has_partitioned_index_filters=not given.whole)
        print(json.dumps(measure(given.keys, options, Path(directory))))


if __name__ == "__main__":
    main()
