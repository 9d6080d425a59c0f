"""Windows with very many open groups: prints GiB and seconds.

    python -m benchmarks.window_state [--groups 10000000] [--windows 1]

A tumbling window's operator, with one sum and one count, takes in a row for each (key, window) and then fires them all
with one watermark. In a process of its own: the most memory that this process took, all told, and how long rows and
firing took on its one thread. Once with int64 keys, once with keys of text.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.testing.context import HarnessContext
from benchmarks.counting_output import RowCountingOutput
from flinkray.batches.batch import Batch
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Kind, Timestamp
from flinkray.windows.aggregates import Count, Sum
from flinkray.windows.assigners import TumblingEventTimeWindows

BATCH_ROWS = 65_536
SIZE_MS = 60_000
GIB = 1 << 30
KINDS = ("int64", "string")


@dataclass(frozen=True)
class WindowStateMemory:
    """What one run took: bytes of memory at most, before anything, and with all groups open; seconds."""

    groups: int
    bytes_before: int
    bytes_open: int
    bytes_most: int
    filling_seconds: float
    firing_seconds: float


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(kind: str, groups: int, windows: int) -> WindowStateMemory:
    """Fills and fires the windows in this process."""
    before = most_memory()
    factory = WindowFactory(TumblingEventTimeWindows.of(SIZE_MS), (("rows", Count()), ("total", Sum("value"))))
    operator, output = ColumnarWindowOperator(factory), RowCountingOutput()
    operator.setup(HarnessContext(keys=(ColumnKey(("key",)),)), output)
    keys = groups // windows
    started, making = time.perf_counter(), 0.0
    for window in range(windows):
        for offset in range(0, keys, BATCH_ROWS):
            making -= time.perf_counter()
            batch = _batch(kind, np.arange(offset, min(keys, offset + BATCH_ROWS)), window)
            making += time.perf_counter()
            operator.process_batch(batch)
    filled, full = time.perf_counter(), most_memory()
    operator.on_watermark(Timestamp(windows * SIZE_MS))
    fired = time.perf_counter()
    assert output.rows == keys * windows, f"{output.rows} results"
    return WindowStateMemory(keys * windows, before, full, most_memory(), filled - started - making, fired - filled)


def _batch(kind: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]], window: int) -> Batch:
    # An odd factor, so that neighbours are far apart and all keys differ.
    column = pa.array(numbers * 0x9E3779B1)
    if kind == "string":
        column = pc.binary_join_element_wise("user", column.cast(pa.string()), "-")
    times = pa.array(np.full(len(numbers), window * SIZE_MS + 7, np.int64))
    return Batch(pa.RecordBatch.from_arrays([column, pa.array(numbers)], names=["key", "value"]), Kind.ROW, times)


def run_alone(kind: str, groups: int, windows: int) -> WindowStateMemory:
    """`run` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.window_state", "--alone", kind]
    command += ["--groups", str(groups), "--windows", str(windows)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=900).stdout
    return WindowStateMemory(**json.loads(printed))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=10_000_000)
    parser.add_argument("--windows", type=int, default=1)
    parser.add_argument("--alone", choices=KINDS, help="measure this kind of key in this process, and print JSON")
    options = parser.parse_args(arguments)
    if options.alone:
        print(json.dumps(asdict(run(options.alone, options.groups, options.windows))))
        return
    for kind in KINDS:
        figures = run_alone(kind, options.groups, options.windows)
        print(
            f"{kind} keys, {figures.groups:,} groups in {options.windows} windows: filled in "
            f"{figures.filling_seconds:.1f} s with {figures.bytes_open / GIB:.2f} GiB, fired in "
            f"{figures.firing_seconds:.1f} s; {figures.bytes_most / GIB:.2f} GiB at most "
            f"({figures.bytes_before / GIB:.2f} GiB before)"
        )


if __name__ == "__main__":
    main()
