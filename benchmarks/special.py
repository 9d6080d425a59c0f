"""L1, S1, M1, C1, R1 and K1: what is measured of flinkray alone, each run in processes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from statistics import median
from typing import Any

from benchmarks.comparison import Figures, Settings
from benchmarks.engines import ENGINES, python_of, variables
from benchmarks.process_tree import Measured, RunFailed, run
from benchmarks.workloads import c1, l1

LATENCY_SECONDS = 15
MEMORY_ROWS = 20_000_000
LOAD_ROWS = 2_000_000_000
STATE_KEYS = (1_000_000, 5_000_000, 20_000_000)
SPECIAL = {
    "L1": "latency from a row's making to the sink: p50, p99, p99.9",
    "S1": "from execute() to the first result, with and without a running Ray",
    "C1": "calls that take the same time for any number of rows: rows a second, and how long checkpoints take",
    "M1": "peak memory of the process tree and of the object store while W2d runs into a slow sink",
    "R1": "W2d with and without 200 requests a second to its REST server: what it loses, and how long answers take",
    "K1": "keyed state in rocksdb between checkpoints, with 1, 5 and 20 million keys; --rows: with so many keys",
}
Values = dict[str, list[float]]
"""What was measured -> its value in each run."""


def measure(workload: str, target: str, settings: Settings, tell: Callable[[str], None]) -> list[Figures]:
    measures = {"L1": _latency, "S1": _start_up, "M1": _memory, "C1": _calls, "K1": _state, "R1": _load}
    return measures[workload](target, settings, tell)


def _latency(target: str, settings: Settings, tell: Callable[[str], None]) -> list[Figures]:
    figures: list[Figures] = []
    for rate, timeout_ms, slots in product(l1.RATES, l1.BUFFER_TIMEOUTS_MS, l1.SLOTS):
        seconds = LATENCY_SECONDS if settings.rows is None else settings.rows / rate
        case = f"{target}, {rate:,} rows/s, {timeout_ms} ms, {slots} slot{'s'[: slots - 1]}"
        arguments = ["--rate", rate, "--buffer-timeout-ms", timeout_ms, "--slots", slots, "--seconds", seconds]
        figures += _figures("L1", case, "ms", int(rate * seconds), 1, _runs("l1", target, arguments, settings, tell))
    return figures


def _start_up(target: str, settings: Settings, tell: Callable[[str], None]) -> list[Figures]:
    arguments = ["--parallelism", settings.parallelism]
    return _figures("S1", target, "s", 1, settings.parallelism, _runs("s1", target, arguments, settings, tell))


def _calls(target: str, settings: Settings, tell: Callable[[str], None]) -> list[Figures]:
    figures: list[Figures] = []
    for milliseconds, debloating in product(c1.MILLISECONDS, ("true", "false")):
        case = f"{target}, {milliseconds} ms a call, debloating {debloating}"
        arguments = ["--milliseconds", milliseconds, "--debloating", debloating]
        figures += _figures("C1", case, "", 0, 1, _runs("c1", target, arguments, settings, tell))
    return figures


def _memory(target: str, settings: Settings, tell: Callable[[str], None]) -> list[Figures]:
    rows = settings.rows or MEMORY_ROWS
    arguments = ["--parallelism", settings.parallelism, "--rows", rows]
    return _figures("M1", target, "MiB", rows, settings.parallelism, _runs("m1", target, arguments, settings, tell))


def _state(_target: str, settings: Settings, tell: Callable[[str], None]) -> list[Figures]:
    figures: list[Figures] = []
    for keys in STATE_KEYS if settings.rows is None else (settings.rows,):
        values = _runs("k1", "local", ["--keys", keys], settings, tell)
        figures += _figures("K1", f"{keys:,} keys", "", keys, 1, values)
    return figures


def _load(target: str, settings: Settings, tell: Callable[[str], None]) -> list[Figures]:
    rows = settings.rows or LOAD_ROWS
    arguments = ["--parallelism", settings.parallelism, "--rows", rows]
    return _figures("R1", target, "", rows, settings.parallelism, _runs("r1", target, arguments, settings, tell))


def _runs(
    module: str, target: str, arguments: Sequence[Any], settings: Settings, tell: Callable[[str], None]
) -> Values | str:
    """The values of all runs, or why there are none."""
    engine = ENGINES["flinkray"]
    values: Values = {}
    command = [str(python_of(engine)), "-m", f"benchmarks.workloads.{module}", "--target", target, *map(str, arguments)]
    for number in range(1, settings.runs + 1):
        tell(f"{module.upper()}: run {number}: {' '.join(command[3:])}")
        try:
            measured = run(command, variables(engine), settings.deadline_s, measures_memory=module == "m1")
        except RunFailed as error:
            return str(error)
        for name, value in _values(module, measured).items():
            values.setdefault(name, []).append(value)
    return values


def _values(module: str, measured: Measured) -> dict[str, float]:
    return {**measured.output, "tree_mib": measured.peak_mib} if module == "m1" else measured.output


def _figures(workload: str, case: str, unit: str, rows: int, parallelism: int, values: Values | str) -> list[Figures]:
    problem = values if isinstance(values, str) else ""
    measured: Values = {"": []} if isinstance(values, str) else values
    return [
        Figures(
            workload=workload,
            engine="flinkray",
            mode=f"{case} {name}".strip(),
            parallelism=parallelism,
            rows=rows,
            unit=unit,
            runs=len(each),
            median=median(each) if each else None,
            min=min(each, default=None),
            max=max(each, default=None),
            cpu_s_per_million=None,
            problem=problem,
        )
        for name, each in measured.items()
    ]
