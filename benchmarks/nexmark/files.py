"""Nexmark's events as Parquet files, which all engines read: written once, and the same each time.

There is a file for each subtask, which has every so many-th event, so that time proceeds evenly over all of them; and
it has one row group, as what reads a group after another in parallel would see time go back.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.definitions import BENCH_DIRECTORY
from benchmarks.nexmark.events import EventTimes, events
from benchmarks.nexmark.random_values import Longs

_EVENTS_AT_ONCE = 100_000
_LOOKED_AT = 100


def event_files(count: int, per_second: int, files: int, directory: Path = BENCH_DIRECTORY / "nexmark") -> Path:
    """A directory with the first `count` events, at so many a second, in so many files."""
    # What the generator makes is part of the name, so that no file outlives a change of it.
    version = zlib.crc32(events(np.arange(_LOOKED_AT)).serialize())
    target = directory / f"{count}-at-{per_second}-in-{files}-{version:08x}"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}")
        partial.mkdir(parents=True)
        for index in range(files):
            _write(partial / f"{index}.parquet", np.arange(index, count, files), per_second)
        partial.rename(target)
    return target


def _write(path: Path, numbers: Longs, per_second: int) -> None:
    parts = [numbers[start : start + _EVENTS_AT_ONCE] for start in range(0, len(numbers), _EVENTS_AT_ONCE)]
    table = pa.Table.from_batches([events(part, EventTimes(per_second)) for part in parts])
    # Within rows Flink reads times of this old form only.
    pq.write_table(table, path, row_group_size=len(numbers), use_deprecated_int96_timestamps=True)
