"""Times engines on one workload side by side.

Each engine is first checked on a small input; one whose result is wrong is not timed. Its rows are chosen so that a run
takes some seconds, its start-up (the same job on a tiny input) is measured and subtracted, from CPU time too. Then the
engines take turns, so that what else the machine does meets all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.definitions import BENCH_DIRECTORY, Result, text_file
from benchmarks.engines import Engine, NotSetUp, python_of, variables
from benchmarks.process_tree import Measured, RunFailed
from benchmarks.process_tree import run as run_tree
from benchmarks.workloads.base import Workload

TINY_ROWS = 100
STARTUPS = 2
GROWTH = 8
MOST_ROWS = 1_000_000_000
SHORTEST_PART = 4
"""A run shorter than this part of what it should be is not counted."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What is reported of one engine on one workload: a line of the JSON file."""

    workload: str
    engine: str
    mode: str
    parallelism: int
    rows: int
    unit: str
    runs: int
    median: float | None
    """The median of the runs, in `unit`; None: the workload was not timed, and `problem` says why."""
    min: float | None
    max: float | None
    cpu_s_per_million: float | None
    problem: str = ""
    peak_mib: float | None = None
    """The most memory of the process tree, where it was measured."""


@dataclass
class Contender:
    """An engine in one of its modes, with what was measured of it."""

    engine: Engine
    mode: str
    rows: int = 0
    startup_s: float = 0.0
    startup_cpu_s: float = 0.0
    rates: list[float] = field(default_factory=list)
    cpu_s_per_million: list[float] = field(default_factory=list)
    problem: str = ""

    def figures(self, workload: Workload, parallelism: int) -> Figures:
        rates = self.rates
        return Figures(
            workload=workload.name,
            engine=self.engine.name,
            mode=self.mode,
            parallelism=parallelism,
            rows=self.rows,
            unit=workload.unit,
            runs=len(rates),
            median=median(rates) if rates else None,
            min=min(rates, default=None),
            max=max(rates, default=None),
            cpu_s_per_million=median(self.cpu_s_per_million) if self.cpu_s_per_million else None,
            problem=self.problem,
        )


Runner = Callable[[Contender, str, int, str], Measured]
"""(contender, workload, rows, "check" or "time") -> what its script printed and used."""


@dataclass(frozen=True)
class Settings:
    """How engines are compared: what is run, for how long and how often."""

    parallelism: int = 2
    runs: int = 3
    rows: int | None = None
    """The same for all engines; None: so many that a run takes `seconds`."""
    seconds: float = 8.0
    deadline_s: float = 600.0
    environments: Path = BENCH_DIRECTORY


def runner(settings: Settings) -> Runner:
    """Runs the engines' scripts in processes of their own."""

    def run(contender: Contender, workload: str, rows: int, purpose: str) -> Measured:
        engine = contender.engine
        if workload == "W1":
            text_file(rows)
        command = [str(python_of(engine, settings.environments)), "-m", engine.module, workload, str(rows)]
        command += [str(settings.parallelism), purpose, "--mode", contender.mode]
        return run_tree(command, variables(engine, settings.environments), settings.deadline_s)

    return run


def compare(
    workload: Workload,
    contenders: Sequence[Contender],
    settings: Settings,
    run: Runner,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Figures]:
    """Checks, calibrates and times, in rounds that each of them takes part in once."""
    for contender in contenders:
        tell(f"{workload.name}: {contender.engine.name} {contender.mode}: check and calibration")
        _guarded(contender, lambda each: _prepare(workload, each, settings, run))
    for number in range(1, settings.runs + 1):
        for contender in fastest_modes([each for each in contenders if not each.problem]):
            tell(f"{workload.name}: run {number}: {contender.engine.name} {contender.mode}")
            _guarded(contender, lambda each: _time(workload, each, settings, run))
    return best_modes([contender.figures(workload, settings.parallelism) for contender in contenders])


def fastest_modes(contenders: Sequence[Contender]) -> list[Contender]:
    """Of an engine that runs in several modes the one that was fastest in its first run; all that had none yet."""
    best: dict[str, float] = {}
    for each in contenders:
        best[each.engine.name] = max(best.get(each.engine.name, 0.0), *each.rates[:1], 0.0)
    return [each for each in contenders if not each.rates or each.rates[0] == best[each.engine.name]]


def best_modes(figures: Sequence[Figures]) -> list[Figures]:
    """Of an engine that ran in several modes the fastest, which is the one that ran on; of one that never did, the
    first."""
    best: dict[str, Figures] = {}
    for each in figures:
        other = best.get(each.engine)
        if other is None or (each.runs, each.median or 0.0) > (other.runs, other.median or 0.0):
            best[each.engine] = each
    return list(best.values())


def _guarded(contender: Contender, act: Callable[[Contender], None]) -> None:
    try:
        act(contender)
    except (NotSetUp, RunFailed) as error:
        contender.problem = str(error)


def _prepare(workload: Workload, contender: Contender, settings: Settings, run: Runner) -> None:
    output = run(contender, workload.name, workload.check_rows, "check").output
    found, expected = Result(output["count"], output["sum"]), workload.expected(workload.check_rows)
    if not expected.agrees(found):
        contender.problem = f"wrong: expected {expected.count} results, sum {expected.sum}; got {found}"
        return
    startups = [run(contender, workload.name, TINY_ROWS, "time") for _ in range(STARTUPS)]
    contender.startup_s = median(each.output["seconds"] for each in startups)
    contender.startup_cpu_s = median(each.cpu_s for each in startups)
    contender.rows = settings.rows or calibrated_rows(
        contender.engine.first_rows,
        settings.seconds,
        lambda rows: float(run(contender, workload.name, rows, "time").output["seconds"]) - contender.startup_s,
    )


def calibrated_rows(first: int, seconds: float, seconds_of: Callable[[int], float]) -> int:
    """The number of rows that take about so many seconds: it grows until a run takes a third of them, and is then
    scaled."""
    rows = first
    while (took := seconds_of(rows)) < seconds / 3 and rows < MOST_ROWS:
        rows *= GROWTH
    scaled = int(rows * seconds / max(took, seconds / 3))
    magnitude: int = 10 ** max(0, len(str(scaled)) - 2)
    return max(magnitude, scaled // magnitude * magnitude)


def _time(workload: Workload, contender: Contender, settings: Settings, run: Runner) -> None:
    """One run that counts; one that is much shorter than it should be is repeated with more rows.

    What else the machine does while an engine is calibrated may have it seem slower than it is.
    """
    while True:
        measured = run(contender, workload.name, contender.rows, "time")
        seconds = measured.output["seconds"] - contender.startup_s
        if settings.rows or seconds >= settings.seconds / SHORTEST_PART or contender.rows >= MOST_ROWS:
            break
        contender.rows *= SHORTEST_PART
    if seconds <= 0:
        contender.problem = (
            f"{contender.rows:,} rows took no longer than start-up ({contender.startup_s:.1f} s): more --rows"
        )
        return
    counted = workload.rows_counted(contender.rows)
    contender.rates.append(counted / seconds)
    contender.cpu_s_per_million.append(max(0.0, measured.cpu_s - contender.startup_cpu_s) / counted * 1e6)
