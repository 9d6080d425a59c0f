"""What every engine computes: the formulas of the rows, and how results are checked.

Read by the engines' own virtual environments too, so it imports nothing but the standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

KEYS = 10_000
MULTIPLIER = 2_654_435_761
WINDOW_MS = 10_000
DISORDER_MS = 5_000
ROWS_PER_MS = {"W2": 1, "W2d": 100, "W2d-sql": 100, "W6": 1, "W6d": 100, "M1": 100}
"""Rows per millisecond of event time, by workload."""
RIGHT_SHARE = 10
"""A join's right stream has every tenth row's time, so a tenth of the rows."""
LEAST_Z = 1_000.0
WORDS = 10_000
WORDS_PER_LINE = 10
WORDS_SEED = 20
WORDS_AT_ONCE = 100_000
BENCH_DIRECTORY = Path(__file__).resolve().parent.parent / ".bench"


@dataclass(frozen=True)
class Result:
    """What a run gave whose results were checked: how many there were, and the sum that `checked_sum` says."""

    count: int
    sum: float

    def agrees(self, other: Result) -> bool:
        """Sums are of doubles, in any order."""
        return self.count == other.count and abs(self.sum - other.sum) <= 1e-9 * max(1.0, abs(self.sum))


def key_of(i: int) -> int:
    return i * MULTIPLIER % KEYS


def value_of(i: int) -> float:
    return i * 0.5


def right_rows(rows: int) -> int:
    """The number of rows of the right stream of a join whose left one has `rows`."""
    return -(-rows // RIGHT_SHARE)


def checked_sum(workload: str, results: Iterable[tuple[Any, ...]]) -> Result:
    """What is checked of results, given as the values that are named here.

    W1 and W4 (key, running value): the sum of the last, so the largest, value per key, as the order of a key's rows is
    not fixed. W2 (sum, rows): sum times rows of each group. W6 (left value, right value): both. Others: the value.
    """
    count = 0
    largest: dict[Any, float] = {}
    total = 0.0
    for result in results:
        count += 1
        if workload in ("W1", "W4"):
            largest[result[0]] = max(result[1], largest.get(result[0], 0))
        elif workload.startswith("W2"):
            total += result[0] * result[1]
        else:
            total += sum(result)
    return Result(count, float(sum(largest.values()) if largest else total))


def words(count: int) -> Iterator[str]:
    """Words drawn from 10,000 distinct ones, the word of rank r with a probability in proportion to 1 / r."""
    weights = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))
    generator, distinct = random.Random(WORDS_SEED), [f"word{rank}" for rank in range(WORDS)]
    for at in range(0, count, WORDS_AT_ONCE):
        yield from generator.choices(distinct, cum_weights=weights, k=min(WORDS_AT_ONCE, count - at))


def text_file(count: int, directory: Path = BENCH_DIRECTORY / "text") -> Path:
    """A file with so many words, ten a line; written once."""
    path = directory / f"{count}.txt"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        all_words = words(count)
        partial = path.with_suffix(f".{os.getpid()}")
        with partial.open("w") as file:
            while line := list(islice(all_words, WORDS_PER_LINE)):
                file.write(" ".join(line) + "\n")
        partial.rename(path)
    return path


class Order(NamedTuple):
    """What an engine's script is asked to do."""

    workload: str
    rows: int
    parallelism: int
    checks: bool
    """Whether results are looked at; else they are discarded, and only time counts."""
    mode: str


def serve(run: Callable[[Order], tuple[Iterable[tuple[Any, ...]] | Result | None, float]]) -> None:
    """The main function of an engine's script, which prints one line: {count, sum, seconds}.

    `run` gives results where they are asked for, and the seconds from submitting the job to its end.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("rows", type=int)
    parser.add_argument("parallelism", type=int)
    parser.add_argument("purpose", choices=("check", "time"))
    parser.add_argument("--mode", default="")
    given = parser.parse_args()
    order = Order(given.workload, given.rows, given.parallelism, given.purpose == "check", given.mode)
    with stdout_on_stderr():
        results, seconds = run(order)
        found = results if isinstance(results, Result) else checked_sum(order.workload, results or ())
    print(json.dumps({"count": found.count, "sum": found.sum, "seconds": seconds}), flush=True)


@contextlib.contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """Sends standard output to standard error within the block, also that of libraries that write to file descriptor 1:
    stdout is for the one line."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
