"""What a sliding window costs beside a tumbling one: prints nanoseconds per row and their ratio.

    python -m benchmarks.sliding_windows [--rows 20000000] [--rates 250,1000] [--keys 1000,10000]

Sums and counts over windows of one hour every minute, and over windows of one minute. A stream of so many rows per
second of event time, up to five seconds out of order, in batches of 16,384 rows, each followed by its watermark; so a
sliding window of 60 slices fires for all keys each minute of event time. Only the operator is timed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from actors.operators.windows.aligned.aggregate_operator import ColumnarWindowOperator
from actors.testing.context import HarnessContext
from benchmarks.counting_output import RowCountingOutput
from flinkray.batches.batch import Batch
from flinkray.transformations.operator_factories import WindowFactory
from flinkray.types.keys import ColumnKey
from flinkray.types.records import Kind, Timestamp
from flinkray.windows.aggregates import Count, Sum
from flinkray.windows.assigners import AlignedWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

BATCH_ROWS = 16_384
DISORDER_MS = 5_000
MINUTE_MS = 60_000


@dataclass(frozen=True)
class SlidingCost:
    """Nanoseconds per row, and how many results there were."""

    tumbling_ns: float
    sliding_ns: float
    tumbling_results: int
    sliding_results: int

    @property
    def ratio(self) -> float:
        return self.sliding_ns / self.tumbling_ns


def measure(rows: int, rate: int, keys: int) -> SlidingCost:
    """Measures both windows in turn, over the same stream of `rate` rows per second of event time."""
    tumbling_ns, tumbling_results = _run(TumblingEventTimeWindows.of(MINUTE_MS), rows, rate, keys)
    sliding_ns, sliding_results = _run(SlidingEventTimeWindows.of(60 * MINUTE_MS, MINUTE_MS), rows, rate, keys)
    return SlidingCost(tumbling_ns, sliding_ns, tumbling_results, sliding_results)


def _run(assigner: AlignedWindows, rows: int, rate: int, keys: int) -> tuple[float, int]:
    factory = WindowFactory(assigner, (("rows", Count()), ("total", Sum("value"))))
    operator, output = ColumnarWindowOperator(factory), RowCountingOutput()
    operator.setup(HarnessContext(keys=(ColumnKey(("key",)),)), output)
    taken = 0.0
    for batch, watermark in _stream(rows, rate, keys):
        started = time.perf_counter()
        operator.process_batch(batch)
        operator.on_watermark(Timestamp(watermark))
        taken += time.perf_counter() - started
    return taken / rows * 1e9, output.rows


def _stream(rows: int, rate: int, keys: int) -> Iterator[tuple[Batch, int]]:
    random = np.random.default_rng(17)
    for first in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - first)
        due = np.arange(first, first + count) * 1000 // rate
        times = due - random.integers(0, DISORDER_MS, count)
        columns = [pa.array(random.integers(0, keys, count)), pa.array(random.integers(0, 1000, count))]
        data = pa.RecordBatch.from_arrays(columns, names=["key", "value"])
        yield Batch(data, Kind.ROW, pa.array(times)), int(due[-1]) - DISORDER_MS - 1


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rates", type=_numbers, default=[250, 1000])
    parser.add_argument("--keys", type=_numbers, default=[1000, 10_000])
    options = parser.parse_args(arguments)
    for rate in options.rates:
        for keys in options.keys:
            figures = measure(options.rows, rate, keys)
            print(
                f"{rate:,} rows/s of {keys:,} keys: tumbling {figures.tumbling_ns:.0f} ns per row "
                f"({figures.tumbling_results:,} results), sliding {figures.sliding_ns:.0f} ns per row "
                f"({figures.sliding_results:,} results): {figures.ratio:.2f} times"
            )


if __name__ == "__main__":
    main()
