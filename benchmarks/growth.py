"""What a row of W2d costs as the job grows, in rows and in keys: prints nanoseconds.

    python -m benchmarks.growth [--runs 5] [--parallelism 2]

Jobs run on the local target, in this process, so that only a job's own work is in the figures; what a job of one row
takes is subtracted. The sizes take turns, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.definitions import KEYS
from benchmarks.shapes import USUAL, Shape, windows
from benchmarks.workloads.base import key_column

MILLION = 1_000_000


@dataclass
class Size:
    """A job, and the seconds of wall clock and of CPU that its runs took."""

    rows: int
    keys: int
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def run(self, parallelism: int) -> None:
        keys = self.keys
        shape = Shape(self.rows, {**USUAL, "k": lambda row: key_column(row, keys)}, windows(("k",)))
        cpu_s = time.process_time()
        self.wall_s.append(shape.run(self.rows, "local", parallelism))
        self.cpu_s.append(time.process_time() - cpu_s)

    def report(self, least: Size, first: float | None) -> tuple[float, str]:
        """CPU nanoseconds per row, and the line about this size; `first` is what they are compared with."""
        rows = self.rows - least.rows
        wall, cpu = (
            1e9 * (median(own) - median(fixed)) / rows
            for own, fixed in ((self.wall_s, least.wall_s), (self.cpu_s, least.cpu_s))
        )
        return cpu, f"{self.rows:14,}{self.keys:12,}{wall:14.1f}{cpu:14.1f}{cpu / (first or cpu):14.2f}"


def measure(sizes: Sequence[Size], runs: int, parallelism: int) -> None:
    """Runs them in turns, and prints a line of each."""
    least = Size(1, KEYS)
    least.run(parallelism)  # imports
    least.wall_s, least.cpu_s = [], []
    for _ in range(runs):
        for size in (least, *sizes):
            size.run(parallelism)
    first: float | None = None
    for size in sizes:
        cpu, line = size.report(least, first)
        first = first or cpu
        print(line)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rows", type=int, default=50 * MILLION, help="of the largest job")
    options = parser.parse_args(arguments)
    print(f"{'rows':>14}{'keys':>12}{'wall ns/row':>14}{'CPU ns/row':>14}{'of the first':>14}")
    rows = [options.rows // part for part in (50, 10, 5, 1)]
    measure([Size(each, KEYS) for each in rows], options.runs, options.parallelism)
    measure([Size(options.rows, keys) for keys in (KEYS, 10 * KEYS, 100 * KEYS)], options.runs, options.parallelism)


if __name__ == "__main__":
    main()
