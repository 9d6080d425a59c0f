"""How fast engines are on Nexmark's queries: in turns, over the same files, with results discarded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.comparison import Figures
from benchmarks.engines import ENGINES, NotSetUp, variables
from benchmarks.nexmark.checking import flink_command, flink_variables
from benchmarks.process_tree import Measured, RunFailed
from benchmarks.process_tree import run as run_tree

ENGINES_TIMED = ("flinkray", "flink-sql")
Run = Callable[[str, str, Path], Measured]
"""(engine, query, files) -> what its script printed and used."""


@dataclass
class _Timed:
    """What was measured of an engine on one query."""

    startup: Measured | None = None
    rates: list[float] = field(default_factory=list)
    cpu_s_per_million: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)
    problem: str = ""


def runner(parallelism: int, target: str, environments: Path, deadline_s: float) -> Run:
    """Runs queries in processes of their own."""

    def run(engine: str, query: str, files: Path) -> Measured:
        if engine == "flinkray":
            command = [sys.executable, "-m", "benchmarks.nexmark.run", query, str(files), str(parallelism)]
            return run_tree([*command, "--target", target], variables(ENGINES[engine]), deadline_s, True)
        command = flink_command("time", parallelism, files, [query], environments)
        return run_tree(command, flink_variables(environments), deadline_s, True)

    return run


def timed(
    query: str,
    engines: Sequence[str],
    files: Path,
    few: Path,
    events: int,
    *,
    parallelism: int,
    runs: int,
    target: str,
    run: Run,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Figures]:
    """An engine's events a second on a query, of a job over `few` events subtracted, and what it used for them.

    Args:
        files, few: the events; and few of them.
        events: how many there are.
    """
    found = {engine: _Timed() for engine in engines}
    for number in range(runs + 1):
        for engine, each in found.items():
            if each.problem:
                continue
            tell(f"{query}: {engine}: {f'run {number}' if number else 'start-up'}")
            try:
                measured = run(engine, query, files if number else few)
            except (NotSetUp, RunFailed) as error:
                each.problem = str(error)
                continue
            _add(each, measured, events)
    modes = {"flinkray": target}
    return [_figures(query, name, modes.get(name, ""), each, events, parallelism) for name, each in found.items()]


def _add(each: _Timed, measured: Measured, events: int) -> None:
    """Counts a run; the first is what all others are compared with."""
    if each.startup is None:
        each.startup = measured
        return
    seconds = measured.output["seconds"] - each.startup.output["seconds"]
    if seconds <= 0:
        each.problem = f"{events:,} events took no longer than start-up: more --events"
        return
    each.rates.append(events / seconds)
    each.cpu_s_per_million.append(max(0.0, measured.cpu_s - each.startup.cpu_s) / events * 1e6)
    each.peak_mib.append(measured.peak_mib)


def _figures(query: str, engine: str, mode: str, each: _Timed, events: int, parallelism: int) -> Figures:
    is_timed = bool(each.rates) and not each.problem
    return Figures(
        workload=query,
        engine=engine,
        mode=mode,
        parallelism=parallelism,
        rows=events,
        unit="events/s",
        runs=len(each.rates),
        median=median(each.rates) if is_timed else None,
        min=min(each.rates) if is_timed else None,
        max=max(each.rates) if is_timed else None,
        cpu_s_per_million=median(each.cpu_s_per_million) if is_timed else None,
        problem=each.problem,
        peak_mib=max(each.peak_mib) if is_timed else None,
    )
