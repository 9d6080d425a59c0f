"""What a row of a window costs as the job grows, in rows and in keys: prints nanoseconds.

    python -m benchmarks.growth [--workload W2d] [--target local] [--runs 5] [--parallelism 2] [--rows 50000000]

The workloads are W2, where a window has a row per key at most, and W2d, where it has a hundred of each of ten thousand
keys. With target local, jobs run in this process, so that only a job's own work is in the figures, and sizes are
compared by CPU. With target ray they run on a cluster, and are compared by the clock, and in keys only, as what jobs of
few rows take is mostly their start. What a job of one row takes is subtracted; the last column is what the rows beyond
those of the size before cost. The sizes take turns, so that what else the machine does meets all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from benchmarks.definitions import KEYS, ROWS_PER_MS
from benchmarks.shapes import USUAL, Shape, windows
from benchmarks.workloads.base import key_column

MILLION = 1_000_000


@dataclass(frozen=True)
class Setting:
    """A workload, and how it is run."""

    workload: str
    target: str
    parallelism: int

    def run(self, rows: int, keys: int) -> float:
        """Runs rows of the shape, as `Shape.run` does."""
        rows_per_ms = ROWS_PER_MS[self.workload]
        fields = {**USUAL, "k": lambda row: key_column(row, keys), "ts": lambda row: row // rows_per_ms}
        return Shape(rows, fields, windows(("k",))).run(rows, self.target, self.parallelism)


@dataclass
class Size:
    """A job, and the seconds of wall clock and of this process's CPU that its runs took."""

    rows: int
    keys: int
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def run(self, setting: Setting) -> None:
        cpu_s = time.process_time()
        self.wall_s.append(setting.run(self.rows, self.keys))
        self.cpu_s.append(time.process_time() - cpu_s)

    def row_ns(self, least: Size) -> tuple[float, float]:
        """Nanoseconds per row of wall clock and of CPU, beside what the least size takes."""
        rows = self.rows - least.rows
        wall, cpu = (
            1e9 * (median(own) - median(fixed)) / rows
            for own, fixed in ((self.wall_s, least.wall_s), (self.cpu_s, least.cpu_s))
        )
        return wall, cpu


def measure(sizes: Sequence[Size], runs: int, setting: Setting) -> None:
    """Runs them in turns, and prints a line of each."""
    least = Size(1, KEYS)
    least.run(setting)  # imports, and starts Ray
    least.wall_s, least.cpu_s = [], []
    for _ in range(runs):
        for size in (least, *sizes):
            size.run(setting)
    first: float | None = None
    for smaller, size in pairwise((least, *sizes)):
        wall, cpu = size.row_ns(least)
        compared, shown = (cpu, f"{cpu:.1f}") if setting.target == "local" else (wall, "-")
        first = first or compared
        further = f"{size.row_ns(smaller)[1]:.1f}" if setting.target == "local" and size.rows > smaller.rows else "-"
        print(f"{size.rows:14,}{size.keys:12,}{wall:14.1f}{shown:>14}{compared / first:14.2f}{further:>14}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", choices=("W2", "W2d"), default="W2d")
    parser.add_argument("--target", choices=("local", "ray"), default="local")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--rows", type=int, default=50 * MILLION, help="of the largest job")
    options = parser.parse_args(arguments)
    setting = Setting(options.workload, options.target, options.parallelism)
    print(f"{'rows':>14}{'keys':>12}{'wall ns/row':>14}{'CPU ns/row':>14}{'of the first':>14}{'further CPU':>14}")
    rows = [options.rows // part for part in (50, 10, 5, 1)]
    if setting.target == "local":
        measure([Size(each, KEYS) for each in rows], options.runs, setting)
    measure([Size(options.rows, keys) for keys in (KEYS, 10 * KEYS, 100 * KEYS)], options.runs, setting)


if __name__ == "__main__":
    main()
